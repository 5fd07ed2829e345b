//! The knowledge of destinations from earlier connections: rates, and Fast Open cookies of servers.

use super::super::connection::{Connection, FastOpened};
use super::super::counters::{Counter, Counters};
use super::super::fast_open::{FastOpenCache, FastOpenOffer};
use super::super::rate_cache::{RateCache, Remembered};
use super::super::secret::Secret;
use super::super::tuple::FourTuple;
use super::config::EndpointConfig;
use crate::time::Instant;

/// The caches of destinations. Each is created when there is something to remember.
#[derive(Debug)]
pub(super) struct Destinations {
    secret: Secret,
    fast_open: Option<FastOpenCache>,
    rates: Option<RateCache>,
}

impl Destinations {
    pub(super) const fn new(secret: Secret) -> Self {
        Self { secret, fast_open: None, rates: None }
    }

    /// Records the measured rate of a connection that is over, for later ones to its destination.
    pub(super) fn remember_rate(
        &mut self,
        config: &EndpointConfig,
        tuple: &FourTuple,
        connection: &Connection,
    ) {
        let destinations = config.destinations;
        let Some(remembered) = connection.measured().filter(|_| destinations > 0) else { return };
        let cache = self.rates.get_or_insert_with(|| RateCache::new(self.secret, destinations));
        cache.remember(&tuple.local.addr, &tuple.remote.addr, remembered);
    }

    /// Gives a new connection the rate that an earlier one to its destination had, if there is one.
    pub(super) fn recall_rate(&self, connection: &mut Connection, tuple: &FourTuple, now: Instant) {
        let Some(cache) = &self.rates else { return };
        if let Some(Remembered { rate, rtt, .. }) = cache.recall(&tuple.local.addr, &tuple.remote.addr, now) {
            connection.remember(rate, rtt);
        }
    }

    /// Returns what the SYN of a connection with first data has: a cookie, or the request for one. `None`
    /// without Fast Open.
    pub(super) fn fast_open_offer(
        &mut self,
        config: &EndpointConfig,
        tuple: &FourTuple,
        now: Instant,
    ) -> Option<FastOpenOffer> {
        let servers = config.fast_open_servers;
        if servers == 0 {
            return None;
        }
        let cache = self.fast_open.get_or_insert_with(|| FastOpenCache::new(self.secret, servers));
        cache.offer(&tuple.local.addr, &tuple.remote.addr, now)
    }

    /// Records the outcome of Fast Open, when a connection that we opened has its SYN-ACK.
    pub(super) fn on_fast_opened(
        &mut self,
        tuple: &FourTuple,
        opened: &FastOpened,
        counters: &mut Counters,
        now: Instant,
    ) {
        let (local, server) = (&tuple.local.addr, &tuple.remote.addr);
        let Some(cache) = &mut self.fast_open else { return };
        if let Some(cookie) = opened.cookie {
            cache.remember(local, server, cookie, opened.mss, now);
        }
        if opened.taken > 0 {
            cache.worked(local, server);
            return counters.count(Counter::FastOpenActive);
        }
        if opened.again && opened.cookie.is_none() {
            cache.vanished(local, server, now);
            counters.count(Counter::FastOpenBlackhole);
        } else if opened.sent > 0 && opened.cookie.is_none() {
            cache.forget(local, server);
        }
        if opened.sent > 0 {
            counters.count(Counter::FastOpenActiveFail);
        }
    }
}
