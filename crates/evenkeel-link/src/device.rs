//! What the loop that runs a host needs of a device beyond the core's [`Interface`].

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use evenkeel_core::frame::{BUFFER_BYTES, HEADROOM};
use evenkeel_core::interface::Interface;

use crate::capture::Frames;
use crate::error::LinkError;
use crate::netdev::KernelCounters;

/// Buffers that a device has the host's pool grow by: for frames between the device and their queue, either
/// way.
pub(crate) const IN_TRANSIT_PKTS: usize = 128;

/// Receive rings that one interface of a device can have at most.
pub const QUEUES_MAX: usize = 16;

/// The largest IP packet that a frame buffer can hold, with an Ethernet header and a VLAN tag in front, and a
/// byte to spare: a read that fills the buffer is taken to be cut off.
pub const MTU_MAX: usize = BUFFER_BYTES - HEADROOM - 14 - 4 - 1;

/// The MTU of the device called `name`.
///
/// # Errors
/// [`LinkError::Jumbo`] if our buffers are too small for its frames. Its neighbours would send such, all of
/// them would be lost, and TCP would never get a segment through.
pub(crate) fn usable_mtu(name: &str, device_mtu: usize) -> Result<usize, LinkError> {
    if device_mtu > MTU_MAX {
        return Err(LinkError::Jumbo { name: name.to_owned(), mtu: device_mtu });
    }
    Ok(device_mtu)
}

/// An interface of the operating system.
///
/// Take [`Device::fds`] and [`Device::status`] before handing it to a host: both outlive the hand-over.
pub trait Device: Interface {
    /// One for each receive ring, in order: readable while frames wait there. To be watched by a
    /// [`crate::Halt`]; when that reports one, call [`Interface::set_readable`].
    ///
    /// What the device has in the kernel goes away with the last holder of the descriptors.
    fn fds(&self) -> Vec<Arc<OwnedFd>>;

    /// Whether what has come is seen without a system call, so that whoever is busy need not ask whether the
    /// descriptors are readable.
    fn rings_in_memory(&self) -> bool;

    /// How the device is doing.
    fn status(&self) -> Status;

    /// What the kernel counts for it; `None` if it is no network device.
    fn kernel_counters(&self) -> Option<KernelCounters>;

    /// The kernel's number for it; `None` if it is no network device.
    fn index(&self) -> Option<u32> {
        None
    }

    /// What its frames begin with, and where they come from: a filter depends on it.
    fn frames(&self) -> Frames {
        Frames::ETHERNET
    }
}

/// A handle on how a device is doing; copies see the same.
#[derive(Debug, Clone, Default)]
pub struct Status(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: AtomicU8,
    refused: AtomicU64,
    /// The error number of the last refusal; 0 before the first.
    refusal: AtomicI32,
    sent: AtomicU64,
    send_calls: AtomicU64,
    passed_over: AtomicU64,
    reason: OnceLock<String>,
}

/// Whether frames may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceState {
    /// Frames may come.
    Running,
    /// No frame will come any more, as foreseen: a capture has been played to its end.
    Ended,
    /// No frame will come any more, because the device was removed or its capture cannot be read further.
    Failed,
}

impl Status {
    /// Whether frames may come.
    #[must_use]
    pub fn state(&self) -> DeviceState {
        match self.0.state.load(Ordering::Relaxed) {
            0 => DeviceState::Running,
            1 => DeviceState::Ended,
            _ => DeviceState::Failed,
        }
    }

    /// Of the frames given to the operating system for transmission, those that are lost because it did not
    /// take them: the device was down, gone, out of memory, or only listened to.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }

    /// Why the operating system did not take a frame the last time that it did not.
    #[must_use]
    pub fn refusal(&self) -> Option<&'static str> {
        match self.0.refusal.load(Ordering::Relaxed) {
            0 => None,
            // A TAP that is down says EIO.
            libc::ENETDOWN | libc::EIO => Some("it was down"),
            libc::ENXIO | libc::ENODEV | libc::EBADFD => Some("it was gone"),
            libc::ENOBUFS | libc::ENOMEM => Some("its queue was full"),
            libc::EMSGSIZE | libc::EINVAL => Some("the frame was larger than its MTU"),
            _ => Some("an error of the operating system"),
        }
    }

    /// Frames given to the operating system for transmission, the refused ones included, and the system calls
    /// that took: all of them, also those by which it took nothing.
    #[must_use]
    pub fn sent(&self) -> (u64, u64) {
        (self.0.sent.load(Ordering::Relaxed), self.0.send_calls.load(Ordering::Relaxed))
    }

    /// Frames of a capture that were captured on something other than Ethernet, and are not played.
    #[must_use]
    pub fn passed_over(&self) -> u64 {
        self.0.passed_over.load(Ordering::Relaxed)
    }

    pub(crate) fn set_passed_over(&self, frames: u64) {
        self.0.passed_over.store(frames, Ordering::Relaxed);
    }

    /// Why it is [`DeviceState::Failed`].
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.0.reason.get().map(String::as_str)
    }

    /// No frame will come any more, for this reason.
    pub fn fail(&self, reason: String) {
        // The first reason is the one that counts.
        let _ = self.0.reason.set(reason);
        self.set(DeviceState::Failed);
    }

    pub(crate) fn set(&self, state: DeviceState) {
        self.0.state.store(state as u8, Ordering::Relaxed);
    }

    /// A system call by which so many frames left, or were refused.
    pub(crate) fn count_call(&self, frames: u64) {
        self.0.sent.fetch_add(frames, Ordering::Relaxed);
        self.0.send_calls.fetch_add(1, Ordering::Relaxed);
    }

    /// A frame of a call that was refused, with the error.
    pub(crate) fn count_refusal(&self, error: i32) {
        self.0.refusal.store(error, Ordering::Relaxed);
        self.count_refused(1);
    }

    fn count_refused(&self, frames: u64) {
        self.0.refused.fetch_add(frames, Ordering::Relaxed);
    }

    /// Frames refused without a call.
    pub(crate) fn count_refused_uncalled(&self, frames: u64) {
        self.0.sent.fetch_add(frames, Ordering::Relaxed);
        self.count_refused(frames);
    }
}
