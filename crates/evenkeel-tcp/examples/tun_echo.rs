//! An echo server (RFC 862) on a TUN device, for the programs of this machine: the kernel's TCP at one end,
//! and this crate's at the other. The example has what a user-space stack adds to TCP: a clock, random bits,
//! IP headers, and a wait that ends with a packet or a deadline.
//!
//! ```console
//! # cargo run --example tun_echo &
//! # ip address add 10.77.0.1/24 dev keel0
//! # ip link set keel0 up
//! # nc 10.77.0.2 7
//! ```
#![allow(clippy::print_stdout, reason = "it reports what to do next")]

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsRawFd;

use evenkeel_tcp::endpoint::{EndpointEvent, ListenAt, Packet, Transmit};
use evenkeel_tcp::segment::PROTOCOL;
use evenkeel_tcp::time::{Duration, Instant};
use evenkeel_tcp::{Checksum, Ecn, Endpoint, EndpointConfig, ListenerConfig, Secret};

pub(crate) const DEVICE: &str = "keel0";
const MTU: usize = 1_500;
/// Bytes of an IP header without options.
const IP: usize = 20;
/// The bytes that an MTU leaves after both headers without options.
const MSS: u16 = (MTU - IP - 20) as u16;

fn main() -> io::Result<()> {
    let tun = open(DEVICE)?;
    println!("In another terminal, as root:");
    println!("ip address add 10.77.0.1/24 dev {DEVICE}; ip link set {DEVICE} up; nc 10.77.0.2 7");
    serve(tun, |_| true)
}

/// Opens a TUN device, which exists as long as the file is open.
pub(crate) fn open(name: &str) -> io::Result<File> {
    let tun = File::options().read(true).write(true).open("/dev/net/tun")?;
    // SAFETY: an all-zero request is valid: it has no name and no flags.
    let mut request: libc::ifreq = unsafe { core::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().take(libc::IFNAMSIZ - 1).zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes the request, which outlives the call.
    match unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETIFF, &raw mut request) } {
        0 => Ok(tun),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Serves the packets of a TUN device as long as `goes_on` returns true, which is called before each wait.
#[allow(clippy::disallowed_methods, reason = "the crate reads no clock, so its callers do")]
pub(crate) fn serve(mut tun: File, mut goes_on: impl FnMut(&Endpoint) -> bool) -> io::Result<()> {
    let start = std::time::Instant::now();
    let mut bits = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bits)?;
    let mut tcp = Endpoint::new(EndpointConfig::default(), Secret::new(bits));
    tcp.listen(ListenAt::any(7), &ListenerConfig::default(), None).map_err(io::Error::other)?;
    let mut packet = [0; MTU];
    while goes_on(&tcp) {
        let now = Instant::ZERO + start.elapsed();
        if wait(&tun, tcp.next_deadline().map(|deadline| deadline.since(now)))? {
            let len = tun.read(&mut packet)?;
            input(&mut tcp, &packet[..len], Instant::ZERO + start.elapsed());
        }
        let now = Instant::ZERO + start.elapsed();
        tcp.advance(now);
        echo(&mut tcp, now);
        while let Some(sent) = tcp.poll_transmit(now, &(), &mut packet[IP..]) {
            if let Some(header) = ip_header(&sent) {
                packet[..IP].copy_from_slice(&header);
                tun.write_all(&packet[..IP + sent.len])?;
            }
        }
    }
    Ok(())
}

/// Waits for a packet, for at most `time`. Returns whether there is one.
fn wait(tun: &File, time: Option<Duration>) -> io::Result<bool> {
    // The next millisecond: no deadline is early.
    let milliseconds = time.map_or(-1, |time| i32::try_from(time.as_millis() + 1).unwrap_or(i32::MAX));
    let mut file = libc::pollfd { fd: tun.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: the call reads and writes one structure, which outlives it.
    match unsafe { libc::poll(&raw mut file, 1, milliseconds) } {
        -1 => Err(io::Error::last_os_error()),
        ready => Ok(ready > 0),
    }
}

/// Gives the segment of an IPv4 packet to TCP. Other packets are ignored, and so are fragments.
fn input(tcp: &mut Endpoint, packet: &[u8], now: Instant) {
    let Some(&[first, traffic_class, _, _, _, _, f0, f1, _, protocol, _, _, a, b, c, d, e, f, g, h]) =
        packet.first_chunk()
    else {
        return;
    };
    let is_fragment = u16::from_be_bytes([f0, f1]) & 0x3fff != 0;
    if first >> 4 != 4 || protocol != PROTOCOL || is_fragment {
        return;
    }
    let Some(segment) = packet.get(usize::from(first & 15) * 4..) else { return };
    let [source, destination] =
        [[a, b, c, d], [e, f, g, h]].map(|octets| IpAddr::from(Ipv4Addr::from(octets)));
    let packet = Packet { source, destination, ecn: Ecn::from_bits(traffic_class), mss: MSS };
    tcp.input(segment, &packet, now);
}

/// Returns the IP header of a segment; `None` if its addresses are of IPv6.
fn ip_header(sent: &Transmit) -> Option<[u8; IP]> {
    let (IpAddr::V4(source), IpAddr::V4(destination)) = (sent.tuple.local.addr, sent.tuple.remote.addr)
    else {
        return None;
    };
    let ([a, b, c, d], [e, f, g, h]) = (source.octets(), destination.octets());
    let [l0, l1] = u16::try_from(IP + sent.len).ok()?.to_be_bytes();
    let traffic_class = sent.dscp << 2 | sent.ecn.to_bits();
    // Version and length; "don't fragment", as path MTU discovery wants it; a TTL of 64.
    let mut header = [0x45, traffic_class, l0, l1, 0, 0, 0x40, 0, 64, PROTOCOL, 0, 0, a, b, c, d, e, f, g, h];
    let checksum = Checksum::default().add(&header).finish();
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    Some(header)
}

/// Writes what connections bring back to them. Closes those whose peer has closed its side.
fn echo(tcp: &mut Endpoint, now: Instant) {
    let mut buffer = [0; 4_096];
    while let Some(event) = tcp.poll_event() {
        match event {
            EndpointEvent::Acceptable(at) => while tcp.accept(&at).is_some() {},
            EndpointEvent::Connection(id, _) => {
                while let Ok(len @ 1..) = tcp.peek(id, &mut buffer) {
                    // Without room to write, an event reports the room later.
                    let Ok(written) = tcp.write(id, &buffer[..len]) else { break };
                    let _ = tcp.read(id, &mut buffer[..written], now);
                }
                if tcp.peek(id, &mut buffer) == Ok(0) || tcp.readiness(id).over {
                    tcp.close(id, now);
                }
            }
        }
    }
}
