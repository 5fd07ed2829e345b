//! The reasons why a run of a host ends, and what an event loop does next.

use evenkeel_core::time::Duration;

/// The reason why [`Engine::run`](crate::Engine::run) returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The time given has come.
    Time,
    /// The condition given holds.
    Done,
    /// The process was asked to end.
    Stopped,
    /// No device will bring another frame: a capture has been played to its end, or the device is gone.
    DevicesEnded,
}

/// The action that an event loop takes after a call of [`Engine::advance`](crate::Engine::advance).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// More work is pending. Handle other events if they are due, then call
    /// [`Engine::advance`](crate::Engine::advance) again at once.
    Again,
    /// No work is pending. Wait until one of [`Engine::descriptors`](crate::Engine::descriptors) is readable,
    /// for at most this long; `None` means without a limit.
    Wait(Option<Duration>),
}
