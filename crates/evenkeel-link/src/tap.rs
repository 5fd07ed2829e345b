//! `tap:NAME`: a TAP device. One end is a network device of the kernel, and the other end is ours.
//!
//! **A frame is a system call** in either direction. In a measurement a write took 1.4 µs, of which the call
//! itself took 0.2 µs, so batching calls (`io_uring`) would save little.
//!
//! **Large segments stay whole, both ways.** Each frame has a `virtio_net_hdr` in front (`IFF_VNET_HDR`),
//! which took 0.1 µs more. The kernel leaves segments of TCP uncut (`TUNSETOFFLOAD`) and checksums
//! unfinished. A frame is read into a usual buffer, and the rest of a large segment into a large one. What
//! the host cannot take whole is cut here. A kernel that refuses this gets and hands over frames as they are
//! on the wire.
//!
//! **Several rings** are several descriptors (`IFF_MULTI_QUEUE`). The kernel assigns each flow to one of them
//! by its hash. It would also remember the descriptor of each answer, and move the flow to that one, until
//! all flows used one. So frames are written to one more descriptor, which is detached: nothing arrives
//! there, and the kernel does not remember what is written there.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

use evenkeel_core::drop::{QueueDrop, Reason};
use evenkeel_core::frame::{Frame, Metadata, Pool};
use evenkeel_core::interface::{Burst, Effort, Interface, Properties, RxCounters, RxQueue, Seen, TxQueue};
use evenkeel_core::refuser::Refuser;
use evenkeel_core::segmentation::{LARGE_PACKET_MAX, Segmentation};
use evenkeel_core::wire::IpCidr;
use rustix::io::Errno;

use crate::device::{
    Descriptors, Device, DeviceInfo, DeviceState, IN_TRANSIT_PKTS, QUEUES_MAX, Refusal, Status, usable_mtu,
};
use crate::error::LinkError;
use crate::hardware::Address;
use crate::large::{LARGE_BYTES, header_of, stays_whole, whole_buffer};
use crate::netdev::{DeviceName, KernelCounters, NetDevice};
use crate::received::{VNET_BYTES, complete, offload_of, unfinished_of};
use crate::refuser::{Filter, KernelRefuser};
use crate::segment::Segments;
use crate::shown::{Next, buffer, done, show_large};
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
/// Large segments of TCP stay whole where the host takes them.
#[derive(Debug)]
pub struct Tap {
    device: Arc<NetDevice>,
    /// The kernel's number for the device.
    index: u32,
    properties: Properties,
    status: Status,
    queues: Vec<TapQueue>,
    transmit: Transmit,
    counters: KernelCounters,
    /// The filter that refuses frames for full channels, if the host has asked for it.
    filter: Option<Arc<Filter>>,
    undo: Undo,
}

/// The descriptor to which frames are written.
#[derive(Debug)]
struct Transmit {
    fd: Arc<OwnedFd>,
    /// Whether a `virtio_net_hdr` goes in front of each frame.
    vnet: bool,
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
    /// The room for what a `virtio_net_hdr` in front of frames may lead to; `None` if there is no such
    /// header.
    large: Option<Large>,
    status: Status,
    /// Whether a read is worthwhile: set when the system reports the descriptor readable, cleared when a read
    /// finds nothing.
    readable: bool,
    /// Frames that were larger than a buffer, or malformed.
    unusable: u64,
    /// The counters of the whole device, as the kernel does not count by queue. One queue reports them for
    /// all.
    counters: Option<KernelCounters>,
    /// The filter of the device, whose refusals the kernel counts as drops, too.
    filter: Option<Arc<Filter>>,
}

/// Room for a packet that exceeds a buffer, and for its progress.
#[derive(Debug, Default)]
struct Large {
    /// The end of a packet, behind what buffers hold.
    rest: Vec<u8>,
    /// The packet being split into segments, with those still to come.
    segments: Segments,
}

impl Tap {
    /// Opens or creates the TAP called `name` and brings it up.
    ///
    /// # Errors
    /// [`LinkError`] says what to do; nothing is left behind.
    pub fn open(name: &str, options: &TapOptions) -> Result<Self, LinkError> {
        let Attached { fds, transmit, name, persistent, vnet } =
            attach(&DeviceName::new(name)?, options.queues)?;
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
        let queues = queues.map(|(fd, counters)| TapQueue::new(fd, vnet, status.clone(), counters));
        let queues = queues.collect::<Vec<_>>();
        let transmit = Transmit { fd: transmit, vnet };
        let properties = Properties {
            mtu,
            queues: queues.len(),
            buffers: IN_TRANSIT_PKTS,
            segmentation: vnet.then_some(Segmentation { most: LARGE_PACKET_MAX }),
            ..Properties::new(name, address)
        };
        Ok(Self { device, index, properties, status, queues, transmit, counters, filter: None, undo })
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        // Whoever opens a persistent device next may know nothing of large segments.
        self.queues.first().into_iter().for_each(|queue| leave_to_kernel(&queue.fd));
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
        while frames.front().is_some_and(|frame| self.transmit.write(frame, &self.status)) {
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
    fn new(fd: Arc<OwnedFd>, vnet: bool, status: Status, counters: Option<KernelCounters>) -> Self {
        // Readable to begin with: frames may have come since the device was brought up.
        let large = vnet.then(|| Large { rest: vec![0; LARGE_BYTES], segments: Segments::default() });
        Self { fd, large, status, readable: true, unusable: 0, counters, filter: None }
    }

    fn has_frames(&self) -> bool {
        self.readable || self.large.as_ref().is_some_and(|large| large.segments.is_loaded())
    }

    /// Shows the oldest frame to `burst`. `None` if there is none, or no buffer for it. The buffer of one
    /// that is discarded stays in `spare`, for the next; so does a large one in `big`.
    fn next(
        &mut self,
        burst: &mut dyn Burst,
        spare: &mut Option<Frame>,
        big: &mut Option<Frame>,
    ) -> Option<Next> {
        if let Some(large) = self.large.as_mut().filter(|large| large.segments.is_loaded()) {
            return large.segments.show(burst, spare);
        }
        if !self.readable {
            return None;
        }
        let mut frame = buffer(burst, spare)?;
        if self.large.is_some() && big.is_none() && !burst.records() {
            *big = burst.pool().take_large();
        }
        let Some((vnet, len)) = self.read(&mut frame, big.as_mut()) else {
            *spare = Some(frame);
            return None;
        };
        if frame.resize(len) && offload_of(&vnet).is_none() {
            return Some(show(frame, &vnet, burst, spare));
        }
        let Some(large) = &mut self.large else {
            *spare = Some(frame);
            return Some(Next::TooLong);
        };
        if let Some(mut whole) = big.take() {
            if is_whole(&mut whole, &frame, &vnet, len) {
                *spare = Some(frame);
                return Some(show_large(whole, &Metadata::NONE, burst));
            }
            *big = Some(whole);
        }
        let is_loaded = large.load(&frame, big.as_ref(), &vnet, len);
        *spare = Some(frame);
        match is_loaded {
            None => Some(Next::TooLong),
            Some(false) => Some(Next::Unusable),
            Some(true) => large.segments.show(burst, spare),
        }
    }

    /// Reads one frame into `frame`, and what does not fit into `big` from there on, and then behind it.
    /// Returns the header in front of it and its length, or `None` if there is none. A frame of which nothing
    /// else is known fills its buffer if it is too long.
    fn read(&mut self, frame: &mut Frame, big: Option<&mut Frame>) -> Option<([u8; VNET_BYTES], usize)> {
        let mut vnet = [0; VNET_BYTES];
        let first = whole_buffer(frame);
        let room = first.len();
        let more = big.and_then(|big| whole_buffer(big).get_mut(room..)).unwrap_or_default();
        let read = loop {
            let read = match &mut self.large {
                None => rustix::io::read(&*self.fd, &mut *first),
                Some(Large { rest, .. }) => {
                    let parts = [&mut vnet, &mut *first, &mut *more, rest].map(IoSliceMut::new);
                    rustix::io::readv(&*self.fd, &mut { parts })
                }
            };
            if read != Err(Errno::INTR) {
                break read;
            }
        };
        match (read, &self.large) {
            (Ok(len), Some(_)) => Some((vnet, len.checked_sub(VNET_BYTES)?)),
            // The kernel cuts a frame off where the buffer ends and does not say so; one that fills it is
            // taken to be longer.
            (Ok(len), None) => Some((vnet, if len < room { len } else { usize::MAX })),
            (Err(error), _) => {
                self.readable = false;
                record(&self.status, error);
                None
            }
        }
    }
}

impl Large {
    /// Loads a packet of `len` bytes to be split, which fills `frame`, then `big` from there on, and then the
    /// rest. `None` if it is not to be split; false if it cannot be.
    fn load(
        &mut self,
        frame: &Frame,
        big: Option<&Frame>,
        vnet: &[u8; VNET_BYTES],
        len: usize,
    ) -> Option<bool> {
        let offload = offload_of(vnet)?;
        let first = frame.bytes();
        let more = big.and_then(|big| big.bytes().get(first.len()..)).unwrap_or_default();
        let more = more.get(..len.saturating_sub(first.len())).unwrap_or(more);
        let rest = self.rest.get(..len.saturating_sub(first.len() + more.len()));
        Some(rest.is_some_and(|rest| self.segments.load(&[first, more, rest], offload)))
    }
}

/// Completes the packet in `big`, whose beginning is in `frame`. Returns whether it can stay whole.
fn is_whole(big: &mut Frame, frame: &Frame, vnet: &[u8; VNET_BYTES], len: usize) -> bool {
    let first = frame.bytes();
    let Some(front) = whole_buffer(big).get_mut(..first.len()) else { return false };
    front.copy_from_slice(first);
    let stays = stays_whole(big, vnet, len);
    if !stays {
        let _ = whole_buffer(big);
    }
    stays
}

/// Shows a frame in its buffer. What its sender left of its checksum is completed before, if that matters to
/// `burst`, or else when it is taken.
fn show(mut frame: Frame, vnet: &[u8; VNET_BYTES], burst: &mut dyn Burst, spare: &mut Option<Frame>) -> Next {
    let unfinished = unfinished_of(vnet);
    let before = unfinished.filter(|unfinished| burst.records() || !unfinished.is_plain_in(frame.bytes()));
    if before.is_some_and(|unfinished| !complete(frame.bytes_mut(), unfinished)) {
        *spare = Some(frame);
        return Next::Unusable;
    }
    let seen = burst.see(frame.bytes(), &Metadata::NONE);
    if let Some(unfinished) = unfinished.filter(|_| before.is_none() && seen == Seen::Take) {
        // The field lies in the frame.
        let _ = complete(frame.bytes_mut(), unfinished);
    }
    done(seen, frame, burst, spare)
}

impl Transmit {
    /// Writes one frame: false if the device is to be asked again later. Else it took the frame, or is down,
    /// or the kernel has no memory: either way the frame is done with.
    fn write(&self, frame: &Frame, status: &Status) -> bool {
        loop {
            let error = self.write_once(frame).err();
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

    fn write_once(&self, frame: &Frame) -> Result<usize, Errno> {
        if !self.vnet {
            return rustix::io::write(&*self.fd, frame.bytes());
        }
        let header = header_of(frame).ok_or(Errno::MSGSIZE)?;
        rustix::io::writev(&*self.fd, &[IoSlice::new(&header), IoSlice::new(frame.bytes())])
    }
}

fn record(status: &Status, error: Errno) {
    if error == Errno::BADFD {
        status.fail("the device was removed".to_owned());
    }
}

impl RxQueue for TapQueue {
    fn pending(&self) -> usize {
        usize::from(self.has_frames())
    }

    fn receive(&mut self, limit: usize, burst: &mut dyn Burst) -> usize {
        let (mut done, mut spare, mut big) = (0, None, None);
        // One that is of no use counts, too: or a flood of them would have no end.
        for _ in 0..limit {
            match self.next(burst, &mut spare, &mut big) {
                None => break,
                Some(Next::Unusable) => self.unusable += 1,
                Some(Next::TooLong) => {
                    self.unusable += 1;
                    self.status.count_too_long();
                }
                Some(Next::Seen { more }) => {
                    done += 1;
                    if !more {
                        break;
                    }
                }
            }
        }
        spare.into_iter().chain(big).for_each(|frame| burst.pool().recycle(frame));
        done
    }

    fn arm(&mut self) -> bool {
        // The descriptor is level-triggered: a frame that has come since the last read ends the sleep at
        // once.
        self.has_frames()
    }

    /// The kernel counts, in its table of devices.
    fn counters(&self, effort: Effort) -> Option<RxCounters> {
        if effort != Effort::SystemCall {
            return None;
        }
        // In this order: what is refused meanwhile is not counted as refused only.
        let refused = self.filter.as_ref().map_or(0, |filter| filter.refused());
        let dropped = self.counters.as_ref().map_or(0, |counters| counters.since_opened().tx_dropped);
        Some(RxCounters::missed(dropped.saturating_sub(refused) + self.unusable))
    }
}

/// The work that the kernel may leave to this end: checksums, and the segmentation of TCP.
const TAKEN: libc::c_uint = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;

/// A TAP, attached to.
struct Attached {
    fds: Vec<Arc<OwnedFd>>,
    transmit: Arc<OwnedFd>,
    /// Its real name: the one asked for may hold a `%d`.
    name: String,
    persistent: bool,
    /// Whether each frame has a `virtio_net_hdr` in front.
    vnet: bool,
}

/// Attaches to the TAP called `name` with `queues` queues, creating it if need be.
fn attach(name: &DeviceName, queues: usize) -> Result<Attached, LinkError> {
    let queues = queues.clamp(1, QUEUES_MAX);
    let several = queues > 1;
    let with = attach_queue(name, Kind { several, vnet: true });
    let vnet = with.is_ok();
    let (first, real, persistent) = with.or_else(|_| attach_queue(name, Kind { several, vnet }))?;
    if vnet {
        // Without it the kernel cuts packets and completes checksums itself.
        let _ = sys::ioctl_number(first.as_fd(), libc::TUNSETOFFLOAD, TAKEN);
    }
    let mut fds = vec![Arc::new(first)];
    let mut transmit = Arc::clone(&fds[0]);
    if several {
        let name = DeviceName::new(&real)?;
        transmit = Arc::new(attach_queue(&name, Kind { several, vnet })?.0);
        let mut request = name.request();
        request.ifr_ifru.ifru_flags = libc::IFF_DETACH_QUEUE as libc::c_short;
        let detached = sys::ioctl(transmit.as_fd(), libc::TUNSETQUEUE, &mut request);
        detached.map_err(|error| refusal(&real, true, error))?;
        for _ in 1..queues {
            fds.push(Arc::new(attach_queue(&name, Kind { several, vnet })?.0));
        }
    }
    Ok(Attached { fds, transmit, name: real, persistent, vnet })
}

/// Lets the kernel cut packets and complete checksums again.
fn leave_to_kernel(fd: &OwnedFd) {
    let _ = sys::ioctl_number(fd.as_fd(), libc::TUNSETOFFLOAD, 0);
}

/// The kind of a TAP's queues.
#[derive(Clone, Copy)]
struct Kind {
    several: bool,
    /// Whether each frame has a `virtio_net_hdr` in front.
    vnet: bool,
}

/// Opens one queue of the device. Also returns its real name and whether it is persistent.
fn attach_queue(name: &DeviceName, kind: Kind) -> Result<(OwnedFd, String, bool), LinkError> {
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
    let Kind { several, vnet } = kind;
    let multi_queue = if several { libc::IFF_MULTI_QUEUE } else { 0 };
    let vnet_header = if vnet { libc::IFF_VNET_HDR } else { 0 };
    let mut request = name.request();
    request.ifr_ifru.ifru_flags =
        (libc::IFF_TAP | libc::IFF_NO_PI | multi_queue | vnet_header) as libc::c_short;
    sys::ioctl(fd.as_fd(), libc::TUNSETIFF, &mut request)
        .map_err(|error| refusal(name.as_str(), several, error))?;
    let real_name = sys::ifreq_name(&request);
    sys::ioctl(fd.as_fd(), libc::TUNGETIFF, &mut request)
        .map_err(|error| refusal(name.as_str(), several, error))?;
    // SAFETY: TUNGETIFF filled this member of the union; any bit pattern is an integer.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    Ok((fd, real_name, flags & libc::IFF_PERSIST as libc::c_short != 0))
}

fn refusal(name: &str, several: bool, error: io::Error) -> LinkError {
    let wanted = if several { "a TAP device with several queues" } else { "a TAP device with one queue" };
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
        let far = Transmit { fd: Arc::new(far), vnet: false };
        let taken = (0..).take_while(|_| far.write(&frame, &status)).count() as u64;
        assert!(taken > 0);
        assert_eq!((status.sent(), status.refused()), ((taken, taken + 1), 0));
        drop(near);
        // (Rust's programs ignore SIGPIPE.)
        assert!(far.write(&frame, &status));
        assert_eq!((status.sent(), status.refused()), ((taken + 1, taken + 2), 1));
    }

    /// The bytes of a frame, and its size of segments.
    type Taken = (Vec<u8>, Option<u16>);

    /// Takes all frames that it sees.
    struct Taker {
        pool: Pool,
        records: bool,
        taken: Vec<Taken>,
    }

    impl Taker {
        fn new(large_pkts: usize) -> Self {
            let mut pool = Pool::with_limit(10_000);
            pool.grow(4).unwrap();
            pool.grow_large(large_pkts).unwrap();
            Self { pool, records: false, taken: Vec::new() }
        }
    }

    impl Burst for Taker {
        fn pool(&mut self) -> &mut Pool {
            &mut self.pool
        }

        fn records(&self) -> bool {
            self.records
        }

        fn see(&mut self, _bytes: &[u8], _metadata: &Metadata) -> Seen {
            Seen::Take
        }

        fn take(&mut self, frame: Frame) -> bool {
            self.taken.push((frame.bytes().to_vec(), frame.segment_bytes().map(u16::from)));
            self.pool.recycle(frame);
            true
        }
    }

    const SIZE: u16 = 1000;
    /// A header for segments of TCP over IPv4 of `SIZE` bytes each.
    const TO_BE_CUT: [u8; VNET_BYTES] = {
        let ([h0, h1], [s0, s1]) = (54_u16.to_ne_bytes(), SIZE.to_ne_bytes());
        let ([t0, t1], [c0, c1]) = (34_u16.to_ne_bytes(), 16_u16.to_ne_bytes());
        [1, 1, h0, h1, s0, s1, t0, t1, c0, c1]
    };

    /// Returns a segment of TCP over IPv4 with so many bytes of payload.
    fn segment(payload: usize) -> Vec<u8> {
        let mut frame: Vec<_> = (0..54 + payload).map(|n| (n / 7) as u8).collect();
        frame[12..15].copy_from_slice(&[8, 0, 0x45]);
        frame[16..18].copy_from_slice(&(40 + payload as u16).to_be_bytes());
        frame[23] = 6;
        frame[46..48].copy_from_slice(&[0x50, 0x10]);
        frame
    }

    /// Hands the ring of a TAP what the kernel would. Returns what was taken, and the ring's useless frames.
    fn read(mut taker: Taker, packets: &[([u8; VNET_BYTES], &[u8])]) -> (Vec<Taken>, u64) {
        let (near, far) = std::os::unix::net::UnixDatagram::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        let mut queue = TapQueue::new(Arc::new(near.into()), true, Status::default(), None);
        for (vnet, packet) in packets {
            far.send(&[&vnet[..], packet].concat()).unwrap();
        }
        while queue.pending() > 0 {
            queue.receive(3, &mut taker);
        }
        assert_eq!(taker.pool.available(), 4, "every buffer is back");
        (taker.taken, queue.unusable)
    }

    #[test]
    fn a_large_segment_is_taken_whole_or_cut() {
        let packet = segment(10 * usize::from(SIZE));
        let whole = (packet.clone(), Some(SIZE));
        let all = [(TO_BE_CUT, &packet[..]), ([0; VNET_BYTES], &packet[..60]), (TO_BE_CUT, &packet[..])];
        let small = (packet[..60].to_vec(), None);
        assert_eq!(read(Taker::new(1), &all), (vec![whole.clone(), small, whole], 0));
        // Without a large buffer, or for a recording, it is cut.
        for taker in [Taker::new(0), Taker { records: true, ..Taker::new(1) }] {
            let (taken, useless) = read(taker, &all);
            let lens: Vec<_> = taken.iter().map(|(bytes, size)| (bytes.len(), *size)).collect();
            let cut = [(54 + usize::from(SIZE), None); 10];
            assert_eq!((lens, useless), ([&cut[..], &[(60, None)], &cut].concat(), 0));
            let payload: Vec<_> = taken[..10].iter().flat_map(|(bytes, _)| &bytes[54..]).copied().collect();
            assert_eq!(payload, packet[54..]);
        }
    }

    #[test]
    fn a_large_segment_that_exceeds_a_large_buffer_is_cut() {
        let packet = segment(65_480);
        let (taken, useless) = read(Taker::new(1), &[(TO_BE_CUT, &packet)]);
        assert_eq!((taken.len(), useless), (66, 0));
        let payload: Vec<_> = taken.iter().flat_map(|(bytes, _)| &bytes[54..]).copied().collect();
        assert!(payload == packet[54..]);
    }

    #[test]
    fn packets_that_make_no_sense_are_counted_and_the_next_is_taken() {
        let (packet, good) = (segment(10 * usize::from(SIZE)), segment(6));
        let with = |at: usize, bytes: [u8; 2]| {
            let mut vnet = TO_BE_CUT;
            vnet[at..at + 2].copy_from_slice(&bytes);
            vnet
        };
        // An unknown kind, IPv6, a size of zero, a header beyond the packet; no segmentation at all.
        let wrong =
            [with(0, [1, 9]), with(0, [1, 4]), with(4, [0, 0]), with(6, [0xff, 0xff]), [0; VNET_BYTES]];
        for vnet in wrong {
            let (taken, useless) = read(Taker::new(1), &[(vnet, &packet), ([0; VNET_BYTES], &good)]);
            assert_eq!((taken, useless), (vec![(good.clone(), None)], 1), "{vnet:?}");
        }
        // A checksum outside of a small frame.
        let outside = with(0, [1, 0]);
        let (taken, useless) = read(Taker::new(1), &[(outside, &good[..40]), ([0; VNET_BYTES], &good)]);
        assert_eq!((taken, useless), (vec![(good, None)], 1));
    }

    #[test]
    fn an_unfinished_checksum_is_completed() {
        let packet = segment(100);
        let mut vnet = TO_BE_CUT;
        vnet[1] = 0;
        let (taken, useless) = read(Taker::new(1), &[(vnet, &packet)]);
        assert_eq!((taken.len(), useless), (1, 0));
        let mut expected = packet;
        assert!(complete(&mut expected, crate::received::Unfinished { start: 34, offset: 16 }));
        assert!(taken[0].0 == expected);
    }
}
