//! Closing the rings of a device for new frames, while those that are in them are still read.

use core::fmt;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use evenkeel_core::bpf;

use crate::sys;

/// Closes the receive ring of a packet socket for new frames; its frames stay. Does nothing to other
/// descriptors.
pub(crate) fn shut(device: &OwnedFd) {
    // The call fails for a descriptor that is no socket, which has no such ring.
    let _ = sys::attach_filter(device.as_fd(), &bpf::Program::everything(0));
}

/// A handle to the XDP program of a device, which does not keep the program attached. The default is that of
/// a device without one.
#[derive(Clone, Default)]
pub struct AttachedProgram(Option<Arc<dyn Fn() + Send + Sync>>);

impl fmt::Debug for AttachedProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AttachedProgram").field(&self.0.is_some()).finish()
    }
}

impl AttachedProgram {
    /// Creates the handle to a program that `detach` detaches.
    pub(crate) fn new(detach: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(detach)))
    }

    /// Detaches the program: the kernel gets all frames of the device again. Frames in rings stay there.
    pub(crate) fn detach(&self) {
        if let Some(detach) = &self.0 {
            detach();
        }
    }
}
