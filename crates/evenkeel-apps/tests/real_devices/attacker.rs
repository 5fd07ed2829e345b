//! Invalid frames, written raw onto the kernel's side of the link.

use std::collections::VecDeque;

use evenkeel::raw::device::{Address, Packet, PacketOptions, TxQueue as _};
use evenkeel::raw::frame::Pool;

use crate::stand::{Stand, wait_for};

/// The hardware address that the attacker's frames come from.
pub(crate) const MAC: &str = "02:00:00:00:66:66";
const MAC_OCTETS: [u8; 6] = [2, 0, 0, 0, 0x66, 0x66];

pub(crate) const US_V4: [u8; 4] = [10, 77, 0, 2];
pub(crate) const KERNEL_V4: [u8; 4] = [10, 77, 0, 1];
pub(crate) const US_V6: [u8; 16] = [0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
pub(crate) const KERNEL_V6: [u8; 16] = [0xfd, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

pub(crate) const ICMP: u8 = 1;
pub(crate) const UDP: u8 = 17;
pub(crate) const FRAGMENT: u8 = 44;
pub(crate) const ICMPV6: u8 = 58;

/// A raw sender on the kernel's device.
pub(crate) struct Attacker {
    packet: Packet,
    pool: Pool,
    us: [u8; 6],
}

impl Attacker {
    pub(crate) fn new(stand: &Stand) -> Self {
        let options = PacketOptions { address: Address::Device, ..PacketOptions::default() };
        let packet = Packet::open(stand.device, &options).unwrap();
        Self { packet, pool: Pool::new(256), us: stand.mac.0 }
    }

    /// Sends frames as they are, as fast as the host takes them and no faster, so that every one is taken.
    pub(crate) fn send(&mut self, stand: &Stand, frames: &[Vec<u8>]) {
        for some in frames.chunks(64) {
            let before = stand.counters().ledger.received;
            let mut waiting: VecDeque<_> =
                some.iter().map(|frame| self.pool.take_copy(frame).unwrap()).collect();
            assert_eq!(self.packet.transmit(&mut waiting, &mut self.pool), some.len());
            wait_for("frames", || stand.counters().ledger.received >= before + some.len() as u64);
        }
    }

    /// Sends a frame over and over as fast as the kernel takes it; where it goes is the host's business.
    pub(crate) fn flood(&mut self, frame: &[u8], count: usize) {
        let (mut waiting, mut sent) = (VecDeque::new(), 0);
        while sent < count {
            let more = (count - sent).min(64) - waiting.len();
            waiting.extend((0..more).map(|_| self.pool.take_copy(frame).unwrap()));
            sent += self.packet.transmit(&mut waiting, &mut self.pool);
        }
    }

    /// Returns a frame to us.
    pub(crate) fn frame(&self, ethertype: u16, payload: &[u8]) -> Vec<u8> {
        frame(self.us, ethertype, payload)
    }

    pub(crate) fn v4(&self, packet: &[u8]) -> Vec<u8> {
        self.frame(0x0800, packet)
    }

    pub(crate) fn v6(&self, packet: &[u8]) -> Vec<u8> {
        self.frame(0x86dd, packet)
    }
}

pub(crate) fn frame(to: [u8; 6], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    [&to[..], &MAC_OCTETS, &ethertype.to_be_bytes(), payload].concat()
}

/// Returns the checksum of RFC 1071.
fn checksum(parts: &[&[u8]]) -> [u8; 2] {
    let bytes = parts.concat();
    let words = bytes.chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w.get(1).copied().unwrap_or(0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!sum as u16).to_be_bytes()
}

/// The fields of an IPv4 header that the tests vary.
#[derive(Clone, Copy)]
pub(crate) struct V4 {
    pub(crate) source: [u8; 4],
    pub(crate) destination: [u8; 4],
    pub(crate) protocol: u8,
    pub(crate) identification: u16,
    pub(crate) offset: usize,
    pub(crate) more: bool,
}

impl V4 {
    pub(crate) const fn new(protocol: u8) -> Self {
        Self { source: KERNEL_V4, destination: US_V4, protocol, identification: 1, offset: 0, more: false }
    }

    pub(crate) fn packet(self, payload: &[u8]) -> Vec<u8> {
        let field = (self.offset / 8) as u16 | u16::from(self.more) << 13;
        let len = (20 + payload.len()) as u16;
        let mut header = vec![0x45, 0];
        for word in [len, self.identification, field] {
            header.extend(word.to_be_bytes());
        }
        header.extend([64, self.protocol, 0, 0]);
        header.extend([self.source, self.destination].concat());
        let sum = checksum(&[&header]);
        header[10..12].copy_from_slice(&sum);
        [&header, payload].concat()
    }

    /// Returns a UDP datagram with a right checksum.
    pub(crate) fn udp(self, port: u16, payload: &[u8]) -> Vec<u8> {
        let len = (8 + payload.len()) as u16;
        let mut head = [0x12, 0x34, 0, 0, 0, 0, 0, 0];
        head[2..4].copy_from_slice(&port.to_be_bytes());
        head[4..6].copy_from_slice(&len.to_be_bytes());
        let pseudo = [&self.source[..], &self.destination, &[0, UDP], &len.to_be_bytes()].concat();
        let sum = checksum(&[&pseudo, &head, payload]);
        head[6..8].copy_from_slice(&sum);
        self.packet(&[&head, payload].concat())
    }
}

pub(crate) fn v6(source: [u8; 16], next_header: u8, payload: &[u8]) -> Vec<u8> {
    let mut header = vec![0x60, 0, 0, 0];
    header.extend((payload.len() as u16).to_be_bytes());
    header.extend([next_header, 64]);
    [&header[..], &source, &US_V6, payload].concat()
}

/// Returns a fragment header and part of a packet (RFC 8200 4.5).
pub(crate) fn fragment_v6(next_header: u8, offset: usize, more: bool, id: u32, part: &[u8]) -> Vec<u8> {
    let field = offset as u16 | u16::from(more);
    [&[next_header, 0][..], &field.to_be_bytes(), &id.to_be_bytes(), part].concat()
}

/// Returns an upper-layer message over IPv6, with its checksum at `place`.
pub(crate) fn sealed_v6(source: [u8; 16], next_header: u8, mut message: Vec<u8>, place: usize) -> Vec<u8> {
    let len = (message.len() as u32).to_be_bytes();
    let sum = checksum(&[&source, &US_V6, &len, &[0, 0, 0, next_header], &message]);
    message[place..place + 2].copy_from_slice(&sum);
    v6(source, next_header, &message)
}

/// Returns an ICMP echo request with a right checksum.
pub(crate) fn echo_request() -> Vec<u8> {
    let mut message = [&[8, 0, 0, 0, 1, 1, 0, 1][..], &[7; 40]].concat();
    let sum = checksum(&[&message]);
    message[2..4].copy_from_slice(&sum);
    message
}

/// Returns `bytes` with bits of the byte at `at` inverted.
pub(crate) fn spoil(mut bytes: Vec<u8>, at: usize) -> Vec<u8> {
    bytes[at] ^= 0x55;
    bytes
}

/// The number of frames that [`send_faults`] sends.
pub(crate) const FAULTS: usize = 5;

/// Sends one frame with each of the faults that `tshark` must find.
pub(crate) fn send_faults(stand: &Stand) {
    let mut attacker = Attacker::new(stand);
    let udp = V4::new(UDP).udp(9, b"spoilt on the way");
    let mut unfit = udp.clone();
    unfit.truncate(24);
    let frames = [
        attacker.v4(&spoil(udp.clone(), 11)),
        attacker.v4(&spoil(udp, 30)),
        attacker.v4(&V4::new(ICMP).packet(&spoil(echo_request(), 12))),
        attacker.v6(&v6(KERNEL_V6, ICMPV6, &[128, 0, 1, 2, 0, 0, 0, 0])),
        attacker.v4(&unfit),
    ];
    assert_eq!(frames.len(), FAULTS);
    attacker.send(stand, &frames);
}
