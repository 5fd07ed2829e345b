//! Tests with files after the manual of pf. Each file loads and decides about some packets as the manual
//! says, or is refused with a message.
//!
//! Comments that begin with `#=` give the outcome: `refused: MESSAGE`, `note: REMARK`, or a packet and its
//! fate, `LINK PROTOCOL SOURCE PORT DESTINATION PORT [flags=F] [tos=N] -> FATE [LINE] [CHANGE]`. For ICMP the
//! ports are type and code. FATE is pass, drop, return, reset or unreachable CODE. LINE is that of the rule.
//! CHANGE is the new value in the packet: `tos=N`, `mss=N`, `df=0`; or `log`, if it is logged.

use std::fs;
use std::path::{Path, PathBuf};

use evenkeel::raw::screen::Verdict;

use super::*;
use crate::route::text_error::TextError;

fn folder() -> PathBuf {
    // The path is relative to the workspace, or absolute.
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file!()).with_extension("")
}

/// Reads a file that rules name.
fn read(path: &str) -> Result<(String, String), String> {
    let text = match path {
        "/etc/spammers" => "198.51.100.0/24\n!198.51.100.9 # ours\n",
        "/etc/openrelays" => "203.0.113.5\n",
        "/etc/pf.martians" => "table <martians> const { 127/8, 169.254/16 }\nblock in from <martians>\n",
        _ => return Err(format!("cannot read {path}: not there")),
    };
    Ok((path.to_owned(), text.to_owned()))
}

fn load(text: &str) -> Result<RuleSet, TextError> {
    let mut set = RuleSet::parse_with("", text, &read)?;
    set.bind(&["lan", "wan"])?;
    Ok(set)
}

/// Returns the packet of a description, and its interface.
fn described(words: &[&str]) -> (Vec<u8>, u8) {
    let [link, protocol, from, from_port, to, to_port, more @ ..] = words else { panic!("{words:?}") };
    let number = |text: &str| names::parse_tos(text).unwrap();
    let option = |name: &str| more.iter().find_map(|word| word.strip_prefix(name));
    let [from_port, to_port]: [u16; 2] = [from_port, to_port].map(|port| port.parse().unwrap());
    let made = match *protocol {
        "udp" => udp(from, from_port, to, to_port),
        "tcp" => {
            let flags = option("flags=").map_or(2, |flags| names::parse_flags(flags).unwrap());
            let mut made = tcp(from, to, to_port, flags);
            made.payload[..2].copy_from_slice(&from_port.to_be_bytes());
            made.payload[12] = 6 << 4;
            made.payload.extend([2, 4, 5, 0xb4]);
            made
        }
        "icmp" => made(from, to, ICMP, vec![from_port as u8, to_port as u8, 0, 0]),
        "icmp6" => made(from, to, ICMPV6, vec![from_port as u8, to_port as u8, 0, 0]),
        other => panic!("{other}"),
    };
    let mut packet = made.bytes();
    if packet[0] == 0x45 {
        packet[1] = option("tos=").map_or(0, number);
        packet[6] |= 0x40;
    }
    (packet, u8::from(*link == "wan"))
}

/// Returns the fate of a packet, in the words of the test's files.
fn fate(set: &RuleSet, packet: &mut [u8], interface: u8) -> (String, Vec<String>) {
    let decision = decided(set, packet, interface);
    let fate = match decision.verdict() {
        Verdict::Pass => "pass".to_owned(),
        Verdict::Drop => "drop".to_owned(),
        Verdict::Reject => "return".to_owned(),
        Verdict::Reset => "reset".to_owned(),
        Verdict::Unreachable(code) => format!("unreachable {code}"),
    };
    decision.changes.apply(packet);
    let mut also: Vec<String> =
        decision.rule.map(|rule| set.place(&set.rules[rule]).1.to_string()).into_iter().collect();
    also.extend(decision.log.map(|_| "log".to_owned()));
    also.push(format!("tos={:#04x}", packet[1]));
    also.push(format!("df={}", packet[6] >> 6 & 1));
    if packet[9] == TCP && packet.len() >= 44 {
        also.push(format!("mss={}", u16::from_be_bytes([packet[42], packet[43]])));
    }
    (fate, also)
}

fn check(text: &str) -> Result<(), String> {
    let expected: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("#= ")).collect();
    let refused = expected.iter().find_map(|line| line.strip_prefix("refused: "));
    let set = match (load(text), refused) {
        (Ok(set), None) => set,
        (Ok(_), Some(sentence)) => return Err(format!("loads, and should be refused: {sentence}")),
        (Err(error), None) => return Err(format!("is refused: {error}")),
        (Err(error), Some(sentence)) if error.what.contains(sentence) => return Ok(()),
        (Err(error), Some(sentence)) => return Err(format!("{error}\n  instead of {sentence}")),
    };
    let notes: Vec<&str> = expected.iter().filter_map(|line| line.strip_prefix("note: ")).collect();
    let told = set.notes.0.iter().zip(&notes).all(|(note, expected)| note.contains(expected));
    if notes.len() != set.notes.0.len() || !told {
        return Err(format!("remarks {:?}\n  instead of {notes:?}", set.notes.0));
    }
    for line in expected.iter().filter(|line| !line.starts_with("note: ")) {
        let (packet, expected) = line.split_once(" -> ").ok_or("no packet")?;
        let (mut packet, interface) = described(&packet.split(' ').collect::<Vec<_>>());
        let (fate, also) = fate(&set, &mut packet, interface);
        let rest = expected.strip_prefix(&fate).ok_or_else(|| format!("{line}, but {fate} {also:?}"))?;
        if let Some(other) = rest.split_whitespace().find(|word| !also.contains(&(*word).to_owned())) {
            return Err(format!("{line}: not {other}, but {fate} {also:?}"));
        }
    }
    Ok(())
}

#[test]
fn files_of_the_manuals_kinds_load_or_are_refused_with_a_sentence() {
    let (mut loaded, mut refused, mut wrong) = (0, 0, Vec::new());
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        *if text.contains("#= refused: ") { &mut refused } else { &mut loaded } += 1;
        let name = path.file_name().unwrap().to_string_lossy();
        wrong.extend(check(&text).err().map(|why| format!("{name}: {why}")));
    }
    wrong.sort();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(loaded >= 55 && refused >= 50, "{loaded} and {refused}");
}

/// Each word with a message is refused with it, at the beginning of a line or after a rule.
#[test]
fn every_word_with_a_sentence_gets_it() {
    for (word, sentence) in grammar::HINTS {
        let told = ["", "pass in ", "set ", "pass in on lan proto tcp from any to any "].map(|before| {
            RuleSet::parse("", &format!("{before}{word} x")).is_err_and(|error| error.what.contains(sentence))
        });
        assert!(told.contains(&true), "{word}");
    }
}

/// A test for each keyword: a file with it loads, and it decides about some packets but not about others.
macro_rules! keywords {
    ($($keyword:ident: $lines:expr;)*) => {
        mod keywords {
            use super::*;

            $(#[test]
            fn $keyword() {
                let lines: &[&str] = &$lines;
                check(&lines.join("\n")).unwrap_or_else(|why| panic!("{why}"));
            })*
        }
    };
}

keywords! {
    shortened_prefix: [
        "block from 10/8 to 192.168/16",
        "#= wan udp 10.9.9.9 1 192.168.7.7 2 -> drop",
        "#= wan udp 11.9.9.9 1 192.168.7.7 2 -> pass",
        "#= wan udp 10.9.9.9 1 192.169.7.7 2 -> pass",
    ];
    address_and_netmask: [
        "block from 10.2.0.0/255.255.0.0",
        "#= wan udp 10.2.9.9 1 8.8.8.8 2 -> drop",
        "#= wan udp 10.3.9.9 1 8.8.8.8 2 -> pass",
    ];
    self_as_address: [
        "block to self",
        "#= wan udp 8.8.8.8 1 10.0.3.1 2 -> drop",
        "#= wan udp 8.8.8.8 1 198.51.100.2 2 -> drop",
        "#= wan udp 8.8.8.8 1 198.51.100.3 2 -> pass",
    ];
    link_as_address: [
        "block to wan",
        "#= lan udp 8.8.8.8 1 198.51.100.2 2 -> drop",
        "#= lan udp 8.8.8.8 1 10.0.1.1 2 -> pass",
    ];
    link_in_parentheses_as_address: [
        "block to (wan)",
        "#= lan udp 8.8.8.8 1 198.51.100.2 2 -> drop",
        "#= lan udp 8.8.8.8 1 10.0.1.1 2 -> pass",
    ];
    network_of_a_link: [
        "block from lan:network",
        "#= wan udp 10.0.1.77 1 8.8.8.8 2 -> drop",
        "#= wan udp 10.0.3.77 1 8.8.8.8 2 -> drop",
        "#= wan udp 10.0.2.77 1 8.8.8.8 2 -> pass",
    ];
    on_not: [
        "block on !wan",
        "#= lan udp 8.8.8.8 1 9.9.9.9 2 -> drop",
        "#= wan udp 8.8.8.8 1 9.9.9.9 2 -> pass",
    ];
    negation_in_a_list: [
        "block from { 10.0.0.0/8, !10.1.0.0/16 }",
        "#= note: `!` in a list adds all other addresses",
        "#= wan udp 10.2.9.9 1 8.8.8.8 2 -> drop",
        "#= wan udp 9.9.9.9 1 8.8.8.8 2 -> drop",
    ];
    table_persist_without_braces: [
        "table <bad> persist",
        "block from !<bad> to 8.8.8.8",
        "#= wan udp 10.2.9.9 1 8.8.8.8 2 -> drop",
        "#= wan udp 10.2.9.9 1 8.8.8.9 2 -> pass",
    ];
    include: [
        "include \"/etc/pf.martians\"",
        "#= wan udp 127.0.0.1 1 8.8.8.8 2 -> drop",
        "#= wan udp 128.0.0.1 1 8.8.8.8 2 -> pass",
    ];
    antispoof: [
        "antispoof for lan",
        "#= wan udp 10.0.1.7 1 8.8.8.8 2 -> drop",
        "#= lan udp 10.0.1.7 1 8.8.8.8 2 -> pass",
        "#= lan udp 10.0.1.1 1 8.8.8.8 2 -> drop",
    ];
    set_skip: [
        "set skip on lan",
        "block all",
        "#= lan udp 10.0.1.7 1 8.8.8.8 2 -> pass",
        "#= wan udp 10.0.1.7 1 8.8.8.8 2 -> drop",
    ];
    set_block_policy: [
        "set block-policy return",
        "block to 8.8.8.8",
        "#= wan udp 10.0.1.7 1 8.8.8.8 2 -> return",
        "#= wan tcp 10.0.1.7 1 8.8.8.8 2 -> reset",
    ];
    no_route: [
        "block to no-route",
        "#= lan udp 10.0.1.7 1 9.9.9.9 2 -> drop",
        "#= lan udp 10.0.1.7 1 2.9.9.9 2 -> pass",
    ];
    return_rst: [
        "block return-rst proto tcp",
        "#= lan tcp 10.0.1.7 1 9.9.9.9 2 -> reset",
        "#= lan udp 10.0.1.7 1 9.9.9.9 2 -> pass",
    ];
    return_icmp_with_code: [
        "block return-icmp (host-prohib) to 9.9.9.9",
        "#= lan udp 10.0.1.7 1 9.9.9.9 2 -> unreachable 10",
        "#= lan udp 10.0.1.7 1 9.9.9.8 2 -> pass",
    ];
    probability: [
        "block to 9.9.9.9 probability 100%",
        "block to 9.9.9.8 probability 0%",
        "#= lan udp 10.0.1.7 1 9.9.9.9 2 -> drop",
        "#= lan udp 10.0.1.7 1 9.9.9.8 2 -> pass",
    ];
    tos: [
        "block tos lowdelay",
        "#= lan udp 10.0.1.7 1 9.9.9.9 2 tos=0x10 -> drop",
        "#= lan udp 10.0.1.7 1 9.9.9.9 2 -> pass",
    ];
    tag_and_tagged: [
        "match on wan tag outside",
        "block tagged outside",
        "#= wan udp 10.0.1.7 1 9.9.9.9 2 -> drop",
        "#= lan udp 10.0.1.7 1 9.9.9.9 2 -> pass",
    ];
    log_all: [
        "block log (all) to 9.9.9.9",
        "#= wan udp 10.0.1.7 1 9.9.9.9 2 -> drop log",
        "#= wan udp 10.0.1.7 1 9.9.9.8 2 -> pass",
    ];
    ipv6_icmp: [
        "block inet proto ipv6-icmp",
        "#= lan icmp6 10.0.1.7 128 9.9.9.9 0 -> drop",
        "#= lan icmp 10.0.1.7 8 9.9.9.9 0 -> pass",
    ];
    names_of_services: [
        "block proto { tcp udp } to port { domain ssh https }",
        "#= lan udp 10.0.1.7 1 9.9.9.9 53 -> drop",
        "#= lan tcp 10.0.1.7 1 9.9.9.9 22 -> drop",
        "#= lan tcp 10.0.1.7 1 9.9.9.9 443 -> drop",
        "#= lan tcp 10.0.1.7 1 9.9.9.9 80 -> pass",
    ];
    match_scrub_max_mss: [
        "match proto tcp to 9.9.9.9 scrub (max-mss 1400)",
        "#= lan tcp 10.0.1.7 1 9.9.9.9 80 -> pass mss=1400",
        "#= lan tcp 10.0.1.7 1 9.9.9.8 80 -> pass mss=1460",
    ];
}
