//! Readiness of descriptors, and the ways in which programs query it: `select`, `poll`, event queues, and
//! waiting for one descriptor.

use core::task::Waker;

use super::descriptors::DescriptorTable;
use super::state::Sockets;
use crate::channel::ChannelTable;
use crate::error::{BadDescriptor, DupError, RegisterError, TooManyOpen};
use crate::id::{Fd, ProcessId, SocketId};
use crate::ready::{
    Event, FdSets, Interest, Kinds, PollEntry, ReadyTable, Registering, Trigger, Waiter, kinds_of,
};
use crate::socket::Descriptor;
use crate::stack::FirstHop;
use crate::tcp::{Connection, Endpoint};
use crate::work::{Work, WorkLog};

/// The tables that determine the readiness of a descriptor.
struct Status<'a> {
    descriptors: &'a DescriptorTable,
    channels: &'a mut ChannelTable,
    tcp: &'a Endpoint<FirstHop>,
    is_lazy: bool,
    work: &'a mut WorkLog,
}

impl Status<'_> {
    /// Returns those kinds of `asked` that a descriptor is ready for. If it is not readable, the next
    /// arrival raises a hint.
    fn of(&mut self, id: SocketId, asked: Kinds) -> Kinds {
        self.work.add(Work::StatusTest);
        match self.descriptors.get(id) {
            None => Kinds::HANG_UP_OR_ERROR,
            Some(Descriptor::Stream(stream)) => kinds_of(self.tcp.readiness(stream.id)),
            Some(Descriptor::Listener(listener)) => {
                Kinds::READABLE.when(self.tcp.is_acceptable(&listener.at))
            }
            Some(descriptor) => {
                if descriptor.has_error() {
                    return Kinds::READABLE.union(Kinds::WRITABLE).union(Kinds::ERROR);
                }
                let readable = asked.is_readable()
                    && (descriptor.len() > 0 || self.is_lazy && arm(descriptor, self.channels));
                let writable = match descriptor {
                    Descriptor::Udp(socket) => !socket.lacks_buffers,
                    descriptor => matches!(descriptor, Descriptor::UserEvent(_)),
                };
                Kinds::READABLE.when(readable).union(Kinds::WRITABLE.when(writable))
            }
        }
    }
}

/// Arms the channels that a descriptor is read from. Returns whether frames wait.
fn arm(descriptor: &Descriptor, channels: &mut ChannelTable) -> bool {
    let (own, screened) = match descriptor {
        Descriptor::Udp(socket) => (socket.channels.as_slice(), None),
        Descriptor::Screen(_) => (&[][..], channels.daemons().forward),
        _ => (&[][..], None),
    };
    let mut waiting = false;
    for channel in own.iter().map(|&(channel, _)| channel).chain(screened) {
        if let Some(channel) = channels.get_mut(channel) {
            waiting |= channel.arm();
        }
    }
    waiting
}

/// The sockets of a host, with what must be known of the floors below to say which are ready.
pub(crate) struct Readiness<'a> {
    pub(crate) sockets: &'a mut Sockets,
    pub(crate) channels: &'a mut ChannelTable,
    pub(crate) tcp: &'a Endpoint<FirstHop>,
    /// Whether sockets are read from channels.
    pub(crate) is_lazy: bool,
    pub(crate) work: &'a mut WorkLog,
}

impl Readiness<'_> {
    /// Returns the table of what is ready, and the tables that determine it.
    fn split(&mut self) -> (&mut ReadyTable, Status<'_>) {
        let Self { sockets: Sockets { ready, descriptors, .. }, channels, tcp, is_lazy, work } = self;
        (ready, Status { descriptors, channels, tcp, is_lazy: *is_lazy, work })
    }

    // --- Descriptors ---

    /// Makes the lowest free number of a process that is not below `lowest` refer to the descriptor of
    /// `fd`, too.
    pub(crate) fn dup_from(&mut self, process: ProcessId, fd: Fd, lowest: u32) -> Result<Fd, DupError> {
        let looks = self.sockets.ready.looks(process);
        let new = self.sockets.ready.dup_from(process, fd, lowest)?;
        self.sockets.count_looks(process, looks, self.work);
        self.add_to_events(process, new);
        Ok(new)
    }

    /// Makes the number `new` refer to the descriptor of `fd`, too. Returns the descriptor that `new`
    /// referred to before, if it has no number any more and is to be closed.
    pub(crate) fn dup2(&mut self, process: ProcessId, fd: Fd, new: Fd) -> Result<Option<SocketId>, DupError> {
        let displaced = self.sockets.ready.dup2(process, fd, new)?;
        if fd != new {
            self.add_to_events(process, new);
        }
        Ok(displaced)
    }

    // --- Select and poll ---

    pub(crate) fn select(
        &mut self,
        process: ProcessId,
        selecting: &FdSets,
        found: &mut FdSets,
    ) -> Result<usize, BadDescriptor> {
        let sets = [&selecting.read, &selecting.write, &selecting.exception];
        let words = sets.map(|set| set.words_in_use()).into_iter().sum::<usize>();
        self.work.add_times(Work::SetWord, u32::try_from(words).unwrap_or(u32::MAX));
        let (ready, mut status) = self.split();
        ready.select(process, selecting, found, |id, asked| status.of(id, asked))
    }

    pub(crate) fn poll_descriptors(&mut self, process: ProcessId, entries: &mut [PollEntry]) -> usize {
        self.work.add_times(Work::SetWord, u32::try_from(entries.len().div_ceil(64)).unwrap_or(u32::MAX));
        let (ready, mut status) = self.split();
        ready.poll(process, entries, |id, asked| status.of(id, asked))
    }

    /// Has `waker` woken when the call that has found nothing would find something. Returns whether it would.
    pub(crate) fn wait_in_call(&mut self, process: ProcessId, waker: &Waker) -> bool {
        let is_over = self.sockets.ready.is_call_over(process);
        if !is_over {
            self.sockets.ready.wait_in_call(process, waker);
        }
        is_over
    }

    // --- Event queues ---

    pub(crate) fn open_queue(&mut self, owner: ProcessId) -> Result<Fd, TooManyOpen> {
        let id = self.sockets.install(Descriptor::Queue(owner), self.work)?;
        Ok(self.sockets.ready.fd(id))
    }

    pub(crate) fn set_interest(
        &mut self,
        how: Registering,
        process: ProcessId,
        queue: Fd,
        fd: Fd,
        interest: Interest,
    ) -> Result<(), RegisterError> {
        let (ready, mut status) = self.split();
        Ok(ready.set_interest(how, process, queue, fd, interest, |id, asked| status.of(id, asked))?)
    }

    pub(crate) fn take_events(
        &mut self,
        process: ProcessId,
        queue: Fd,
        events: &mut [Event],
    ) -> Result<usize, RegisterError> {
        let (ready, mut status) = self.split();
        Ok(ready.take_events(process, queue, events, |id, asked| status.of(id, asked))?)
    }

    /// Returns the event queue of a process that all its descriptors are added to. Opens it if there is
    /// none.
    pub(crate) fn open_events(&mut self, owner: ProcessId) -> Result<Fd, TooManyOpen> {
        if let Some(events) = self.sockets.ready.events_of(owner) {
            return Ok(events);
        }
        let events = self.open_queue(owner)?;
        self.sockets.ready.set_events(owner, events);
        for fd in self.sockets.ready.open_of(owner) {
            self.add_to_events(owner, fd);
        }
        Ok(events)
    }

    /// Adds a descriptor to the event queue of its process, if that queue receives all descriptors.
    pub(crate) fn add_to_events(&mut self, process: ProcessId, fd: Fd) {
        let Some((events, interest)) = self.event_of(process, fd) else { return };
        // An event queue stands for descriptors that are in this one: they would be reported twice.
        if !matches!(self.behind(process, fd), None | Some(Descriptor::Queue(_))) {
            // Both are open, and it was not added yet, so there is no error.
            let _ = self.set_interest(Registering::Add, process, events, fd, interest);
        }
    }

    /// Adds a newly opened descriptor to the event queue of its process, if that queue receives all
    /// descriptors. A stream is added as idle, because TCP reports when it is ready.
    pub(crate) fn add_opened_to_events(&mut self, process: ProcessId, fd: Fd) {
        let Some((events, interest)) = self.event_of(process, fd) else { return };
        if matches!(self.behind(process, fd), Some(Descriptor::Stream(_))) {
            self.sockets.ready.add_idle(process, events, fd, interest);
        } else {
            self.add_to_events(process, fd);
        }
    }

    /// Returns the event queue of all descriptors of a process, if there is one, and the interest with
    /// which another one is added to it.
    fn event_of(&self, process: ProcessId, fd: Fd) -> Option<(Fd, Interest)> {
        let events = self.sockets.ready.events_of(process).filter(|&events| events != fd)?;
        Some((events, Interest { events: Kinds::ALL, trigger: Trigger::Edge, token: fd.token() }))
    }

    fn behind(&self, process: ProcessId, fd: Fd) -> Option<&Descriptor> {
        self.sockets.descriptors.get(self.sockets.ready.resolve(process, fd)?)
    }

    // --- Waiting for one ---

    /// A process goes to sleep on a descriptor: its channels are armed. If it is not ready after all, returns
    /// what it refers to.
    pub(crate) fn arm_descriptor(&mut self, fd: Fd, process: ProcessId) -> Option<SocketId> {
        let id = self.sockets.ready.resolve(process, fd)?;
        if self.is_ready_to_wait_for(id) {
            return None;
        }
        self.sockets.ready.wait(id, Waiter::Process(process), Kinds::ALL);
        Some(id)
    }

    /// Returns whether a descriptor has something to receive. If not, the next arrival wakes the processes
    /// that wait for it.
    pub(crate) fn is_ready_to_wait_for(&mut self, id: SocketId) -> bool {
        match self.sockets.descriptors.get(id) {
            None => true,
            Some(Descriptor::Stream(stream)) => {
                let id_of_stream = stream.id;
                self.sockets.ready.take_changed(id)
                    || self.tcp.connection(id_of_stream).is_none_or(Connection::is_readable)
            }
            Some(Descriptor::Listener(listener)) => self.tcp.is_acceptable(&listener.at),
            Some(Descriptor::Queue(_)) => {
                let (ready, mut status) = self.split();
                ready.has_event(id, |id, asked| status.of(id, asked))
            }
            Some(descriptor) => descriptor.has_error() || descriptor.len() > 0 || self.arm_channels_of(id),
        }
    }

    /// Returns those kinds of `asked` that a descriptor is ready for, and whether it has ended or has an
    /// error.
    pub(crate) fn ready_for(&mut self, id: SocketId, asked: Kinds) -> Kinds {
        let is_queue = matches!(self.sockets.descriptors.get(id), Some(Descriptor::Queue(_)));
        let (ready, mut status) = self.split();
        let kinds = if is_queue {
            Kinds::READABLE.when(ready.has_event(id, |id, asked| status.of(id, asked)))
        } else {
            status.of(id, asked)
        };
        kinds.intersection(asked.union(Kinds::HANG_UP_OR_ERROR))
    }

    /// Arms the channels that a descriptor is read from, under the lazy architectures. Returns whether frames
    /// wait.
    fn arm_channels_of(&mut self, id: SocketId) -> bool {
        let descriptor = self.sockets.descriptors.get(id);
        self.is_lazy && descriptor.is_none_or(|descriptor| arm(descriptor, self.channels))
    }

    /// A program has found a queue empty. If anybody is to hear of what comes next, the channels before it
    /// are armed; of what waits there they hear now.
    #[inline]
    pub(crate) fn found_empty(&mut self, id: SocketId) {
        if self.is_lazy && self.sockets.ready.is_watched(id) && self.arm_channels_of(id) {
            self.sockets.ready.raise(id, Kinds::READABLE);
        }
    }
}
