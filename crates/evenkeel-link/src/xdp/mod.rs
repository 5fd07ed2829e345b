//! `xdp:NAME`: an existing network device, through AF_XDP sockets.
//!
//! An XDP program classifies each frame where the driver receives it. Frames of other stations go on to the
//! kernel. Frames for us go to a receive ring: that of their channel if the host demultiplexes on the
//! interface (`ni-lrp`), or else the one that all share. A frame that finds its ring full is dropped there,
//! before the host has done anything for it.
//!
//! | file | what is inside |
//! | --- | --- |
//! | `ring.rs` | the four rings of a socket, in memory shared with the kernel |
//! | `umem.rs` | the memory of a queue of the device, with its fill and completion rings |
//! | `socket.rs` | opening sockets, waking the kernel |
//! | `queue.rs`, `transmit.rs` | the receive and the transmit side of a device's queue |
//! | `buffers.rs`, `gather.rs` | frames in several chunks of memory: large MTUs |
//! | `marks.rs` | how full each receive ring is, for the XDP program |
//! | `known.rs` | the ends of the host's connections, for the XDP program |
//! | `rings.rs` | channels with rings of their own: the demultiplexer |
//! | `offload.rs`, `features.rs` | packets that the program forwards; devices by which it can |
//! | `witness.rs`, `inspection.rs` | noticing the end of the device and of the program |
//! | `program.rs`, `program/` | the XDP program, `bpf/demux.c`; its copy of the host's table; several hosts |
//!
//! While a flood fills the ring of a listener, the program answers SYNs by SYN cookies: `bpf/cookies.h`.
//!
//! **Receive** copies nothing on our side: a frame lies in the memory that was given to the kernel, until the
//! program drops the datagram. If a driver cannot write to that memory itself, the kernel copies once. Of a
//! device with a large MTU, frames in several chunks are copied to one buffer of the host.
//!
//! **Transmit** copies a frame of the host's own memory. A frame that came by the same queue is sent from
//! where it lies.
//!
//! **Checksums are completed here** as of packet sockets. AF_XDP does not say which are unfinished: see
//! `unfinished.rs`.

mod buffers;
mod features;
mod gather;
mod inspection;
mod known;
mod marks;
mod offload;
mod program;
mod queue;
mod ring;
mod rings;
mod socket;
mod transmit;
mod umem;
mod witness;

pub(crate) use self::features::Features;
pub use self::socket::try_xdp_socket;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_core::demux::Change;
use evenkeel_core::drop::Reason;
use evenkeel_core::frame::{Frame, LinkType, Pool};
use evenkeel_core::interface::{Demultiplexer, Interface, Properties, RxQueue, TxQueue};
use evenkeel_core::offload::Offload;
use evenkeel_core::wire::EthernetAddress;
use rustix::event::epoll;

use self::buffers::Buffers;
use self::features::takes_redirected;
use self::inspection::Inspection;
use self::marks::{Mark, SLOTS};
use self::offload::Forwarder;
use self::program::{Program, Sharing, Spread, Taken};
use self::queue::{Ahead, GATHERED_PKTS, Queue, Received, SharedUmem};
use self::rings::{OnQueue, Rings};
use self::socket::{DeviceQueue, First};
use self::transmit::{CALL_PKTS, Transmit};
use self::umem::{Awake, FILL_PKTS, SPARE_PKTS, mib};
use self::witness::Witness;
use crate::bpf::CAPABILITIES;
use crate::capture::frames::Frames;
use crate::claim::Claim;
use crate::closing::AttachedProgram;
use crate::device::{Descriptors, Device, DeviceInfo, IN_TRANSIT_PKTS, QUEUES_MAX, Status};
use crate::error::LinkError;
use crate::hardware::Address;
use crate::netdev::{KernelCounters, NetDevice};
use crate::rtnetlink::xdp_program;

/// Options for opening a network device through AF_XDP.
#[derive(Debug, Clone)]
pub struct XdpOptions {
    /// The number of frames that the shared receive ring of each queue holds, rounded up to a power of two.
    /// Default 1024; from 64 to 4096.
    pub ring_pkts: usize,
    /// The queues of the device to use; none for all of them. Frames for us that arrive at other queues are
    /// dropped and counted.
    pub queues: Vec<u32>,
    /// Our hardware address.
    pub address: Address,
    /// Whether all frames of the device are taken, also those to other stations, as by a packet monitor. The
    /// kernel then gets none, and `address` is not used. Default false.
    pub everything: bool,
    /// Whether the kernel keeps the device's addresses, and shares them with this host: the host gets the
    /// frames that its sockets are bound to, and ICMP errors about packets that these have sent. All others
    /// go on to the kernel. Our hardware address is then the device's.
    pub shared: bool,
    /// Whether packets are forwarded in XDP to destinations about which a host that is a router has decided
    /// ([`evenkeel_core::offload`]). They leave by other devices that are open through AF_XDP. Default false.
    pub offload: bool,
}

impl Default for XdpOptions {
    fn default() -> Self {
        Self {
            ring_pkts: 1024,
            queues: Vec::new(),
            address: Address::Own,
            shared: false,
            everything: false,
            offload: false,
        }
    }
}

/// Descriptors of the shared rings have the numbers of their rings; this one is of the rings of channels.
const EVENTS: usize = QUEUES_MAX;
/// The descriptor of the packet socket.
const WITNESS: usize = EVENTS + 1;
/// The descriptor of the timer by which the program is looked after.
const INSPECTION: usize = WITNESS + 1;

/// A network device of the kernel, as an interface whose frames an XDP program classifies.
#[derive(Debug)]
pub struct Xdp {
    index: u32,
    properties: Properties,
    status: Status,
    queues: Vec<Queue>,
    transmit: Transmit,
    rings: Option<Rings>,
    forwarder: Option<Forwarder>,
    events: Arc<OwnedFd>,
    counters: KernelCounters,
    /// The program is detached with its last owner.
    program: Arc<Mutex<Program>>,
    witness: Witness,
    inspection: Option<Inspection>,
    device: Arc<NetDevice>,
    _claim: Option<Arc<Claim>>,
}

impl Xdp {
    /// Takes over the device called `name`, which must be up.
    ///
    /// # Errors
    /// [`LinkError`] says what to do; nothing is left behind.
    pub fn open(name: &str, options: &XdpOptions) -> Result<Self, LinkError> {
        let mut hosts = Self::open_queues(name, options, 1)?;
        hosts.pop().ok_or_else(|| LinkError::FewQueues { name: name.to_owned(), queues: 0, hosts: 1 })
    }

    /// Takes over the device as one interface for each of `hosts` hosts. They share its queues and its
    /// hardware address. Each has an XDP program with tables of its own, so none waits for another. A frame
    /// comes to the host that has its queue.
    ///
    /// # Errors
    /// Those of [`Xdp::open`]. [`LinkError::FewQueues`] if there are fewer queues than hosts.
    /// [`LinkError::OneHost`] if the kernel is to share its addresses, or all frames are to be taken.
    pub fn open_queues(name: &str, options: &XdpOptions, hosts: usize) -> Result<Vec<Self>, LinkError> {
        let hosts = hosts.max(1);
        let device = NetDevice::open(name)?;
        let (index, kernel_address, mtu) = (device.index()?, device.address()?, device.mtu()?);
        if !device.is_up()? {
            return Err(LinkError::Down { name: name.to_owned() });
        }
        let max = Buffers::Several.mtu_max();
        let too_large = || LinkError::Jumbo { name: name.to_owned(), mtu, max };
        let buffers = Buffers::for_mtu(mtu).ok_or_else(too_large)?;
        if hosts > 1 && (options.shared || options.everything) {
            return Err(LinkError::OneHost { name: name.to_owned() });
        }
        let opening = Opening { device: Arc::new(device), index, kernel_address, mtu, buffers, options };
        if options.everything {
            return opening.open(kernel_address, None, hosts);
        }
        let address = if options.shared { Address::Device } else { options.address };
        let address = address.on(name, kernel_address).map_err(LinkError::random)?;
        let claim = Claim::of(name, index, address).map_err(|error| match error {
            LinkError::Claimed { name, .. } => LinkError::Taken { name },
            other => other,
        })?;
        opening.open(address, Some(claim), hosts)
    }
}

/// A device being taken over.
struct Opening<'a> {
    device: Arc<NetDevice>,
    index: i32,
    kernel_address: EthernetAddress,
    mtu: usize,
    buffers: Buffers,
    options: &'a XdpOptions,
}

/// The first sockets of a host's queues.
#[derive(Debug, Default)]
struct HostQueues {
    awake: Awake,
    firsts: Vec<(DeviceQueue, First)>,
}

/// A host's part of a device, whose program is not attached yet.
struct Part {
    queues: HostQueues,
    program: Program,
    marks: Vec<Mark>,
    forwarder: Option<Forwarder>,
}

impl Opening<'_> {
    fn open(
        self,
        address: EthernetAddress,
        claim: Option<Claim>,
        hosts: usize,
    ) -> Result<Vec<Xdp>, LinkError> {
        let witness = self.witness(address)?;
        let mut parts = Vec::new();
        for queues in self.first_sockets(hosts)? {
            parts.push(self.part(queues, address)?);
        }
        if hosts > 1 {
            let spread = Spread::load(self.buffers)?;
            for Part { program, queues, .. } in &mut parts {
                let numbers = queues.firsts.iter().map(|(at, _)| at.queue).collect();
                program.share(spread.clone(), numbers)?;
            }
        }
        if let Some(Part { program, .. }) = parts.first_mut() {
            program.attach(self.device.name())?;
        }
        self.watch(&witness, address)?;
        let claim = claim.map(Arc::new);
        let mut first = Some(witness);
        let finish = |part| {
            // The witness of one host sees frames that the program of all should have taken. The others only
            // notice the end of the device.
            let witness = first.take().map_or_else(|| self.witness(self.kernel_address), Ok)?;
            let inspects = hosts > 1 || self.shares_mac(address);
            let inspection =
                inspects.then(Inspection::open).transpose().map_err(|source| self.fail(source))?;
            self.finish(part, (witness, inspection), address, claim.clone())
        };
        parts.into_iter().map(finish).collect()
    }

    /// Opens a packet socket that notices the end of the device.
    fn witness(&self, address: EthernetAddress) -> Result<Witness, LinkError> {
        Witness::open(self.index, self.shares_mac(address)).map_err(|source| self.fail(source))
    }

    /// Lets a witness notice that the program, which is attached, no longer takes the frames it should.
    fn watch(&self, witness: &Witness, address: EthernetAddress) -> Result<(), LinkError> {
        let watched = match self.shares_mac(address) {
            _ if self.options.everything => witness.watch_everything(),
            true => Ok(()),
            false => witness.watch(address),
        };
        watched.map_err(|source| self.fail(source))
    }

    fn shares_mac(&self, address: EthernetAddress) -> bool {
        address == self.kernel_address && !self.options.everything
    }

    fn ring_pkts(&self) -> usize {
        self.options.ring_pkts.clamp(64, FILL_PKTS / 2).next_power_of_two()
    }

    /// Loads a program for the queues of a host.
    fn part(&self, queues: HostQueues, address: EthernetAddress) -> Result<Part, LinkError> {
        let mut program = match self.options.everything {
            true => Program::load(Taken::Everything, Sharing::Nothing, self.buffers),
            false if self.options.offload => {
                Program::load(Taken::NotForwarded, self.sharing(address), self.buffers)
            }
            false => Program::load(Taken::Ours, self.sharing(address), self.buffers),
        }?;
        let forwarder = self.options.offload.then(|| Forwarder::take(program.object())).transpose()?;
        program.apply(Change::Hardware(address))?;
        program.set_mtu(self.mtu)?;
        let mut marks = Vec::new();
        for (at, first) in &queues.firsts {
            marks.push(program.set_socket(at.queue, 0, first.socket.as_fd(), self.ring_pkts())?);
        }
        Ok(Part { queues, program, marks, forwarder })
    }

    /// Makes an interface of a host's part, once the program is attached.
    fn finish(
        &self,
        part: Part,
        (witness, inspection): (Witness, Option<Inspection>),
        address: EthernetAddress,
        claim: Option<Arc<Claim>>,
    ) -> Result<Xdp, LinkError> {
        let fail = |source| self.fail(source);
        let Part { queues: HostQueues { awake, firsts }, mut program, marks, forwarder } = part;
        // Some drivers can do that only when they have a program.
        let offload_device = self.takes_redirected(self.buffers);
        program.answer_by(self.takes_redirected(Buffers::One))?;
        let program = Arc::new(Mutex::new(program));
        let events =
            Arc::new(epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| fail(error.into()))?);
        let status = Status::default();
        let (mut queues, mut on_queues, mut transmit) = (Vec::new(), Vec::new(), None);
        let completes = firsts.iter().any(|(_, first)| !first.zero_copy);
        let ahead = Ahead::default();
        for ((at, first), mark) in firsts.into_iter().zip(marks) {
            let First { socket, receive, transmit: ring, umem, .. } = first;
            let umem = SharedUmem::new(umem);
            on_queues.push(OnQueue { at, first: Arc::clone(&socket), umem: umem.clone() });
            let received = Received { ring: receive, umem: umem.clone(), mark };
            queues.push(Queue::new(received, Arc::clone(&socket), ahead.clone(), completes));
            transmit.get_or_insert(Transmit { ring, umem, socket, device: Arc::clone(&self.device) });
        }
        let transmit = transmit.ok_or(io::ErrorKind::NotFound).map_err(|error| fail(error.into()))?;
        let room_pkts = FILL_PKTS - self.ring_pkts() - SPARE_PKTS;
        let rings = Rings::new(
            Arc::clone(&program),
            on_queues,
            room_pkts,
            awake,
            ahead,
            completes,
            Arc::clone(&events),
        );
        // Each ring of a queue may have gathered some that the host has not taken yet.
        let gathered_pkts = match self.buffers {
            Buffers::One => 0,
            Buffers::Several => GATHERED_PKTS * SLOTS as usize * queues.len(),
        };
        let properties = Properties {
            mtu: self.mtu,
            queues: queues.len(),
            transmit_batch: CALL_PKTS,
            buffers: IN_TRANSIT_PKTS + gathered_pkts,
            offload_device,
            ..Properties::new(self.device.name(), address)
        };
        Ok(Xdp {
            index: self.index.unsigned_abs(),
            properties,
            status,
            queues,
            transmit,
            rings: (!self.options.everything).then_some(rings),
            forwarder,
            events,
            counters: KernelCounters::open(&self.device),
            program,
            witness,
            inspection,
            device: Arc::clone(&self.device),
            _claim: claim,
        })
    }

    fn sharing(&self, address: EthernetAddress) -> Sharing {
        match address == self.kernel_address {
            _ if self.options.shared => Sharing::Addresses,
            true => Sharing::Mac,
            false => Sharing::Nothing,
        }
    }

    /// Returns the device's number if programs of other devices can send frames by it that are in so many
    /// buffers.
    fn takes_redirected(&self, buffers: Buffers) -> Option<u32> {
        let index = self.index.unsigned_abs();
        takes_redirected(index, buffers).unwrap_or(false).then_some(index)
    }

    fn fail(&self, source: io::Error) -> LinkError {
        LinkError::of_device(self.device.name(), "open AF_XDP sockets on", CAPABILITIES, source)
    }

    /// Returns whether the kernel opens this queue's sockets, but none that takes frames in several chunks.
    fn lacks_several(&self, at: DeviceQueue, error: &io::Error) -> bool {
        let is_refused = matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP));
        let opens_others = || First::open(at, Buffers::One, 64, Awake::default()).is_ok();
        self.buffers == Buffers::Several && is_refused && opens_others()
    }

    /// Opens the first socket of each queue that was asked for, or of each that the device has. Hosts have
    /// the queues in turn.
    fn first_sockets(&self, hosts: usize) -> Result<Vec<HostQueues>, LinkError> {
        let mut all: Vec<_> = core::iter::repeat_with(HostQueues::default).take(hosts).collect();
        let named = &self.options.queues;
        let numbers = if named.is_empty() { &(0..QUEUES_MAX as u32).collect() } else { named };
        let mut opened = 0;
        for (&queue, host) in numbers.iter().take(QUEUES_MAX).zip((0..hosts).cycle()) {
            match self.first_socket(queue, &all[host].awake)? {
                Some(first) => all[host].firsts.push(first),
                None if named.is_empty() => break,
                None => return Err(LinkError::NoQueue { name: self.device.name().to_owned(), queue }),
            }
            opened += 1;
        }
        if opened < hosts {
            return Err(LinkError::FewQueues { name: self.device.name().to_owned(), queues: opened, hosts });
        }
        Ok(all)
    }

    /// Opens the first socket of a queue. `None` if the device has no such queue.
    fn first_socket(&self, queue: u32, awake: &Awake) -> Result<Option<(DeviceQueue, First)>, LinkError> {
        let at = DeviceQueue { index: self.index.unsigned_abs(), queue };
        match First::open(at, self.buffers, self.ring_pkts() as u32, awake.clone()) {
            Ok(first) => Ok(Some((at, first))),
            Err(error) if self.lacks_several(at, &error) => Err(LinkError::OneBuffer {
                name: self.device.name().to_owned(),
                mtu: self.mtu,
                max: Buffers::One.mtu_max(),
            }),
            // The kernel has no queue of this number.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(None),
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                Err(LinkError::LockedMemory { name: self.device.name().to_owned(), mib: mib(self.buffers) })
            }
            Err(error) => Err(self.fail(error)),
        }
    }
}

impl TxQueue for Xdp {
    fn transmit(&mut self, frames: &mut VecDeque<Frame>, pool: &mut Pool) -> usize {
        self.transmit.send(frames, pool, &self.status)
    }
}

impl Interface for Xdp {
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

    fn set_readable(&mut self, number: usize) {
        match number {
            EVENTS => self.forget_events(),
            WITNESS => self.keep_attached(),
            INSPECTION => self.inspect(),
            _ => {}
        }
    }

    fn dropped(&self) -> Vec<(Reason, u64)> {
        self.lock_program().dropped()
    }

    fn demultiplexer(&mut self) -> Option<Box<dyn Demultiplexer>> {
        Some(Box::new(self.rings.take()?))
    }

    fn offload(&mut self) -> Option<Box<dyn Offload>> {
        Some(Box::new(self.forwarder.take()?))
    }
}

impl Xdp {
    fn lock_program(&self) -> MutexGuard<'_, Program> {
        self.program.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Attaches the program again if the witness has seen that it may be detached.
    fn keep_attached(&mut self) {
        if self.witness.set_readable(&self.device, &self.status) {
            self.attach_again();
        }
    }

    /// Attaches the program again if the device, which is there, has it no longer.
    fn inspect(&mut self) {
        if !self.inspection.as_ref().is_some_and(Inspection::is_due) {
            return;
        }
        let Ok(at_device) = xdp_program(self.index) else { return };
        if self.lock_program().is_detached(at_device) {
            self.attach_again();
        }
    }

    fn attach_again(&mut self) {
        let attached = self.lock_program().attach(self.device.name());
        self.witness.record_attempt(attached.is_ok(), &self.status);
    }

    /// Takes what the rings of channels have reported. Which they are shows in memory.
    fn forget_events(&self) {
        const EVENTS_PER_CALL: usize = 64;
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut events = Vec::with_capacity(EVENTS_PER_CALL);
        loop {
            events.clear();
            let room = rustix::buffer::spare_capacity(&mut events);
            let got = epoll::wait(&self.events, room, Some(&now));
            if !got.is_ok_and(|got| got == EVENTS_PER_CALL) {
                return;
            }
        }
    }
}

impl Device for Xdp {
    fn info(&self) -> DeviceInfo {
        let descriptors = Descriptors::new(self.queues.iter().map(|queue| Arc::clone(queue.socket())));
        descriptors.insert(EVENTS, Arc::clone(&self.events));
        descriptors.insert(WITNESS, Arc::clone(self.witness.socket()));
        if let Some(inspection) = &self.inspection {
            descriptors.insert(INSPECTION, Arc::clone(inspection.timer()));
        }
        let program = Arc::downgrade(&self.program);
        DeviceInfo {
            descriptors,
            rings_in_memory: true,
            status: self.status.clone(),
            kernel_counters: Some(self.counters.clone()),
            index: Some(self.index),
            frames: Frames::of_device(self.device.name(), self.index, LinkType::ETHERNET),
            program: AttachedProgram::new(move || {
                if let Some(program) = program.upgrade() {
                    program.lock().unwrap_or_else(PoisonError::into_inner).detach();
                }
            }),
        }
    }
}
