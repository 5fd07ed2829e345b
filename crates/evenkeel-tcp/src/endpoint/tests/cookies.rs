//! SYN cookies that a device has sent in place of a listener.

use std::sync::Mutex;

use super::*;
use crate::KnownEnds;

/// Returns the next segment that an endpoint sends.
fn sent(end: &mut Endpoint, now: Instant) -> Vec<u8> {
    let mut bytes = [0; 2_000];
    let transmit = end.poll_transmit(now, &ONE_WAY, &mut bytes).unwrap();
    bytes[..transmit.len].to_vec()
}

/// Returns the cookie with which a device answers a SYN to the server of a [`World`].
fn answer(syn: &[u8], config: &EndpointConfig, now: Instant) -> Vec<u8> {
    let mut device = Endpoint::new(config.clone(), Secret::new([2; 16]));
    let listener = ListenerConfig { syn_queue: 0, ..ListenerConfig::default() };
    device.listen(HTTP, &listener, None).unwrap();
    device.input(syn, &FROM_CLIENT, now);
    sent(&mut device, now)
}

/// Has the client of a world connect by the answer of a device. Returns its ACK.
fn connect_by_cookie(world: &mut World, config: &EndpointConfig) -> Vec<u8> {
    let now = world.now;
    world.connect(50_000);
    let syn_ack = answer(&sent(&mut world.ends[0], now), config, now);
    let from_server = Packet { source: SERVER, destination: CLIENT, ..FROM_CLIENT };
    world.ends[0].input(&syn_ack, &from_server, now);
    sent(&mut world.ends[0], now)
}

#[test]
fn an_ack_opens_a_connection_once_the_listener_expects_cookies() {
    let config = EndpointConfig::default();
    let mut world = World::listening(config.clone(), &ListenerConfig::default(), Faults::default(), 1);
    let ack = connect_by_cookie(&mut world, &config);
    let [_, server] = &mut world.ends;
    server.input(&ack, &FROM_CLIENT, world.now);
    assert_eq!(server.accept(&HTTP), None);
    server.expect_cookies(&HTTP, 5, world.now);
    server.input(&ack, &FROM_CLIENT, world.now);
    assert!(server.accept(&HTTP).is_some());
    assert_eq!(server.counters().get(Counter::SyncookiesSent), 5);
}

/// A device does not know which connections are in TIME-WAIT.
#[test]
fn an_ack_of_a_cookie_reopens_a_connection_in_time_wait() {
    for timestamps in [true, false] {
        let connection = Arc::new(Config { timestamps, ..Config::default() });
        let config = EndpointConfig { connection, ..EndpointConfig::default() };
        let mut world = World::listening(config.clone(), &ListenerConfig::default(), Faults::default(), 1);
        let first = world.connect(50_000);
        world.pass(Duration::from_millis(100));
        let accepted = world.ends[1].accept(&HTTP).unwrap();
        world.ends[1].close(accepted, world.now);
        world.pass(Duration::from_millis(100));
        world.ends[0].close(first, world.now);
        world.pass(Duration::from_secs(1));
        assert_eq!((world.ends[0].len(), world.ends[1].waiting()), (0, 1));
        let ack = connect_by_cookie(&mut world, &config);
        let [_, server] = &mut world.ends;
        server.input(&ack, &FROM_CLIENT, world.now);
        assert_eq!((server.accept(&HTTP), server.waiting()), (None, 1), "no cookie is expected");
        server.expect_cookies(&HTTP, 1, world.now);
        server.input(&ack, &FROM_CLIENT, world.now);
        // Without timestamps, the cookie follows the old numbers by chance.
        let is_open = server.accept(&HTTP).is_some();
        assert!(is_open || !timestamps);
        assert_eq!(server.waiting(), usize::from(!is_open));
    }
}

#[test]
fn a_device_gets_what_the_listener_would_say() {
    let connection = Config { mss_max: 1_000, sack: false, window_scaling: false, ..Config::default() };
    let config = EndpointConfig { connection: Arc::new(connection), ..EndpointConfig::default() };
    let mut end: Endpoint = Endpoint::new(config, Secret::new([2; 16]));
    end.listen(HTTP, &ListenerConfig { ecn: false, ..ListenerConfig::default() }, None).unwrap();
    let offer = end.cookie_offer(&HTTP, 64).unwrap();
    assert_eq!((offer.mss_max, offer.window_scale, offer.hop_limit), (1_000, None, 64));
    assert_eq!((offer.sack_permitted, offer.timestamps, offer.ecn), (false, true, false));
    end.set_listener_hop_limit(&HTTP, core::num::NonZeroU8::MIN);
    assert_eq!(end.cookie_offer(&HTTP, 64).unwrap().hop_limit, 1);
    let without = ListenAt::any(81);
    end.listen(without, &ListenerConfig { syn_cookies: false, ..ListenerConfig::default() }, None).unwrap();
    assert_eq!(end.cookie_offer(&without, 64), None);
}

/// A record of a device: how many pairs of ends have each hash.
#[derive(Debug, Default)]
struct Record(Mutex<BTreeMap<u32, i32>>);

impl Record {
    fn change(&self, hash: u32, by: i32) {
        let mut counts = self.0.lock().unwrap();
        *counts.entry(hash).or_default() += by;
        assert!(counts[&hash] >= 0);
        counts.retain(|_, count| *count > 0);
    }

    fn hashes(&self) -> Vec<u32> {
        self.0.lock().unwrap().keys().copied().collect()
    }
}

impl KnownEnds for Record {
    fn add(&self, hash: u32) {
        self.change(hash, 1);
    }

    fn remove(&self, hash: u32) {
        self.change(hash, -1);
    }
}

/// Half-open connections, others, and those in TIME-WAIT are in the record of a device until they are gone.
#[test]
fn a_device_knows_between_which_ends_there_is_state() {
    let config = EndpointConfig::default();
    let mut world = World::listening(config, &ListenerConfig::default(), Faults::default(), 1);
    let record = Arc::new(Record::default());
    let shared: Arc<dyn KnownEnds> = Arc::<Record>::clone(&record);
    (0..2).for_each(|_| world.ends[1].record_ends(&shared));
    let tuple = FourTuple::new((SERVER, 80), (CLIENT, 50_000));
    let hash = Secret::new([2; 16]).table_hash(&tuple) as u32;
    let client = world.connect(50_000);
    let now = world.now;
    let syn = sent(&mut world.ends[0], now);
    assert_eq!(record.hashes(), []);
    world.ends[1].input(&syn, &FROM_CLIENT, now);
    assert_eq!(record.hashes(), [hash], "it is half-open");
    world.pass(Duration::from_secs(5));
    let accepted = world.ends[1].accept(&HTTP).unwrap();
    assert_eq!(record.hashes(), [hash], "it is established");
    // A later device gets all that is there.
    let later = Arc::new(Record::default());
    let also: Arc<dyn KnownEnds> = Arc::<Record>::clone(&later);
    world.ends[1].record_ends(&also);
    assert_eq!(later.hashes(), [hash]);
    drop(also);
    let [_, server] = &mut world.ends;
    server.close(accepted, world.now);
    world.pass(Duration::from_millis(100));
    world.ends[0].close(client, world.now);
    world.pass(Duration::from_secs(1));
    assert_eq!((world.ends[1].len(), world.ends[1].waiting()), (0, 1));
    assert_eq!((record.hashes(), later.hashes()), (vec![hash], vec![hash]), "it is in TIME-WAIT");
    world.pass(Duration::from_secs(61));
    assert_eq!((record.hashes(), later.hashes()), (vec![], vec![]));
    // A listener that goes takes its half-open connections with it, and a new one has the record, too.
    for _ in 0..2 {
        world.ends[1].input(&syn, &FROM_CLIENT, world.now);
        assert_eq!((record.hashes(), later.hashes()), (vec![hash], vec![hash]));
        world.ends[1].unlisten(&HTTP);
        assert_eq!((record.hashes(), later.hashes()), (vec![], vec![]));
        world.ends[1].listen(HTTP, &ListenerConfig::default(), None).unwrap();
    }
    // A device that is gone gets no more.
    drop(later);
    world.ends[1].input(&syn, &FROM_CLIENT, world.now);
    assert_eq!((record.hashes(), Arc::strong_count(&shared)), (vec![hash], 2));
}
