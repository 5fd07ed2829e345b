//! Rates of connections that are over, for later connections.

use super::super::connection::Connection;
use super::super::rate_cache::{RateCache, Remembered};
use super::super::table::Id;
use super::super::tuple::FourTuple;
use super::state::Endpoint;
use crate::time::Instant;

impl<R: Copy> Endpoint<R> {
    /// Records the measured rate of a connection that is over, for later ones to its destination.
    pub(super) fn remember_rate(&mut self, id: Id) {
        let destinations = self.config.destinations;
        let Some(entry) = self.connections.get(id).filter(|_| destinations > 0) else { return };
        let Some(remembered) = entry.connection.measured() else { return };
        let Some(FourTuple { local, remote }) = self.connections.tuple(id) else { return };
        let cache = self.rates.get_or_insert_with(|| RateCache::new(self.secret, destinations));
        cache.remember(&local.addr, &remote.addr, remembered);
    }

    /// Gives a new connection the rate that an earlier one to its destination had, if there is one.
    pub(super) fn recall_rate(&self, connection: &mut Connection, tuple: &FourTuple, now: Instant) {
        let Some(cache) = &self.rates else { return };
        if let Some(Remembered { rate, rtt, .. }) = cache.recall(&tuple.local.addr, &tuple.remote.addr, now) {
            connection.remember(rate, rtt);
        }
    }
}
