//! Descriptors open and close; the queues of datagrams in front of sockets.

use evenkeel_timers::Timers;

use super::descriptors::DescriptorTable;
use super::senders::BlockedSenders;
use crate::config::Config;
use crate::context::Cx;
use crate::drop::QueueDrop;
use crate::error::{PeerError, TooManyOpen};
use crate::id::{ProcessId, QueueId, SocketId};
use crate::poll::Sources;
use crate::ready::{Kinds, ReadyTable};
use crate::socket::Descriptor;
use crate::stack::{Datagram, TakesDatagrams};
use crate::tcp::FourTuple;
use crate::time::Instant;
use crate::work::{Work, WorkLog};

/// The descriptors of all programs of a host, and what stands behind them.
#[derive(Debug)]
pub(crate) struct Sockets {
    pub(crate) descriptors: DescriptorTable,
    pub(crate) ready: ReadyTable,
    /// The timers that programs have opened.
    pub(super) timers: Timers<SocketId>,
    pub(crate) senders: BlockedSenders,
    /// The queue that a process read last in the step that runs.
    pub(crate) last_read: Option<SocketId>,
    /// Whether a process has asked for screening: from then on nothing passes unscreened.
    pub(crate) screened: bool,
}

impl Sockets {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            descriptors: DescriptorTable::new(),
            ready: ReadyTable::new(config.select, config.allocation, config.descriptors_max),
            timers: Timers::new(),
            senders: BlockedSenders::new(),
            last_read: None,
            screened: false,
        }
    }

    /// Opens a descriptor: the lowest free number of its owner refers to it.
    pub(crate) fn install(
        &mut self,
        descriptor: Descriptor,
        work: &mut WorkLog,
    ) -> Result<SocketId, TooManyOpen> {
        let owner = descriptor.owner();
        let id = self.reserve(owner, matches!(descriptor, Descriptor::Queue(_)), work)?;
        self.descriptors.insert(descriptor);
        Ok(id)
    }

    /// Reserves the lowest free number of `owner` for the next descriptor to be inserted.
    pub(crate) fn reserve(
        &mut self,
        owner: Option<ProcessId>,
        is_queue: bool,
        work: &mut WorkLog,
    ) -> Result<SocketId, TooManyOpen> {
        let id = self.descriptors.vacant();
        let looks = owner.map(|owner| (owner, self.ready.looks(owner)));
        match owner {
            Some(owner) if is_queue => self.ready.open_queue(id, owner)?,
            owner => self.ready.open(id, owner)?,
        }
        if let Some((owner, looks)) = looks {
            self.count_looks(owner, looks, work);
        }
        Ok(id)
    }

    /// Counts the work of finding a free descriptor number: the table look-ups of `process` since their
    /// number was `before`.
    pub(super) fn count_looks(&self, process: ProcessId, before: u64, work: &mut WorkLog) {
        let looks = self.ready.looks(process).saturating_sub(before);
        work.add_times(Work::NumberLook, u32::try_from(looks).unwrap_or(u32::MAX));
    }

    /// Takes a descriptor out; its place is free.
    pub(crate) fn remove(&mut self, id: SocketId) -> Option<Descriptor> {
        let descriptor = self.descriptors.remove(id)?;
        self.ready.retire(id);
        Some(descriptor)
    }

    /// Notifies the senders that find enough buffers free.
    pub(crate) fn unblock_senders(&mut self, available: usize) {
        let Self { senders, descriptors, ready, .. } = self;
        senders.unblock(available, descriptors, ready);
    }

    /// Returns when the next timer of a program expires.
    #[inline]
    pub(crate) fn next_timer(&self) -> Instant {
        self.timers.next_deadline()
    }

    /// Appends a datagram to the queue of a socket, or drops it if that is full. A full queue pauses
    /// `sources`. Gives back a datagram that the socket does not take.
    #[inline]
    pub(crate) fn append(
        &mut self,
        id: SocketId,
        datagram: Datagram,
        sources: Sources,
        cx: &mut Cx<'_>,
    ) -> Option<Datagram> {
        cx.work.add(Work::Append);
        let socket = match self.descriptors.udp_mut(id) {
            Some(socket) if socket.takes(&datagram) => socket,
            _ => return Some(datagram),
        };
        if !socket.ready.has_room() {
            socket.counters.dropped += 1;
            cx.ledger.drop_input(QueueDrop::Socket, datagram.frames());
            datagram.recycle(cx.pool);
        } else {
            socket.ready.push(datagram);
            self.ready.raise(id, Kinds::READABLE);
        }
        let (gate, waiting) = socket.ready.gate();
        cx.poller.enqueued(QueueId::Socket(id), gate, waiting, sources, cx.now);
        None
    }

    /// Records an ICMP error about a datagram between the ends of `quoted`, if the socket may have sent it.
    /// Whoever waits for the socket is woken.
    pub(crate) fn fail(&mut self, id: SocketId, quoted: &FourTuple, error: PeerError) {
        let socket = self.descriptors.udp_mut(id).filter(|socket| socket.may_have_sent(quoted));
        let Some(socket) = socket else { return };
        socket.error = Some(error);
        self.ready.raise(id, Kinds::READABLE.union(Kinds::WRITABLE).union(Kinds::ERROR));
    }

    /// Returns the error of a socket that no call has reported yet, and forgets it.
    #[cold]
    pub(crate) fn take_error(&mut self, id: SocketId) -> Option<PeerError> {
        self.descriptors.udp_mut(id)?.error.take()
    }

    /// Hands over what waits in the queue of a socket, unless an error of the socket waits to be reported
    /// first. Returns whether none does.
    #[inline]
    pub(crate) fn take_ready(&mut self, id: SocketId, to: &mut impl TakesDatagrams, cx: &mut Cx<'_>) -> bool {
        let Some(socket) = self.descriptors.udp_mut(id) else { return true };
        if socket.error.is_some() {
            return false;
        }
        while to.has_room()
            && let Some((datagram, resume)) = socket.ready.pop()
        {
            socket.counters.received += 1;
            cx.ledger.delivered += datagram.frames();
            cx.work.add(Work::Deliver);
            to.put(datagram);
            if resume {
                cx.poller.resume(QueueId::Socket(id));
            }
        }
        true
    }
}
