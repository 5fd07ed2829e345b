//! The choice of a local port if the user leaves it open (RFC 6056).

use super::super::connection::Config;
use super::super::secret::Purpose;
use super::super::seq::SeqNumber;
use super::super::table::{Id, TupleHash};
use super::super::tuple::FourTuple;
use super::error::OpenError;
use super::listeners::ListenAt;
use super::ports::Exhausted;
use super::state::Endpoint;
use crate::time::{Duration, Instant};
use crate::wire::{IpAddress, IpEndpoint};

/// The time for which the search for a port is not repeated where there was none, unless a connection
/// ends.
const EXHAUSTED: Duration = Duration::from_millis(10);

/// A pair of addresses and ports between which a connection may be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Free {
    pub(super) tuple: FourTuple,
    pub(super) hash: TupleHash,
    /// The connection in TIME-WAIT that the new one replaces, and the sequence number that the new one
    /// must exceed.
    pub(super) waiting: Option<(Id, SeqNumber)>,
}

impl<R: Copy> Endpoint<R> {
    /// Returns `tuple` if it is free. If its local port is zero, chooses one that is free and that passes
    /// `fits`.
    pub(super) fn free_tuple(
        &mut self,
        tuple: FourTuple,
        options: &Config,
        fits: Option<&dyn Fn(u16) -> bool>,
        now: Instant,
    ) -> Result<Free, OpenError> {
        if tuple.local.port != 0 {
            return self.if_free(tuple, options, now).ok_or(OpenError::InUse);
        }
        let (local, remote, gone) = (tuple.local.addr, tuple.remote, self.ports.gone);
        let in_vain =
            |was: Exhausted| was == Exhausted { local, remote, gone, until: was.until } && now < was.until;
        if self.ports.exhausted.is_some_and(in_vain) {
            return Err(OpenError::NoPort);
        }
        self.choose_port(tuple, options, fits, now).ok_or_else(|| {
            self.ports.exhausted = Some(Exhausted { local, remote, gone, until: now + EXHAUSTED });
            OpenError::NoPort
        })
    }

    /// Chooses a local port with algorithm 3 of RFC 6056, 3.3.3: ports follow each other, from a secret
    /// offset that differs from peer to peer.
    ///
    /// While a share of `u` of the ports to a peer is in use, this tries about 1/(1-u) of them.
    fn choose_port(
        &mut self,
        tuple: FourTuple,
        options: &Config,
        fits: Option<&dyn Fn(u16) -> bool>,
        now: Instant,
    ) -> Option<Free> {
        self.try_ports(&tuple, |endpoint, port| {
            if fits.is_some_and(|fits| !fits(port)) {
                return None;
            }
            let local = IpEndpoint::new(tuple.local.addr, port);
            let listens = endpoint.listener_for(&local).is_some();
            if listens { None } else { endpoint.if_free(FourTuple::new(local, tuple.remote), options, now) }
        })
    }

    /// Returns a place for a listener that leaves the choice of the port to us; `None` if no port is free.
    pub(super) fn free_listener_port(&mut self, address: Option<IpAddress>) -> Option<ListenAt> {
        let anywhere = IpEndpoint::new(address.unwrap_or(IpAddress::v4(0, 0, 0, 0)), 0);
        self.try_ports(&FourTuple::new(anywhere, anywhere), |endpoint, port| {
            let at = ListenAt { address, port };
            let taken = endpoint.listeners.contains(&at)
                || endpoint.listeners.contains(&ListenAt { address: None, port });
            (!taken).then_some(at)
        })
    }

    /// Returns the first result of `will_do` for the ports to choose from, in an order that depends on
    /// `tuple`.
    fn try_ports<T>(&mut self, tuple: &FourTuple, will_do: impl Fn(&Self, u16) -> Option<T>) -> Option<T> {
        let (first, last) = (*self.config.ports.start(), *self.config.ports.end());
        let count = u32::from(last.checked_sub(first)?) + 1;
        let offset = self.secret.tuple_hash(Purpose::EphemeralPort, tuple, 0) as u32 % count;
        for _ in 0..count {
            let place = (self.ports.next % count + offset) % count;
            // The number stays within the range, so that consecutive ports cover all of it wherever they
            // begin.
            self.ports.next = (self.ports.next + 1) % count;
            let port = first.saturating_add(place as u16);
            if port != 0
                && let Some(free) = will_do(self, port)
            {
                return Some(free);
            }
        }
        None
    }

    fn if_free(&self, tuple: FourTuple, options: &Config, now: Instant) -> Option<Free> {
        let hash = self.connections.hash(&tuple);
        if self.connections.find_hashed(hash, &tuple).is_some() {
            return None;
        }
        let Some(id) = self.time_wait.find_hashed(hash, &tuple) else {
            return Some(Free { tuple, hash, waiting: None });
        };
        let previous = self.time_wait.may_open(id, now).filter(|_| options.timestamps)?;
        Some(Free { tuple, hash, waiting: Some((id, previous)) })
    }
}
