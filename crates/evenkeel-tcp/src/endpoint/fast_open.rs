//! The client's side of Fast Open: opening a connection with data (RFC 7413, 4.1.3).

use super::super::connection::FastOpened;
use super::super::counters::Counter;
use super::super::fast_open::{FastOpenCache, FastOpenOffer};
use super::super::table::Id;
use super::super::tuple::FourTuple;
use super::config::Opening;
use super::error::OpenError;
use super::state::Endpoint;
use crate::time::Instant;

impl<R: Copy> Endpoint<R> {
    /// Opens a connection with first data. Returns the connection and the number of bytes of `data` that
    /// were taken; the caller writes the rest.
    ///
    /// Once the server has given us a cookie, as much of the data as fits leaves with the SYN, and saves a
    /// round trip. The server may then see it twice, so it must be something that does no harm if done
    /// twice (RFC 7413, 6.1). The first SYN to a server only requests a cookie, and the data follow the
    /// handshake; so they do where a SYN with a cookie was lost not long ago. Otherwise this is like
    /// [`Endpoint::connect`].
    ///
    /// # Errors
    /// Nothing was opened.
    pub fn connect_with(
        &mut self,
        tuple: FourTuple,
        mss: u16,
        data: &[u8],
        now: Instant,
    ) -> Result<(Id, usize), OpenError> {
        self.connect_as(tuple, &Opening { data: Some(data), ..Opening::new(mss) }, now)
    }

    /// Returns what the SYN of a connection with first data has: a cookie, or the request for one. `None`
    /// without Fast Open.
    pub(super) fn fast_open_offer(&mut self, tuple: &FourTuple, now: Instant) -> Option<FastOpenOffer> {
        self.fast_open_cache()?.offer(&tuple.local.addr, &tuple.remote.addr, now)
    }

    /// Returns the cache of servers' cookies, after creating it if need be; `None` if it may hold none.
    fn fast_open_cache(&mut self) -> Option<&mut FastOpenCache> {
        let servers = self.config.fast_open_servers;
        (servers > 0).then(|| self.fast_open.get_or_insert_with(|| FastOpenCache::new(self.secret, servers)))
    }

    /// Records the outcome of Fast Open in the cache, when a connection that we opened has its SYN-ACK.
    pub(super) fn on_fast_opened(&mut self, tuple: &FourTuple, opened: &FastOpened, now: Instant) {
        let (local, server) = (&tuple.local.addr, &tuple.remote.addr);
        let Some(cache) = &mut self.fast_open else { return };
        if let Some(cookie) = opened.cookie {
            cache.remember(local, server, cookie, opened.mss, now);
        }
        if opened.taken > 0 {
            cache.worked(local, server);
            return self.counters.count(Counter::FastOpenActive);
        }
        if opened.again && opened.cookie.is_none() {
            cache.vanished(local, server, now);
            self.counters.count(Counter::FastOpenBlackhole);
        } else if opened.sent > 0 && opened.cookie.is_none() {
            cache.forget(local, server);
        }
        if opened.sent > 0 {
            self.counters.count(Counter::FastOpenActiveFail);
        }
    }
}
