//! Settings of TCP that depend on the host.

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
        self.rx.table.set_secret(secret);
        self.tcp = Tcp::new(&self.config);
        self.adapt_tcp();
        true
    }

    /// Adapts TCP to whether the host or an adaptor demultiplexes. To be called when that has changed.
    ///
    /// If the host demultiplexes, a window is at most as large as the capacity of a channel. All of the
    /// window may arrive before the process runs, and data that the peer was allowed to send must not be
    /// dropped.
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
