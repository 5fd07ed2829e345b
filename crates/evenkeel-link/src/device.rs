//! The device interface, an extension of the core's [`Interface`] for the loop that runs a host.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use evenkeel_core::interface::Interface;
use evenkeel_core::wire::IpAddress;

use crate::buffer::MTU_MAX;
use crate::capture::frames::Frames;
use crate::closing::{AttachedProgram, shut};
use crate::error::LinkError;
use crate::kept::Kept;
use crate::netdev::KernelCounters;

/// The buffers by which a device enlarges the host's pool, for frames in transit between the device and their
/// queue in either direction.
pub(crate) const IN_TRANSIT_PKTS: usize = 128;

/// The most receive rings of one interface of a device.
pub const QUEUES_MAX: usize = 16;

/// Returns the MTU of the device called `name`. With `jumbo` any MTU is usable.
///
/// # Errors
/// [`LinkError::Jumbo`] if buffers of the default size are too small for the device's frames. Its neighbours
/// would send large frames, all of them would be lost, and TCP would never deliver a segment.
pub(crate) fn usable_mtu(name: &str, device_mtu: usize, jumbo: bool) -> Result<usize, LinkError> {
    if device_mtu > MTU_MAX && !jumbo {
        return Err(LinkError::Jumbo { name: name.to_owned(), mtu: device_mtu, max: MTU_MAX });
    }
    Ok(device_mtu)
}

/// An interface of the operating system.
pub trait Device: Interface {
    /// Returns what the loop that drives a host needs of the device. Call it before handing the device to a
    /// host: the handles in it outlive the hand-over.
    fn info(&self) -> DeviceInfo;
}

/// Facts about a device, and handles to it.
#[derive(Debug, Clone, Default)]
pub struct DeviceInfo {
    /// The descriptors to be watched.
    pub descriptors: Descriptors,
    /// Whether waiting frames are visible in memory, without a system call. A busy caller then need not check
    /// whether the descriptors are readable.
    pub rings_in_memory: bool,
    /// The state of the device.
    pub status: Status,
    /// The kernel's counters for the device; `None` if it is no network device.
    pub kernel_counters: Option<KernelCounters>,
    /// The kernel's index of the device; `None` if it is no network device.
    pub index: Option<u32>,
    /// The link type and origin of the device's frames, on which the meaning of a filter depends.
    pub frames: Frames,
    /// The XDP program that puts frames into the device's rings, if it has one.
    pub program: AttachedProgram,
}

impl DeviceInfo {
    /// Closes the receive rings of packet sockets and of AF_XDP for new frames; frames in them stay. The
    /// kernel gets the frames that an XDP program has taken from it. Does nothing to other devices.
    pub fn shut(&self) {
        self.descriptors.list().iter().for_each(|(_, fd)| shut(fd));
        self.program.detach();
    }
}

/// The descriptors of a device, each with a number. A descriptor is readable while frames wait in a ring of
/// the device, or when there is an error to be fetched. All clones share one state.
///
/// The descriptor of a receive ring has the number of that ring; a driver chooses other numbers for others. A
/// [`crate::Halt`] [watches](crate::Halt::watch_device) them. When it reports one, call
/// [`Interface::set_readable`] with the number. What the device has in the kernel goes away with the last
/// holder of the descriptors.
///
/// The descriptors of most devices never change. Those of a driver that opens rings later do: `Halt` notices
/// before it next sleeps. A driver that changes them from another thread, while the thread of the host may
/// sleep, makes a descriptor readable that was there before.
#[derive(Debug, Clone, Default)]
pub struct Descriptors(Arc<DescriptorList>);

#[derive(Debug, Default)]
struct DescriptorList {
    /// The number of changes so far.
    generation: AtomicU64,
    list: Mutex<Vec<(usize, Arc<OwnedFd>)>>,
}

impl Descriptors {
    /// Returns these descriptors, numbered in their order.
    pub fn new(fds: impl IntoIterator<Item = Arc<OwnedFd>>) -> Self {
        let list = Mutex::new(fds.into_iter().enumerate().collect());
        Self(Arc::new(DescriptorList { generation: AtomicU64::new(0), list }))
    }

    /// Adds a descriptor, in place of the one that has this number.
    pub fn insert(&self, number: usize, fd: Arc<OwnedFd>) {
        self.change(|list| {
            list.retain(|&(other, _)| other != number);
            list.push((number, fd));
        });
    }

    /// Removes the descriptor with this number.
    pub fn remove(&self, number: usize) {
        self.change(|list| list.retain(|&(other, _)| other != number));
    }

    /// Returns the number of changes so far: cheap enough to be asked before each sleep.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.0.generation.load(Ordering::Acquire)
    }

    /// Returns the present descriptors, each with its number.
    #[must_use]
    pub fn list(&self) -> Vec<(usize, Arc<OwnedFd>)> {
        self.lock().clone()
    }

    fn change(&self, change: impl FnOnce(&mut Vec<(usize, Arc<OwnedFd>)>)) {
        let mut list = self.lock();
        change(&mut list);
        self.0.generation.fetch_add(1, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(usize, Arc<OwnedFd>)>> {
        // Nothing that holds it panics.
        self.0.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A handle to the state of a device. All clones share one state.
#[derive(Debug, Clone, Default)]
pub struct Status(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: AtomicU8,
    refused: AtomicU64,
    /// The refused frames whose reason is known, by [`Refusal`].
    refusals: [AtomicU64; Refusal::ALL.len()],
    too_long: AtomicU64,
    sent: AtomicU64,
    send_calls: AtomicU64,
    passed_over: AtomicU64,
    reason: OnceLock<String>,
    kernel_work: Mutex<VecDeque<KernelWork>>,
    has_kernel_work: AtomicBool,
    /// The counter of the frames that the kernel's stack did not get, if a program keeps it off them.
    kept: OnceLock<Kept>,
}

/// Work of the kernel's stack on frames of a host, which has the hardware address of the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelWork {
    /// The kernel works on all frames: the program could not be loaded that keeps it off them.
    OnAll {
        /// The reason.
        why: String,
    },
    /// The kernel works on frames to this address, which it has, too.
    On(IpAddress),
}

/// The reason why the operating system did not take a frame for transmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The device was down.
    Down,
    /// The device was up, but the other end of its cable was down.
    NoCarrier,
    /// The device was gone.
    Gone,
    /// The device's queue was full, or the kernel had no memory.
    QueueFull,
    /// The frame was larger than the device's MTU allows.
    TooLong,
    /// Another error of the operating system.
    Other,
}

impl Refusal {
    /// Every reason, in the order of declaration.
    pub const ALL: [Self; 6] =
        [Self::Down, Self::NoCarrier, Self::Gone, Self::QueueFull, Self::TooLong, Self::Other];

    /// Returns the reason behind the error number of a send. Calls `has_carrier` where the carrier decides.
    pub(crate) fn of(error: i32, has_carrier: impl Fn() -> bool) -> Self {
        match error {
            // The error of a TAP that is down is EIO.
            libc::ENETDOWN | libc::EIO => Self::Down,
            libc::ENXIO | libc::ENODEV | libc::EBADFD => Self::Gone,
            // A frame that bypasses the queueing discipline is dropped if there is no carrier, with the same
            // errors.
            libc::ENOBUFS | libc::ENOMEM if has_carrier() => Self::QueueFull,
            libc::ENOBUFS | libc::ENOMEM => Self::NoCarrier,
            libc::EMSGSIZE | libc::EINVAL => Self::TooLong,
            _ => Self::Other,
        }
    }

    /// Returns the reason in words that go with "refused".
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Down => "it was down",
            Self::NoCarrier => "it had no carrier",
            Self::Gone => "it was gone",
            Self::QueueFull => "its queue was full",
            Self::TooLong => "the frame was larger than its MTU",
            Self::Other => "an error of the operating system",
        }
    }
}

/// The state of a device: whether frames may still come.
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
    /// Returns the state of the device.
    #[must_use]
    pub fn state(&self) -> DeviceState {
        match self.0.state.load(Ordering::Relaxed) {
            0 => DeviceState::Running,
            1 => DeviceState::Ended,
            _ => DeviceState::Failed,
        }
    }

    /// Returns the number of frames lost because the operating system did not take them for transmission.
    /// The device was down, gone, out of memory, or only listened to.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }

    /// Returns the number of frames refused for this reason.
    #[must_use]
    pub fn refused_for(&self, reason: Refusal) -> u64 {
        self.0.refusals.get(reason as usize).map_or(0, |frames| frames.load(Ordering::Relaxed))
    }

    /// Returns the number of received frames that were larger than a buffer of the pool. They are lost, and
    /// are part of a ring's missed frames.
    #[must_use]
    pub fn too_long(&self) -> u64 {
        self.0.too_long.load(Ordering::Relaxed)
    }

    /// Counts a frame that came and was larger than a buffer of the pool.
    pub fn count_too_long(&self) {
        self.0.too_long.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of frames given to the operating system for transmission, including refused ones,
    /// and the number of system calls for that, including calls that took nothing.
    #[must_use]
    pub fn sent(&self) -> (u64, u64) {
        (self.0.sent.load(Ordering::Relaxed), self.0.send_calls.load(Ordering::Relaxed))
    }

    /// Returns the number of frames of a capture that were not captured on Ethernet, and are not played.
    #[must_use]
    pub fn passed_over(&self) -> u64 {
        self.0.passed_over.load(Ordering::Relaxed)
    }

    pub(crate) fn set_passed_over(&self, frames: u64) {
        self.0.passed_over.store(frames, Ordering::Relaxed);
    }

    /// Returns the number of frames of the host that the kernel's stack did not get, though the host has the
    /// hardware address of the device. `None` if nothing keeps the kernel off them. Takes a system call.
    #[must_use]
    pub fn kept_from_kernel(&self) -> Option<u64> {
        self.0.kept.get().map(Kept::frames)
    }

    pub(crate) fn set_kept(&self, kept: Kept) {
        // A device has one such counter.
        let _ = self.0.kept.set(kept);
    }

    /// Takes the next report about work of the kernel's stack on frames of the host. Each is made once. Cheap
    /// enough to be called often.
    #[must_use]
    pub fn next_kernel_work(&self) -> Option<KernelWork> {
        if !self.0.has_kernel_work.load(Ordering::Acquire) {
            return None;
        }
        let mut reports = self.0.kernel_work.lock().unwrap_or_else(PoisonError::into_inner);
        let next = reports.pop_front();
        self.0.has_kernel_work.store(!reports.is_empty(), Ordering::Release);
        next
    }

    pub(crate) fn report(&self, work: KernelWork) {
        self.0.kernel_work.lock().unwrap_or_else(PoisonError::into_inner).push_back(work);
        self.0.has_kernel_work.store(true, Ordering::Release);
    }

    /// Returns the reason why the device is [`DeviceState::Failed`]; `None` if it is not.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.0.reason.get().map(String::as_str)
    }

    /// Records that no frame will come any more, for this reason. Only the first reason is kept.
    pub fn fail(&self, reason: String) {
        // Only the first reason is kept.
        let _ = self.0.reason.set(reason);
        self.set(DeviceState::Failed);
    }

    pub(crate) fn set(&self, state: DeviceState) {
        self.0.state.store(state as u8, Ordering::Relaxed);
    }

    /// Counts a system call in which this many frames left or were refused.
    pub fn count_call(&self, frames: u64) {
        self.0.sent.fetch_add(frames, Ordering::Relaxed);
        self.0.send_calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a frame that was refused for this reason.
    pub fn count_refusal(&self, reason: Refusal) {
        if let Some(frames) = self.0.refusals.get(reason as usize) {
            frames.fetch_add(1, Ordering::Relaxed);
        }
        self.count_refused(1);
    }

    fn count_refused(&self, frames: u64) {
        self.0.refused.fetch_add(frames, Ordering::Relaxed);
    }

    /// Counts frames refused without a call.
    pub fn count_refused_uncalled(&self, frames: u64) {
        self.0.sent.fetch_add(frames, Ordering::Relaxed);
        self.count_refused(frames);
    }
}
