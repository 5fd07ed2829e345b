//! Checks of Fast Open (RFC 7413): which clients may put data into a SYN, and which data the server may
//! accept.

use std::collections::BTreeMap;
use std::net::IpAddr;

use evenkeel_core::tcp::FourTuple;

use crate::referee::{ACK, SYN, Seen};
use crate::run::HTTP;

/// A client's address, and the server's.
type Path = (IpAddr, IpAddr);

/// A cookie that a server gave, with its key at that time.
#[derive(Debug)]
struct Given {
    key: u32,
    cookie: Vec<u8>,
}

/// A cookie that reached its client, with the segment size that the server accepts.
#[derive(Debug)]
struct Got {
    cookie: Vec<u8>,
    mss: u16,
}

/// A SYN that has arrived.
#[derive(Debug)]
struct Arrived {
    seq: u32,
    data: u32,
    /// Whether its data may be accepted.
    good: bool,
    window: u16,
}

/// All cookies, and the data that came with them.
#[derive(Debug, Default)]
pub(crate) struct Early {
    given: BTreeMap<Path, Vec<Given>>,
    got: BTreeMap<Path, Vec<Got>>,
    arrived: BTreeMap<FourTuple, Vec<Arrived>>,
    /// The number of the server's key. The next field is the first number whose cookies are still valid.
    key: u32,
    good_since: u32,
}

const fn path(client: &FourTuple) -> Path {
    (client.local.addr, client.remote.addr)
}

impl Early {
    /// Records that the server has a new key from now on, and whether it knows the old one.
    pub(crate) const fn rekey(&mut self, knows_old: bool) {
        self.good_since = if knows_old { self.key } else { self.key + 1 };
        self.key += 1;
    }

    /// Checks a SYN that leaves, `again` or for the first time.
    pub(crate) fn syn_sent(&self, tuple: &FourTuple, seen: &Seen<'_>, again: bool) -> Result<(), String> {
        let cookie = seen.option(34);
        if again && (cookie.is_some() || !seen.payload.is_empty()) {
            return Err(format!("tries Fast Open again with the same SYN (RFC 7413, 4.1.3.1): {seen:?}"));
        }
        let cookie = match cookie {
            Some(cookie) if !cookie.is_empty() => cookie,
            _ if seen.payload.is_empty() => return Ok(()),
            _ => return Err(format!("data in a SYN without a cookie: {seen:?}")),
        };
        let known = self.got.get(&path(tuple)).map_or(&[][..], Vec::as_slice);
        let room = known.iter().filter(|got| got.cookie == cookie).map(|got| usize::from(got.mss)).max();
        match room {
            None => Err(format!("a cookie that the server never gave: {seen:?}")),
            Some(room) if seen.payload.len() + seen.options.len() > room => {
                Err(format!("more data in a SYN than the {room} bytes that the server can take: {seen:?}"))
            }
            Some(_) => Ok(()),
        }
    }

    /// Checks a SYN-ACK that leaves. If it answers a SYN with a good cookie, returns the sequence number up
    /// to which data may follow at once.
    pub(crate) fn syn_ack_sent(&mut self, tuple: &FourTuple, seen: &Seen<'_>) -> Result<Option<u32>, String> {
        let client = (tuple.remote.addr, tuple.local.addr);
        if let Some(cookie) = seen.option(34) {
            let cookie = cookie.to_vec();
            self.given.entry(client).or_default().push(Given { key: self.key, cookie });
        }
        let arrived = self.arrived.get(tuple).map_or(&[][..], Vec::as_slice);
        let data = |syn: &&Arrived| seen.ack.wrapping_sub(syn.seq).wrapping_sub(1);
        let allowed = |syn: &&Arrived| data(syn) <= if syn.good { syn.data } else { 0 };
        // The SYN may have been repeated, without its cookie, before it was answered.
        let Some(syn) = arrived.iter().filter(allowed).max_by_key(|syn| syn.good) else {
            return Err(format!(
                "acknowledges what no SYN with a good cookie brought: {seen:?}, {arrived:?}"
            ));
        };
        Ok(syn.good.then(|| seen.seq.wrapping_add(1).wrapping_add(u32::from(syn.window))))
    }

    /// Records a segment that has arrived as it was sent, or as a middlebox left it.
    pub(crate) fn arrived(&mut self, tuple: &FourTuple, seen: &Seen<'_>) {
        match (seen.has(SYN), seen.has(ACK), seen.option(34)) {
            (true, false, cookie) => {
                let good = tuple.local.port == HTTP.port && cookie.is_some_and(|c| self.is_good(tuple, c));
                let syn =
                    Arrived { seq: seen.seq, data: seen.payload.len() as u32, good, window: seen.window };
                self.arrived.entry(*tuple).or_default().push(syn);
            }
            (true, true, Some(cookie)) if !cookie.is_empty() => {
                let default = if matches!(tuple.local.addr, IpAddr::V6(_)) { 1_220 } else { 536 };
                let mss = seen.option(2).and_then(|mss| mss.first_chunk().copied());
                let mss = mss.map_or(default, u16::from_be_bytes);
                self.got.entry(path(tuple)).or_default().push(Got { cookie: cookie.to_vec(), mss });
            }
            _ => {}
        }
    }

    /// Returns whether the server `tuple.local` gave this client that cookie, and it is still valid.
    fn is_good(&self, tuple: &FourTuple, cookie: &[u8]) -> bool {
        let given = self.given.get(&(tuple.remote.addr, tuple.local.addr)).map_or(&[][..], Vec::as_slice);
        given.iter().any(|given| given.key >= self.good_since && given.cookie == cookie)
    }
}
