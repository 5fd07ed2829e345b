//! `tap:NAME`: a TAP device. One end is a network device of the kernel, and the other end is ours.
//!
//! **A frame is a system call** in either direction. In a measurement a write took 1.4 µs, of which the call
//! itself took 0.2 µs, so batching calls (`io_uring`) would save little. A `virtio_net_hdr` in front
//! (`IFF_VNET_HDR`) took 0.1 µs more.
//!
//! **Several rings** are several descriptors (`IFF_MULTI_QUEUE`). The kernel assigns each flow to one of them
//! by its hash. It would also remember the descriptor of each answer, and move the flow to that one, until
//! all flows used one. So frames are written to one more descriptor, which is detached: nothing arrives
//! there, and the kernel does not remember what is written there.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

use evenkeel_core::drop::{QueueDrop, Reason};
use evenkeel_core::frame::{Frame, Metadata, Pool};
use evenkeel_core::interface::{Burst, Effort, Interface, Properties, RxCounters, RxQueue, Seen, TxQueue};
use evenkeel_core::refuser::Refuser;
use evenkeel_core::wire::IpCidr;
use rustix::io::Errno;

use crate::device::{
    Descriptors, Device, DeviceInfo, DeviceState, IN_TRANSIT_PKTS, QUEUES_MAX, Refusal, Status, usable_mtu,
};
use crate::error::LinkError;
use crate::hardware::Address;
use crate::netdev::{DeviceName, KernelCounters, NetDevice};
use crate::refuser::{Filter, KernelRefuser};
use crate::sys;

/// Options for opening a TAP device.
#[derive(Debug, Clone)]
pub struct TapOptions {
    /// The number of receive rings; each flow uses one of them. Default 1; at most [`QUEUES_MAX`].
    pub queues: usize,
    /// Addresses for the kernel's side, so that the kernel's programs reach us without further commands. Only
    /// for a TAP that does not exist yet.
    pub kernel_addresses: Vec<IpCidr>,
    /// Our hardware address. [`Address::Device`] is the kernel's at the other end, and cannot be used here.
    pub address: Address,
    /// Whether any MTU is accepted. The caller must then provide a pool whose buffers hold the frames
    /// ([`buffer_bytes_for`](crate::buffer_bytes_for)). Default false.
    pub jumbo: bool,
}

impl Default for TapOptions {
    fn default() -> Self {
        Self { queues: 1, kernel_addresses: Vec::new(), address: Address::default(), jumbo: false }
    }
}

/// A TAP device, as an interface with one receive ring or several.
///
/// A device that did not exist is created, and removed when this is dropped. A persistent one (`ip tuntap
/// add`, with `multi_queue` for several rings) is used and not changed. A ring is a queue of the device in
/// the kernel (`txqueuelen`, 500 frames). Each frame is read straight into its buffer, with one system call.
/// The kernel segments and completes checksums before we see a frame.
#[derive(Debug)]
pub struct Tap {
    device: Arc<NetDevice>,
    /// The kernel's number for the device.
    index: u32,
    properties: Properties,
    status: Status,
    queues: Vec<TapQueue>,
    /// The descriptor to which frames are written.
    transmit: Arc<OwnedFd>,
    counters: KernelCounters,
    /// The filter that refuses frames for full channels, if the host has asked for it.
    filter: Option<Arc<Filter>>,
    undo: Undo,
}

/// The work on drop besides closing the descriptors.
#[derive(Debug, PartialEq, Eq)]
enum Undo {
    Nothing,
    BringDown,
}

#[derive(Debug)]
struct TapQueue {
    fd: Arc<OwnedFd>,
    status: Status,
    /// Whether a read is worthwhile: set when the system reports the descriptor readable, cleared when a read
    /// finds nothing.
    readable: bool,
    /// Frames larger than a buffer.
    oversized: u64,
    /// The counters of the whole device, as the kernel does not count by queue. One queue reports them for
    /// all.
    counters: Option<KernelCounters>,
    /// The filter of the device, whose refusals the kernel counts as drops, too.
    filter: Option<Arc<Filter>>,
}

impl Tap {
    /// Opens or creates the TAP called `name` and brings it up.
    ///
    /// # Errors
    /// [`LinkError`] says what to do; nothing is left behind.
    pub fn open(name: &str, options: &TapOptions) -> Result<Self, LinkError> {
        let Attached { fds, transmit, name, persistent } = attach(&DeviceName::new(name)?, options.queues)?;
        let device = Arc::new(NetDevice::open(&name)?);
        if let (true, Some(address)) = (persistent, options.kernel_addresses.first()) {
            return Err(LinkError::AddressOfExisting { name, address: address.to_string() });
        }
        let mtu = usable_mtu(&name, device.mtu()?, options.jumbo)?;
        for &address in &options.kernel_addresses {
            device.add_ip(address)?;
        }
        let was_up = device.is_up()?;
        device.set_up(true)?;
        let undo = if persistent && !was_up { Undo::BringDown } else { Undo::Nothing };
        let address = options.address.on(&name, device.address()?).map_err(LinkError::random)?;
        let index = device.index()?.unsigned_abs();
        let (status, counters) = (Status::default(), KernelCounters::open(&device));
        let first = core::iter::once(Some(counters.clone())).chain(core::iter::repeat(None));
        let queues = fds.into_iter().zip(first);
        let queues = queues.map(|(fd, counters)| TapQueue::new(fd, status.clone(), counters));
        let queues = queues.collect::<Vec<_>>();
        let properties = Properties {
            mtu,
            queues: queues.len(),
            buffers: IN_TRANSIT_PKTS,
            ..Properties::new(name, address)
        };
        Ok(Self { device, index, properties, status, queues, transmit, counters, filter: None, undo })
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        // The device may be gone already, and then there is nothing to undo. Another device of its name is
        // left alone, too.
        let is_there = || self.device.index().is_ok_and(|index| index.unsigned_abs() == self.index);
        if self.undo == Undo::BringDown && is_there() {
            let _ = self.device.set_up(false);
        }
    }
}

impl TxQueue for Tap {
    fn transmit(&mut self, frames: &mut VecDeque<Frame>, pool: &mut Pool) -> usize {
        let waiting = frames.len();
        while frames.front().is_some_and(|frame| write(&self.transmit, frame, &self.status)) {
            frames.pop_front().into_iter().for_each(|frame| pool.recycle(frame));
        }
        waiting - frames.len()
    }
}

impl Interface for Tap {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn queue(&self, index: usize) -> &dyn RxQueue {
        let last = self.queues.len() - 1;
        &self.queues[index.min(last)]
    }

    fn queue_mut(&mut self, index: usize) -> &mut dyn RxQueue {
        let last = self.queues.len() - 1;
        &mut self.queues[index.min(last)]
    }

    fn dropped(&self) -> Vec<(Reason, u64)> {
        self.filter.iter().map(|filter| (QueueDrop::Channel.into(), filter.refused())).collect()
    }

    /// Without the privilege to load BPF programs there is none.
    fn refuser(&mut self) -> Option<Box<dyn Refuser>> {
        let first = self.queues.first_mut()?;
        let fd = Arc::clone(&first.fd);
        // A device without it delivers all frames, as before.
        let attach = Box::new(move |program: BorrowedFd<'_>| {
            drop(sys::ioctl(fd.as_fd(), libc::TUNSETFILTEREBPF, &mut program.as_raw_fd()));
        });
        let refuser = KernelRefuser::load(self.properties.address, attach).ok()?;
        first.filter = Some(refuser.filter());
        self.filter = Some(refuser.filter());
        Some(Box::new(refuser))
    }

    fn set_readable(&mut self, number: usize) {
        if let Some(queue) = self.queues.get_mut(number) {
            queue.readable = queue.status.state() == DeviceState::Running;
        }
    }
}

impl Device for Tap {
    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            descriptors: Descriptors::new(self.queues.iter().map(|queue| Arc::clone(&queue.fd))),
            status: self.status.clone(),
            kernel_counters: Some(self.counters.clone()),
            index: Some(self.index),
            ..DeviceInfo::default()
        }
    }
}

impl TapQueue {
    fn new(fd: Arc<OwnedFd>, status: Status, counters: Option<KernelCounters>) -> Self {
        // Readable to begin with: frames may have come since the device was brought up.
        Self { fd, status, readable: true, oversized: 0, counters, filter: None }
    }

    /// Reads one frame into `frame`.
    fn read(&mut self, frame: &mut Frame) -> Read {
        let room = frame.capacity();
        if !frame.resize(room) {
            return Read::Nothing;
        }
        loop {
            match rustix::io::read(&*self.fd, frame.bytes_mut()) {
                // The kernel cuts a frame off where the buffer ends and does not say so; one that fills it is
                // taken to be longer.
                Ok(len) if len < room && frame.resize(len) => return Read::Frame,
                Ok(_) => {
                    self.oversized += 1;
                    self.status.count_too_long();
                    return Read::Oversized;
                }
                Err(Errno::INTR) => {}
                Err(error) => {
                    self.readable = false;
                    record(&self.status, error);
                    return Read::Nothing;
                }
            }
        }
    }
}

/// The outcome of a read from the device.
#[derive(PartialEq, Eq)]
enum Read {
    Frame,
    /// A frame larger than a buffer. It has been discarded.
    Oversized,
    Nothing,
}

/// Writes one frame: false if the device is to be asked again later. Else it took the frame, or is down, or
/// the kernel has no memory: either way the frame is done with.
fn write(fd: &OwnedFd, frame: &Frame, status: &Status) -> bool {
    loop {
        let error = rustix::io::write(fd, frame.bytes()).err();
        let is_done = !matches!(error, Some(Errno::INTR | Errno::AGAIN));
        status.count_call(u64::from(is_done));
        if let Some(error) = error.filter(|_| is_done) {
            // A TAP has a carrier for as long as we have it.
            status.count_refusal(Refusal::of(error.raw_os_error(), || true));
            record(status, error);
        }
        if error != Some(Errno::INTR) {
            return is_done;
        }
    }
}

fn record(status: &Status, error: Errno) {
    if error == Errno::BADFD {
        status.fail("the device was removed".to_owned());
    }
}

impl RxQueue for TapQueue {
    fn pending(&self) -> usize {
        usize::from(self.readable)
    }

    fn receive(&mut self, limit: usize, burst: &mut dyn Burst) -> usize {
        if !self.readable {
            return 0;
        }
        let (mut done, mut spare) = (0, None);
        // One that is of no use counts, too: or a flood of them would have no end.
        for _ in 0..limit {
            // The buffer of one that was discarded takes the next.
            let Some(mut frame) = spare.take().or_else(|| burst.pool().take()) else { break };
            let read = self.read(&mut frame);
            done += usize::from(read == Read::Frame);
            let seen = match read {
                Read::Frame => burst.see(frame.bytes(), &Metadata::NONE),
                Read::Oversized => Seen::Discard,
                Read::Nothing => Seen::DiscardLast,
            };
            let goes_on = if seen == Seen::Take {
                burst.take(frame)
            } else {
                spare = Some(frame);
                seen == Seen::Discard
            };
            if !goes_on {
                break;
            }
        }
        if let Some(frame) = spare {
            burst.pool().recycle(frame);
        }
        done
    }

    fn arm(&mut self) -> bool {
        // The descriptor is level-triggered: a frame that has come since the last read ends the sleep at
        // once.
        self.readable
    }

    /// The kernel counts, in its table of devices.
    fn counters(&self, effort: Effort) -> Option<RxCounters> {
        if effort != Effort::SystemCall {
            return None;
        }
        // In this order: what is refused meanwhile is not counted as refused only.
        let refused = self.filter.as_ref().map_or(0, |filter| filter.refused());
        let dropped = self.counters.as_ref().map_or(0, |counters| counters.since_opened().tx_dropped);
        Some(RxCounters::missed(dropped.saturating_sub(refused) + self.oversized))
    }
}

/// A TAP, attached to.
struct Attached {
    fds: Vec<Arc<OwnedFd>>,
    transmit: Arc<OwnedFd>,
    /// Its real name: the one asked for may hold a `%d`.
    name: String,
    persistent: bool,
}

/// Attaches to the TAP called `name` with `queues` queues, creating it if need be.
fn attach(name: &DeviceName, queues: usize) -> Result<Attached, LinkError> {
    let queues = queues.clamp(1, QUEUES_MAX);
    let (first, real, persistent) = attach_queue(name, queues > 1)?;
    let mut fds = vec![Arc::new(first)];
    let mut transmit = Arc::clone(&fds[0]);
    if queues > 1 {
        let name = DeviceName::new(&real)?;
        transmit = Arc::new(attach_queue(&name, true)?.0);
        let mut request = name.request();
        request.ifr_ifru.ifru_flags = libc::IFF_DETACH_QUEUE as libc::c_short;
        let detached = sys::ioctl(transmit.as_fd(), libc::TUNSETQUEUE, &mut request);
        detached.map_err(|error| refusal(&real, true, error))?;
        for _ in 1..queues {
            fds.push(Arc::new(attach_queue(&name, true)?.0));
        }
    }
    Ok(Attached { fds, transmit, name: real, persistent })
}

/// Opens one queue of the device. Also returns its real name and whether it is persistent.
fn attach_queue(name: &DeviceName, of_several: bool) -> Result<(OwnedFd, String, bool), LinkError> {
    use rustix::fs::{Mode, OFlags, open};
    let fd = match open("/dev/net/tun", OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()) {
        Ok(fd) => fd,
        Err(Errno::NOENT | Errno::NXIO | Errno::NODEV) => return Err(LinkError::NoTun),
        Err(error) => {
            return Err(LinkError::of_device(
                name.as_str(),
                "open /dev/net/tun for",
                "CAP_NET_ADMIN",
                error.into(),
            ));
        }
    };
    let multi_queue = if of_several { libc::IFF_MULTI_QUEUE } else { 0 };
    let mut request = name.request();
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | multi_queue) as libc::c_short;
    sys::ioctl(fd.as_fd(), libc::TUNSETIFF, &mut request)
        .map_err(|error| refusal(name.as_str(), of_several, error))?;
    let real_name = sys::ifreq_name(&request);
    sys::ioctl(fd.as_fd(), libc::TUNGETIFF, &mut request)
        .map_err(|error| refusal(name.as_str(), of_several, error))?;
    // SAFETY: TUNGETIFF filled this member of the union; any bit pattern is an integer.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    Ok((fd, real_name, flags & libc::IFF_PERSIST as libc::c_short != 0))
}

fn refusal(name: &str, of_several: bool, error: io::Error) -> LinkError {
    let wanted = if of_several { "a TAP device with several queues" } else { "a TAP device with one queue" };
    match error.raw_os_error() {
        Some(libc::EINVAL) => LinkError::WrongKind { name: name.to_owned(), wanted },
        _ => LinkError::of_device(name, "open the TAP device", "CAP_NET_ADMIN", error),
    }
}

#[cfg(test)]
mod tests {
    use rustix::pipe::{PipeFlags, pipe_with};

    use super::*;

    #[test]
    fn every_call_is_counted_also_one_that_finds_no_room() {
        let (near, far) = pipe_with(PipeFlags::NONBLOCK).unwrap();
        let (frame, status) = (Pool::new(1).take_copy(&[7; 1000]).unwrap(), Status::default());
        let taken = (0..).take_while(|_| write(&far, &frame, &status)).count() as u64;
        assert!(taken > 0);
        assert_eq!((status.sent(), status.refused()), ((taken, taken + 1), 0));
        drop(near);
        // (Rust's programs ignore SIGPIPE.)
        assert!(write(&far, &frame, &status));
        assert_eq!((status.sent(), status.refused()), ((taken + 1, taken + 2), 1));
    }
}
