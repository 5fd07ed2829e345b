//! Two hosts that are one router to the outside, each on a core of its own, between interfaces with two
//! queues.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::VecDeque;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use evenkeel::raw::cable::{self, Bundle, Options};
use evenkeel::raw::device::{Address, Interface as _, Packet, PacketOptions, TxQueue as _};
use evenkeel::raw::frame::{Frame, Pool};
use evenkeel::raw::host::{Config, Host};
use evenkeel::raw::ip::{InterfaceId, Route, Via};
use evenkeel::raw::receive::Architecture;
use evenkeel::raw::time::{Clock, Duration, Instant};
use evenkeel::raw::wire::{EthernetAddress, IpAddress, IpCidr};
use evenkeel::{Ended, Engine, Group, Remote};
use evenkeel_skip::Lack;

const ROUTER: [EthernetAddress; 2] =
    [EthernetAddress([2, 0, 0, 0, 0, 1]), EthernetAddress([2, 0, 0, 0, 0, 2])];
const NEIGHBOR: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 9]);
const FLOWS: u8 = 32;
const PACKETS: u8 = 50;
const PATIENCE: Duration = Duration::from_secs(20);

/// A link of the router, from outside.
trait Wire {
    fn send(&mut self, frame: &[u8], pool: &mut Pool);

    /// Takes the next frame that a host has sent. Returns it with the index of the queue that it left by,
    /// if that is known.
    fn take(&mut self, pool: &mut Pool) -> Option<(Option<usize>, Frame)>;
}

impl Wire for Bundle {
    fn send(&mut self, frame: &[u8], _pool: &mut Pool) {
        assert!(Self::send(self, frame), "the ring has room");
        self.flush();
    }

    fn take(&mut self, pool: &mut Pool) -> Option<(Option<usize>, Frame)> {
        (0..self.queues()).find_map(|queue| Some((Some(queue), self.take_from(queue, pool)?)))
    }
}

impl Wire for Packet {
    fn send(&mut self, frame: &[u8], pool: &mut Pool) {
        assert_eq!(self.transmit(&mut VecDeque::from_iter(pool.take_copy(frame)), pool), 1);
    }

    fn take(&mut self, pool: &mut Pool) -> Option<(Option<usize>, Frame)> {
        Some((None, self.queue_mut(0).take(pool)?))
    }
}

/// The peers of the router: a sender, and the neighbour to which all packets go.
struct FarEnds<W> {
    source: W,
    sink: W,
    pool: Pool,
    /// Flow and number of each packet, as it came out, and by which queue.
    came: Vec<(u8, u8, Option<usize>)>,
    /// Questions for the neighbour, and from which queues.
    asked: Vec<Option<usize>>,
}

impl<W: Wire> FarEnds<W> {
    fn new(source: W, sink: W, pool: Pool) -> Self {
        Self { source, sink, pool, came: Vec::new(), asked: Vec::new() }
    }

    fn send(&mut self, frame: &[u8]) {
        self.source.send(frame, &mut self.pool);
    }

    /// Takes the frames that the hosts send, and answers each question for the neighbour. All answers take
    /// the path of packets without a flow, to one of the hosts.
    fn look(&mut self) {
        while let Some((queue, frame)) = self.sink.take(&mut self.pool) {
            match frame.bytes() {
                [_, _, _, _, _, _, _, _, _, _, _, _, 8, 6, arp @ ..] => {
                    assert_eq!(arp[24..28], [10, 0, 2, 9]);
                    self.asked.push(queue);
                    self.sink.send(&arp_reply(arp), &mut self.pool);
                }
                packet if packet.get(12..14) == Some(&[8, 0]) => {
                    assert_eq!((&packet[..6], packet[22]), (&NEIGHBOR.0[..], 63));
                    self.came.push((packet[42], packet[43], queue));
                }
                _ => {}
            }
            self.pool.recycle(frame);
        }
        while let Some((_, frame)) = self.source.take(&mut self.pool) {
            self.pool.recycle(frame);
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

/// Returns a UDP datagram without checksum from a port of the flow's own to `to`.
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

fn engine(architecture: Architecture, clock: Clock) -> Engine {
    let mut config = Config::of(architecture);
    (config.stack.forwarding, config.stack.neighbor_updates) = (true, 64);
    Engine::new(Host::new(config).unwrap(), clock).unwrap()
}

fn address(net: u8) -> [IpCidr; 1] {
    [IpCidr::new(IpAddress::v4(10, 0, net, 1), 24)]
}

/// Creates two hosts between bundles of cables, with their surroundings.
fn on_cables(architecture: Architecture, clock: Clock) -> (FarEnds<Bundle>, Group) {
    let outside = Options::new("outside", 9);
    let port = |address| cable::bundle(&outside, &Options { address, ..Options::new("port", 0) }, 2);
    let ((mut source, left), (mut sink, right)) = (port(ROUTER[0]), port(ROUTER[1]));
    let mut pool = Pool::with_limit(4096);
    source.attach(&mut pool).unwrap();
    sink.attach(&mut pool).unwrap();
    let host = |(left, right)| {
        let mut engine = engine(architecture, clock);
        engine.add_cable(left, &address(1)).unwrap();
        engine.add_cable(right, &address(2)).unwrap();
        engine
    };
    let group = Group::new(left.into_iter().zip(right).map(host).collect()).unwrap();
    (FarEnds::new(source, sink, pool), group)
}

/// Connects the peers and a group of two hosts with veth pairs, in the network namespace of the calling
/// thread.
fn on_veths(architecture: Architecture, clock: Clock) -> (FarEnds<Packet>, Group) {
    let pairs = [("source", "left", ROUTER[0]), ("sink", "right", ROUTER[1])];
    let [(source, left), (sink, right)] = pairs.map(|(outside, inside, address)| {
        for words in [
            format!("link add {outside} type veth peer name {inside}"),
            format!("link set {outside} up"),
            format!("link set {inside} up"),
        ] {
            assert!(Command::new("ip").args(words.split(' ')).status().unwrap().success(), "ip {words}");
        }
        let options = PacketOptions { address: Address::Fixed(address), ..PacketOptions::default() };
        let device = PacketOptions { address: Address::Device, ..PacketOptions::default() };
        (Packet::open(outside, &device).unwrap(), Packet::open_queues(inside, &options, 2).unwrap())
    });
    let host = |(left, right): (Packet, Packet)| {
        let mut engine = engine(architecture, clock);
        engine.add_device(Box::new(left), &address(1)).unwrap();
        engine.add_device(Box::new(right), &address(2)).unwrap();
        engine
    };
    let group = Group::new(left.into_iter().zip(right).map(host).collect()).unwrap();
    (FarEnds::new(source, sink, Pool::new(1024)), group)
}

/// Runs `test` outside while the hosts forward.
fn while_forwarding<W>(
    outside: &mut FarEnds<W>,
    group: &mut Group,
    clock: Clock,
    test: impl FnOnce(&mut FarEnds<W>, &Remote),
) {
    let (remote, over) = (group.remote(), AtomicBool::new(false));
    thread::scope(|scope| {
        let hosts = scope.spawn(|| {
            group.run(&[], clock.now() + PATIENCE * 2, |_, _| over.load(Ordering::Relaxed)).unwrap()
        });
        test(outside, &remote);
        over.store(true, Ordering::Relaxed);
        // Whoever halts looks again.
        remote.everywhere(|_, _| ());
        assert_eq!(hosts.join().unwrap(), [Ended::Done; 2]);
    });
    for engine in group.engines() {
        engine.host().check().unwrap();
    }
}

/// Sends packets of all flows, and checks that each flow comes out whole and in order.
fn send_flows<W: Wire>(outside: &mut FarEnds<W>, clock: Clock) {
    for number in 0..PACKETS {
        for flow in 0..FLOWS {
            outside.send(&packet(flow, number, [10, 0, 2, 9]));
        }
        let all = usize::from(FLOWS) * (usize::from(number) + 1);
        outside.look_until(&clock, |outside| outside.came.len() == all);
    }
    for flow in 0..FLOWS {
        let of_flow: Vec<_> = outside.came.iter().filter(|(f, ..)| *f == flow).collect();
        assert!(of_flow.iter().map(|(_, number, _)| *number).eq(0..PACKETS), "in order");
        assert!(of_flow.windows(2).all(|pair| pair[0].2 == pair[1].2), "a flow stays on its core");
    }
}

fn forwarded(group: &Group) -> Vec<u64> {
    group.engines().iter().map(|engine| engine.host().ledger().forwarded).collect()
}

#[test]
fn two_hosts_forward_together_in_order_and_what_one_learns_serves_the_other() {
    for architecture in [Architecture::Polled, Architecture::SoftLrp, Architecture::Eager] {
        let clock = Clock::start();
        let (mut outside, mut group) = on_cables(architecture, clock);
        let mut expected = [0, 0];
        for flow in 0..FLOWS {
            expected[outside.source.queue_of(&packet(flow, 0, [10, 0, 2, 9]))] += u64::from(PACKETS);
        }
        assert_eq!(outside.sink.queue_of(&arp_reply(&[0; 28])), 0, "all answers go to the first host");
        while_forwarding(&mut outside, &mut group, clock, |outside, _| send_flows(outside, clock));
        assert!([0, 1].iter().all(|&queue| outside.asked.contains(&Some(queue))), "both asked");
        assert!(expected.iter().all(|&packets| packets > 0), "the flows are spread: {expected:?}");
        assert_eq!(forwarded(&group), expected, "{architecture:?}");
    }
}

#[test]
fn two_hosts_forward_together_between_devices_of_the_kernel() {
    let isolated = thread::spawn(|| {
        if let Err(error) = evenkeel::raw::kernel::enter_new_network() {
            let test = "two_hosts_forward_together_between_devices_of_the_kernel";
            return evenkeel_skip::skip(test, &Lack::Root(&format!("no network namespace: {error}")));
        }
        let clock = Clock::start();
        let (mut outside, mut group) = on_veths(Architecture::SoftLrp, clock);
        while_forwarding(&mut outside, &mut group, clock, |outside, _| send_flows(outside, clock));
        let forwarded = forwarded(&group);
        assert!(forwarded.iter().all(|&packets| packets > 0), "the flows are spread: {forwarded:?}");
        assert_eq!(forwarded.iter().sum::<u64>(), u64::from(FLOWS) * u64::from(PACKETS));
    });
    isolated.join().unwrap();
}

#[test]
fn a_route_set_from_outside_holds_on_all_hosts() {
    let clock = Clock::start();
    let (mut outside, mut group) = on_cables(Architecture::SoftLrp, clock);
    while_forwarding(&mut outside, &mut group, clock, |outside, remote| {
        let gateway = Via::Gateway(InterfaceId(1), IpAddress::v4(10, 0, 2, 9));
        let route = Route { to: IpCidr::new(IpAddress::v4(10, 9, 0, 0), 16), via: gateway, metric: 0 };
        for flow in 0..FLOWS {
            outside.send(&packet(flow, 0, [10, 9, 0, 1]));
        }
        remote.everywhere(move |host, _| assert_eq!(host.set_route(route.clone()), Ok(())));
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

/// A thread outside of the group inspects the hosts while they run, and no host stops for it.
#[test]
fn hosts_are_looked_at_while_they_run() {
    let clock = Clock::start();
    let engine = || Engine::new(Host::new(Config::default()).unwrap(), clock).unwrap();
    let mut group = Group::new(vec![engine(), engine()]).unwrap();
    let (remote, (tell, told)) = (group.remote(), std::sync::mpsc::channel());
    let seen = std::cell::Cell::new(0_usize);
    let enough = AtomicBool::new(false);
    let over = |_: usize, _: &Host| enough.load(Ordering::Relaxed);
    let ended = group.run_beside(&[], Instant::NEVER, over, Duration::from_millis(1), &[], || {
        // A host that has ended answers no more, while the other may be about to.
        if enough.load(Ordering::Relaxed) {
            return;
        }
        for index in 0..2 {
            let tell = tell.clone();
            remote.on(index, move |host, _| {
                tell.send((index, host.routes().count(), thread::current().id())).unwrap()
            });
        }
        // Both answer while both go on, again and again.
        let answers = [(); 2].map(|()| told.recv_timeout(PATIENCE).unwrap());
        assert!(answers.iter().all(|(_, _, thread)| *thread != thread::current().id()));
        assert_ne!(answers[0].0, answers[1].0);
        seen.set(seen.get() + 1);
        enough.store(seen.get() == 5, Ordering::Relaxed);
        remote.everywhere(|_, _| {});
    });
    assert_eq!((ended.unwrap(), seen.get()), (vec![Ended::Done; 2], 5));
}

/// There is no such processor; the host that can run would run for ever.
#[test]
fn if_one_host_fails_the_others_end() {
    let clock = Clock::start();
    let engine = || Engine::new(Host::new(Config::default()).unwrap(), clock).unwrap();
    let mut group = Group::new(vec![engine(), engine()]).unwrap();
    let cpu = evenkeel::raw::cpu::cpus()[0];
    assert!(group.run(&[cpu, 100_000], Instant::NEVER, |_, _| false).is_err());
}
