//! The bench with a second interface: a router between a LAN, where the first wire is, and a WAN. It knows
//! its neighbours.

use evenkeel_core::cable::{Completion, End, Options, pair};
use evenkeel_core::frame::Pool;
use evenkeel_core::host::{Config, Host};
use evenkeel_core::interface::Interface;
use evenkeel_core::receive::Architecture;
use evenkeel_core::stack::{self, InterfaceId};
use evenkeel_core::time::Instant;
use evenkeel_core::wire::{EthernetAddress, IpAddress, IpCidr, Ipv4Address, Ipv4Packet};
use evenkeel_core::work::Work;

use super::extended::Extended;
use super::offloading::Shared;
use super::{Bench, HOST, HOST_MAC, PEER, PEER_MAC, udp_between};

pub(crate) const LAN: InterfaceId = InterfaceId(0);
pub(crate) const WAN: InterfaceId = InterfaceId(1);
pub(crate) const WAN_HOST: Ipv4Address = Ipv4Address::new(198, 51, 100, 2);
pub(crate) const FAR: Ipv4Address = Ipv4Address::new(198, 51, 100, 1);
pub(crate) const WAN_MAC: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 4]);
pub(crate) const FAR_MAC: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 3]);

/// The settings of the router.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) config: Config,
    /// Descriptors of its transmit rings, if the test decides when frames leave ([`Bench::leave_wan`]).
    pub(crate) transmit_ring_pkts: Option<usize>,
    /// A flag for each of LAN and WAN: its driver cannot poll.
    pub(crate) legacy: [bool; 2],
}

impl Setup {
    pub(crate) fn new(config: Config) -> Self {
        Self { config, transmit_ring_pkts: None, legacy: [false; 2] }
    }

    fn interface(&self, number: u8) -> (End, End) {
        let demultiplexes = self.config.architecture == Architecture::NiLrp;
        let (completion, transmit_ring_pkts) = match self.transmit_ring_pkts {
            Some(pkts) if number == 4 => (Completion::ByPeer, pkts),
            _ => (Completion::AtOnce, 0),
        };
        let inside = Options {
            demultiplexes,
            completion,
            transmit_ring_pkts,
            ring_pkts: 64,
            ..Options::new("router", number)
        };
        pair(Options { ring_pkts: 4096, ..Options::new("wire", number - 1) }, inside)
    }

    pub(crate) fn bench(self) -> Bench {
        let ((wire, lan), (wan, inside_wan)) = (self.interface(2), self.interface(4));
        self.bench_of([wire, wan], [Box::new(lan), Box::new(inside_wan)])
    }

    /// Returns a bench whose interfaces forward by themselves, and what they forward.
    pub(crate) fn offloading_bench(self) -> (Bench, [Shared; 2]) {
        let ((wire, lan), (wan, inside_wan)) = (self.interface(2), self.interface(4));
        let (lan, by_lan) = Extended::forwarding(lan, 100);
        let (inside_wan, by_wan) = Extended::forwarding(inside_wan, 101);
        (self.bench_of([wire, wan], [Box::new(lan), Box::new(inside_wan)]), [by_lan, by_wan])
    }

    fn bench_of(self, [mut wire, mut wan]: [End; 2], [lan, inside_wan]: [Box<dyn Interface>; 2]) -> Bench {
        let stack = stack::Config { forwarding: true, report_groups: false, ..self.config.stack.clone() };
        let mut host = Host::new(Config { stack, ..self.config.clone() }).unwrap();
        let interfaces = [(lan, HOST, self.legacy[0]), (inside_wan, WAN_HOST, self.legacy[1])];
        for (interface, address, legacy) in interfaces {
            let address = [IpCidr::new(address.into(), 24)];
            let added = if legacy {
                host.add_legacy_interface(interface, &address, Instant::ZERO)
            } else {
                host.add_interface(interface, &address, Instant::ZERO)
            };
            added.unwrap();
        }
        for (interface, address, hardware) in [(LAN, PEER, PEER_MAC), (WAN, FAR, FAR_MAC)] {
            let address: IpAddress = address.into();
            host.set_neighbor(interface, address, hardware, Instant::ZERO).unwrap();
        }
        let mut pool = Pool::with_limit(16_384);
        wire.attach(&mut pool).unwrap();
        wan.attach(&mut pool).unwrap();
        let work = Work::ALL.iter().map(|&w| (w, 0)).collect();
        Bench { host, wire, wan: Some(wan), pool, now: Instant::ZERO, units: [0; 5], work }
    }
}

impl Bench {
    pub(crate) fn router(config: Config) -> Self {
        Setup::new(config).bench()
    }

    /// Sends frames to the router's WAN interface.
    pub(crate) fn send_wan(&mut self, frames: &[Vec<u8>]) -> usize {
        let wan = self.wan.as_mut().unwrap();
        let taken = frames.iter().filter(|f| wan.send(f)).count();
        wan.flush();
        taken
    }

    /// Returns the frames that the router has sent into the WAN.
    pub(crate) fn sent_wan(&mut self) -> Vec<Vec<u8>> {
        self.leave_wan(usize::MAX)
    }

    /// Lets the next `limit` of these frames leave the adaptor, and returns them.
    pub(crate) fn leave_wan(&mut self, limit: usize) -> Vec<Vec<u8>> {
        let (wan, pool, mut frames) = (self.wan.as_mut().unwrap(), &mut self.pool, Vec::new());
        while frames.len() < limit
            && let Some(frame) = wan.queue_mut(0).take(pool)
        {
            frames.push(frame.bytes().to_vec());
            pool.recycle(frame);
        }
        wan.complete(frames.len() as u64);
        frames
    }

    /// Returns the numbers of the packets of [`outwards`] that the router has sent into the WAN.
    pub(crate) fn numbers_wan(&mut self) -> Vec<u32> {
        numbers(&self.sent_wan())
    }

    pub(crate) fn process(&self, name: &str) -> evenkeel_core::process::ProcessId {
        self.host.processes().find(|(_, n, _)| *n == name).expect("a living process").0
    }
}

/// Returns packet `number` from the LAN to the WAN, as it reaches the router.
pub(crate) fn outwards(number: u32) -> Vec<u8> {
    outwards_to_port(7, number)
}

pub(crate) fn outwards_to_port(port: u16, number: u32) -> Vec<u8> {
    udp_between(PEER, HOST_MAC, FAR, port, &number.to_be_bytes())
}

/// Returns packet `number` from the WAN to the LAN, as it reaches the router.
pub(crate) fn inwards(number: u32) -> Vec<u8> {
    udp_between(FAR, WAN_MAC, PEER, 7, &number.to_be_bytes())
}

/// Returns a frame that reached the router in the form in which it leaves: one hop older, between other
/// stations.
pub(crate) fn passed_on(frame: &[u8], from: EthernetAddress, to: EthernetAddress) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[..6].copy_from_slice(&to.0);
    frame[6..12].copy_from_slice(&from.0);
    let mut packet = Ipv4Packet::new_unchecked(&mut frame[14..]);
    packet.set_hop_limit(packet.hop_limit() - 1);
    packet.fill_checksum();
    frame
}

/// Returns the numbers of the UDP datagrams among `frames`.
pub(crate) fn numbers(frames: &[Vec<u8>]) -> Vec<u32> {
    let udp = frames.iter().filter(|f| f.get(23) == Some(&17));
    udp.filter_map(|f| Some(u32::from_be_bytes(f.get(42..46)?.try_into().ok()?))).collect()
}
