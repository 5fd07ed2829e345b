//! Tests of servers as lists of calls, and of their clients, on machines that take only the planned time.

use evenkeel_core::host::Config;
use evenkeel_core::process::ProcessId;
use evenkeel_core::receive::Architecture;
use evenkeel_core::stack::IpEndpoint;
use evenkeel_core::tcp::ListenerConfig;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::{IpCidr, Ipv4Address};
use evenkeel_sim::calls::{Call, CallServer, Customers, DiskServer, Plan, Planned, Varying};
use evenkeel_sim::machine::Costs;
use evenkeel_sim::net::Conditions;
use evenkeel_sim::packet::Station;
use evenkeel_sim::rng::Rng;
use evenkeel_sim::traffic::{Flow, Pattern};
use evenkeel_sim::workload::Tally;
use evenkeel_sim::world::{HostId, Port, SegmentId, World, hardware_address};

const CLIENT: Ipv4Address = Ipv4Address::new(10, 0, 0, 1);
const SERVER: Ipv4Address = Ipv4Address::new(10, 0, 0, 2);
const PORT: u16 = 80;
const ANSWER: usize = 500;
const CUSTOMERS: usize = 8;

/// Creates hosts with these addresses on one segment.
fn world<const N: usize>(addresses: [Ipv4Address; N]) -> (World, SegmentId, [HostId; N]) {
    let mut world = World::new(1);
    let segment = world.add_segment();
    let hosts = addresses.map(|address| {
        let port = Port::new(segment, IpCidr::new(address.into(), 24));
        let wire = Conditions::wire(100_000_000, Duration::from_micros(50), 1_000);
        let config = Config::of(Architecture::Eager);
        world.add_host(config, Costs::FREE, &[port.with_conditions(wire)]).expect("there is room")
    });
    (world, segment, hosts)
}

fn varying() -> Varying {
    Varying { percent: 40, rng: Rng::new(7) }
}

/// A server, and customers that query it all the time.
struct Bench {
    world: World,
    /// The processes of customers and server.
    processes: [(HostId, ProcessId); 2],
    answered: Tally,
    traps: Tally,
}

impl Bench {
    fn new(requests: u32) -> Self {
        let (mut world, _, [client, server]) = world([CLIENT, SERVER]);
        let traps = Tally::default();
        let step = |call| Planned { user: Duration::from_micros(20), call, kernel: Duration::from_micros(5) };
        let plan = Plan {
            accept: vec![step(Call::Other)],
            request: [Call::Read, Call::Other, Call::Fault, Call::Write].map(step).to_vec(),
            end: [Call::Shutdown, Call::Other, Call::Close].map(step).to_vec(),
            requests,
            bytes: ANSWER,
        };
        let at = (PORT, ListenerConfig::default());
        let (program, answered) = CallServer::new(at, plan, varying(), traps.clone());
        let serves = world.host_mut(server).spawn("server", 0, Box::new(program));
        let to = vec![IpEndpoint::new(SERVER.into(), PORT); CUSTOMERS];
        let customers = Customers::new(to, requests, ANSWER);
        let asks = world.host_mut(client).spawn("customers", 0, Box::new(customers));
        Self { world, processes: [(client, asks), (server, serves)], answered, traps }
    }

    /// Returns the number of requests answered in a second.
    fn answered_in_a_second(&mut self) -> u64 {
        let before = self.answered.get();
        self.world.run_until(self.world.now() + Duration::from_secs(1));
        self.answered.get() - before
    }

    /// Returns the numbers of open descriptors of customers and server.
    fn open(&self) -> [usize; 2] {
        self.processes.map(|(host, process)| self.world.host(host).sockets_of(process).len())
    }
}

/// A customer sends no more requests if one is not answered, or if its connection is not closed.
#[test]
fn each_request_is_answered_and_each_connection_is_closed() {
    // Steps take 25 us. With one request on each connection a request has eight steps, with ten it has 4.4.
    for (requests, least) in [(1, 4_000), (10, 7_000)] {
        let mut bench = Bench::new(requests);
        let seconds = [bench.answered_in_a_second(), bench.answered_in_a_second()];
        assert!(seconds.iter().all(|answered| *answered > least), "{seconds:?}");
        assert!(seconds[0].abs_diff(seconds[1]) < seconds[0] / 50, "{seconds:?}");
        // These are the connections and an event queue, and the listener and its event.
        let open = bench.open();
        assert!(open[0] <= 1 + CUSTOMERS && open[1] <= 3 + CUSTOMERS, "{open:?}");
        // One step of each request touches the missing page.
        assert!(bench.traps.get() - bench.answered.get() <= 1);
    }
}

#[test]
fn a_disk_serves_one_request_at_a_time() {
    let (mut world, segment, [server]) = world([SERVER]);
    let times = (Duration::from_micros(100), Duration::from_millis(10));
    let (program, answered) = DiskServer::new(PORT, 1_000, times, varying());
    world.host_mut(server).spawn("nfsd", 0, Box::new(program));
    let flow = Flow {
        from: Station { hardware: hardware_address(9, 0), address: CLIENT, port: 1_000 },
        to: Station { hardware: hardware_address(server.0, 0), address: SERVER, port: PORT },
        payload_bytes: 120,
        rate_pps: 300,
        pattern: Pattern::Poisson,
        start: Instant::ZERO,
        stop: Instant::NEVER,
    };
    world.add_source(segment, flow, Conditions::PERFECT);
    world.run_until(Instant::ZERO + Duration::from_secs(10));
    // The sample has 3000 of them.
    assert!((900..1_050).contains(&answered.get()), "{}", answered.get());
}
