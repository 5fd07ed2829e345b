//! Kinds of event that a file can be ready for.

use core::fmt;

/// A set of six kinds of event: what a file is ready for, or what a caller asks for.
///
/// The kinds are those of `poll`. `select` has three: a call to read or to write does not block either if
/// it fails at once. So a caller that selects a descriptor to read or to write also receives [a hang-up or
/// an error](Self::HANG_UP_OR_ERROR).
///
/// ```
/// use evenkeel_ready::Kinds;
///
/// let (received, room) = (512, 0);
/// let ready = Kinds::READABLE.when(received > 0).union(Kinds::WRITABLE.when(room > 0));
/// assert!(ready.is_readable() && !ready.is_writable());
/// assert_eq!(format!("{ready:?}"), r#"{"readable"}"#);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Kinds(u8);

impl Kinds {
    /// The empty set of kinds.
    pub const NONE: Self = Self(0);
    /// There is something to read or to accept, if only the end of what comes (`POLLIN`).
    pub const READABLE: Self = Self(1);
    /// There is room to write, or a connection is made (`POLLOUT`).
    pub const WRITABLE: Self = Self(2);
    /// There is something out of the ordinary to read, such as urgent data (`POLLPRI`).
    pub const EXCEPTIONAL: Self = Self(4);
    /// Nothing more will come or go (`POLLHUP`).
    pub const HANG_UP: Self = Self(8);
    /// An error is pending, which the next call returns (`POLLERR`).
    pub const ERROR: Self = Self(16);
    /// [`HANG_UP`](Self::HANG_UP) and [`ERROR`](Self::ERROR): `poll` and event queues report both unasked.
    pub const HANG_UP_OR_ERROR: Self = Self(24);
    /// There is no such descriptor (`POLLNVAL`). Only `poll` reports this.
    pub const INVALID: Self = Self(32);
    /// The peer will send nothing more (`POLLRDHUP`). Reported only if it is asked for; the end of the
    /// stream is [readable](Self::READABLE), too.
    pub const READ_CLOSED: Self = Self(64);
    /// Every kind of event.
    pub const ALL: Self = Self(95);

    /// The kinds that are reported only if they are asked for.
    pub(crate) const ASKED_FOR: Self = Self(71);

    /// Returns the kinds that are in either set.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the kinds that are in both sets.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the kinds of `self` that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns `self` if `holds`, else no kind.
    #[must_use]
    pub const fn when(self, holds: bool) -> Self {
        if holds { self } else { Self::NONE }
    }

    /// Returns whether any kind is in both sets.
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns whether the set has no kind.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns whether there is something to read or to accept, which may be only the end of the stream.
    #[must_use]
    pub const fn is_readable(self) -> bool {
        self.intersects(Self::READABLE)
    }

    /// Returns whether there is room to write, or a connection is made.
    #[must_use]
    pub const fn is_writable(self) -> bool {
        self.intersects(Self::WRITABLE)
    }

    /// Returns whether the peer will send nothing more.
    #[must_use]
    pub const fn is_read_closed(self) -> bool {
        self.intersects(Self::READ_CLOSED)
    }

    /// Returns whether nothing more will come or go.
    #[must_use]
    pub const fn is_hang_up(self) -> bool {
        self.intersects(Self::HANG_UP)
    }
}

impl fmt::Debug for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Self::READABLE, "readable"),
            (Self::WRITABLE, "writable"),
            (Self::EXCEPTIONAL, "exceptional"),
            (Self::HANG_UP, "hang-up"),
            (Self::ERROR, "error"),
            (Self::INVALID, "invalid"),
            (Self::READ_CLOSED, "read-closed"),
        ];
        f.debug_set()
            .entries(names.iter().filter(|(kind, _)| self.intersects(*kind)).map(|(_, name)| name))
            .finish()
    }
}
