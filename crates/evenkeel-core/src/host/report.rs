//! Counters, bills and deadlines of a host.

use super::run::Host;
use super::work_item::Level;
use crate::capture::CaptureCounters;
use crate::channel;
use crate::deadline::Deadline;
use crate::id::{Fd, InterfaceId, ProcessId, SocketId};
use crate::ledger::{Imbalance, Ledger};
use crate::link::{Traffic, Untaken};
use crate::offload::FlowHits;
use crate::poll::Resumes;
use crate::process::Bill;
use crate::socket::{self, Descriptor, SocketReport};
use crate::stack::FirstHop;
use crate::tcp::{self};
use crate::time::{Duration, Instant};

impl Host {
    /// Returns an iterator over all deadlines, in no particular order. An item is the part or process that
    /// waits, its name in reports, and its time.
    pub fn deadlines(&self) -> impl Iterator<Item = (Deadline, &str, Instant)> {
        let mut parts = Vec::new();
        self.each_deadline(|who, deadline| parts.push((who, who.name(), deadline)));
        let processes = self.sleepers.iter().map(|(id, deadline)| {
            let name = self.process(id).map(|process| process.name.as_str());
            let who = Deadline::Process(id);
            (who, name.unwrap_or(who.name()), deadline)
        });
        parts.into_iter().filter(|&(_, _, deadline)| deadline != Instant::NEVER).chain(processes)
    }

    /// Returns the ledger, whose counters say what became of every frame.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.net.ledger
    }

    /// Checks that the ledger balances, so that every frame is accounted for.
    ///
    /// # Errors
    /// [`Imbalance`] if it does not balance, which is a bug of the host.
    pub fn check(&self) -> Result<(), Imbalance> {
        self.net.ledger.check(self.net.queued(), self.held())
    }

    /// Returns the number of outgoing frames that wait for a neighbour's address or in an output queue.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.net.stack.held() + self.net.links.output_queued()
    }

    /// Returns the number of frames that are queued in the receive direction.
    #[must_use]
    pub fn queued(&self) -> u64 {
        self.net.queued()
    }

    /// Returns the number of frames in the transmit direction. They wait for a neighbour's address or in an
    /// output queue, or have left and their buffers were not reclaimed yet.
    #[must_use]
    pub fn waiting_to_leave(&self) -> u64 {
        self.held() + self.net.links.unreclaimed()
    }

    /// Returns the frame counters of an interface.
    #[must_use]
    pub fn traffic(&self, interface: InterfaceId) -> Option<Traffic> {
        self.net.links.traffic(interface)
    }

    /// Returns the frames that came to an interface and that the host has not taken. May take system calls.
    #[must_use]
    pub fn untaken(&self, interface: InterfaceId) -> Untaken {
        let mut untaken = self.net.links.untaken(interface);
        self.net.rx.channels.rings_on(interface).for_each(|ring| untaken.add_channel_ring(ring));
        untaken.forwarded = self.net.offloads.forwarded(interface);
        untaken.refused = self.net.offloads.refused(interface);
        untaken
    }

    /// Calls `hit` with the packets of flows that interfaces have forwarded or dropped by themselves since the
    /// last call, by the account that [`Screened::settle`](crate::stack::Screened::settle) named.
    pub fn take_flow_hits(&mut self, hit: &mut dyn FnMut(u16, FlowHits)) {
        self.net.offloads.each_hit(hit);
    }

    /// Returns the counters of messages that change how the host sends, and that it processed ahead of frames
    /// that came after them. They also count how often the host did not do so, because too many messages had
    /// come.
    #[must_use]
    pub fn ahead_counters(&self) -> channel::AheadCounters {
        self.net.rx.ahead.counters
    }

    /// Returns the number of packets that wait for the process that screens.
    #[must_use]
    pub fn waiting_for_verdict(&self) -> u64 {
        self.net.sockets.waiting_for_verdict(&self.net.rx.channels)
    }

    /// Returns the number of device interrupts taken.
    #[must_use]
    pub fn interrupts(&self) -> u64 {
        self.net.links.interrupts()
    }

    /// Returns the number of frames that one callback of the polling thread may take now. It is `usize::MAX`
    /// without a quota.
    #[must_use]
    pub fn quota_pkts(&self) -> usize {
        self.net.poller.quota_pkts()
    }

    /// Returns the number of frames in the receive rings of the interfaces. The host has not taken them yet,
    /// so the ledger does not count them.
    #[must_use]
    pub fn in_rings(&self) -> u64 {
        self.net.in_rings()
    }

    /// Returns the number of frames that receive rings have and hide for a few milliseconds
    /// ([`crate::interface::RxCounters::buffered`]).
    #[must_use]
    pub fn buffered(&self) -> u64 {
        self.net.links.buffered()
    }

    /// Returns the CPU time spent at a level.
    #[must_use]
    pub fn cpu(&self, level: Level) -> Duration {
        self.cpu[level as usize]
    }

    /// Returns the CPU time of a process; `None` once it has ended.
    #[must_use]
    pub fn bill(&self, process: ProcessId) -> Option<Bill> {
        Some(self.process(process)?.bill)
    }

    /// Returns an iterator over the living processes, including daemons. An item is an identifier, a name and
    /// a bill.
    pub fn processes(&self) -> impl Iterator<Item = (ProcessId, &str, Bill)> {
        let all = self.processes.iter().enumerate();
        all.filter_map(|(i, p)| p.as_ref().map(|p| (ProcessId(i as u32), p.name.as_str(), p.bill)))
    }

    /// Returns the counters of a UDP socket or of the screening queue; `None` for another object.
    #[must_use]
    pub fn socket_counters(&self, socket: SocketId) -> Option<socket::SocketCounters> {
        match self.net.sockets.descriptors.get(socket)? {
            Descriptor::Udp(socket) => Some(socket.counters),
            Descriptor::Screen(screen) => Some(screen.counters),
            _ => None,
        }
    }

    /// Returns an iterator over the reports of all sockets that have a queue of their own: UDP sockets,
    /// listeners, the screening queue and capture queues. Visits every descriptor of the host.
    pub fn socket_reports(&self) -> impl Iterator<Item = SocketReport> {
        let all = self.net.sockets.descriptors.iter();
        all.filter_map(|(id, descriptor)| descriptor.report(id, &self.net.rx.channels))
    }

    /// Returns the socket that a descriptor of a process refers to, for use with the host's other queries.
    #[must_use]
    pub fn socket_of(&self, process: ProcessId, fd: Fd) -> Option<SocketId> {
        self.net.sockets.ready.resolve(process, fd)
    }

    /// Returns the number of items that wait in a queue that a process reads: datagrams, packets to be
    /// screened, captured frames.
    #[must_use]
    pub fn waiting_in(&self, socket: SocketId) -> Option<usize> {
        Some(self.net.sockets.descriptors.get(socket)?.len())
    }

    /// Returns the counters of a capture queue.
    #[must_use]
    pub fn capture_counters(&self, capture: SocketId) -> Option<CaptureCounters> {
        self.net.sockets.capture_counters(capture)
    }

    /// Returns the counters of a socket's own channel. For a listener, this is the channel of its SYNs.
    #[must_use]
    pub fn channel_counters(&self, socket: SocketId) -> Option<channel::ChannelCounters> {
        let own = match self.net.sockets.descriptors.get(socket)? {
            Descriptor::Udp(socket) => socket.channels.first()?.0,
            Descriptor::Listener(listener) => listener.syns?,
            _ => return None,
        };
        Some(self.net.rx.channels.get(own)?.counters())
    }

    /// Returns the number of channels, including empty ones that wait to be reused.
    #[must_use]
    pub fn channel_count(&self) -> usize {
        self.net.rx.channels.len()
    }

    /// Returns TCP's counters for the whole host.
    #[must_use]
    pub fn tcp_counters(&self) -> &tcp::Counters {
        self.net.tcp.endpoint.counters()
    }

    /// Returns the TCP endpoint of this host, for inspection of its connections.
    #[must_use]
    pub fn tcp(&self) -> &tcp::Endpoint<FirstHop> {
        &self.net.tcp.endpoint
    }

    /// Returns the process that owns a connection, and the connection's socket if it is open.
    #[must_use]
    pub fn owner_of(&self, connection: tcp::table::Id) -> (Option<ProcessId>, Option<SocketId>) {
        self.net.tcp.owner_of(connection)
    }

    /// Returns the number of segments that wait in the channels of connections.
    #[must_use]
    pub fn segments_waiting(&self) -> usize {
        self.net.tcp.segments.held_pkts()
    }

    /// Returns the sockets of a process.
    #[must_use]
    pub fn sockets_of(&self, process: ProcessId) -> Vec<SocketId> {
        self.net.sockets.descriptors.of(process).collect::<Vec<_>>()
    }

    /// Returns the counts of the reasons why the polling thread resumed input.
    #[must_use]
    pub fn resumes(&self) -> Resumes {
        self.net.poller.resumes()
    }

    /// Returns the number of free frame buffers, and the number of all reserved ones.
    #[must_use]
    pub fn pool(&self) -> (usize, usize) {
        (self.net.pool.available(), self.net.pool.capacity())
    }
}
