//! The state that a host keeps of its connections, in addition to their endpoint's.

use std::collections::BTreeMap;

use super::segment_channels::{Processing, SegmentChannels};
use crate::config::Config;
use crate::id::{ChannelId, ProcessId, SocketId};
use crate::stack::FirstHop;
use crate::tcp::endpoint::ListenAt;
use crate::tcp::table::Id;
use crate::tcp::{self, FourTuple, Secret};
use crate::time::Instant;

/// Units that segments wait for a program to have its turn: it has to be soon, or they are better sent now.
const UNITS_HELD_MAX: u8 = 8;

/// All connections of a host.
pub(crate) type Endpoint = tcp::Endpoint<FirstHop>;

/// TCP of a host.
#[derive(Debug)]
pub(crate) struct Tcp {
    pub(crate) endpoint: Endpoint,
    /// The owner of each connection, by the connection's index in the endpoint's table.
    pub(crate) owners: Vec<Option<Stored>>,
    /// Sockets that listen.
    pub(crate) listeners: BTreeMap<ListenAt, Listening>,
    /// Those whose SYNs wait in their channel until there is room in the accept queue.
    pub(crate) stopped: Vec<SocketId>,
    /// Whether there may be segments to send, or events to report.
    pub(crate) pending: bool,
    /// The endpoint's next deadline. Unless `exact`, it may be somewhat earlier than the true one.
    deadline: Instant,
    exact: bool,
    /// The time when the next paced segment may leave. It is included in `deadline`, and exact when that
    /// is.
    paced: Instant,
    /// For so many units they have waited for a program to have its turn.
    pub(crate) held: u8,
    /// Of each process.
    pub(crate) processing: Vec<Processing>,
    /// Processes that have segments to process, and must be notified.
    pub(crate) called: Vec<ProcessId>,
    /// The channels in which segments wait.
    pub(crate) segments: SegmentChannels,
}

/// Whose a listener is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Listening {
    pub(crate) socket: SocketId,
    pub(crate) owner: ProcessId,
}

/// Whose a connection is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owner {
    pub(crate) id: Id,
    /// The process that processes the connection's segments: its user, even after a close, or its
    /// listener's.
    pub(crate) process: Option<ProcessId>,
    /// The connection's descriptor, as long as a program has it open.
    pub(crate) socket: Option<SocketId>,
    /// Its channel, while that holds segments, or is on an adaptor.
    pub(crate) channel: Option<ChannelId>,
}

impl Tcp {
    pub(crate) fn new(config: &Config) -> Self {
        let secret = config.secret.unwrap_or_else(|| Secret::of_seed(config.seed));
        Self {
            endpoint: Endpoint::new(config.tcp.clone(), secret),
            owners: Vec::new(),
            listeners: BTreeMap::new(),
            stopped: Vec::new(),
            pending: false,
            deadline: Instant::NEVER,
            exact: true,
            paced: Instant::NEVER,
            held: 0,
            processing: Vec::new(),
            called: Vec::new(),
            segments: SegmentChannels::new(config),
        }
    }

    /// Returns whether any socket listens, or there are connections.
    pub(crate) fn is_used(&self) -> bool {
        !self.listeners.is_empty() || !self.endpoint.is_empty()
    }

    /// Returns whether there may be segments to send, or events to report.
    #[inline]
    pub(crate) const fn is_pending(&self) -> bool {
        self.pending
    }

    /// Returns the next deadline of TCP. It may be somewhat earlier than the true one until it [is
    /// settled](Self::settle_deadline).
    #[inline]
    pub(crate) const fn next_deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns when the next paced segment may leave. It may be early until [`Tcp::settle_deadline`].
    #[inline]
    pub(crate) const fn next_paced(&self) -> Instant {
        self.paced
    }

    /// Computes a lower bound of the next deadline, after the pending segments have left. A busy core need
    /// not know the exact deadline.
    pub(crate) fn look_ahead(&mut self) {
        self.deadline = self.endpoint.not_before().unwrap_or(Instant::NEVER);
        self.exact = self.deadline == Instant::NEVER;
        self.paced = self.endpoint.paced_not_before().unwrap_or(Instant::NEVER);
    }

    /// Records that nothing is due before the pending segments have left.
    pub(crate) const fn nothing_due(&mut self) {
        (self.deadline, self.exact, self.paced) = (Instant::NEVER, true, Instant::NEVER);
    }

    /// Makes [`Tcp::next_deadline`] exact from now on, as long as nothing happens.
    #[inline]
    pub(crate) fn settle_deadline(&mut self) {
        if !self.exact {
            self.deadline = self.endpoint.next_deadline().unwrap_or(Instant::NEVER);
            self.paced = self.endpoint.next_paced().unwrap_or(Instant::NEVER);
            self.exact = true;
        }
    }

    /// Defers the waiting segments by one more work item, at most [`UNITS_HELD_MAX`]: they may leave
    /// together with data that a program adds.
    pub(crate) const fn hold_segments(&mut self) {
        self.held += 1;
    }

    pub(crate) const fn holds_segments(&self) -> bool {
        self.held > 0
    }

    /// Returns whether the waiting segments may be deferred once more.
    pub(crate) const fn may_hold_segments(&self) -> bool {
        self.held < UNITS_HELD_MAX
    }

    /// Returns whether a segment opens a connection for which its listener has no room: what the control
    /// experiment of early demultiplexing discards. A connection without room still takes acknowledgments,
    /// windows and resets, and answers probes of its own window (RFC 9293, 3.10.7.4).
    pub(crate) fn is_segment_unwelcome(&self, tuple: &FourTuple, opens: bool) -> bool {
        let endpoint = &self.endpoint;
        opens
            && endpoint.find(tuple).is_none()
            && endpoint.listener_for(&tuple.local).is_some_and(|at| !endpoint.accepts(&at))
    }

    /// Makes every deadline exact, if one seems due at `now`. Deadlines stay exact as long as nothing
    /// happens.
    #[inline]
    pub(crate) fn settle_due(&mut self, now: Instant) {
        if self.deadline <= now {
            self.settle_deadline();
        }
    }

    /// Has the endpoint do what is due: retransmissions, delayed acknowledgments and the like. The end of the
    /// unit says what is next.
    pub(crate) fn advance(&mut self, now: Instant) {
        self.endpoint.advance(now);
        self.pending = true;
        // What is due next is known when what there is to send has left.
        self.nothing_due();
    }

    /// Removes a listener that is closed.
    pub(crate) fn forget_listener(&mut self, socket: SocketId, at: &ListenAt) {
        self.listeners.remove(at);
        self.stopped.retain(|&other| other != socket);
        self.endpoint.unlisten(at);
        self.pending = true;
    }

    /// Defers the SYNs of a listener until there is room in its accept queue.
    pub(crate) fn stop(&mut self, listener: SocketId) {
        if !self.stopped.contains(&listener) {
            self.stopped.push(listener);
        }
    }

    /// Returns the owner of a connection; `None` if another connection has taken its index since.
    pub(crate) fn owner(&self, id: Id) -> Option<Owner> {
        self.owners.get(id.index() as usize)?.filter(|stored| stored.id == id).map(Stored::read)
    }

    pub(crate) fn set_owner(&mut self, owner: Owner) {
        let place = owner.id.index() as usize;
        if place >= self.owners.len() {
            self.owners.resize(place + 1, None);
        }
        if let Some(slot) = self.owners.get_mut(place) {
            *slot = Some(Stored::of(owner));
        }
    }

    /// Sets the channel of a connection, or none, if the connection has an owner.
    pub(crate) fn set_channel(&mut self, id: Id, channel: Option<ChannelId>) {
        if let Some(Some(stored)) = self.owners.get_mut(id.index() as usize)
            && stored.id == id
        {
            stored.channel = channel.map_or(Stored::NONE, |channel| channel.0);
        }
    }

    /// Changes what is known of a connection, if anything is.
    pub(crate) fn change_owner(&mut self, id: Id, change: impl FnOnce(&mut Owner)) {
        if let Some(mut owner) = self.owner(id) {
            change(&mut owner);
            self.set_owner(owner);
        }
    }
}

/// An [`Owner`] in 20 bytes: there may be very many.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stored {
    id: Id,
    process: u32,
    socket: u32,
    channel: u32,
}

impl Stored {
    /// The number that stands for no value.
    const NONE: u32 = u32::MAX;

    fn of(owner: Owner) -> Self {
        Self {
            id: owner.id,
            process: owner.process.map_or(Self::NONE, |process| process.0),
            socket: owner.socket.map_or(Self::NONE, |socket| socket.0),
            channel: owner.channel.map_or(Self::NONE, |channel| channel.0),
        }
    }

    fn read(self) -> Owner {
        let some = |number: u32| (number != Self::NONE).then_some(number);
        Owner {
            id: self.id,
            process: some(self.process).map(ProcessId),
            socket: some(self.socket).map(SocketId),
            channel: some(self.channel).map(ChannelId),
        }
    }
}
