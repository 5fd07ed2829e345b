//! Opening a connection with data: the client's side of Fast Open (RFC 7413, 4.1.3).

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
    /// Opens a connection that has something to say from the beginning; says how much of `data` was taken,
    /// the rest is to be written.
    ///
    /// Once the server has given us a cookie, as much of it as fits goes along with the SYN, and saves a
    /// round trip. The server may then see it twice, so it must be something that does no harm if done twice
    /// (RFC 7413, 6.1). The first time only the cookie is asked for, and the data follow the handshake; so
    /// they do where a SYN with a cookie vanished not long ago. Otherwise as [`Endpoint::connect`].
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

    /// What goes with a SYN that has data: a cookie, or the request for one.
    pub(super) fn fast_open_offer(&mut self, tuple: &FourTuple, now: Instant) -> Option<FastOpenOffer> {
        self.fast_open_cache()?.offer(&tuple.local.addr, &tuple.remote.addr, now)
    }

    /// What servers gave us; made when it is needed.
    fn fast_open_cache(&mut self) -> Option<&mut FastOpenCache> {
        let servers = self.config.fast_open_servers;
        (servers > 0).then(|| self.fast_open.get_or_insert_with(|| FastOpenCache::new(self.secret, servers)))
    }

    /// A connection of ours has its SYN-ACK.
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
