//! Two hosts that are one router to the outside, each on a core of its own, between interfaces with two queues.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use evenkeel::core::cable::{self, Bundle, End, Options};
use evenkeel::core::frame::Pool;
use evenkeel::core::host::{Config, Host};
use evenkeel::core::receive::Architecture;
use evenkeel::core::stack::{InterfaceId, Route, Via};
use evenkeel::core::time::Duration;
use evenkeel::core::wire::{EthernetAddress, IpAddress, IpCidr};
use evenkeel::link::Clock;
use evenkeel::{Engine, Group, Remote};

const ROUTER: [EthernetAddress; 2] =
    [EthernetAddress([2, 0, 0, 0, 0, 1]), EthernetAddress([2, 0, 0, 0, 0, 2])];
const NEIGHBOR: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 9]);
const FLOWS: u8 = 16;
const PATIENCE: Duration = Duration::from_secs(20);

/// What is around the router: somebody who sends, and the neighbour everything goes to.
struct Outside {
    source: Bundle,
    sink: Bundle,
    pool: Pool,
    /// Flow and number of each packet, as it came out, and by which queue.
    came: Vec<(u8, u8, usize)>,
    asked: [u32; 2],
}

impl Outside {
    fn send(&mut self, frame: &[u8]) {
        assert!(self.source.send(frame), "the ring has room");
        self.source.flush();
    }

    /// Takes what the hosts send. Whoever asks for the neighbour is answered, but all answers go one way: the first queue's.
    fn look(&mut self) {
        for queue in 0..2 {
            while let Some(frame) = self.sink.take_from(queue, &mut self.pool) {
                match frame.bytes() {
                    [_, _, _, _, _, _, _, _, _, _, _, _, 8, 6, arp @ ..] => {
                        assert_eq!(arp[24..28], [10, 0, 2, 9]);
                        self.asked[queue] += 1;
                        let answer = arp_reply(arp);
                        assert_eq!(self.sink.queue_of(&answer), 0);
                        assert!(self.sink.send(&answer));
                        self.sink.flush();
                    }
                    [to @ .., _] if to.get(12..14) == Some(&[8, 0]) => {
                        let payload = &frame.bytes()[42..];
                        assert_eq!((&frame.bytes()[..6], frame.bytes()[22]), (&NEIGHBOR.0[..], 63));
                        self.came.push((payload[0], payload[1], queue));
                    }
                    _ => {}
                }
                self.pool.recycle(frame);
            }
        }
        for queue in 0..2 {
            while let Some(frame) = self.source.take_from(queue, &mut self.pool) {
                self.pool.recycle(frame);
            }
        }
    }

    fn look_until(&mut self, clock: &Clock, enough: impl Fn(&Self) -> bool) {
        let deadline = clock.now() + PATIENCE;
        while !enough(self) {
            assert!(clock.now() < deadline, "{:?} came, {:?} asked", self.came, self.asked);
            self.look();
            thread::yield_now();
        }
    }
}

fn arp_reply(request: &[u8]) -> Vec<u8> {
    let asker = &request[8..14];
    [asker, &NEIGHBOR.0, &[8, 6], &request[..7], &[2], &NEIGHBOR.0, &[10, 0, 2, 9], asker, &request[14..18]]
        .concat()
}

/// UDP without checksum from a port of the flow's own to `to`.
fn packet(flow: u8, number: u8, to: [u8; 4]) -> Vec<u8> {
    let mut ip = vec![0x45, 0, 0, 30, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 1, 9];
    ip.extend(to);
    let sum: u32 = ip.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let sum = !(((sum >> 16) + (sum & 0xffff)) as u16);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let udp = [40, flow, 0, 9, 0, 10, 0, 0, flow, number];
    let frame = [&ROUTER[0].0[..], &NEIGHBOR.0, &[8, 0], &ip, &udp].concat();
    [frame, vec![0; 16]].concat()
}

fn host(architecture: Architecture, clock: Clock, ends: [End; 2]) -> Engine {
    let mut config = Config::of(architecture);
    (config.stack.forwarding, config.stack.news) = (true, 64);
    let mut engine = Engine::new(Host::new(config).unwrap(), clock).unwrap();
    for (end, net) in ends.into_iter().zip([1, 2]) {
        engine.add_cable(end, &[IpCidr::new(IpAddress::v4(10, 0, net, 1), 24)]).unwrap();
    }
    engine
}

/// Runs `test` outside while two hosts forward; gives the group back.
fn with_group(architecture: Architecture, test: impl FnOnce(&mut Outside, &Remote, &Clock)) -> Group {
    let clock = Clock::start();
    let (outside, [left, right]) = (Options::new("outside", 9), [3, 4].map(|n| Options::new("port", n)));
    let address = |options: Options, address| Options { address, ..options };
    let (mut source, left) = cable::bundle(&outside, &address(left, ROUTER[0]), 2);
    let (mut sink, right) = cable::bundle(&outside, &address(right, ROUTER[1]), 2);
    let mut pool = Pool::with_limit(4096);
    source.attach(&mut pool).unwrap();
    sink.attach(&mut pool).unwrap();
    let engines = left.into_iter().zip(right).map(|(left, right)| host(architecture, clock, [left, right]));
    let mut group = Group::new(engines.collect()).unwrap();
    let (remote, over) = (group.remote(), AtomicBool::new(false));
    let mut outside = Outside { source, sink, pool, came: Vec::new(), asked: [0; 2] };
    thread::scope(|scope| {
        let hosts = scope.spawn(|| {
            group.run(&[], clock.now() + PATIENCE * 2, |_, _| over.load(Ordering::Relaxed)).unwrap()
        });
        test(&mut outside, &remote, &clock);
        over.store(true, Ordering::Relaxed);
        // Whoever halts looks again.
        remote.everywhere(|_, _| ());
        assert_eq!(hosts.join().unwrap(), [evenkeel::Ended::Done; 2]);
    });
    for engine in group.engines() {
        engine.host().check().unwrap();
    }
    group
}

fn forwarded(group: &Group) -> Vec<u64> {
    group.engines().iter().map(|engine| engine.host().ledger().forwarded).collect()
}

#[test]
fn two_hosts_forward_together_in_order_and_what_one_learns_serves_the_other() {
    for architecture in [Architecture::Polled, Architecture::SoftLrp, Architecture::Eager] {
        let mut expected = [0, 0];
        let group = with_group(architecture, |outside, _, clock| {
            for number in 0..100 {
                for flow in 0..FLOWS {
                    let packet = packet(flow, number, [10, 0, 2, 9]);
                    expected[outside.source.queue_of(&packet)] += 1;
                    outside.send(&packet);
                }
                let all = usize::from(FLOWS) * (usize::from(number) + 1);
                outside.look_until(clock, |outside| outside.came.len() == all);
            }
            assert!(outside.asked.iter().all(|&asked| asked >= 1), "both asked: {:?}", outside.asked);
            for flow in 0..FLOWS {
                let of_flow: Vec<_> = outside.came.iter().filter(|(f, ..)| *f == flow).collect();
                assert!(of_flow.iter().map(|(_, number, _)| *number).eq(0..100), "in order");
                assert!(of_flow.windows(2).all(|pair| pair[0].2 == pair[1].2), "a flow stays on its core");
            }
        });
        assert!(expected.iter().all(|&packets| packets > 0), "the flows are spread: {expected:?}");
        assert_eq!(forwarded(&group), expected, "{architecture:?}");
    }
}

#[test]
fn a_route_set_from_outside_holds_on_all_hosts() {
    let group = with_group(Architecture::SoftLrp, |outside, remote, clock| {
        let gateway = Via::Gateway(InterfaceId(1), IpAddress::v4(10, 0, 2, 9));
        let route = Route { to: IpCidr::new(IpAddress::v4(10, 9, 0, 0), 16), via: gateway, metric: 0 };
        for flow in 0..FLOWS {
            outside.send(&packet(flow, 0, [10, 9, 0, 1]));
        }
        remote.everywhere(move |host, _| assert_eq!(host.set_route(route), Ok(())));
        let deadline = clock.now() + PATIENCE;
        for flow in 0..FLOWS {
            // Until the route is there, packets die.
            for number in 1.. {
                assert!(clock.now() < deadline, "no route for flow {flow}");
                let before = outside.came.len();
                outside.send(&packet(flow, number, [10, 9, 0, 1]));
                let soon = clock.now() + Duration::from_millis(50);
                while outside.came.len() == before && clock.now() < soon {
                    outside.look();
                    thread::yield_now();
                }
                if outside.came.len() > before {
                    break;
                }
            }
        }
    });
    for engine in group.engines() {
        let ledger = engine.host().ledger();
        assert!(ledger.forwarded > 0 && engine.host().routes().count() >= 5, "{ledger:?}");
    }
}
