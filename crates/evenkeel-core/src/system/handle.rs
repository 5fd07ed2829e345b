//! Handles: what programs name their open objects by.

/// Makes a type that holds a descriptor the handle of one kind of object.
///
/// A handle is a number, and may be copied. A call through the handle of an object that is closed, or that is
/// of another kind, returns an error and does nothing.
macro_rules! handle {
    ($name:ident) => {
        impl $name {
            /// Returns the descriptor: for calls that any kind of object knows, such as
            /// [`System::close`](crate::system::System::close).
            #[must_use]
            pub const fn fd(self) -> Fd {
                self.0
            }

            /// Returns the handle of the descriptor that an event is for ([`Fd::of`]).
            #[must_use]
            pub const fn of(event: &evenkeel_ready::Event) -> Self {
                Self(Fd::of(event))
            }
        }

        impl PartialEq<Fd> for $name {
            fn eq(&self, other: &Fd) -> bool {
                self.0 == *other
            }
        }

        impl From<$name> for Fd {
            fn from(handle: $name) -> Self {
                handle.0
            }
        }

        /// Takes a descriptor for one of this kind. If it is not, the calls return an error.
        impl From<Fd> for $name {
            fn from(fd: Fd) -> Self {
                Self(fd)
            }
        }
    };
}

pub(super) use handle;
