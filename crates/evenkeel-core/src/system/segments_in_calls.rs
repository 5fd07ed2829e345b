//! Protocol input of TCP in the calls on the socket that segments are for: in the name of the thread that
//! makes the call, where a process [leaves it to its callers](crate::host::Host::attach_callers).

use super::state::System;
use crate::id::SocketId;
use crate::net::Tcp;
use crate::socket::{Descriptor, Stream};
use crate::tcp::table::Id;

/// The most segments of connections that are being opened in one call. A flood of them waits for the next
/// call, and the program's open connections have their turn in between.
const OPENING_SEGMENTS_PER_CALL: usize = 32;

impl System<'_> {
    /// Processes the segments that wait for a call on a descriptor, if the calls of this process do that.
    /// Returns whether more wait.
    pub(super) fn process_segments_for(&mut self, id: SocketId) -> bool {
        match self.net.sockets.descriptors.get(id) {
            Some(&Descriptor::Stream(Stream { id, .. })) => self.process_segments_of(id),
            Some(Descriptor::Listener(_)) => self.process_opening_segments(),
            _ => false,
        }
    }

    /// Processes the segments of a connection. Returns whether more wait.
    pub(super) fn process_segments_of(&mut self, id: Id) -> bool {
        if !self.net.tcp.processes_in_calls(self.process) {
            return false;
        }
        let Some(channel) = self.net.tcp.channel_called_for(id, &self.net.rx.channels) else { return false };
        (0..self.net.config.channel_pkts).all(|_| self.net.process_segment(channel, self.now))
    }

    /// Processes segments that open connections to listeners of this process. Returns whether more wait.
    pub(super) fn process_opening_segments(&mut self) -> bool {
        if !self.net.tcp.processes_in_calls(self.process) {
            return false;
        }
        for _ in 0..OPENING_SEGMENTS_PER_CALL {
            let Some(active) = self.net.tcp.processing_of(self.process).opening.pop_front() else {
                return false;
            };
            let is_current = Tcp::is_current(active, &self.net.rx.channels);
            if is_current && self.net.process_segment(active.channel, self.now) {
                self.net.tcp.processing_of(self.process).opening.push_back(active);
            }
        }
        self.net.tcp.has_opening(self.process)
    }
}
