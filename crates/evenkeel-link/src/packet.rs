//! `packet:NAME`: an existing network device, through packet sockets (`AF_PACKET`).
//!
//! **Receive** is a memory-mapped ring, `TPACKET_V2`. Version 3 gathers frames into blocks and hands over a
//! block when it is full or a timer fires, at the earliest after 1 ms; packet monitors use it (`listen.rs`).
//! Version 2 hands over each frame at once. Its ring holds a fixed number of frames, which the drop counters
//! and the feedback need.
//!
//! **Several rings** are several sockets in one fanout group: the kernel assigns each flow to one of them.
//!
//! **Transmit** is `sendmmsg`, at most 64 frames a call, on a socket that bypasses the queueing discipline.
//! In a measurement that was faster than a memory-mapped transmit ring (0.74 against 0.62 million frames a
//! second). Because of the bypass, `tcpdump` on the same device does not see our frames; on the far end of a
//! veth it does. The kernel copies the frames that it takes, so their buffers are free at once.
//!
//! **The device needs no kernel address.** The socket sees copies: the kernel's own stack also gets every
//! frame. By default our hardware address differs from the device's. The device is then promiscuous, and the
//! kernel discards our unicast frames as another station's. With the device's own hardware address, a program
//! drops frames for the host once the socket has its copy (`keeper.rs`).
//!
//! **Large segments stay whole, both ways.** If sender and receiver share a kernel, as over a veth, the
//! sender leaves work to an adaptor that does not exist. Packets of TCP that are to be segmented, of at most
//! 64 KiB, go up in a large buffer of the pool, without a look at their checksum. Other such packets are
//! split here (`segment.rs`), and so are those for which there is no large buffer. Unfinished checksums of
//! small frames are completed. Packets to be segmented arrive through the socket's queue because they exceed
//! a slot of the ring. So do single frames that exceed a slot (jumbo frames), if the pool's buffers can hold
//! them. Large segments that we send go through a second socket, one a call, behind a `virtio_net_hdr`. That
//! socket does not bypass the queueing discipline: the kernel would drop what it has to cut for the device.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use evenkeel_core::drop::{QueueDrop, Reason};
use evenkeel_core::frame::{Frame, Metadata, Pool};
use evenkeel_core::interface::{Burst, Effort, Interface, Properties, RxCounters, RxQueue, Seen, TxQueue};
use evenkeel_core::refuser::Refuser;
use evenkeel_core::segmentation::{LARGE_PACKET_MAX, Segmentation};
use evenkeel_core::wire::{EthernetAddress, IpAddress};
use rustix::net::sockopt;

use crate::claim::Claim;
use crate::device::{
    Descriptors, Device, DeviceInfo, IN_TRANSIT_PKTS, QUEUES_MAX, Refusal, Status, usable_mtu,
};
use crate::error::LinkError;
use crate::hardware::Address;
use crate::keeper::Keeper;
use crate::large::{LARGE_BYTES, header_of, stays_whole, whole_buffer};
use crate::listen::FRAME_BYTES;
use crate::netdev::{KernelCounters, NetDevice};
use crate::received::{Received, Slot, VNET_BYTES, offload_of, unfinished_of};
use crate::refuser::{Filter, KernelRefuser};
use crate::ring::{Ring, SLOT_OVERHEAD};
use crate::segment::Segments;
use crate::shown::{Next, buffer, done, show_large};
use crate::socket::{Counters, Presence, be_promiscuous, packet_socket};
use crate::sys::{self, Mapping, SEND_BATCH, SendBatch};

/// Options for opening a network device.
#[derive(Debug, Clone)]
pub struct PacketOptions {
    /// The number of frames that a receive ring holds, rounded up to a power of two, with 2 KiB of memory
    /// each. Default 4096, which is 11 ms at 360 000 frames a second; from 32 to 65 536.
    pub ring_pkts: usize,
    /// The number of receive rings; each flow uses one of them. Default 1; at most [`QUEUES_MAX`].
    pub queues: usize,
    /// Our hardware address.
    pub address: Address,
    /// Whether frames carry the time of their arrival in the kernel ([`Metadata::stamp_nanos`]), except those
    /// that are cut out of a larger packet. Default false: for a host, frames arrive when it sees them.
    pub stamps: bool,
    /// Whether any MTU is accepted. The caller must then provide a pool whose buffers hold the frames
    /// ([`buffer_bytes_for`](crate::buffer_bytes_for)). Default false.
    pub jumbo: bool,
}

impl Default for PacketOptions {
    fn default() -> Self {
        Self { ring_pkts: 4096, queues: 1, address: Address::Own, stamps: false, jumbo: false }
    }
}

/// A network device of the kernel, as an interface with one receive ring or several.
#[derive(Debug)]
pub struct Packet {
    /// The kernel's number for the device.
    index: u32,
    properties: Properties,
    status: Status,
    queues: Vec<Receive>,
    transmit: Transmit,
    counters: KernelCounters,
    /// The filter that refuses frames for full channels, if the host has asked for it.
    filter: Option<Arc<Filter>>,
    keeper: Option<Keeper>,
    _claim: Option<Claim>,
}

/// A receive ring of a network device, with the packet socket that fills it.
#[derive(Debug)]
struct Receive {
    ring: Ring<Mapping>,
    socket: Arc<OwnedFd>,
    counters: Counters,
    /// The number of frames shed here because they were larger than a buffer or malformed.
    unusable: u64,
    /// The frame being split into segments, with those still to come.
    segments: Segments,
    /// Room for a frame that comes through the socket's queue because it exceeds a slot, or for its end.
    large: Vec<u8>,
    presence: Presence,
    device: Arc<NetDevice>,
    status: Status,
    stamps: bool,
}

#[derive(Debug)]
struct Transmit {
    socket: OwnedFd,
    /// The socket for large segments, each behind a header that says how it is to be cut.
    large: Option<OwnedFd>,
    batch: SendBatch,
    device: Arc<NetDevice>,
}

const SLOT_BYTES: usize = 2048;
/// Kernel memory for such waiting packets, and for jumbo frames.
const QUEUE_BYTES: usize = 8 << 20;
const JUMBO_QUEUE_BYTES: usize = 64 << 20;
/// The socket option for whole copies of frames that exceed a slot in the queue (linux/if_packet.h).
const PACKET_COPY_THRESH: libc::c_int = 7;
const _: () = assert!(SLOT_BYTES - SLOT_OVERHEAD >= FRAME_BYTES, "what a buffer holds, a slot holds");

/// The size of blocks of slots: a power of two, and at least a page on every machine.
const BLOCK_BYTES: usize = 1 << 16;

/// Kernel memory for sent frames before the socket refuses more.
const SEND_BUFFER_BYTES: usize = 4 << 20;

impl Packet {
    /// Takes over the device called `name`, which must be up.
    ///
    /// # Errors
    /// [`LinkError`] says what to do; nothing is left behind. Several rings need Linux 5.16.
    pub fn open(name: &str, options: &PacketOptions) -> Result<Self, LinkError> {
        let whole = Whole::open(name, options)?;
        let queues = whole.receive(options, options.queues.clamp(1, QUEUES_MAX))?;
        whole.with(queues)
    }

    /// Takes over the device as at least one interface, for `hosts` hosts. The kernel's hash assigns each
    /// flow to one of them, and each can send. Frames without a flow, such as ARP, also arrive at one of
    /// them.
    ///
    /// The kernel hashes by the number of open sockets: if one is closed, its flows go to the others.
    ///
    /// # Errors
    /// Those of [`Packet::open`].
    pub fn open_queues(name: &str, options: &PacketOptions, hosts: usize) -> Result<Vec<Self>, LinkError> {
        let whole = Whole::open(name, options)?;
        let each = options.queues.clamp(1, QUEUES_MAX);
        let mut queues = whole.receive(options, hosts.max(1) * each)?;
        let mut all = Vec::new();
        while queues.len() > each {
            all.push(whole.part(queues.split_off(queues.len() - each))?);
        }
        all.push(whole.with(queues)?);
        all.reverse();
        Ok(all)
    }
}

/// A device being taken over.
struct Whole {
    device: Arc<NetDevice>,
    index: i32,
    address: EthernetAddress,
    /// Whether that is also the kernel's address on the device.
    is_shared: bool,
    mtu: usize,
    claim: Claim,
}

impl Whole {
    fn open(name: &str, options: &PacketOptions) -> Result<Self, LinkError> {
        let device = NetDevice::open(name)?;
        let (index, kernel_address) = (device.index()?, device.address()?);
        if !device.is_up()? {
            return Err(LinkError::Down { name: name.to_owned() });
        }
        let mtu = usable_mtu(name, device.mtu()?, options.jumbo)?;
        let address = options.address.on(name, kernel_address).map_err(LinkError::random)?;
        let claim = Claim::of(name, index, address)?;
        let is_shared = address == kernel_address;
        Ok(Self { device: Arc::new(device), index, address, is_shared, mtu, claim })
    }

    fn fail(&self, error: io::Error) -> LinkError {
        LinkError::of_device(self.device.name(), "open a packet socket on", "CAP_NET_RAW", error)
    }

    /// Opens this many receive rings, each with a part of the flows.
    fn receive(&self, options: &PacketOptions, queues: usize) -> Result<Vec<Receive>, LinkError> {
        let mut all = Vec::new();
        let mut group = 0;
        for number in 0..queues {
            let mut receive = Receive::open(self, options).map_err(|error| self.fail(error))?;
            if queues > 1 {
                let flags = if number == 0 { libc::PACKET_FANOUT_FLAG_UNIQUEID } else { 0 };
                let name = self.device.name();
                let joined = receive.spread(group, flags);
                group = joined
                    .map_err(|e| LinkError::of_device(name, "spread the flows of", "CAP_NET_RAW", e))?;
            }
            all.push(receive);
        }
        Ok(all)
    }

    fn part(&self, mut queues: Vec<Receive>) -> Result<Packet, LinkError> {
        let status = Status::default();
        queues.iter_mut().for_each(|queue| queue.status = status.clone());
        let transmit = Transmit::open(self).map_err(|error| self.fail(error))?;
        let properties = Properties {
            segmentation: transmit.large.is_some().then_some(Segmentation { most: LARGE_PACKET_MAX }),
            mtu: self.mtu,
            queues: queues.len(),
            transmit_batch: SEND_BATCH,
            buffers: IN_TRANSIT_PKTS,
            ..Properties::new(self.device.name(), self.address)
        };
        Ok(Packet {
            index: self.index.unsigned_abs(),
            properties,
            status,
            queues,
            transmit,
            counters: KernelCounters::open(&self.device),
            filter: None,
            keeper: None,
            _claim: None,
        })
    }

    fn with(self, queues: Vec<Receive>) -> Result<Packet, LinkError> {
        let part = self.part(queues)?;
        let keeper = self.is_shared.then(|| Keeper::of(self.device.name(), part.status.clone()));
        Ok(Packet { keeper, _claim: Some(self.claim), ..part })
    }
}

impl TxQueue for Packet {
    fn transmit(&mut self, frames: &mut VecDeque<Frame>, pool: &mut Pool) -> usize {
        self.transmit.send(frames, pool, &self.status)
    }
}

impl Interface for Packet {
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

    fn set_addresses(&mut self, addresses: &mut dyn Iterator<Item = IpAddress>) {
        self.keeper.iter_mut().for_each(|keeper| keeper.set_addresses(&addresses.collect()));
    }

    /// Without the privilege to load BPF programs there is none.
    fn refuser(&mut self) -> Option<Box<dyn Refuser>> {
        let sockets: Vec<_> = self.queues.iter().map(|queue| Arc::clone(&queue.socket)).collect();
        let attach = Box::new(move |program: BorrowedFd<'_>| {
            // A socket without it gets all frames, as before.
            sockets.iter().for_each(|socket| drop(sys::attach_bpf(socket.as_fd(), program)));
        });
        let refuser = KernelRefuser::load(self.properties.address, attach).ok()?;
        self.filter = Some(refuser.filter());
        Some(Box::new(refuser))
    }

    fn set_readable(&mut self, number: usize) {
        if let Some(Receive { presence, ring, socket, .. }) = self.queues.get_mut(number) {
            presence.set_readable(ring.ready(), socket);
        }
    }
}

impl Device for Packet {
    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            descriptors: Descriptors::new(self.queues.iter().map(|queue| Arc::clone(&queue.socket))),
            rings_in_memory: true,
            status: self.status.clone(),
            kernel_counters: Some(self.counters.clone()),
            index: Some(self.index),
            ..DeviceInfo::default()
        }
    }
}

impl RxQueue for Receive {
    fn pending(&self) -> usize {
        usize::from(self.is_ready())
    }

    fn receive(&mut self, limit: usize, burst: &mut dyn Burst) -> usize {
        let (mut done, mut spare) = (0, None);
        // One that is of no use counts, too: or a flood of them would have no end.
        for _ in 0..limit {
            match self.next(burst, &mut spare) {
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
        if let Some(frame) = spare {
            burst.pool().recycle(frame);
        }
        done
    }

    fn arm(&mut self) -> bool {
        self.presence.check(&self.device, &self.status);
        self.is_ready()
    }

    /// The kernel counts. In the ring it says only that it has lost some, behind those that were there then.
    fn counters(&self, effort: Effort) -> Option<RxCounters> {
        let lost = || self.counters.lost(&self.socket) + self.unusable;
        (effort == Effort::SystemCall).then(|| RxCounters::missed(lost()))
    }
}

impl Receive {
    fn open(whole: &Whole, options: &PacketOptions) -> io::Result<Self> {
        // Protocol zero until everything is set: no frame of another device gets in.
        let socket = packet_socket()?;
        let fd = socket.as_fd();
        sys::set_packet_option(fd, libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as libc::c_int)?;
        sys::set_packet_option(fd, libc::PACKET_VNET_HDR, 1)?;
        sys::set_packet_option(fd, libc::PACKET_IGNORE_OUTGOING, 1)?;
        // Frames larger than a slot are queued as a whole.
        sys::set_packet_option(fd, PACKET_COPY_THRESH, 1)?;
        let queue_bytes = if options.jumbo { JUMBO_QUEUE_BYTES } else { QUEUE_BYTES };
        if sockopt::set_socket_recv_buffer_size_force(&socket, queue_bytes).is_err() {
            sockopt::set_socket_recv_buffer_size(&socket, queue_bytes)?;
        }
        let slots = options.ring_pkts.clamp(BLOCK_BYTES / SLOT_BYTES, 1 << 16).next_power_of_two();
        let bytes = slots * SLOT_BYTES;
        let request = libc::tpacket_req {
            tp_block_size: BLOCK_BYTES as libc::c_uint,
            tp_block_nr: (bytes / BLOCK_BYTES) as libc::c_uint,
            tp_frame_size: SLOT_BYTES as libc::c_uint,
            tp_frame_nr: slots as libc::c_uint,
        };
        sys::set_packet_option(fd, libc::PACKET_RX_RING, request)?;
        let ring = Ring::new(Mapping::new(fd, bytes)?, SLOT_BYTES).ok_or(io::ErrorKind::InvalidInput)?;
        sys::bind_packet(fd, whole.index, libc::ETH_P_ALL as u16)?;
        be_promiscuous(fd, whole.index)?;
        Ok(Self {
            ring,
            socket: Arc::new(socket),
            counters: Counters::default(),
            unusable: 0,
            segments: Segments::default(),
            large: vec![0; LARGE_BYTES],
            presence: Presence::of(whole.index),
            device: Arc::clone(&whole.device),
            status: Status::default(),
            stamps: options.stamps,
        })
    }

    /// Shares the device's flows with the other sockets of a group; says which.
    fn spread(&mut self, group: libc::c_int, flags: libc::c_uint) -> io::Result<libc::c_int> {
        // The group takes frames in place of its sockets, so it must be configured again to ignore frames
        // that we send.
        let kind = libc::PACKET_FANOUT_HASH | libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING | flags;
        let value = group | (kind as libc::c_int) << 16;
        sys::set_packet_option(self.socket.as_fd(), libc::PACKET_FANOUT, value)?;
        // Until now this socket got a copy of everything.
        while let Some(slot) = self.ring.front() {
            if matches!(slot, Slot::Frame(Received { is_queued: true, .. })) {
                read_queued(&self.socket, &mut [0; VNET_BYTES], &mut [], &mut self.large);
            }
            self.ring.release();
        }
        Ok(sys::packet_fanout(self.socket.as_fd())? & 0xffff)
    }

    fn is_ready(&self) -> bool {
        self.segments.is_loaded() || self.ring.ready()
    }

    /// Shows the oldest frame to `burst`. `None` if there is none, or no buffer for it. The buffer of one
    /// that is discarded stays in `spare`, for the next.
    fn next(&mut self, burst: &mut dyn Burst, spare: &mut Option<Frame>) -> Option<Next> {
        if self.segments.is_loaded() {
            return self.segments.show(burst, spare);
        }
        let Slot::Frame(mut received) = self.ring.front()? else {
            self.ring.release();
            return Some(Next::Unusable);
        };
        if !self.stamps {
            received.stamp_nanos = 0;
        }
        if received.is_queued {
            let (vlan, stamp_nanos) = (received.vlan, received.stamp_nanos);
            return self.next_queued(vlan, stamp_nanos, burst, spare);
        }
        if let Some(offload) = received.to_be_segmented {
            let is_all_there = received.vlan.is_none() && received.bytes.len() == received.whole;
            let usable = is_all_there && self.segments.load(&[received.bytes], offload);
            self.ring.release();
            return if usable { self.next(burst, spare) } else { Some(Next::Unusable) };
        }
        let next = show(&received, burst, spare)?;
        self.ring.release();
        Some(next)
    }

    /// Takes the packet at the front, which is larger than its slot and waits as a whole in the socket's
    /// queue: it is to be cut up, or is one frame.
    fn next_queued(
        &mut self,
        vlan: Option<[u8; 4]>,
        stamp_nanos: u64,
        burst: &mut dyn Burst,
        spare: &mut Option<Frame>,
    ) -> Option<Next> {
        // Once read it is nowhere else, so there has to be a buffer.
        *spare = Some(buffer(burst, spare)?);
        let mut frame = if burst.records() { None } else { burst.pool().take_large() };
        let mut vnet = [0; VNET_BYTES];
        let front = frame.as_mut().map_or(&mut [][..], whole_buffer);
        let len = read_queued(&self.socket, &mut vnet, front, &mut self.large);
        self.ring.release();
        let Some(len) = len else {
            frame.into_iter().for_each(|frame| burst.pool().recycle(frame));
            return Some(Next::Unusable);
        };
        let queued = Queued { vnet, vlan, stamp_nanos, len };
        self.show_queued(&queued, frame, burst, spare)
    }

    /// Shows a packet that was read from the socket's queue, into `large` and behind it into the room here.
    fn show_queued(
        &mut self,
        &Queued { vnet, vlan, stamp_nanos, len }: &Queued,
        mut large: Option<Frame>,
        burst: &mut dyn Burst,
        spare: &mut Option<Frame>,
    ) -> Option<Next> {
        if vlan.is_none() && large.as_mut().is_some_and(|frame| stays_whole(frame, &vnet, len)) {
            let metadata = Metadata { stamp_nanos, ..Metadata::NONE };
            return large.map(|frame| show_large(frame, &metadata, burst));
        }
        let front = large.as_ref().map_or(&[][..], Frame::bytes);
        let rest = self.large.get(..len.saturating_sub(front.len())).unwrap_or_default();
        let next = if let Some(offload) = offload_of(&vnet) {
            // Each segment would need the tag. We know of no sender that shares a kernel with us and tags its
            // frames.
            let usable = vlan.is_none() && self.segments.load(&[front, rest], offload);
            if usable { self.segments.show(burst, spare) } else { Some(Next::Unusable) }
        } else {
            let bytes = if front.is_empty() { rest } else { front };
            let received = Received {
                bytes,
                whole: len,
                to_be_segmented: None,
                is_queued: false,
                stamp_nanos,
                sent: false,
                vlan,
                unfinished: unfinished_of(&vnet),
            };
            show(&received, burst, spare)
        };
        large.into_iter().for_each(|frame| burst.pool().recycle(frame));
        next
    }
}

/// The description of a packet that waited as a whole in the socket's queue.
struct Queued {
    vnet: [u8; VNET_BYTES],
    vlan: Option<[u8; 4]>,
    stamp_nanos: u64,
    /// The bytes of the packet, from its Ethernet header on.
    len: usize,
}

/// Reads the next packet of the socket's queue: its `virtio_net_hdr`, and the packet into `front` and then
/// `rest`. Returns the bytes of the packet; `None` if it cannot be read.
fn read_queued(
    socket: &OwnedFd,
    vnet: &mut [u8; VNET_BYTES],
    front: &mut [u8],
    rest: &mut [u8],
) -> Option<usize> {
    let mut parts = [IoSliceMut::new(vnet), IoSliceMut::new(front), IoSliceMut::new(rest)];
    rustix::io::readv(socket, &mut parts).ok()?.checked_sub(VNET_BYTES)
}

/// Shows a frame where it lies, if its headers are as they will be, and copies and completes it only if it is
/// wanted; else it is shown as it was on the wire. There has to be a buffer, whatever becomes of it: `None`
/// if there is none.
fn show(received: &Received<'_>, burst: &mut dyn Burst, spare: &mut Option<Frame>) -> Option<Next> {
    let mut frame = buffer(burst, spare)?;
    let in_place = received.has_its_headers() && (received.unfinished.is_none() || !burst.records());
    let fits = frame.resize(received.len());
    if !fits || !received.is_whole() || !in_place && !received.write(frame.bytes_mut()) {
        *spare = Some(frame);
        return Some(if !fits && received.is_whole() { Next::TooLong } else { Next::Unusable });
    }
    let metadata = Metadata { stamp_nanos: received.stamp_nanos, ..Metadata::NONE };
    let seen = burst.see(if in_place { received.bytes } else { frame.bytes() }, &metadata);
    if in_place && seen == Seen::Take {
        // It has room, and so has the checksum.
        received.write(frame.bytes_mut());
    }
    Some(done(seen, frame, burst, spare))
}

impl Transmit {
    fn open(whole: &Whole) -> io::Result<Self> {
        let open = |vnet: bool| {
            let socket = packet_socket()?;
            // The kernel drops what it has to cut for a device if that bypasses the queueing discipline.
            let option = if vnet { libc::PACKET_VNET_HDR } else { libc::PACKET_QDISC_BYPASS };
            sys::set_packet_option(socket.as_fd(), option, 1)?;
            // More than a user may have, if we may; else as much as a user may have.
            if sockopt::set_socket_send_buffer_size_force(&socket, SEND_BUFFER_BYTES).is_err() {
                sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER_BYTES)?;
            }
            sys::bind_packet(socket.as_fd(), whole.index, 0)?;
            io::Result::Ok(socket)
        };
        let socket = open(false)?;
        Ok(Self {
            socket,
            large: open(true).ok(),
            batch: SendBatch::new(),
            device: Arc::clone(&whole.device),
        })
    }

    /// Sends frames, as far as the socket takes them; says how many. One that the device refuses is counted,
    /// and gone: it is down, or its ring full.
    fn send(&mut self, frames: &mut VecDeque<Frame>, pool: &mut Pool, status: &Status) -> usize {
        let waiting = frames.len();
        while !frames.is_empty() {
            let sent = self.send_first(frames);
            let error = sent.as_ref().err().map(io::Error::kind);
            let done = match sent {
                Err(_) if matches!(error, Some(io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock)) => 0,
                Err(refusal) => {
                    let error = refusal.raw_os_error().unwrap_or(libc::EIO);
                    let has_carrier = || self.device.has_carrier().unwrap_or(true);
                    status.count_refusal(Refusal::of(error, has_carrier));
                    1
                }
                Ok(sent) => sent,
            };
            status.count_call(done as u64);
            frames.drain(..done.min(frames.len())).for_each(|frame| pool.recycle(frame));
            if error == Some(io::ErrorKind::WouldBlock) {
                break;
            }
        }
        waiting - frames.len()
    }

    /// Sends the first of `frames` in one system call: a large segment, or the frames in front of the next
    /// one. Returns how many the kernel took.
    fn send_first(&mut self, frames: &VecDeque<Frame>) -> io::Result<usize> {
        match frames.front().filter(|frame| frame.segment_bytes().is_some()) {
            Some(large) => self.send_large(large).map(|()| 1),
            None => {
                let small = frames.iter().take_while(|frame| frame.segment_bytes().is_none());
                self.batch.send(self.socket.as_fd(), small.map(Frame::bytes))
            }
        }
    }

    fn send_large(&self, frame: &Frame) -> io::Result<()> {
        let too_long = || io::Error::from_raw_os_error(libc::EMSGSIZE);
        let (socket, header) = self.large.as_ref().zip(header_of(frame)).ok_or_else(too_long)?;
        rustix::io::writev(socket, &[IoSlice::new(&header), IoSlice::new(frame.bytes())])?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::received::Unfinished;

    const TAG: [u8; 4] = [0x81, 0, 0x20, 7];

    fn received(bytes: &[u8], vlan: Option<[u8; 4]>, unfinished: Option<Unfinished>) -> Received<'_> {
        let whole = bytes.len();
        Received {
            bytes,
            whole,
            to_be_segmented: None,
            is_queued: false,
            stamp_nanos: 7,
            sent: false,
            vlan,
            unfinished,
        }
    }

    /// Keeps what it sees and takes.
    struct Keeper {
        pool: Pool,
        records: bool,
        takes: bool,
        /// Leaves no buffer to anybody.
        hoards: bool,
        hoard: Vec<Frame>,
        /// The address and the bytes of each frame seen in place.
        seen: Vec<(*const u8, Vec<u8>)>,
        taken: Vec<Vec<u8>>,
    }

    impl Keeper {
        fn new(pkts: usize) -> Self {
            let pool = Pool::new(pkts);
            let (hoard, seen, taken) = (Vec::new(), Vec::new(), Vec::new());
            Self { pool, records: false, takes: true, hoards: false, hoard, seen, taken }
        }

        /// Shows a frame to the keeper. Returns the frame as it was seen, and as it was taken.
        fn is_shown(&mut self, received: &Received<'_>) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
            let mut spare = None;
            let Some(Next::Seen { more: true }) = show(received, self, &mut spare) else { return None };
            spare.into_iter().for_each(|frame| self.pool.recycle(frame));
            Some((self.seen.pop()?.1, self.taken.pop()))
        }
    }

    impl Burst for Keeper {
        fn pool(&mut self) -> &mut Pool {
            &mut self.pool
        }

        fn records(&self) -> bool {
            self.records
        }

        fn see(&mut self, bytes: &[u8], _metadata: &Metadata) -> Seen {
            if self.hoards {
                self.hoard.extend(core::iter::from_fn(|| self.pool.take()));
            }
            self.seen.push((bytes.as_ptr(), bytes.to_vec()));
            if self.takes { Seen::Take } else { Seen::Discard }
        }

        fn take(&mut self, frame: Frame) -> bool {
            self.taken.push(frame.bytes().to_vec());
            self.pool.recycle(frame);
            true
        }
    }

    /// Returns a datagram whose checksum is still to be completed.
    fn datagram() -> ([u8; 64], Option<Unfinished>) {
        let mut bytes = core::array::from_fn(|n| n as u8);
        bytes[12..15].copy_from_slice(&[8, 0, 0x45]);
        bytes[23] = 17;
        (bytes, Some(Unfinished { start: 34, offset: 6 }))
    }

    #[test]
    fn a_tag_goes_back_behind_the_addresses_and_the_checksum_is_found_behind_it() {
        let (mut keeper, (bytes, unfinished)) = (Keeper::new(1), datagram());
        let (_, untagged) = keeper.is_shown(&received(&bytes, None, unfinished)).unwrap();
        let untagged = untagged.unwrap();
        assert_ne!(untagged[40..42], bytes[40..42]);
        let (seen, tagged) = keeper.is_shown(&received(&bytes, Some(TAG), unfinished)).unwrap();
        assert_eq!(seen, [&untagged[..12], &TAG, &untagged[12..]].concat());
        assert_eq!(tagged.unwrap(), seen);
    }

    #[test]
    fn what_is_discarded_is_neither_copied_nor_summed_unless_it_is_recorded() {
        let (mut keeper, (bytes, unfinished)) = (Keeper::new(1), datagram());
        let whole = keeper.is_shown(&received(&bytes, None, unfinished)).unwrap().1.unwrap();
        assert!(whole != bytes && whole[..40] == bytes[..40] && whole[42..] == bytes[42..]);
        keeper.takes = false;
        let mut spare = None;
        show(&received(&bytes, None, unfinished), &mut keeper, &mut spare).unwrap();
        assert_eq!(keeper.seen.pop(), Some((bytes.as_ptr(), bytes.to_vec())));
        // And its buffer serves the next.
        assert!(spare.is_some() && keeper.pool.available() == 0);
        keeper.records = true;
        show(&received(&bytes, None, unfinished), &mut keeper, &mut spare).unwrap();
        assert_eq!(keeper.seen.pop().unwrap().1, whole);
        // A complete frame may be recorded without a copy.
        show(&received(&bytes, None, None), &mut keeper, &mut spare).unwrap();
        assert_eq!(keeper.seen.pop().unwrap().0, bytes.as_ptr());
        // A sender may name any place; before a frame is judged it has been completed there.
        keeper.records = false;
        let port = Some(Unfinished { start: 34, offset: 2 });
        show(&received(&bytes, None, port), &mut keeper, &mut spare).unwrap();
        assert_ne!(keeper.seen.pop().unwrap().1[36..38], bytes[36..38]);
    }

    #[test]
    fn what_is_shown_and_wanted_is_taken_whatever_becomes_of_the_pool_meanwhile() {
        let (mut keeper, (bytes, _)) = (Keeper::new(2), datagram());
        keeper.hoards = true;
        let mut spare = None;
        assert!(show(&received(&bytes, None, None), &mut keeper, &mut spare).is_some());
        assert_eq!((keeper.seen.len(), keeper.taken.len()), (1, 1));
        // And without a buffer it is not shown.
        keeper.hoard.extend(keeper.pool.take());
        assert!(show(&received(&bytes, None, None), &mut keeper, &mut spare).is_none());
        assert_eq!(keeper.seen.len(), 1);
    }

    #[test]
    fn every_call_is_counted_also_one_that_finds_no_room() {
        let (near, far) = std::os::unix::net::UnixDatagram::pair().unwrap();
        let device = Arc::new(NetDevice::open("lo").unwrap());
        let mut transmit = Transmit { socket: near.into(), large: None, batch: SendBatch::new(), device };
        let (mut pool, status) = (Pool::new(2_000), Status::default());
        let mut frames: VecDeque<_> = core::iter::from_fn(|| pool.take_copy(&[7; 60])).collect();
        let taken = transmit.send(&mut frames, &mut pool, &status);
        assert!((1..2_000).contains(&taken), "there is no end of its queue");
        let (sent, calls) = status.sent();
        assert_eq!((sent, status.refused()), (taken as u64, 0));
        assert_eq!(transmit.send(&mut frames, &mut pool, &status), 0);
        assert_eq!(status.sent(), (sent, calls + 1));
        drop(far);
        let left = frames.len();
        assert_eq!(transmit.send(&mut frames, &mut pool, &status), left);
        assert_eq!((status.sent(), status.refused()), ((2_000, calls + 1 + left as u64), left as u64));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut keeper = Keeper::new(1);
        let room = vec![0; FRAME_BYTES];
        assert!(keeper.is_shown(&received(&room, None, None)).is_some());
        let outside = Some(Unfinished { start: 60, offset: 16 });
        let cut = Received { whole: 61, ..received(&[0; 60], None, None) };
        let tagged = received(&room, Some(TAG), None);
        for (refused, is_too_long) in
            [(tagged, true), (received(&[0; 60], None, outside), false), (cut, false)]
        {
            let mut spare = None;
            let next = show(&refused, &mut keeper, &mut spare);
            assert!(keeper.seen.is_empty());
            assert_eq!(matches!(next, Some(Next::TooLong)), is_too_long);
            assert_eq!(matches!(next, Some(Next::Unusable)), !is_too_long);
            keeper.pool.recycle(spare.unwrap());
        }
        for short in 0..14 {
            let (seen, taken) = keeper.is_shown(&received(&room[..short], Some(TAG), None)).unwrap();
            assert!(seen.len() == short + 4 && taken.is_some_and(|frame| frame.len() == short + 4));
        }
    }
}
