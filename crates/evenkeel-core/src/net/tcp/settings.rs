//! What TCP is told of its host.

use super::super::state::Net;
use super::state::Tcp;
use crate::tcp::Secret;

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
    /// If the host does, a window is no larger than what a channel holds: all of it may come before the
    /// process has its turn, and what the peer was told to send is not to be dropped.
    pub(in crate::net) fn adapt_tcp(&mut self) {
        if self.links.has_demultiplexer() {
            self.tcp.endpoint.report_ends();
        }
        if self.fills_channels() {
            let most = self.config.window_held_max();
            self.tcp.endpoint.limit_receive_buffers(most);
        }
    }
}
