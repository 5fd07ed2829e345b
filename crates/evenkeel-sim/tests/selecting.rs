//! Tests of event-driven servers around `select` with their clients, on machines that take no time for
//! anything.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use evenkeel_core::host::Config;
use evenkeel_core::process::ProcessId;
use evenkeel_core::receive::Architecture;
use evenkeel_core::socket::{Allocation, Select};
use evenkeel_core::stack::IpEndpoint;
use evenkeel_core::tcp::ListenerConfig;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::{IpCidr, Ipv4Address};
use evenkeel_core::work::Work;
use evenkeel_sim::machine::{Costs, Machine};
use evenkeel_sim::net::Conditions;
use evenkeel_sim::rng::Rng;
use evenkeel_sim::selecting::{
    Answers, ClientCounts, ColdClients, Due, HandlerCosts, HotClients, LoopCosts, LoopCounts, Path, Proxy,
    SelectServer, SlowOrigin,
};
use evenkeel_sim::web::WebServer;
use evenkeel_sim::world::{HostId, Port, World};

const CLIENT: Ipv4Address = Ipv4Address::new(10, 0, 0, 1);
const SERVER: Ipv4Address = Ipv4Address::new(10, 0, 0, 2);
const ORIGIN: Ipv4Address = Ipv4Address::new(10, 0, 0, 3);
const HTTP: u16 = 80;
const DOCUMENT: usize = 8_000;
const COLD: usize = 100;
const RATE_GAP: Duration = Duration::from_millis(5);
const END: Instant = Instant::from_millis(3_000);

/// The server under test.
#[derive(Clone, Copy)]
enum Serves {
    Web,
    CachingProxy,
    /// A proxy whose origin takes this long.
    RelayingProxy(Duration),
}

struct Bench {
    world: World,
    process: ProcessId,
    around: LoopCounts,
    counts: ClientCounts,
}

const SERVER_HOST: HostId = HostId(1);
const CLIENTS: usize = 8;

impl Bench {
    fn new(select: Select, costs: Costs, serves: Serves) -> Self {
        let mut world = World::new(1);
        let segment = world.add_segment();
        let port = |address: Ipv4Address| {
            Port::new(segment, IpCidr::new(address.into(), 24)).with_conditions(Conditions::wire(
                100_000_000,
                Duration::from_micros(50),
                1_000,
            ))
        };
        let allocation = if select == Select::Classic { Allocation::Linear } else { Allocation::Bitmap };
        for (address, costs) in [(CLIENT, Costs::FREE), (SERVER, costs), (ORIGIN, Costs::FREE)] {
            let config = Config { select, allocation, ..Config::of(Architecture::Eager) };
            world.add_host(config, costs, &[port(address)]).unwrap();
        }
        let (at, no_loop, no_costs) =
            ((HTTP, ListenerConfig::default()), LoopCosts::default(), HandlerCosts::default());
        let origin = IpEndpoint::new(ORIGIN.into(), HTTP);
        let (process, around) = match serves {
            Serves::Web => {
                let (program, around, _) = SelectServer::new(at, DOCUMENT, no_loop, no_costs);
                (world.host_mut(SERVER_HOST).spawn("server", 0, Box::new(program)), around)
            }
            Serves::CachingProxy => {
                let (program, _) = WebServer::new(HTTP, ListenerConfig::default(), 100, Duration::ZERO);
                world.host_mut(HostId(2)).spawn("origin", 0, Box::new(program));
                let answers = Answers::FromCache(DOCUMENT);
                let (program, around, _) = Proxy::new(at, origin, answers, no_loop, no_costs);
                (world.host_mut(SERVER_HOST).spawn("proxy", 0, Box::new(program)), around)
            }
            Serves::RelayingProxy(time) => {
                let draw = move || Path { time, pieces: 4, bytes: DOCUMENT / 4 };
                let program = SlowOrigin::new(HTTP, ListenerConfig::default(), draw);
                world.host_mut(HostId(2)).spawn("origin", 0, Box::new(program));
                let (program, around, _) = Proxy::new(at, origin, Answers::Relayed, no_loop, no_costs);
                (world.host_mut(SERVER_HOST).spawn("proxy", 0, Box::new(program)), around)
            }
        };
        let to = IpEndpoint::new(SERVER.into(), HTTP);
        world.host_mut(HostId(0)).spawn("cold", 0, Box::new(ColdClients::new(to, COLD)));
        let due = Due::Regular { from: Instant::from_millis(500), gap: RATE_GAP, rng: Rng::new(7) };
        let (hot, counts) = HotClients::new(to, CLIENTS, DOCUMENT, due);
        world.host_mut(HostId(0)).spawn("hot", 0, Box::new(hot));
        Self { world, process, around, counts }
    }

    fn run(mut self) -> Self {
        self.world.run_until(END);
        self
    }

    /// Returns the number of open descriptors of the server.
    fn open(&self) -> usize {
        self.world.host(SERVER_HOST).sockets_of(self.process).len()
    }
}

const SELECTS: [Select; 2] = [Select::Classic, Select::WithMemory];

#[test]
fn servers_answer_all_requests_and_close_what_they_opened() {
    for (serves, events) in [(Serves::Web, 3), (Serves::CachingProxy, 6)] {
        for select in SELECTS {
            let bench = Bench::new(select, Costs::FREE, serves).run();
            let (asked, answered) = (bench.counts.asked.get(), bench.counts.answered.get());
            assert!((450..=550).contains(&asked) && asked - answered <= 1, "{asked} {answered}");
            assert_eq!(bench.counts.failed.get(), 0);
            // These are the listener, the cold connections, and perhaps one that is being answered.
            assert!((COLD + 1..=COLD + 3).contains(&bench.open()), "{}", bench.open());
            let of_hot = bench.around.events.get() - COLD as u64;
            assert!(of_hot.abs_diff(events * asked) <= asked / 10, "{of_hot} events of {asked} requests");
        }
    }
}

#[test]
fn what_select_remembers_makes_no_difference_but_in_what_it_costs() {
    for serves in [Serves::Web, Serves::CachingProxy, Serves::RelayingProxy(Duration::from_millis(30))] {
        let [classic, with_memory] =
            SELECTS.map(|select| Bench::new(select, Costs::FREE, serves).run().world.trace().hash());
        assert_eq!(classic, with_memory);
    }
}

#[test]
fn the_classic_select_asks_all_and_the_one_with_memory_those_for_which_something_came() {
    let machine = Machine::built_in("alphastation-500").unwrap();
    let costs = machine.costs(Architecture::Eager);
    let tests = SELECTS.map(|select| {
        let bench = Bench::new(select, costs, Serves::CachingProxy).run();
        let calls = bench.around.calls.get();
        let tests = bench.world.cpu(SERVER_HOST).profile().of(Work::StatusTest).as_nanos()
            / costs.of(Work::StatusTest).as_nanos();
        tests as f64 / calls as f64
    });
    assert!(tests[0] > 60.0 && tests[1] < 6.0, "{tests:?} for each call");
}

#[test]
fn an_answer_that_is_relayed_takes_as_long_as_that_of_the_origin() {
    let time = Duration::from_millis(30);
    let bench = Bench::new(Select::WithMemory, Costs::FREE, Serves::RelayingProxy(time)).run();
    let times = bench.counts.times.take();
    assert!(times.len() > 400, "{}", times.len());
    assert!(times.iter().all(|took| (time..time + Duration::from_millis(10)).contains(took)), "{times:?}");
    assert_eq!(bench.counts.failed.get(), 0);
}

/// Clients keep the rate: unanswered requests do not delay others, up to the number of clients.
#[test]
fn clients_ask_whatever_becomes_of_their_requests_and_are_so_many_at_most() {
    let bench = Bench::new(Select::WithMemory, Costs::FREE, Serves::RelayingProxy(Duration::from_secs(100)));
    let mut bench = bench.run();
    assert_eq!((bench.counts.asked.get(), bench.counts.answered.get()), (CLIENTS as u64, 0));
    // Each client has a connection with the proxy, which has one with the origin.
    assert_eq!(bench.open(), 1 + COLD + 2 * CLIENTS);
    bench.world.run_until(END + Duration::from_secs(1));
    assert_eq!(bench.counts.asked.get(), CLIENTS as u64);
}
