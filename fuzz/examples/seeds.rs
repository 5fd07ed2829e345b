//! Writes the seeds: `cargo run --example seeds`, in `fuzz/`. Each is a script that reaches far, as a start
//! for the fuzzers.
//!
//! Numbers are places in the lists of the targets (`src/frames.rs`), and zero is the plainest choice.

use std::fs;
use std::path::Path;

use evenkeel_fuzz::{demux, forward, host, ip_input, tcp_cookies, tcp_options, tcp_segment};

#[path = "seeds/tcp.rs"]
mod tcp;
#[path = "../src/tcp_peers.rs"]
mod tcp_peers;

type Bytes = Vec<u8>;

fn main() {
    write("demux", &demux_seeds(), demux::run);
    write("ip_input", &ip_input_seeds(), ip_input::run);
    write("forward", &forward_seeds(), forward::run);
    write("host", &host_seeds(), host::run);
    write("tcp_segment", &tcp::segment_seeds(), tcp_segment::run);
    write("tcp_options", &tcp::options_seeds(), tcp_options::run);
    write("tcp_cookies", &tcp::cookie_seeds(), tcp_cookies::run);
    write("tcp_peers", &tcp::peer_seeds(), tcp_peers::run);
}

fn write<T>(target: &str, seeds: &[(String, Bytes)], run: fn(&[u8]) -> T) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target);
    fs::create_dir_all(&folder).expect("a folder for the seeds");
    for (name, bytes) in seeds {
        run(bytes);
        fs::write(folder.join(name), bytes).expect("a seed");
    }
}

fn named(seeds: Vec<(&str, Vec<Bytes>)>) -> Vec<(String, Bytes)> {
    seeds.into_iter().map(|(name, parts)| (name.to_owned(), parts.concat())).collect()
}

// --- Frames: kind, how it is spoiled, and what the kind wants ---

fn udp(to: u8, port: u8) -> Bytes {
    vec![0, 0, 0, to, port, 18]
}

fn udp_v6(to: u8, port: u8) -> Bytes {
    vec![1, 0, 0, to, port, 18]
}

/// Returns a piece of a UDP datagram; `size` and `piece` are places in the lists of sizes.
fn fragment(kind: u8, id: u8, size: u8, piece: u8, place: u8) -> Bytes {
    vec![kind, 0, 0, 0, id, size, piece, place, 0]
}

/// Returns a spoiled frame: `edits` are places and values.
fn spoiled(mut frame: Bytes, spoil: u8, edits: &[u8]) -> Bytes {
    frame[1] = spoil;
    frame.extend(edits);
    frame
}

const UDP: u8 = 17;
const V4: u8 = 2;
const V6: u8 = 3;
const ARP_REQUEST: [u8; 7] = [4, 0, 0, 0, 0, 1, 0];
const ARP_REPLY: [u8; 7] = [4, 0, 1, 0, 0, 1, 1];
const PING: [u8; 9] = [5, 0, 0, 0, 0, 0, 0, 1, 56];
const PING_V6: [u8; 9] = [7, 0, 0, 0, 0, 0, 0, 1, 56];
const UNREACHABLE: [u8; 9] = [5, 0, 0, 0, 1, 3, 0, 0, 0];
/// A message that the path's MTU is 600.
const FRAGMENTATION_NEEDED: [u8; 9] = [5, 0, 0, 0, 1, 4, 2, 0x58, 0];
const PACKET_TOO_BIG: [u8; 9] = [7, 0, 0, 0, 2, 0, 5, 0xdc, 0];
const SOLICITATION: [u8; 9] = [6, 0, 0, 3, 0, 0, 0, 1, 0];
const ADVERTISEMENT: [u8; 9] = [6, 0, 0, 0, 0, 1, 0x61, 2, 0];
const IGMP_QUERY: [u8; 8] = [8, 0, 0, 4, 7, 0, 10, 1];
const MLD_QUERY: [u8; 9] = [7, 0, 1, 2, 5, 0, 0, 10, 7];

/// Returns a frame with any protocol, flags and offset, without options.
fn anything_v4(protocol: u8, flags_offset: u16, body: &[u8]) -> Bytes {
    let mut frame = vec![9, 0, 0, 0, protocol, 0, 1];
    frame.extend(flags_offset.to_be_bytes());
    frame.extend([0, body.len() as u8]);
    frame.extend(body);
    frame
}

fn options_v4() -> Bytes {
    vec![9, 0, 0, 0, 17, 0, 1, 0, 0, 1, 0x94, 4, 0, 0, 12, 0, 1, 0, 7, 0, 12, 0, 0, 1, 2, 3, 4]
}

/// Returns a frame with hop-by-hop options, destination options, and an atomic fragment.
fn extension_headers() -> Bytes {
    chain(&[0, 1, 3])
}

/// Returns extension headers of these kinds in front of a UDP datagram; options are padding.
fn chain(kinds: &[u8]) -> Bytes {
    let mut frame = vec![10, 0, 0, 0, kinds.len() as u8];
    frame.extend(kinds);
    for kind in kinds {
        frame.extend(if *kind == 3 { [0; 6] } else { [1, 4, 0, 0, 0, 0] });
    }
    frame.push(0);
    frame.extend([7; 32]);
    frame
}

// --- The demultiplexing function ---

/// Returns a table with the host's addresses: port 0 of the list bound for any address, port 1 for one of
/// each family.
fn table() -> Bytes {
    let changes: [[u8; 3]; 7] =
        [[1, 0, 0], [9, 0, 0], [1, 3, 0], [9, 4, 0], [0, 0, 0], [16, 0, 1], [24, 0, 1]];
    [&[7], &changes.concat()[..]].concat()
}

fn classify(frames: &[Bytes]) -> Vec<Bytes> {
    let mut parts = vec![table(), vec![7]];
    for frame in frames {
        parts.push(vec![1]);
        parts.push(frame.clone());
    }
    parts
}

fn demux_seeds() -> Vec<(String, Bytes)> {
    let pieces = |family| (0..4).map(|place| fragment(family, 1, 1, 1, place)).collect::<Vec<_>>();
    named(vec![
        ("udp", classify(&[udp(0, 0), udp(0, 1), udp(0, 2), udp(3, 0), udp(5, 0)])),
        ("udp-v6", classify(&[udp_v6(0, 0), udp_v6(0, 1), udp_v6(0, 2), udp_v6(4, 0), udp_v6(5, 0)])),
        ("fragments", classify(&pieces(V4))),
        ("fragments-v6", classify(&pieces(V6))),
        ("later-fragments-first", classify(&[fragment(V4, 2, 1, 1, 2), fragment(V6, 2, 1, 1, 2)])),
        ("neighbours", classify(&[ARP_REQUEST.into(), SOLICITATION.into(), ADVERTISEMENT.into()])),
        ("control", classify(&[PING.into(), PING_V6.into(), IGMP_QUERY.into(), MLD_QUERY.into()])),
        ("options", classify(&[options_v4(), extension_headers()])),
        ("truncated", classify(&[spoiled(udp(0, 0), 16, &[80]), spoiled(udp_v6(0, 0), 16, &[90])])),
        ("wrong-lengths", classify(&[spoiled(udp(0, 0), 1, &[17, 9]), spoiled(udp(0, 0), 1, &[14, 0x4f])])),
        ("noise", vec![table(), vec![0], vec![0, 14], vec![2; 14], vec![0, 0, 0, 60], vec![0x45; 60]]),
        ("no-table", vec![vec![0], vec![0], vec![1], udp(0, 0)]),
    ])
}

// --- IP input ---

fn input(frame: impl Into<Bytes>) -> Bytes {
    [vec![0], frame.into(), vec![0]].concat()
}

/// Returns a script step with a frame whose datagram no socket takes.
fn refused(frame: impl Into<Bytes>) -> Bytes {
    [vec![0], frame.into(), vec![1]].concat()
}

fn pass(step: u8) -> Bytes {
    vec![6, step]
}

/// Returns a call that sends two hundred and forty bytes.
fn send(family: u8, to: u8) -> Bytes {
    vec![7, family, to, 0, 10]
}

fn pieces(family: u8, id: u8, size: u8, piece: u8, places: impl Iterator<Item = u8>) -> Bytes {
    places.flat_map(|place| input(fragment(family, id, size, piece, place))).collect()
}

fn ip_input_seeds() -> Vec<(String, Bytes)> {
    named(vec![
        ("udp", vec![input(udp(0, 0)), input(udp_v6(0, 0)), input(udp(1, 0)), input(udp_v6(2, 0))]),
        ("nobody-listens", vec![input(ARP_REQUEST), refused(udp(0, 0)), refused(udp_v6(0, 0))]),
        (
            "wrong-checksum",
            vec![input(spoiled(udp(0, 0), 4, &[45, 1])), input(spoiled(udp(0, 0), 4, &[25, 1]))],
        ),
        ("reassembly", vec![pieces(V4, 1, 1, 1, 0..4), pieces(V6, 1, 1, 1, 0..4)]),
        ("reassembly-backwards", vec![pieces(V4, 1, 1, 1, (0..4).rev()), pieces(V6, 1, 1, 1, (0..4).rev())]),
        (
            "fragments-of-two-minds-about-ecn",
            // The first packet has met congestion, and the others do not use ECN.
            vec![
                input(spoiled(fragment(V4, 1, 1, 1, 0), 1, &[15, 0x03])),
                pieces(V4, 1, 1, 1, 1..4),
                input(spoiled(fragment(V6, 1, 1, 1, 0), 1, &[15, 0x30])),
                pieces(V6, 1, 1, 1, 1..4),
            ],
        ),
        ("reassembly-of-large-packets", vec![pieces(V4, 1, 3, 3, 0..3), pieces(V6, 1, 3, 3, 0..3)]),
        ("overlap", vec![pieces(V4, 1, 1, 1, 0..2), pieces(V4, 1, 1, 4, 1..9), pieces(V6, 1, 1, 4, 0..3)]),
        (
            "fragment-too-big",
            vec![input(anything_v4(UDP, 0x1fff, &[7; 20])), input(fragment(V6, 1, 5, 3, 46))],
        ),
        ("fragment-flood", (0..12).map(|n| pieces(V4, n, n % 5, n % 5, 1..3)).collect()),
        ("fragments-time-out", vec![pieces(V4, 1, 1, 1, 0..2), pieces(V6, 1, 1, 1, 0..2), pass(6)]),
        ("neighbours", vec![input(ARP_REQUEST), input(SOLICITATION), send(1, 0), send(0, 0)]),
        ("packets-wait", vec![send(1, 0), send(1, 1), send(0, 0), input(ARP_REPLY), input(ADVERTISEMENT)]),
        ("nobody-answers", vec![send(1, 0), send(0, 0), pass(1), pass(1), pass(1), pass(1)]),
        (
            "neighbour-grows-old",
            vec![input(ARP_REQUEST), pass(4), send(1, 0), pass(5), pass(1), pass(1), pass(1)],
        ),
        ("ping", vec![input(ARP_REQUEST), input(PING), input(SOLICITATION), input(PING_V6)]),
        (
            "path-mtu",
            vec![
                input(ARP_REQUEST),
                input(SOLICITATION),
                input(FRAGMENTATION_NEEDED),
                input(PACKET_TOO_BIG),
                vec![7, 1, 0, 0, 90, 7, 0, 0, 0, 90],
            ],
        ),
        ("unreachable", vec![input(UNREACHABLE)]),
        (
            "groups",
            vec![vec![8, 1, 8, 0], input(IGMP_QUERY), input(MLD_QUERY), pass(1), pass(5), vec![9, 1, 9, 0]],
        ),
        ("options", vec![input(options_v4()), input(extension_headers())]),
        (
            "as-many-extension-headers-as-may-be",
            vec![input(chain(&[1; 8])), input(chain(&[1, 1, 1, 1, 3, 1, 1, 1, 1]))],
        ),
        (
            "for-somebody-else",
            vec![input(udp(5, 0)), input(udp_v6(5, 0)), input(spoiled(udp(0, 0), 4, &[5, 9]))],
        ),
        ("unknown-protocol", vec![input(ARP_REQUEST), input(anything_v4(99, 0, &[1, 2, 3, 4]))]),
        (
            "wrong-lengths",
            vec![input(spoiled(udp(0, 0), 1, &[39, 200])), input(spoiled(udp(0, 0), 1, &[17, 9]))],
        ),
        ("truncated", vec![input(spoiled(udp(0, 0), 16, &[80])), input(spoiled(udp_v6(0, 0), 16, &[90]))]),
        (
            "wrong-icmp",
            vec![input(spoiled(PING.into(), 4, &[36, 1])), input(spoiled(PING_V6.into(), 4, &[56, 1]))],
        ),
        (
            "many-errors",
            vec![input(ARP_REQUEST), refused(udp(0, 0)).repeat(6), refused(udp_v6(0, 0)).repeat(6)],
        ),
        ("spoofed", (3..8).map(|from| input(vec![0, 0, from, 0, 0, 18])).collect()),
    ])
}

// --- Forwarding ---

/// A packet in transit: its ends, hop limit, additional bytes (by eights), flags (by the WAN, "don't
/// fragment", hardware address unchanged), and its fate.
#[derive(Debug, Clone, Copy)]
struct Passing {
    from: u8,
    to: u8,
    hop_limit: u8,
    more: u8,
    flags: u8,
    fate: u8,
}

const ONWARDS: Passing = Passing { from: 2, to: 0, hop_limit: 64, more: 0, flags: 0, fate: 0 };
const REFUSE: u8 = 2;
const DISCARD: u8 = 3;
const HOLD: u8 = 4;
const DONT_FRAGMENT: u8 = 2;
const AS_IT_IS: u8 = 255;

fn passes(frame: impl Into<Bytes>, how: Passing) -> Bytes {
    let Passing { from, to, hop_limit, more, flags, fate } = how;
    [vec![0], frame.into(), vec![from, to, hop_limit, more, flags, fate]].concat()
}

fn both_pass(how: Passing) -> Bytes {
    [passes(udp(0, 0), how), passes(udp_v6(0, 0), how)].concat()
}

/// Returns changes of routes of each family; `kind` is a place in the list of routes, for the prefix that has
/// none at first.
fn routes_to_nowhere(operation: u8, kind: u8) -> Bytes {
    [1, 0].iter().flat_map(|family| vec![operation, *family, 3, 0, 1, kind, 0]).collect()
}

fn forward_seeds() -> Vec<(String, Bytes)> {
    let to = |to| Passing { to, ..ONWARDS };
    let by_lan = |frame: &[u8]| passes(frame, Passing { from: AS_IT_IS, to: AS_IT_IS, ..ONWARDS });
    let small = [10, 1, 0];
    // This is the LAN's node 1, by either family.
    let neighbours: Bytes = [1, 0].iter().flat_map(|family| vec![9, 0, *family, 2, 0, 1]).collect();
    let nowhere = |kind| {
        vec![
            vec![0],
            neighbours.clone(),
            routes_to_nowhere(7, kind),
            both_pass(to(3)),
            routes_to_nowhere(8, kind),
            both_pass(to(3)),
        ]
    };
    let start = || vec![vec![0], neighbours.clone()];
    let with = |steps: Vec<Bytes>| [start(), steps].concat();
    named(vec![
        (
            "onwards",
            with(vec![
                both_pass(ONWARDS),
                both_pass(to(1)),
                both_pass(Passing { from: 0, to: 2, flags: 1, ..ONWARDS }),
            ]),
        ),
        ("hop-limit", with((0..3).map(|hop_limit| both_pass(Passing { hop_limit, ..ONWARDS })).collect())),
        ("no-route", with(vec![both_pass(to(3)).repeat(3)])),
        ("blackhole", nowhere(3)),
        ("unreachable", nowhere(4)),
        ("prohibited", nowhere(5)),
        (
            "martians",
            with(
                (4..14)
                    .map(|to| {
                        [both_pass(Passing { to, ..ONWARDS }), both_pass(Passing { from: to, ..ONWARDS })]
                            .concat()
                    })
                    .collect(),
            ),
        ),
        (
            "too-big",
            with(vec![small.into(), both_pass(Passing { more: 90, flags: DONT_FRAGMENT, ..ONWARDS })]),
        ),
        ("fragmented", with(vec![small.into(), both_pass(Passing { more: 200, ..ONWARDS }).repeat(2)])),
        (
            "fragments-fragmented",
            with(vec![
                small.into(),
                passes(fragment(V4, 1, 3, 3, 0), ONWARDS),
                passes(fragment(V4, 1, 3, 3, 1), ONWARDS),
                passes(anything_v4(UDP, 0x1fff, &[7; 40]), Passing { more: 90, ..ONWARDS }),
                passes(anything_v4(UDP, 0x2010, &[7; 40]), Passing { more: 90, ..ONWARDS }),
            ]),
        ),
        (
            "options-fragmented",
            with(vec![small.into(), passes(options_v4(), Passing { more: 180, ..ONWARDS })]),
        ),
        (
            "source-route",
            with(vec![passes(
                [&[9, 0, 0, 0, UDP, 0, 1, 0, 0, 2, 131, 7, 4, 10, 0, 0, 9, 0, 8][..], &[7; 8]].concat(),
                ONWARDS,
            )]),
        ),
        ("extension-headers", with(vec![passes(extension_headers(), ONWARDS)])),
        (
            "neighbour-answers",
            with(vec![
                both_pass(Passing { from: 0, to: 2, flags: 1, ..ONWARDS }),
                by_lan(&ARP_REPLY),
                by_lan(&ADVERTISEMENT),
            ]),
        ),
        (
            "nobody-answers",
            vec![
                vec![0],
                passes(udp(0, 0), Passing { from: 0, to: 255, flags: 1, ..ONWARDS }),
                both_pass(Passing { from: 2, to: 5, ..ONWARDS }),
                both_pass(Passing { from: 0, to: 2, flags: 1, ..ONWARDS }),
                vec![6, 1].repeat(4),
            ],
        ),
        (
            "redirected",
            with(vec![
                vec![7, 1, 3, 0, 0, 0, 1, 2, 0],
                vec![7, 0, 3, 0, 0, 2, 0],
                both_pass(to(3)).repeat(3),
            ]),
        ),
        ("reverse-path", vec![vec![1], both_pass(ONWARDS), both_pass(Passing { from: 0, to: 1, ..ONWARDS })]),
        (
            "screened",
            with(vec![
                both_pass(Passing { fate: REFUSE, ..ONWARDS }).repeat(2),
                both_pass(Passing { fate: DISCARD, ..ONWARDS }),
                both_pass(Passing { fate: HOLD, ..ONWARDS }).repeat(2),
                vec![11, 3],
            ]),
        ),
        ("errors-about-errors", with(vec![passes(UNREACHABLE, to(3)), passes(PACKET_TOO_BIG, to(3))])),
        ("to-the-router", with(vec![by_lan(&PING), by_lan(&PING_V6), by_lan(&udp(0, 0))])),
        ("noise", vec![vec![0, 5, 60], vec![0x45; 60], vec![5, 3, 1, 2, 3]]),
    ])
}

// --- A host ---

fn arrives(frame: impl Into<Bytes>) -> Bytes {
    [vec![0], frame.into()].concat()
}

const REST: u8 = 7;

fn call(puppet: u8, call: &[u8]) -> Bytes {
    [&[13, puppet], call].concat()
}

fn bind(puppet: u8, address: u8, port: u8) -> Bytes {
    call(puppet, &[0, address, port])
}

fn wait_and_receive(puppet: u8) -> Bytes {
    [call(puppet, &[9, 0, 1]), call(puppet, &[3, 0])].concat()
}

/// Lets time pass, so that puppets act.
fn later() -> Bytes {
    vec![REST, 10, 2, REST]
}

fn scenes() -> Vec<(&'static str, Vec<Bytes>)> {
    let echo = call(0, &[6, 1, 0, 0, 0, 2]);
    let mut service = vec![bind(0, 0, 0), later(), arrives(ARP_REQUEST), vec![REST]];
    for _ in 0..3 {
        service.extend([wait_and_receive(0), echo.clone(), arrives(udp(0, 0)), later()]);
    }
    let mut flood = vec![bind(0, 0, 0), bind(1, 0, 1), later(), wait_and_receive(1)];
    flood.extend((0..30).map(|n| arrives(udp(0, u8::from(n % 10 == 0)))));
    flood.extend([vec![9, 30], later(), call(0, &[3, 0]), later(), call(0, &[8, 0]), later()]);
    let fragments = [0, 2, 1, 3].map(|place| arrives(fragment(V4, 1, 1, 1, place)));
    let late = [3, 2, 1].map(|place| arrives(fragment(V6, 2, 1, 1, place)));
    let reassembly = vec![
        bind(0, 0, 0),
        later(),
        wait_and_receive(0),
        fragments.concat(),
        later(),
        late.concat(),
        vec![10, 6, REST],
        call(0, &[3, 0]),
        later(),
    ];
    let groups = vec![
        bind(0, 3, 0),
        bind(1, 3, 0),
        bind(2, 0, 0),
        later(),
        call(2, &[2, 0, 4]),
        later(),
        arrives(udp(3, 0)),
        arrives(udp_v6(4, 0)),
        arrives(IGMP_QUERY),
        arrives(MLD_QUERY),
        later(),
        [0, 1, 2].map(|puppet| call(puppet, &[3, 0])).concat(),
        later(),
        vec![11, 0],
        later(),
    ];
    let control =
        [ARP_REQUEST.into(), PING.into(), SOLICITATION.into(), PING_V6.into(), udp(0, 2), udp_v6(0, 2)];
    let ends = vec![
        bind(0, 0, 0),
        later(),
        control.into_iter().map(|frame: Bytes| arrives(frame)).collect::<Vec<_>>().concat(),
        arrives(udp(0, 0)),
        vec![9, 5, 11, 0, 11, 0],
        bind(0, 0, 0),
        later(),
    ];
    vec![
        ("service", service),
        ("flood", flood),
        ("reassembly", reassembly),
        ("groups", groups),
        ("control-and-ends", ends),
    ]
}

/// Returns scenes for a host that forwards, screens, captures, or has a slow adaptor.
fn router_scenes() -> Vec<(&'static str, Vec<Bytes>)> {
    let onwards = |count| arrives(udp(5, 0)).repeat(count);
    let open_screen = |limit| call(0, &[12, limit]);
    let screening = vec![
        arrives(ARP_REQUEST),
        open_screen(1),
        later(),
        onwards(6),
        later(),
        [call(0, &[13, 0, 0]), call(0, &[13, 0, 1]), call(0, &[15, 0]), call(0, &[16, 0, 2])].concat(),
        later(),
        onwards(6),
        vec![9, 20],
        [call(0, &[9, 0, 1]), call(1, &[12, 3]), onwards(2)].concat(),
        later(),
        vec![11, 0],
        onwards(4),
        later(),
        vec![11, 0],
        open_screen(4),
        later(),
        onwards(4),
        call(0, &[13, 0, 0]),
        later(),
    ];
    let capturing = vec![
        bind(1, 0, 0),
        call(0, &[17, 2, 8, 1]),
        later(),
        arrives(ARP_REQUEST),
        arrives(udp(0, 0)).repeat(5),
        later(),
        [call(0, &[18, 0]), call(0, &[18, 0]), call(1, &[6, 1, 0, 0, 0, 2]), call(0, &[9, 0, 1])].concat(),
        later(),
        onwards(3),
        later(),
        vec![11, 0],
        later(),
    ];
    let requests = |count| [arrives(ARP_REQUEST).repeat(count), vec![REST]].concat();
    let slow_link =
        vec![requests(10), requests(10), vec![12, 2, REST], requests(4), vec![12, 255, REST], later()];
    vec![("screening", screening), ("capturing", capturing), ("slow-link", slow_link)]
}

fn host_seeds() -> Vec<(String, Bytes)> {
    // The first bytes are architecture and options, and the number of receive rings.
    let hosts = [
        ("eager", [0, 4], 0),
        ("early-demux", [1, 0], 0),
        ("polled", [2, 8], 1),
        ("soft-lrp", [3, 0], 2),
        ("soft-lrp-interrupt", [3, 1], 0),
        ("ni-lrp", [4, 0], 0),
    ];
    let mut seeds = Vec::new();
    for (architecture, options, queues) in hosts {
        for (scene, steps) in scenes() {
            seeds.push((
                format!("{architecture}-{scene}"),
                [&options[..], &[0, 0, queues], &steps.concat()].concat(),
            ));
        }
        for (scene, steps) in router_scenes() {
            let slow = if scene == "slow-link" { 2 } else { 0 };
            seeds.push((
                format!("{architecture}-{scene}"),
                [&options[..], &[1, slow, queues], &steps.concat()].concat(),
            ));
        }
    }
    // Each further option has one scene that shows it.
    let all: Vec<_> = scenes().into_iter().chain(router_scenes()).collect();
    for (name, [architecture, options, more], scene) in [
        ("eager-limited-flood", [0, 16 + 8, 0], "flood"),
        ("eager-limited-clocked-flood", [0, 16, 2], "flood"),
        ("eager-transmit-lower-level", [0, 32, 16], "slow-link"),
        ("polled-transmit-receive-first", [2, 32 + 1, 8], "slow-link"),
        ("polled-clocked-service", [2, 0, 2], "service"),
        ("polled-after-callback-flood", [2, 64 + 128, 128], "flood"),
        ("polled-output-feedback", [2, 0, 64 + 1], "slow-link"),
        ("polled-listens", [2, 0, 4], "capturing"),
        ("ni-lrp-listens", [4, 0, 4], "capturing"),
        ("soft-lrp-clocked-capturing", [3, 0, 3], "capturing"),
    ] {
        let steps =
            all.iter().find(|(s, _)| *s == scene).map(|(_, steps)| steps.concat()).unwrap_or_default();
        let slow = if scene == "slow-link" { 2 } else { 0 };
        seeds.push((name.to_owned(), [&[architecture, options, more, slow, 0], &steps[..]].concat()));
    }
    seeds
}
