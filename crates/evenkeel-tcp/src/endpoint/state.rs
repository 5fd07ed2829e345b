//! The state of an endpoint: its connections, and the owners of all that stands beside them.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::net::IpAddr;

use super::super::connection::{Config, Connection, Open};
use super::super::counters::Counters;
use super::super::isn::InitialSequence;
use super::super::known::Records;
use super::super::secret::Secret;
use super::super::seq::SeqNumber;
use super::super::table::{Id, Table};
use super::super::time_wait::TimeWait;
use super::super::tuple::FourTuple;
use super::answers::Answers;
use super::config::EndpointConfig;
use super::deadlines::Deadlines;
use super::destinations::Destinations;
use super::entry::{Entry, Holder};
use super::ephemeral::{Places, Taken};
use super::event::EndpointEvent;
use super::holes::Holes;
use super::listeners::{ListenerId, Listeners};
use super::memory::Memory;
use super::ports::Ports;
use super::send_queue::SendQueue;
use crate::time::Instant;

/// The state of an endpoint.
pub(super) struct EndpointState<R> {
    pub(super) config: EndpointConfig,
    pub(super) secret: Secret,
    pub(super) numbers: InitialSequence,
    pub(super) connections: Table<Entry<R>>,
    pub(super) deadlines: Deadlines,
    pub(super) time_wait: TimeWait,
    pub(super) listeners: Listeners,
    pub(super) send_queue: SendQueue,
    pub(super) answers: Answers,
    /// The events of which the user is to be notified; each connection is in it once.
    pub(super) events: VecDeque<EndpointEvent>,
    pub(super) destinations: Destinations,
    pub(super) memory: Memory,
    /// The upper limit in bytes of each connection's receive buffer.
    pub(super) receive_buffer_most: usize,
    pub(super) holes: Holes,
    pub(super) ports: Ports,
    /// Connections that are over, for [`Endpoint::poll_ended`](super::Endpoint::poll_ended); `None` unless
    /// the user asked for them.
    pub(super) ended: Option<VecDeque<(Id, FourTuple)>>,
    /// Whether segments of no connection are left to other hosts.
    pub(super) leaves_strays: bool,
    /// The devices that know between which ends there is state.
    pub(super) records: Records,
    pub(super) counters: Counters,
}

impl<R: Copy> EndpointState<R> {
    pub(super) fn new(config: EndpointConfig, secret: Secret) -> Self {
        let numbers = InitialSequence::new(secret);
        Self {
            secret,
            numbers,
            connections: Table::new(secret, config.connections),
            deadlines: Deadlines::new(),
            time_wait: TimeWait::new(config.time_wait, secret, numbers),
            listeners: Listeners::default(),
            send_queue: SendQueue::default(),
            answers: Answers::new(&config, secret),
            events: VecDeque::new(),
            destinations: Destinations::new(secret),
            memory: Memory::new(config.buffers),
            receive_buffer_most: usize::MAX,
            holes: Holes::default(),
            ports: Ports::default(),
            ended: None,
            leaves_strays: false,
            records: Records::new(),
            counters: Counters::new(),
            config,
        }
    }

    /// Returns `options` with the limit on receive buffers applied.
    pub(super) fn bounded(&self, options: &Arc<Config>) -> Arc<Config> {
        let most = self.receive_buffer_most;
        let mut options = Arc::clone(options);
        if options.receive_buffer_max.max(options.receive_buffer_initial) > most {
            let limited = Arc::make_mut(&mut options);
            limited.receive_buffer_max = limited.receive_buffer_max.min(most);
            limited.receive_buffer_initial = limited.receive_buffer_initial.min(most);
        }
        options
    }

    /// Returns the addresses and ports that are taken, to choose others.
    pub(super) const fn places(&mut self) -> Places<'_, R> {
        let Self { ports, config, secret, connections, time_wait, listeners, .. } = self;
        let taken = Taken { connections, time_wait, listeners };
        Places { ports, range: &config.ports, secret: *secret, taken }
    }

    /// Returns the parameters of a connection that is opened actively.
    pub(super) fn open(&self, tuple: &FourTuple, mss: u16, iss: SeqNumber) -> Open {
        Open {
            local_port: tuple.local.port,
            remote_port: tuple.remote.port,
            ipv6: matches!(tuple.remote.addr, IpAddr::V6(_)),
            mss,
            iss,
            // The offset is that of answers by listeners and TIME-WAIT in place of the connection.
            timestamp_offset: self.numbers.timestamp_offset(tuple),
        }
    }

    /// Returns a connection for a call on it, after setting its memory allowance.
    /// [`touch`](Self::touch) must follow.
    pub(super) fn entry(&mut self, id: Id) -> Option<&mut Entry<R>> {
        let entry = self.connections.get_mut(id)?;
        entry.connection.set_allowance(self.memory.allowance());
        Some(entry)
    }

    /// Calls a connection, and updates all records of it.
    pub(super) fn call<T>(&mut self, id: Id, call: impl FnOnce(&mut Connection) -> T) -> Option<T> {
        let result = call(&mut self.entry(id)?.connection);
        self.touch(id);
        Some(result)
    }

    /// Updates all records of a connection after something has happened to it. Queues it to send, and
    /// notifies the user if it is ready for more than before.
    pub(super) fn touch(&mut self, id: Id) {
        let Some(entry) = self.connections.get_mut(id) else { return };
        if !core::mem::replace(&mut entry.is_queued, true) {
            self.send_queue.push(id);
        }
        entry.count(&mut self.counters);
        entry.account(id, &mut self.memory, &mut self.counters);
        self.holes.add(id, entry);
        if let Some(ready) = entry.notify() {
            self.events.push_back(EndpointEvent::Connection(id, ready));
        }
        let over = !entry.is_open();
        self.holes.trim(&mut self.connections, &mut self.memory, &mut self.counters);
        if over {
            self.unhash(id);
        }
    }

    /// Updates the records of a connection after the user has only read or written. It does less than
    /// [`touch`](Self::touch): there is less to read, or less room to write, of which the user need not be
    /// notified, and the state is unchanged. But if there was no room before, there may be some now.
    pub(super) fn touch_moved(&mut self, id: Id) {
        let Some(entry) = self.connections.get_mut(id) else { return };
        if !entry.notified.writable {
            return self.touch(id);
        }
        if entry.connection.may_transmit() && !core::mem::replace(&mut entry.is_queued, true) {
            self.send_queue.push(id);
        }
        entry.account(id, &mut self.memory, &mut self.counters);
        entry.on_moved();
        self.holes.trim(&mut self.connections, &mut self.memory, &mut self.counters);
    }

    /// Removes a connection that is over from the lookup by addresses and ports. Later segments between
    /// its ends belong to TIME-WAIT, to a listener or to no one (RFC 9293, 3.10.7.1): a program that keeps
    /// a dead connection open must not keep its peer from a new one (3.5.1). Its `id` stays valid for
    /// reads and queries.
    fn unhash(&mut self, id: Id) {
        if !self.connections.unhash(id) {
            return;
        }
        self.ports.on_gone();
        let Some((&tuple, entry)) = self.connections.entry_mut(id) else { return };
        if entry.connection.measures() {
            self.destinations.remember_rate(&self.config, &tuple, &entry.connection);
        }
        if let Some(ended) = &mut self.ended {
            ended.push_back((id, tuple));
        }
        if entry.holder == Holder::Listener {
            entry.holder = Holder::Nobody;
            let from = entry.from;
            self.withdraw(from);
        }
    }

    /// Notifies the listener `from` that a connection in its accept queue can no longer be accepted.
    fn withdraw(&mut self, from: Option<ListenerId>) {
        let waits = |id| self.connections.get(id).is_some_and(|entry| entry.holder == Holder::Listener);
        if let Some(listener) = from.and_then(|from| self.listeners.by_id(from)) {
            listener.withdraw(waits);
        }
    }

    /// Notifies the Fast Open server of the listener `from` that a connection with early data has left
    /// SYN-RECEIVED: the handshake is over, or a reset or a failure has ended it (`reset`).
    pub(super) fn finish_early(&mut self, from: Option<ListenerId>, reset: bool, now: Instant) {
        if let Some(server) = from.and_then(|from| self.listeners.by_id(from)?.fast_open()) {
            server.finish(reset, now);
        }
    }

    /// Processes all deadlines that have passed at `now`.
    pub(super) fn advance(&mut self, now: Instant) {
        while let Some(place) = self.deadlines.poll_expired(now) {
            if let Some(id) = self.connections.at(place) {
                self.call(id, |connection| connection.on_deadline(now));
            }
        }
        while self.time_wait.poll_expired(now, &mut self.counters).is_some() {
            self.ports.on_gone();
        }
        // Deadlines whose answers find no room stay due.
        let Self { listeners, answers, counters, .. } = self;
        while answers.has_room() {
            let was_due = listeners.advance(now, |listener, hop_limit| {
                while answers.has_room() {
                    let Some((tuple, header)) = listener.poll_transmit(now, counters) else { return };
                    answers.repeat(tuple, header, hop_limit);
                }
            });
            if !was_due {
                return;
            }
        }
    }

    /// Removes a connection that is over from the table. Its counts stay in the counters.
    pub(super) fn forget(&mut self, id: Id) {
        let Some(&Entry { held, .. }) = self.connections.get(id) else { return };
        self.connections.discard(id);
        self.memory.change(held as usize, 0, &mut self.counters);
    }
}
