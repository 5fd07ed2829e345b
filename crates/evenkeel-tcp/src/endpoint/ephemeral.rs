//! The choice of a local port if the user leaves it open (RFC 6056).

use core::net::{IpAddr, Ipv4Addr};
use core::ops::RangeInclusive;

use super::super::connection::Config;
use super::super::secret::{Purpose, Secret};
use super::super::seq::SeqNumber;
use super::super::table::{Id, Table, TupleHash};
use super::super::time_wait::TimeWait;
use super::super::tuple::{AddrPort, FourTuple};
use super::entry::Entry;
use super::error::OpenError;
use super::listeners::{ListenAt, Listeners};
use super::ports::Ports;
use crate::time::Instant;

/// A pair of addresses and ports between which a connection may be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Free {
    pub(super) tuple: FourTuple,
    pub(super) hash: TupleHash,
    /// The connection in TIME-WAIT that the new one replaces, and the sequence number that the new one
    /// must exceed.
    pub(super) waiting: Option<(Id, SeqNumber)>,
}

/// The addresses and ports that are taken, and the order in which others are tried.
pub(super) struct Places<'e, R> {
    pub(super) ports: &'e mut Ports,
    pub(super) range: &'e RangeInclusive<u16>,
    pub(super) secret: Secret,
    pub(super) taken: Taken<'e, R>,
}

/// The addresses and ports that are taken.
pub(super) struct Taken<'e, R> {
    pub(super) connections: &'e Table<Entry<R>>,
    pub(super) time_wait: &'e TimeWait,
    pub(super) listeners: &'e Listeners,
}

impl<R> Places<'_, R> {
    /// Returns `tuple` if it is free. If its local port is zero, chooses one that is free and that passes
    /// `fits`.
    pub(super) fn free_tuple(
        self,
        tuple: FourTuple,
        options: &Config,
        fits: Option<&dyn Fn(u16) -> bool>,
        now: Instant,
    ) -> Result<Free, OpenError> {
        if tuple.local.port != 0 {
            return self.taken.if_free(tuple, options, now).ok_or(OpenError::InUse);
        }
        let (local, remote) = (tuple.local.addr, tuple.remote);
        if self.ports.is_exhausted(local, remote, now) {
            return Err(OpenError::NoPort);
        }
        let free = self.ports.find(self.range, offset(&self.secret, &tuple), |port| {
            if fits.is_some_and(|fits| !fits(port)) {
                return None;
            }
            let local = AddrPort::new(local, port);
            let listens = self.taken.listeners.at_endpoint(&local).is_some();
            if listens { None } else { self.taken.if_free(FourTuple::new(local, remote), options, now) }
        });
        if free.is_none() {
            self.ports.on_exhausted(local, remote, now);
        }
        free.ok_or(OpenError::NoPort)
    }

    /// Returns a place for a listener that leaves the choice of the port to us; `None` if no port is free.
    pub(super) fn free_listener_port(self, address: Option<IpAddr>) -> Option<ListenAt> {
        let anywhere = AddrPort::new(address.unwrap_or(Ipv4Addr::UNSPECIFIED.into()), 0);
        let offset = offset(&self.secret, &FourTuple::new(anywhere, anywhere));
        self.ports.find(self.range, offset, |port| {
            let at = ListenAt { address, port };
            (!self.taken.listeners.conflicts(&at)).then_some(at)
        })
    }
}

impl<R> Taken<'_, R> {
    /// Returns `tuple` if it is free.
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

/// Returns the secret offset of the ports to a peer.
fn offset(secret: &Secret, tuple: &FourTuple) -> u64 {
    secret.tuple_hash(Purpose::EphemeralPort, tuple, 0)
}
