//! TCP of a host: its endpoint, and the sockets that programs have of it.
//!
//! | looking for | file |
//! | --- | --- |
//! | segments in, segments out, passing time, what programs are told | `segments.rs` |
//! | the calls of programs | `calls.rs` |
//! | channels of listeners and connections; asynchronous protocol processing | `processing.rs` |

mod calls;
mod processing;
mod segments;

use super::Net;
use crate::config::Config;
use crate::id::{ChannelId, ProcessId, SocketId};
use crate::tcp::table::Id;
use crate::tcp::{Endpoint, Secret};

use processing::{Processing, Spare};

/// TCP of a host.
#[derive(Debug)]
pub(crate) struct Tcp {
    pub(crate) endpoint: Endpoint,
    /// What the host knows of each connection, by its place in the endpoint's table.
    holders: Vec<Option<Stored>>,
    /// Sockets that listen. Few; the endpoint finds the one for a segment.
    listeners: Vec<SocketId>,
    /// There may be segments to send, or something to tell.
    stirred: bool,
    /// For so many units they have waited for a program to have its turn.
    held: u8,
    /// Of each process.
    processing: Vec<Processing>,
    /// Processes that have segments to process, and have to be told.
    pub(crate) called: Vec<ProcessId>,
    /// Channels of connections that hold nothing at the moment.
    spare: Spare,
}

/// Whose a connection is.
#[derive(Debug, Clone, Copy)]
struct Holder {
    id: Id,
    /// Who processes its segments: who has it, or had it, or will accept it.
    process: Option<ProcessId>,
    /// The descriptor, as long as somebody has it open.
    socket: Option<SocketId>,
    /// Its channel, while that holds segments, or is on an adaptor.
    channel: Option<ChannelId>,
}

impl Net {
    pub(crate) fn set_secret(&mut self, secret: Secret) -> bool {
        let endpoint = &self.tcp.endpoint;
        let used = !endpoint.is_empty() || endpoint.waiting() > 0 || endpoint.listeners().next().is_some();
        if self.config.secret.is_some() || used || endpoint.counters().iter().any(|(_, count)| count > 0) {
            return false;
        }
        self.config.secret = Some(secret);
        self.stack.set_secret(secret);
        self.table.set_secret(secret);
        self.tcp = Tcp::new(&self.config);
        self.adapt_tcp();
        true
    }

    /// What TCP is to know of who demultiplexes. To be called when that has changed.
    ///
    /// If the host does, a window is no larger than what a channel holds: all of it may come before the process has its turn, and what the peer
    /// was told to send is not to be dropped.
    pub(super) fn adapt_tcp(&mut self) {
        if self.links.has_demultiplexer() {
            self.tcp.endpoint.report_ends();
        }
        if self.fills_channels() {
            let most = processing::window_held_max(self.config.segment_pkts);
            self.tcp.endpoint.limit_receive_buffers(most);
        }
    }
}

impl Tcp {
    pub(crate) fn new(config: &Config) -> Self {
        let secret = config.secret.unwrap_or_else(|| Secret::of_seed(config.seed));
        Self {
            endpoint: Endpoint::new(config.tcp.clone(), secret),
            holders: Vec::new(),
            listeners: Vec::new(),
            stirred: false,
            held: 0,
            processing: Vec::new(),
            called: Vec::new(),
            spare: Spare::default(),
        }
    }

    /// Whether anybody listens, or there are connections.
    pub(super) fn is_used(&self) -> bool {
        !self.listeners.is_empty() || !self.endpoint.is_empty()
    }

    /// What is known of a connection, if its place has had no other since.
    fn holder(&self, id: Id) -> Option<Holder> {
        self.holders.get(id.index() as usize)?.filter(|stored| stored.id == id).map(Stored::read)
    }

    fn set_holder(&mut self, holder: Holder) {
        let place = holder.id.index() as usize;
        if place >= self.holders.len() {
            self.holders.resize(place + 1, None);
        }
        if let Some(slot) = self.holders.get_mut(place) {
            *slot = Some(Stored::of(holder));
        }
    }

    /// Changes what is known of a connection, if anything is.
    fn change_holder(&mut self, id: Id, change: impl FnOnce(&mut Holder)) {
        if let Some(mut holder) = self.holder(id) {
            change(&mut holder);
            self.set_holder(holder);
        }
    }
}

/// A [`Holder`] in 20 octets: there may be very many.
#[derive(Debug, Clone, Copy)]
struct Stored {
    id: Id,
    process: u32,
    socket: u32,
    channel: u32,
}

impl Stored {
    /// There is none.
    const NONE: u32 = u32::MAX;

    fn of(holder: Holder) -> Self {
        Self {
            id: holder.id,
            process: holder.process.map_or(Self::NONE, |process| process.0),
            socket: holder.socket.map_or(Self::NONE, |socket| socket.0),
            channel: holder.channel.map_or(Self::NONE, |channel| channel.0),
        }
    }

    fn read(self) -> Holder {
        let some = |number: u32| (number != Self::NONE).then_some(number);
        Holder {
            id: self.id,
            process: some(self.process).map(ProcessId),
            socket: some(self.socket).map(SocketId),
            channel: some(self.channel).map(ChannelId),
        }
    }
}
