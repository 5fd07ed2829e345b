//! Frames from a script: right in every field and checksum, then spoiled as the script says.

use evenkeel_core::wire::{EthernetAddress, IpAddress, Ipv4Address, Ipv6Address};

use super::Script;

pub const HOST_MAC: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 2]);
pub const PEER_MAC: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 1]);

pub const HOST: Ipv4Address = Ipv4Address::new(10, 0, 0, 2);
pub const GROUP: Ipv4Address = Ipv4Address::new(239, 1, 2, 3);
pub const HOST_V6: Ipv6Address = Ipv6Address::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
pub const GROUP_V6: Ipv6Address = Ipv6Address::new(0xff05, 0, 0, 0, 0, 0, 0, 0x1234);
const HOST_LINK_LOCAL: Ipv6Address = Ipv6Address::new(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, 2);

/// The destinations of packets. The first is the host; the others are of every other kind of address.
pub const TO_V4: [Ipv4Address; 8] = [
    HOST,
    Ipv4Address::new(255, 255, 255, 255),
    Ipv4Address::new(10, 0, 0, 255),
    GROUP,
    Ipv4Address::new(224, 0, 0, 1),
    Ipv4Address::new(10, 0, 0, 99),
    Ipv4Address::new(127, 0, 0, 1),
    Ipv4Address::new(0, 0, 0, 0),
];
/// The sources of packets: neighbours, a distant host, and addresses from which no packet may come.
pub const FROM_V4: [Ipv4Address; 8] = [
    Ipv4Address::new(10, 0, 0, 1),
    Ipv4Address::new(10, 0, 0, 3),
    Ipv4Address::new(192, 0, 2, 1),
    HOST,
    Ipv4Address::new(10, 0, 0, 255),
    Ipv4Address::new(127, 0, 0, 1),
    Ipv4Address::new(0, 0, 0, 0),
    GROUP,
];
pub const TO_V6: [Ipv6Address; 8] = [
    HOST_V6,
    HOST_LINK_LOCAL,
    Ipv6Address::new(0xff02, 0, 0, 0, 0, 0, 0, 1),
    Ipv6Address::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 2),
    GROUP_V6,
    Ipv6Address::new(0xfd00, 0, 0, 0, 0, 0, 0, 99),
    Ipv6Address::new(0, 0, 0, 0, 0, 0, 0, 1),
    Ipv6Address::new(0, 0, 0, 0, 0, 0, 0, 0),
];
pub const FROM_V6: [Ipv6Address; 8] = [
    Ipv6Address::new(0xfd00, 0, 0, 0, 0, 0, 0, 1),
    Ipv6Address::new(0xfe80, 0, 0, 0, 0, 0, 0, 1),
    Ipv6Address::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
    HOST_V6,
    Ipv6Address::new(0, 0, 0, 0, 0, 0, 0, 0),
    Ipv6Address::new(0, 0, 0, 0, 0, 0, 0, 1),
    Ipv6Address::new(0xff02, 0, 0, 0, 0, 0, 0, 1),
    Ipv6Address::new(0xfd00, 0, 0, 0, 0, 0, 0, 3),
];
pub const PORTS: [u16; 6] = [7, 8, 53, 49_152, 65_535, 0];

const PIECES: [usize; 5] = [8, 64, 512, 1400, 24];
const DATAGRAMS: [usize; 6] = [40, 200, 1_500, 3_000, 9_000, 65_507];

const ICMP: u8 = 1;
const IGMP: u8 = 2;
const UDP: u8 = 17;
const ICMP_V6: u8 = 58;

/// A frame, and, if nothing spoiled it, the destination of its UDP datagram.
#[derive(Debug, Clone, Default)]
pub struct Made {
    pub bytes: Vec<u8>,
    pub udp: Option<(IpAddress, u16)>,
}

/// A packet under construction: the frame, and the places that the transport's checksum does not cover yet.
struct Draft {
    bytes: Vec<u8>,
    /// The offset and the protocol of a transport header with a checksum.
    transport: Option<(usize, u8)>,
    udp: Option<(IpAddress, u16)>,
}

/// Creates the next frame. The first byte gives its kind, the second the spoiling; zero leaves it as it is.
pub fn frame(script: &mut Script<'_>) -> Made {
    let (kind, spoil) = (script.byte(), script.byte());
    let mut draft = match kind % 11 {
        0 => udp(script),
        1 => udp_v6(script),
        2 => fragment_v4(script),
        3 => fragment_v6(script),
        4 => arp(script),
        5 => icmp(script),
        6 => neighbor_discovery(script),
        7 => icmp_v6(script),
        8 => igmp(script),
        9 => anything_v4(script),
        _ => anything_v6(script),
    };
    finish(&mut draft, spoil, script);
    Made { bytes: draft.bytes, udp: draft.udp.filter(|_| spoil == 0) }
}

/// Returns an unspoiled datagram from a neighbour to the host.
pub fn datagram(port: u16) -> Vec<u8> {
    let mut draft = v4(FROM_V4[0], HOST, UDP, 0, 0, &[], &udp_segment(port, b"alive?"));
    seal(&mut draft);
    draft.bytes
}

/// Returns bytes of any length that form no valid frame.
pub fn noise(script: &mut Script<'_>) -> Vec<u8> {
    let len = script.byte();
    script.bytes(usize::from(len)).to_vec()
}

/// Spoils the frame before the checksums are computed, computes them, and spoils it again.
fn finish(draft: &mut Draft, spoil: u8, script: &mut Script<'_>) {
    edit(&mut draft.bytes, spoil & 3, script);
    seal(draft);
    edit(&mut draft.bytes, spoil >> 2 & 3, script);
    if spoil & 0x10 != 0 {
        let cut = usize::from(script.byte()) * draft.bytes.len() / 256;
        draft.bytes.truncate(cut);
    }
    if spoil & 0x20 != 0 && draft.bytes.len() < 60 {
        draft.bytes.resize(60, 0xaa);
    }
}

fn edit(bytes: &mut [u8], times: u8, script: &mut Script<'_>) {
    for _ in 0..times {
        // Most edits hit the headers, where they matter most.
        let (place, value) = (usize::from(script.byte()), script.byte());
        if let Some(byte) = bytes.get_mut(place) {
            *byte = value;
        }
    }
}

// --- Whole datagrams ---

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i ^ (i >> 8)) as u8).collect()
}

fn udp_segment(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut segment = [4321_u16.to_be_bytes(), port.to_be_bytes()].concat();
    segment.extend((8 + payload.len() as u16).to_be_bytes());
    segment.extend([0, 0]);
    segment.extend(payload);
    segment
}

fn udp(script: &mut Script<'_>) -> Draft {
    let (from, to, port) = (script.pick(&FROM_V4), script.pick(&TO_V4), script.pick(&PORTS));
    let segment = udp_segment(port, &pattern(script.byte().into()));
    Draft { udp: Some((to.into(), port)), ..v4(from, to, UDP, 0, 0, &[], &segment) }
}

fn udp_v6(script: &mut Script<'_>) -> Draft {
    let (from, to, port) = (script.pick(&FROM_V6), script.pick(&TO_V6), script.pick(&PORTS));
    let segment = udp_segment(port, &pattern(script.byte().into()));
    Draft { udp: Some((to.into(), port)), ..v6(from, to, UDP, 64, &[], &segment) }
}

// --- Fragments ---

/// A piece of a datagram. Equal datagrams are cut in several ways, so that pieces complete each other,
/// repeat, and overlap.
struct Cut {
    identification: u8,
    segment: Vec<u8>,
    protocol: u8,
    offset: usize,
    len: usize,
    more: bool,
}

impl Cut {
    fn of(script: &mut Script<'_>, echo: (u8, u8)) -> Self {
        let (identification, total) = (script.byte() & 3, script.pick(&DATAGRAMS));
        let (piece, place, flags) = (script.pick(&PIECES), usize::from(script.byte()), script.byte());
        let payload = pattern(total);
        let (segment, protocol) = if flags & 1 == 0 {
            (udp_segment(PORTS[0], &payload), UDP)
        } else {
            ([&[echo.1, 0, 0, 0, 0, 1, 0, identification], &payload[..]].concat(), echo.0)
        };
        let offset = piece * place;
        let len = piece.min(segment.len().saturating_sub(offset));
        let more = (offset + len < segment.len()) ^ (flags & 2 != 0);
        Self { identification, segment, protocol, offset, len, more }
    }

    /// Returns the piece of a segment with a right checksum.
    fn piece(&self, whole: &mut Draft) -> Vec<u8> {
        seal(whole);
        let begin = whole.bytes.len() - self.segment.len() + self.offset;
        whole.bytes.get(begin..begin + self.len).unwrap_or_default().to_vec()
    }
}

fn fragment_v4(script: &mut Script<'_>) -> Draft {
    let (from, to) = (script.pick(&FROM_V4), script.pick(&TO_V4));
    let cut = Cut::of(script, (ICMP, 8));
    let piece = cut.piece(&mut v4(from, to, cut.protocol, 0, 0, &[], &cut.segment));
    let word = (cut.offset / 8) as u16 & 0x1fff | u16::from(cut.more) << 13;
    let draft = v4(from, to, cut.protocol, cut.identification.into(), word, &[], &piece);
    Draft { transport: None, ..draft }
}

fn fragment_v6(script: &mut Script<'_>) -> Draft {
    let (from, to) = (script.pick(&FROM_V6), script.pick(&TO_V6));
    let cut = Cut::of(script, (ICMP_V6, 128));
    let piece = cut.piece(&mut v6(from, to, cut.protocol, 64, &[], &cut.segment));
    let mut header = vec![cut.protocol, 0];
    header.extend((cut.offset as u16 & 0xfff8 | u16::from(cut.more)).to_be_bytes());
    header.extend([0, 0, 0, cut.identification]);
    let draft = v6(from, to, 44, 64, &[], &[header, piece].concat());
    Draft { transport: None, ..draft }
}

// --- Neighbours, control messages ---

fn arp(script: &mut Script<'_>) -> Draft {
    let operation = script.pick(&[1, 2, 1, 3]);
    let (sender, target) = (script.pick(&FROM_V4), script.pick(&TO_V4));
    let hardware = EthernetAddress([2, 0, 0, 0, 0, script.byte()]);
    let to = if script.flag() { HOST_MAC } else { EthernetAddress::BROADCAST };
    let mut bytes = ethernet(to, 0x0806);
    bytes.extend([0, 1, 8, 0, 6, 4, 0, operation]);
    bytes.extend(hardware.0);
    bytes.extend(sender.octets());
    bytes.extend([0; 6]);
    bytes.extend(target.octets());
    Draft { bytes, transport: None, udp: None }
}

/// Creates an echo, an error about a datagram that the host might have sent, or a message of any type.
fn icmp(script: &mut Script<'_>) -> Draft {
    let (from, to) = (script.pick(&FROM_V4), script.pick(&TO_V4));
    let (kind, code, field) = (script.pick(&[8, 3, 11, 0, 5, 13]), script.byte() & 7, script.word());
    let mut message = vec![kind, code, 0, 0, 0, 0];
    message.extend(field.to_be_bytes());
    if kind == 3 || kind == 11 || kind == 5 {
        let quoted = v4(HOST, script.pick(&FROM_V4), UDP, 0, 0x4000, &[], &udp_segment(4321, &[]));
        message.extend(&quoted.bytes[14..]);
    } else {
        message.extend(pattern(script.byte().into()));
    }
    v4(from, to, ICMP, 0, 0, &[], &message)
}

fn neighbor_discovery(script: &mut Script<'_>) -> Draft {
    let (from, to, target) = (script.pick(&FROM_V6), script.pick(&TO_V6), script.pick(&TO_V6));
    let (kind, flags) = (script.pick(&[135, 136, 133, 134, 137]), script.byte());
    let source_or_target = script.byte();
    let mut message = vec![kind, 0, 0, 0, flags, 0, 0, 0];
    // An advertisement is about its sender as often as about the host.
    let about = if kind == 136 && flags & 1 == 1 { from } else { target };
    message.extend(about.octets());
    if source_or_target != 0 {
        message.extend([source_or_target % 6, 1, 2, 0, 0, 0, 0, source_or_target]);
    }
    message.extend(noise(script));
    v6(from, to, ICMP_V6, 255, &[], &message)
}

fn icmp_v6(script: &mut Script<'_>) -> Draft {
    let (from, to) = (script.pick(&FROM_V6), script.pick(&TO_V6));
    let kind = script.pick(&[128, 1, 2, 3, 4, 130, 131, 132, 143, 129]);
    let (code, field) = (script.byte() & 7, script.word());
    let mut message = vec![kind, code, 0, 0, 0, 0];
    message.extend(field.to_be_bytes());
    let mut options: &[u8] = &[];
    match kind {
        1..=4 => {
            let quoted = v6(HOST_V6, script.pick(&FROM_V6), UDP, 64, &[], &udp_segment(4321, &[]));
            message.extend(&quoted.bytes[14..]);
        }
        130..=132 => {
            message.extend(script.pick(&TO_V6).octets());
            // This is hop-by-hop: router alert (RFC 2710 section 3).
            options = &[ICMP_V6, 0, 5, 2, 0, 0, 1, 0];
        }
        _ => message.extend(pattern(script.byte().into())),
    }
    if options.is_empty() {
        return v6(from, to, ICMP_V6, 64, &[], &message);
    }
    v6(from, to, 0, 1, options, &message)
}

fn igmp(script: &mut Script<'_>) -> Draft {
    let (from, to, group) = (script.pick(&FROM_V4), script.pick(&TO_V4), script.pick(&TO_V4));
    let mut message = vec![script.pick(&[0x11, 0x16, 0x17, 0x12, 0x22]), script.byte(), 0, 0];
    message.extend(group.octets());
    let options: &[u8] = if script.flag() { &[0x94, 4, 0, 0] } else { &[] };
    v4(from, to, IGMP, 0, 0, options, &message)
}

/// Creates any protocol, options and flags over a right header.
fn anything_v4(script: &mut Script<'_>) -> Draft {
    let (from, to, protocol) = (script.pick(&FROM_V4), script.pick(&TO_V4), script.byte());
    let (identification, flags_offset) = (script.word(), script.word());
    let units = usize::from(script.byte() % 11);
    let mut options = script.bytes(units * 4).to_vec();
    options.resize(units * 4, 0);
    let body = noise(script);
    let draft = v4(from, to, protocol, identification, flags_offset, &options, &body);
    let transport = draft.transport.filter(|_| flags_offset & 0x3fff == 0);
    Draft { transport, ..draft }
}

/// Creates any chain of extension headers over a right header. The checksum is that of a UDP datagram after
/// them.
fn anything_v6(script: &mut Script<'_>) -> Draft {
    let (from, to) = (script.pick(&FROM_V6), script.pick(&TO_V6));
    let count = usize::from(script.byte() % 10);
    let kinds: Vec<u8> = (0..count).map(|_| script.pick(&[0, 60, 43, 44, 60, 51, 59, 135])).collect();
    let mut chain = Vec::new();
    for place in 0..count {
        let next = kinds.get(place + 1).copied().unwrap_or(UDP);
        let body = script.bytes(6);
        chain.extend([next, 0]);
        chain.extend(body);
        chain.resize(8 * (place + 1), 0);
    }
    let segment = udp_segment(script.pick(&PORTS), script.bytes(32));
    v6(from, to, kinds.first().copied().unwrap_or(UDP), 64, &chain, &segment)
}

// --- Headers ---

fn ethernet(to: EthernetAddress, ethertype: u16) -> Vec<u8> {
    [&to.0[..], &PEER_MAC.0, &ethertype.to_be_bytes()].concat()
}

fn v4(
    from: Ipv4Address,
    to: Ipv4Address,
    protocol: u8,
    identification: u16,
    flags_offset: u16,
    options: &[u8],
    payload: &[u8],
) -> Draft {
    let [_, b, c, d] = to.octets();
    let mac = match to {
        _ if to.is_multicast() => EthernetAddress([1, 0, 0x5e, b & 0x7f, c, d]),
        _ if to == Ipv4Address::BROADCAST || d == 255 => EthernetAddress::BROADCAST,
        _ => HOST_MAC,
    };
    let mut bytes = ethernet(mac, 0x0800);
    let header_len = 20 + options.len();
    bytes.extend([0x40 | (header_len / 4) as u8, 0]);
    bytes.extend(((header_len + payload.len()) as u16).to_be_bytes());
    bytes.extend(identification.to_be_bytes());
    bytes.extend(flags_offset.to_be_bytes());
    bytes.extend([64, protocol, 0, 0]);
    bytes.extend(from.octets());
    bytes.extend(to.octets());
    bytes.extend(options);
    bytes.extend(payload);
    Draft { bytes, transport: Some((14 + header_len, protocol)), udp: None }
}

/// Creates an IPv6 packet. `next` is the first extension header's number if `chain` has any; the payload is
/// then UDP, or ICMPv6 if the chain ends so.
fn v6(from: Ipv6Address, to: Ipv6Address, next: u8, hop_limit: u8, chain: &[u8], payload: &[u8]) -> Draft {
    let group = to.octets();
    let mac = if to.is_multicast() {
        EthernetAddress([0x33, 0x33, group[12], group[13], group[14], group[15]])
    } else {
        HOST_MAC
    };
    let mut bytes = ethernet(mac, 0x86dd);
    bytes.extend([0x60, 0, 0, 0]);
    bytes.extend(((chain.len() + payload.len()) as u16).to_be_bytes());
    bytes.extend([next, hop_limit]);
    bytes.extend(from.octets());
    bytes.extend(to.octets());
    bytes.extend(chain);
    bytes.extend(payload);
    let last = chain.chunks(8).last().and_then(|header| header.first()).copied();
    Draft { bytes, transport: Some((54 + chain.len(), last.unwrap_or(next))), udp: None }
}

// --- Checksums ---

/// Makes the checksums right.
fn seal(draft: &mut Draft) {
    let bytes = &mut draft.bytes;
    let is_v4 = bytes.get(12..14) == Some(&[0x08, 0x00]);
    if let Some((start, protocol)) = draft.transport {
        let place = match protocol {
            UDP => start + 6,
            ICMP | IGMP | ICMP_V6 => start + 2,
            _ => return seal_v4_header(bytes),
        };
        let pseudo = match (is_v4, protocol) {
            (true, UDP) => bytes.get(26..34).map(<[u8]>::to_vec),
            (false, _) => bytes.get(22..54).map(<[u8]>::to_vec),
            _ => None,
        };
        let len = bytes.len().saturating_sub(start) as u32;
        let pseudo = pseudo
            .map(|addresses| [&addresses[..], &len.to_be_bytes(), &[0, protocol]].concat())
            .unwrap_or_default();
        let end = bytes.len();
        put_sum(bytes, place, start, end, &pseudo);
    }
    if is_v4 {
        seal_v4_header(bytes);
    }
}

pub fn seal_v4_header(bytes: &mut [u8]) {
    if bytes.get(12..14) == Some(&[0x08, 0x00]) {
        let end = 14 + usize::from(bytes.get(14).map_or(0, |first| first & 0x0f)) * 4;
        put_sum(bytes, 24, 14, end, &[]);
    }
}

/// Writes the checksum over `pseudo` and bytes `start..end` to `place`, if all of these bytes exist.
fn put_sum(bytes: &mut [u8], place: usize, start: usize, end: usize, pseudo: &[u8]) {
    if place + 2 > end || end > bytes.len() {
        return;
    }
    bytes[place..place + 2].fill(0);
    let sum = !sum([pseudo, &bytes[start..end]].concat());
    bytes[place..place + 2].copy_from_slice(&if sum == 0 { 0xffff } else { sum }.to_be_bytes());
}

fn sum(bytes: Vec<u8>) -> u16 {
    let words = bytes.chunks(2).map(|w| u64::from(w[0]) << 8 | u64::from(w.get(1).copied().unwrap_or(0)));
    let mut sum: u64 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
