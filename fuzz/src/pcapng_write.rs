//! Writing captures. For any interfaces, frames and counters, the file passes a check that shares no code
//! with the writer, and reads back as written, from every block at which it might have been cut off.

use evenkeel_core::wire::EthernetAddress;
use evenkeel_link::capture::encode::{self, Described, Packet};
use evenkeel_link::capture::{Direction, Reader, Totals};

/// The numbers of written blocks, by kind.
#[derive(Debug, Default)]
pub struct Written {
    pub interfaces: usize,
    pub packets: usize,
    pub statistics: usize,
}

/// Runs a script: the number and names of interfaces, then packets and statistics in turn.
pub fn run(input: &[u8]) -> Written {
    let mut script = Script(input);
    let mut interfaces = Vec::new();
    for _ in 0..1 + script.byte() % 4 {
        interfaces.push(described(&mut script));
    }
    let system = text(&mut script);
    let (mut file, mut packets, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    let mut written = Written { interfaces: interfaces.len(), ..Written::default() };
    encode::begin(&mut file, &system, &interfaces);
    ends.push((file.len(), 0));
    while !script.0.is_empty() && packets.len() < 64 {
        let which = u32::from(script.byte()) % interfaces.len() as u32;
        if script.byte() % 8 == 7 {
            encode::statistics(&mut file, which, &totals(&mut script));
            written.statistics += 1;
        } else {
            let (time, more, dropped_before) =
                (script.number(), u32::from(script.byte()), script.number() >> 60);
            let sent = script.byte() % 2 == 1;
            let len = usize::from(script.byte()) * 7;
            let bytes = script.take(len);
            let original_bytes = bytes.len() as u32 + more;
            let direction = if sent { Direction::Outbound } else { Direction::Inbound };
            let comment = core::str::from_utf8(script.comment()).unwrap_or_default();
            let packet =
                Packet { interface: which, direction, time, original_bytes, dropped_before, bytes, comment };
            encode::packet(&mut file, &packet);
            packets.push(packet);
        }
        ends.push((file.len(), packets.len()));
    }
    written.packets = packets.len();
    check(&file, &interfaces, &packets);
    for (end, expected) in ends {
        read_back(&file[..end], &packets[..expected]);
    }
    written
}

fn described(script: &mut Script<'_>) -> Described {
    let name = text(script);
    let flags = script.byte();
    let address = (flags & 1 == 1).then_some(EthernetAddress([2, 0, 0, 0, 0, flags]));
    let filter =
        if flags & 2 == 2 { text(script).repeat(1 + usize::from(script.byte())) } else { String::new() };
    Described { name, address, snaplen: u32::from(flags >> 2), filter, ..Described::default() }
}

fn totals(script: &mut Script<'_>) -> Totals {
    let mut maybe = || Some(script.number()).filter(|n| n % 2 == 0);
    Totals {
        begin: maybe().unwrap_or(0),
        end: maybe().unwrap_or(0),
        received: maybe(),
        missed: maybe(),
        accepted: maybe(),
        dropped: maybe(),
        delivered: maybe(),
    }
}

fn text(script: &mut Script<'_>) -> String {
    let len = usize::from(script.byte() % 32);
    String::from_utf8_lossy(script.take(len)).into_owned()
}

fn read_back(file: &[u8], packets: &[Packet<'_>]) {
    let mut reader = Reader::new(file).expect("a capture");
    for packet in packets {
        assert!(reader.advance().expect("a frame"));
        assert_eq!((reader.frame(), reader.time()), (packet.bytes, packet.time));
        assert_eq!(reader.original_bytes(), packet.original_bytes);
    }
    assert!(!reader.advance().expect("the end"));
    assert_eq!(reader.skipped(), 0);
}

/// Walks the file according to draft-ietf-opsawg-pcapng.
fn check(file: &[u8], interfaces: &[Described], packets: &[Packet<'_>]) {
    let (mut at, mut described, mut found) = (0, 0, 0);
    while at < file.len() {
        let (kind, total) = (u32_at(file, at), u32_at(file, at + 4) as usize);
        assert!(total.is_multiple_of(4) && total >= 12, "length {total} at {at}");
        let body = &file[at + 8..at + total - 4];
        assert_eq!(u32_at(file, at + total - 4) as usize, total, "the two lengths at {at}");
        match kind {
            0x0a0d_0d0a => {
                assert_eq!((at, u32_at(body, 0), u32_at(body, 4)), (0, 0x1a2b_3c4d, 1));
                check_options(&body[16..]);
            }
            1 => {
                assert_eq!((u32_at(body, 0), u32_at(body, 4)), (1, interfaces[described].snaplen));
                let name = interfaces[described].name.as_bytes();
                assert!(check_options(&body[8..]).contains(&(2, name)));
                described += 1;
            }
            5 => {
                assert!((u32_at(body, 0) as usize) < described);
                check_options(&body[12..]);
            }
            6 => {
                let packet = &packets[found];
                let (captured, original) = (u32_at(body, 12) as usize, u32_at(body, 16) as usize);
                assert_eq!((u32_at(body, 0), captured), (packet.interface, packet.bytes.len()));
                assert!((packet.interface as usize) < described && captured <= original);
                let options = check_options(&body[20 + captured.next_multiple_of(4)..]);
                assert!(options.contains(&(2, &(packet.direction as u32).to_le_bytes())));
                let dropped = packet.dropped_before.to_le_bytes();
                assert_eq!(options.contains(&(4, &dropped)), packet.dropped_before > 0);
                let comment = options.iter().find(|(code, _)| *code == 1).map_or(&[][..], |(_, text)| text);
                assert!(comment == packet.comment.as_bytes() || comment.len() > encode::COMMENT_MAX - 4);
                assert!(
                    packet.comment.as_bytes().starts_with(comment) && comment.len() <= encode::COMMENT_MAX
                );
                found += 1;
            }
            other => panic!("a block of type {other}"),
        }
        at += total;
    }
    assert_eq!((at, described, found), (file.len(), interfaces.len(), packets.len()));
}

/// Checks that options fill the rest of a block, finish with an end option, and are padded with zeros.
fn check_options(mut rest: &[u8]) -> Vec<(u16, &[u8])> {
    let mut options = Vec::new();
    loop {
        let (code, len) = (u16_at(rest, 0), usize::from(u16_at(rest, 2)));
        if code == 0 {
            assert_eq!((len, rest.len()), (0, 4), "an end that is the end");
            return options;
        }
        let padded = len.next_multiple_of(4);
        assert!(rest[4 + len..4 + padded].iter().all(|&byte| byte == 0));
        options.push((code, &rest[4..4 + len]));
        rest = &rest[4 + padded..];
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// The bytes not read yet; at its end a script reads as zeros.
struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    /// Returns a few bytes, or, now and then, many.
    fn comment(&mut self) -> &'a [u8] {
        match self.byte() {
            255 => self.take(encode::COMMENT_MAX + 9),
            few => self.take(usize::from(few % 16)),
        }
    }

    fn number(&mut self) -> u64 {
        self.take(8).iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
    }
}
