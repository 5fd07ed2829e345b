//! What a host knows of its connections, beside what their endpoint knows.

use std::collections::{BTreeMap, VecDeque};

use crate::config::Config;
use crate::id::{ChannelId, ProcessId, SocketId};
use crate::stack::FirstHop;
use crate::tcp::endpoint::ListenAt;
use crate::tcp::table::Id;
use crate::tcp::{self, Secret};
use crate::time::Instant;

/// All connections of a host.
pub(crate) type Endpoint = tcp::Endpoint<FirstHop>;

/// TCP of a host.
#[derive(Debug)]
pub(crate) struct Tcp {
    pub(crate) endpoint: Endpoint,
    /// What the host knows of each connection, by its place in the endpoint's table.
    pub(super) owners: Vec<Option<Stored>>,
    /// Sockets that listen.
    pub(super) listeners: BTreeMap<ListenAt, SocketId>,
    /// Those whose SYNs wait in their channel until there is room in the accept queue.
    pub(super) stopped: Vec<SocketId>,
    /// There may be segments to send, or something to tell.
    pub(super) pending: bool,
    /// When the endpoint next has something to do, as it last said; or, unless that is `exact`, somewhat
    /// earlier.
    deadline: Instant,
    exact: bool,
    /// When the next paced segment may leave: a part of `deadline`, and as exact.
    paced: Instant,
    /// For so many units they have waited for a program to have its turn.
    pub(super) held: u8,
    /// Of each process.
    pub(super) processing: Vec<Processing>,
    /// Processes that have segments to process, and have to be told.
    pub(crate) called: Vec<ProcessId>,
    /// Channels of connections that hold nothing at the moment.
    pub(super) free_list: FreeList,
}

/// Whose a connection is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner {
    pub(super) id: Id,
    /// Who processes its segments: its user, also when it is closed, or its listener's.
    pub(super) process: Option<ProcessId>,
    /// The descriptor, as long as somebody has it open.
    pub(super) socket: Option<SocketId>,
    /// Its channel, while that holds segments, or is on an adaptor.
    pub(super) channel: Option<ChannelId>,
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
            free_list: FreeList::default(),
        }
    }

    /// Whether anybody listens, or there are connections.
    pub(in crate::net) fn is_used(&self) -> bool {
        !self.listeners.is_empty() || !self.endpoint.is_empty()
    }

    /// Whether there may be segments to send, or something to tell.
    #[inline]
    pub(crate) const fn is_pending(&self) -> bool {
        self.pending
    }

    /// When it next has something to do, though nothing comes; perhaps somewhat earlier, until that
    /// [is settled](Self::settle_deadline).
    #[inline]
    pub(in crate::net) const fn next_deadline(&self) -> Instant {
        self.deadline
    }

    /// When the next paced segment may leave, as exactly.
    #[inline]
    pub(in crate::net) const fn next_paced(&self) -> Instant {
        self.paced
    }

    /// What there is to send has left. Who is busy need not know exactly what is due next.
    pub(super) fn look_ahead(&mut self) {
        self.deadline = self.endpoint.not_before().unwrap_or(Instant::NEVER);
        self.exact = self.deadline == Instant::NEVER;
        self.paced = self.endpoint.paced_not_before().unwrap_or(Instant::NEVER);
    }

    /// Nothing is due before what there is to send has left.
    pub(super) const fn nothing_due(&mut self) {
        (self.deadline, self.exact, self.paced) = (Instant::NEVER, true, Instant::NEVER);
    }

    /// From now on [`Tcp::next_deadline`] is exact, as long as nothing happens.
    #[inline]
    pub(in crate::net) fn settle_deadline(&mut self) {
        if !self.exact {
            self.deadline = self.endpoint.next_deadline().unwrap_or(Instant::NEVER);
            self.paced = self.endpoint.next_paced().unwrap_or(Instant::NEVER);
            self.exact = true;
        }
    }

    /// The SYNs of a listener wait until there is room in its accept queue.
    pub(super) fn stop(&mut self, listener: SocketId) {
        if !self.stopped.contains(&listener) {
            self.stopped.push(listener);
        }
    }

    /// What is known of a connection, if its place has had no other since.
    pub(super) fn owner(&self, id: Id) -> Option<Owner> {
        self.owners.get(id.index() as usize)?.filter(|stored| stored.id == id).map(Stored::read)
    }

    pub(super) fn set_owner(&mut self, owner: Owner) {
        let place = owner.id.index() as usize;
        if place >= self.owners.len() {
            self.owners.resize(place + 1, None);
        }
        if let Some(slot) = self.owners.get_mut(place) {
            *slot = Some(Stored::of(owner));
        }
    }

    /// From now on its channel is this one, or none, if anything is known of a connection.
    pub(super) fn set_channel(&mut self, id: Id, channel: Option<ChannelId>) {
        if let Some(Some(stored)) = self.owners.get_mut(id.index() as usize)
            && stored.id == id
        {
            stored.channel = channel.map_or(Stored::NONE, |channel| channel.0);
        }
    }

    /// Changes what is known of a connection, if anything is.
    pub(super) fn change_owner(&mut self, id: Id, change: impl FnOnce(&mut Owner)) {
        if let Some(mut owner) = self.owner(id) {
            change(&mut owner);
            self.set_owner(owner);
        }
    }
}

/// An [`Owner`] in 20 bytes: there may be very many.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stored {
    id: Id,
    process: u32,
    socket: u32,
    channel: u32,
}

impl Stored {
    /// There is none.
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

/// The protocol processing that a process has to do.
#[derive(Debug, Default)]
pub(super) struct Processing {
    /// Channels with segments, served round robin.
    pub(super) active: VecDeque<ChannelId>,
    /// The process has ended.
    pub(super) ended: bool,
}

/// Channels that connections take when segments come for them, and give back empty.
#[derive(Debug, Default)]
pub(super) struct FreeList {
    pub(super) channels: Vec<ChannelId>,
    /// Those that have rings on adaptors.
    pub(super) ringed: Vec<ChannelId>,
    /// Buffers reserved for all channels of connections together.
    pub(super) reserved: usize,
    /// Of these, how many hold a segment.
    pub(super) queued: usize,
    /// On adaptors: how many channels were made.
    pub(super) rings: usize,
    /// The one of all connections in TIME-WAIT.
    pub(super) time_wait: Option<ChannelId>,
}
