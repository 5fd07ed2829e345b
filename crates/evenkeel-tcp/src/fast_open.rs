//! TCP Fast Open (RFC 7413): data in the SYN, for clients that have proved their address before.
//!
//! An endpoint does all of this by itself: a listener if [`ListenerConfig::fast_open`](crate::ListenerConfig)
//! is not zero, a client if it opens with [`Endpoint::connect_with`](crate::Endpoint::connect_with). The
//! types here are for servers that share a key, and for other implementations.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use core::net::IpAddr;

use super::options::Cookie;
use super::secret::{Purpose, Secret};
use crate::time::{Duration, Instant};

/// The time for which a connection that a reset ended still counts as waiting. Without it an attacker with
/// a stolen cookie could send SYNs and resets from other addresses without end (RFC 7413, 5.1).
const RESET_COUNTS: Duration = Duration::from_secs(60);

/// The server's side: creates cookies, recognizes its own, and limits their use.
///
/// ```
/// use std::net::{IpAddr, Ipv4Addr};
///
/// use evenkeel_tcp::fast_open::{FastOpenServer, Presented};
/// use evenkeel_tcp::time::Instant;
/// use evenkeel_tcp::{Cookie, Secret};
///
/// // Servers behind one address share the secret. At most one connection at a time may carry early data.
/// let mut server = FastOpenServer::new(Secret::of_seed(1), 1);
/// let client = IpAddr::from(Ipv4Addr::new(192, 0, 2, 1));
/// let address = IpAddr::from(Ipv4Addr::new(192, 0, 2, 2));
///
/// // A client requests a cookie, and presents it on its next connection.
/// assert_eq!(server.judge(&client, &address, &Cookie::REQUEST), Presented::Request);
/// let cookie = server.cookie(&client, &address);
/// assert_eq!(server.judge(&client, &address, &cookie), Presented::Good);
/// assert!(server.admit(Instant::ZERO));
/// assert!(!server.admit(Instant::ZERO), "one waits for the end of its handshake");
/// server.finish(false, Instant::ZERO);
///
/// // The cookie outlives one change of the key.
/// server.rotate(Secret::of_seed(2));
/// assert_eq!(server.judge(&client, &address, &cookie), Presented::GoodOld);
/// server.rotate(Secret::of_seed(3));
/// assert_eq!(server.judge(&client, &address, &cookie), Presented::Wrong);
/// ```
#[derive(Debug)]
pub struct FastOpenServer {
    secret: Secret,
    before: Option<Secret>,
    waiting: usize,
    waiting_max: usize,
    /// The times at which connections that were reset stop counting. There are at most `waiting_max`,
    /// because only waiting connections can be reset.
    reset: VecDeque<Instant>,
}

/// The validity of a Fast Open cookie that a client presents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presented {
    /// The cookie is valid.
    Good,
    /// The cookie is of the previous key. It is valid, and the SYN-ACK gives a new one (RFC 7413, 4.1.2).
    GoodOld,
    /// The option requests a cookie. The SYN-ACK gives it, and the handshake is an ordinary one.
    Request,
    /// The cookie is not valid. The SYN is treated like a request.
    Wrong,
}

impl FastOpenServer {
    /// Creates a server that lets at most `waiting_max` connections carry data before their handshake is
    /// over (RFC 7413, 5.1, `PendingFastOpenRequests`).
    #[must_use]
    pub const fn new(secret: Secret, waiting_max: usize) -> Self {
        Self { secret, before: None, waiting: 0, waiting_max, reset: VecDeque::new() }
    }

    /// Sets a new key. Cookies of the previous key stay valid until the next change; those of the one before
    /// it are no longer valid.
    pub const fn rotate(&mut self, secret: Secret) {
        self.before = Some(core::mem::replace(&mut self.secret, secret));
    }

    /// Returns the cookie for this client (RFC 7413, 4.1.2): of eight bytes, and good for the address
    /// `server` of ours only.
    #[must_use]
    pub fn cookie(&self, client: &IpAddr, server: &IpAddr) -> Cookie {
        cookie(&self.secret, client, server)
    }

    /// Returns the validity of a cookie that came in a SYN from `client`.
    #[must_use]
    pub fn judge(&self, client: &IpAddr, server: &IpAddr, presented: &Cookie) -> Presented {
        if presented.is_request() {
            Presented::Request
        } else if *presented == self.cookie(client, server) {
            Presented::Good
        } else if self.before.is_some_and(|before| *presented == cookie(&before, client, server)) {
            Presented::GoodOld
        } else {
            Presented::Wrong
        }
    }

    /// Returns whether one more connection may carry data in its SYN. An admitted connection counts as
    /// waiting until [`finish`](Self::finish). For others the handshake is an ordinary one.
    pub fn admit(&mut self, now: Instant) -> bool {
        while self.reset.front().is_some_and(|&until| until <= now) {
            self.reset.pop_front();
        }
        let admitted = self.waiting + self.reset.len() < self.waiting_max;
        self.waiting += usize::from(admitted);
        admitted
    }

    /// Ends the handshake of an admitted connection, also if (`reset`) a reset has ended it.
    pub fn finish(&mut self, reset: bool, now: Instant) {
        if self.waiting == 0 {
            return;
        }
        self.waiting -= 1;
        if reset {
            self.reset.push_back(now + RESET_COUNTS);
        }
    }
}

fn cookie(secret: &Secret, client: &IpAddr, server: &IpAddr) -> Cookie {
    let hash = secret.pair_hash(Purpose::FastOpenServer, client, server);
    // Eight bytes are a length that cookies may have.
    Cookie::new(&hash.to_be_bytes()).unwrap_or(Cookie::REQUEST)
}

/// Entries that one hash value leads to.
const WAYS: usize = 4;
/// The first time that a path on which data in SYNs vanishes is left alone; twice as long each time after, to
/// a day.
const LEFT_ALONE: Duration = Duration::from_secs(3_600);
const DOUBLINGS_MAX: u32 = 4;

/// The client's side: a cache of servers' cookies, and of paths that lose SYNs with data (RFC 7413, 4.1.3).
///
/// The cache is bounded, and never searched: an address leads to four entries, of which a new one replaces
/// the least recently used. A cookie that is replaced costs one round trip.
#[derive(Debug)]
pub struct FastOpenCache {
    secret: Secret,
    sets: Box<[[Option<Entry>; WAYS]]>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    local: IpAddr,
    server: IpAddr,
    cookie: Cookie,
    mss: u16,
    failures: u8,
    left_alone_until: Instant,
    used: Instant,
}

/// The Fast Open content of a SYN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FastOpenOffer {
    /// The server's cookie; or the request for one, and then no data may go along.
    pub cookie: Cookie,
    /// The number of bytes that the server took in a segment last time. The SYN may not carry more (RFC
    /// 7413, 4.2.1).
    pub mss: u16,
}

impl FastOpenCache {
    /// Creates a cache for about `servers` servers, 96 bytes each. All its memory is allocated now.
    #[must_use]
    pub fn new(secret: Secret, servers: usize) -> Self {
        let sets = servers.div_ceil(WAYS).max(1);
        Self { secret, sets: vec![[None; WAYS]; sets].into_boxed_slice() }
    }

    /// Returns the Fast Open content of a SYN from `local` to `server`; `None` if the SYN is to have no
    /// Fast Open option, because the path is left alone for now.
    pub fn offer(&mut self, local: &IpAddr, server: &IpAddr, now: Instant) -> Option<FastOpenOffer> {
        let Some(entry) = self.find(local, server) else {
            return Some(FastOpenOffer { cookie: Cookie::REQUEST, mss: 0 });
        };
        entry.used = now;
        (entry.left_alone_until <= now).then_some(FastOpenOffer { cookie: entry.cookie, mss: entry.mss })
    }

    /// Records that a SYN-ACK of `server` brought a cookie, with the `mss` of that SYN-ACK.
    pub fn remember(&mut self, local: &IpAddr, server: &IpAddr, cookie: Cookie, mss: u16, now: Instant) {
        let entry = self.find_or_replace(local, server, now);
        (entry.cookie, entry.mss) = (cookie, mss);
    }

    /// Records that data in a SYN to `server` was acknowledged: the path is good.
    pub fn worked(&mut self, local: &IpAddr, server: &IpAddr) {
        if let Some(entry) = self.find(local, server) {
            entry.failures = 0;
        }
    }

    /// Records that a SYN with a cookie, or with the request for one, was not answered, while one without
    /// was: a middlebox on the path drops them. Fast Open pauses for an hour, next time for two (RFC 7413,
    /// 4.1.3.1 and 7.1).
    pub fn vanished(&mut self, local: &IpAddr, server: &IpAddr, now: Instant) {
        let entry = self.find_or_replace(local, server, now);
        entry.left_alone_until = now + LEFT_ALONE * (1 << u32::from(entry.failures).min(DOUBLINGS_MAX));
        entry.failures = entry.failures.saturating_add(1);
    }

    /// Forgets the server's cookie, because the server did not take the data and gave no cookie: it no
    /// longer does Fast Open.
    pub fn forget(&mut self, local: &IpAddr, server: &IpAddr) {
        if let Some(entry) = self.find(local, server) {
            entry.cookie = Cookie::REQUEST;
        }
    }

    fn place(&self, local: &IpAddr, server: &IpAddr) -> usize {
        let hash = self.secret.pair_hash(Purpose::FastOpenCache, local, server);
        (hash % self.sets.len() as u64) as usize
    }

    fn set(&mut self, local: &IpAddr, server: &IpAddr) -> &mut [Option<Entry>; WAYS] {
        &mut self.sets[self.place(local, server)]
    }

    fn find(&mut self, local: &IpAddr, server: &IpAddr) -> Option<&mut Entry> {
        let same = |entry: &&mut Entry| entry.local == *local && entry.server == *server;
        self.set(local, server).iter_mut().flatten().find(same)
    }

    fn find_or_replace(&mut self, local: &IpAddr, server: &IpAddr, now: Instant) -> &mut Entry {
        let set = self.set(local, server);
        let same = |entry: &Option<Entry>| entry.is_some_and(|e| e.local == *local && e.server == *server);
        let place = set.iter().position(same).unwrap_or_else(|| {
            let used = |way: &usize| set[*way].map(|entry| entry.used);
            (0..WAYS).min_by_key(used).unwrap_or_default()
        });
        let new = Entry {
            local: *local,
            server: *server,
            cookie: Cookie::REQUEST,
            mss: 0,
            failures: 0,
            left_alone_until: Instant::ZERO,
            used: now,
        };
        let way = &mut set[place];
        if !same(way) {
            *way = None;
        }
        let entry = way.get_or_insert(new);
        entry.used = now;
        entry
    }
}

#[cfg(test)]
mod tests {
    use core::net::{Ipv4Addr, Ipv6Addr};
    use proptest::prelude::*;

    use super::*;

    const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

    fn client(n: u16) -> IpAddr {
        let [high, low] = n.to_be_bytes();
        if n.is_multiple_of(2) {
            IpAddr::V4(Ipv4Addr::new(192, 168, high, low))
        } else {
            Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, n).into()
        }
    }

    fn server() -> FastOpenServer {
        FastOpenServer::new(Secret::new([1; 16]), 3)
    }

    fn seconds(seconds: u64) -> Instant {
        Instant::from_millis(seconds * 1_000)
    }

    #[test]
    fn a_cookie_is_good_for_one_client_at_one_address() {
        let server = server();
        let cookie = server.cookie(&client(2), &SERVER);
        assert_eq!(cookie.as_slice().len(), 8);
        let judge = |from, to| server.judge(&from, &to, &cookie);
        assert_eq!(judge(client(2), SERVER), Presented::Good);
        assert_eq!(judge(client(4), SERVER), Presented::Wrong);
        assert_eq!(judge(client(2), IpAddr::V4(Ipv4Addr::new(10, 0, 0, 3))), Presented::Wrong);
        assert_eq!(judge(SERVER, client(2)), Presented::Wrong);
        assert_eq!(server.judge(&client(2), &SERVER, &Cookie::REQUEST), Presented::Request);
    }

    #[test]
    fn a_cookie_outlives_one_change_of_the_key_but_not_two() {
        let mut server = server();
        let cookie = server.cookie(&client(1), &SERVER);
        server.rotate(Secret::new([2; 16]));
        assert_eq!(server.judge(&client(1), &SERVER, &cookie), Presented::GoodOld);
        let new = server.cookie(&client(1), &SERVER);
        assert_ne!(new, cookie);
        server.rotate(Secret::new([3; 16]));
        assert_eq!(server.judge(&client(1), &SERVER, &cookie), Presented::Wrong);
        assert_eq!(server.judge(&client(1), &SERVER, &new), Presented::GoodOld);
    }

    #[test]
    fn a_reset_does_not_make_room_for_a_minute() {
        let mut server = server();
        let admitted = |server: &mut FastOpenServer, at| (0..5).filter(|_| server.admit(seconds(at))).count();
        assert_eq!(admitted(&mut server, 0), 3);
        server.finish(false, seconds(1));
        assert_eq!(admitted(&mut server, 1), 1);
        (0..3).for_each(|_| server.finish(true, seconds(2)));
        server.finish(true, seconds(2));
        assert_eq!(
            (admitted(&mut server, 61), server.reset.len()),
            (0, 3),
            "no more resets than there were waiting"
        );
        assert_eq!(admitted(&mut server, 62), 3);
    }

    #[test]
    fn an_entry_of_the_cache_is_at_most_96_bytes() {
        assert!(size_of::<Option<Entry>>() <= 96, "{}", size_of::<Option<Entry>>());
    }

    #[test]
    fn a_path_that_eats_syns_is_left_alone_longer_each_time() {
        let mut cache = FastOpenCache::new(Secret::new([0; 16]), 100);
        let cookie = Cookie::new(&[7; 8]).unwrap();
        cache.remember(&client(0), &SERVER, cookie, 1_460, seconds(0));
        let mut now = 0;
        for hours in [1, 2, 4, 8, 16, 16] {
            cache.vanished(&client(0), &SERVER, seconds(now));
            assert_eq!(cache.offer(&client(0), &SERVER, seconds(now + hours * 3_600 - 1)), None);
            now += hours * 3_600;
            assert_eq!(
                cache.offer(&client(0), &SERVER, seconds(now)),
                Some(FastOpenOffer { cookie, mss: 1_460 })
            );
        }
        cache.worked(&client(0), &SERVER);
        cache.vanished(&client(0), &SERVER, seconds(now));
        assert!(cache.offer(&client(0), &SERVER, seconds(now + 3_600)).is_some());
        // Another address of ours is another path.
        assert!(cache.offer(&client(2), &SERVER, seconds(now)).is_some());
    }

    #[test]
    fn a_server_that_stopped_is_asked_again() {
        let mut cache = FastOpenCache::new(Secret::new([0; 16]), 100);
        cache.remember(&client(0), &SERVER, Cookie::new(&[7; 8]).unwrap(), 1_460, seconds(0));
        cache.forget(&client(0), &SERVER);
        assert!(cache.offer(&client(0), &SERVER, seconds(1)).unwrap().cookie.is_request());
    }

    proptest! {
        /// Of all that lead to the same set, it knows the four that were used last, with what was last said
        /// of them.
        #[test]
        fn knows_the_four_of_a_set_that_were_used_last(
            steps in prop::collection::vec((0..24_u16, any::<[u8; 4]>(), any::<bool>()), 1..200),
        ) {
            let mut cache = FastOpenCache::new(Secret::new([0; 16]), 8);
            let mut sets: [Vec<(u16, Cookie)>; 2] = Default::default();
            for (at, (n, bytes, says)) in (1..).zip(steps) {
                let set = &mut sets[cache.place(&client(n), &SERVER)];
                let known = set.iter().position(|entry| entry.0 == n).map(|place| set.remove(place));
                if says {
                    let cookie = Cookie::new(&bytes).unwrap();
                    cache.remember(&client(n), &SERVER, cookie, n, seconds(at));
                    set.push((n, cookie));
                } else {
                    let offer = cache.offer(&client(n), &SERVER, seconds(at)).unwrap();
                    prop_assert_eq!(offer.cookie, known.map_or(Cookie::REQUEST, |entry| entry.1));
                    set.extend(known);
                }
                if set.len() > WAYS {
                    set.remove(0);
                }
                for (model, set) in sets.iter().zip(&cache.sets) {
                    let mut known: Vec<_> = set.iter().flatten().collect();
                    known.sort_unstable_by_key(|entry| entry.used);
                    let known: Vec<_> = known.iter().map(|entry| (entry.mss, entry.cookie)).collect();
                    prop_assert_eq!(&known, model);
                }
            }
        }
    }
}
