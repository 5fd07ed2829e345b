//! Seeds of the targets about TCP.

use super::{Bytes, named};

// --- Segments: places in the lists of the target's peers ---

const ACK: u8 = 0;
const PSH: u8 = 1;
const FIN: u8 = 2;
const SYN: u8 = 3;
const SYN_ACK: u8 = 4;
const RST: u8 = 5;
const RST_ACK: u8 = 6;
const NONE: u8 = 7;
const URG: u8 = 9;
const ECE: u8 = 10;
const CWR: u8 = 11;
const SYN_ECN: u8 = 12;
const SYN_RST: u8 = 13;

/// Offsets of a sequence number from the right one.
const RIGHT: u8 = 0;
const ONE_MORE: u8 = 1;
const ONE_LESS: u8 = 2;
const MORE_100: u8 = 3;
const LESS_100: u8 = 4;
const MORE_1460: u8 = 5;
const MORE_3000: u8 = 7;
const MORE_40000: u8 = 8;
const LESS_40000: u8 = 9;
const MORE_65536: u8 = 11;

/// Peers of the listeners (two of the first, one by IPv6), and peers to which the user connects.
const FIRST: u8 = 0;
const SECOND: u8 = 1;
const THIRD_V6: u8 = 2;
const OF_FEW: u8 = 3;
const OF_FAST_V6: u8 = 4;
const OF_FAST: u8 = 5;
const SERVER: u8 = 6;
const SERVER_V6: u8 = 7;

const OCTET: u8 = 1;
const HUNDRED: u8 = 3;
const MINIMUM: u8 = 4;
const THOUSAND: u8 = 5;
const FULL: u8 = 6;

fn segment(peer: u8, kind: u8, seq: u8, ack: u8, len: u8) -> Bytes {
    let mut bytes = vec![0, peer, kind, 0, seq, ack, len, 0];
    if matches!(kind, SYN | SYN_ACK | SYN_ECN | SYN_RST) {
        bytes.extend([0, 0]);
    }
    bytes
}

/// Returns a segment with a window from the list: 1 is closed, 2 a byte, 3 a hundred.
fn with_window(peer: u8, window: u8) -> Bytes {
    vec![0, peer, ACK, 0, RIGHT, RIGHT, 0, window]
}

/// Returns an acknowledgment that is `less` below the right one, with blocks that begin and end at these
/// distances before the last sent byte.
fn with_sack(peer: u8, less: u8, blocks: &[(u16, u16)]) -> Bytes {
    let mut bytes = vec![0, peer, ACK, 8, RIGHT, less, 0, 0, blocks.len() as u8 - 1];
    for (start, len) in blocks {
        bytes.extend(start.to_be_bytes());
        bytes.extend(len.to_be_bytes());
    }
    bytes
}

/// Returns a segment with a timestamp that is off.
fn with_clock(peer: u8, kind: u8, len: u8, off: u8) -> Bytes {
    vec![0, peer, kind, 4, RIGHT, RIGHT, len, 0, off]
}

fn marked(peer: u8, kind: u8) -> Bytes {
    vec![0, peer, kind, 0x20, RIGHT, RIGHT, HUNDRED, 0]
}

/// Returns a SYN. `cookie`: 1 requests one, 2 presents that of the last SYN-ACK, 3 a made-up one.
fn fast_syn(peer: u8, cookie: u8, len: u8, seq: u8) -> Bytes {
    let mut bytes = vec![0, peer, SYN, 0, seq, RIGHT, len, 0, 0, cookie];
    if cookie == 3 {
        bytes.extend([9; 8]);
    }
    bytes
}

fn syn_with_options(peer: u8, which: u8, extra: u8) -> Bytes {
    vec![0, peer, SYN, extra, RIGHT, RIGHT, 0, 0, which, 0]
}

/// Returns a plain acknowledgment of all.
fn acks(peer: u8) -> Bytes {
    vec![6, peer]
}

fn tens_of_ms(n: u8) -> Bytes {
    vec![7, n]
}

/// Returns a pause: 1 s, 3 s, 10 s, 59 s, 61 s, 121 s, 301 s, or a month.
fn passes(step: u8) -> Bytes {
    vec![8, step]
}

fn accept(port: u8) -> Bytes {
    vec![10, port]
}

/// Returns a write of 100, 1, 1460, 5000 or 50 000 bytes.
fn write(held: u8, len: u8) -> Bytes {
    vec![11, held, len]
}

/// Returns a read of all bytes, or of 1, 100 or 1460.
fn read(held: u8, len: u8) -> Bytes {
    vec![12, held, len]
}

fn shut_down(held: u8) -> Bytes {
    vec![13, held, 0]
}

fn close(held: u8) -> Bytes {
    vec![13, held, 2]
}

fn abort(held: u8) -> Bytes {
    vec![13, held, 5]
}

fn connect(which: u8) -> Bytes {
    vec![9, which]
}

fn icmp(peer: u8, off: u8, kind: u8, mss: u16) -> Bytes {
    let mut bytes = vec![15, 1, peer, off, kind];
    if kind > 1 {
        bytes.extend(mss.to_be_bytes());
    }
    bytes
}

fn listen_anew(port: u8) -> Bytes {
    vec![15, 0, port]
}

/// Returns a full segment with edits of its header.
fn raw(peer: u8, edits: &[u8]) -> Bytes {
    let mut bytes = vec![5, peer, ACK, 0, RIGHT, RIGHT, HUNDRED, 0, (edits.len() / 2 - 1) as u8];
    bytes.extend(edits);
    bytes
}

fn opened(peer: u8, port: u8) -> Bytes {
    [segment(peer, SYN, RIGHT, RIGHT, 0), acks(peer), accept(port)].concat()
}

fn connected(peer: u8) -> Bytes {
    [connect(peer - SERVER), segment(peer, SYN_ACK, RIGHT, RIGHT, 0)].concat()
}

fn data(peer: u8) -> Bytes {
    segment(peer, PSH, RIGHT, RIGHT, HUNDRED)
}

fn ordinary() -> Bytes {
    [data(FIRST), read(0, 0), read(0, 0), write(0, 0), acks(FIRST), read(0, 2)].concat()
}

const PLAIN: [u8; 2] = [0, 0];

fn script(config: [u8; 2], parts: &[Bytes]) -> Vec<Bytes> {
    starting(config, 0, parts)
}

/// Returns a script with another algorithm, or with a faster start than slow start.
fn starting(config: [u8; 2], starts: u8, parts: &[Bytes]) -> Vec<Bytes> {
    vec![config.into(), vec![starts], parts.concat()]
}

fn lives() -> Vec<(&'static str, Vec<Bytes>)> {
    let fin = |peer| segment(peer, FIN, RIGHT, RIGHT, 0);
    vec![
        ("passive", script(PLAIN, &[opened(FIRST, 0), ordinary(), fin(FIRST), shut_down(0), acks(FIRST)])),
        (
            "active",
            script(
                PLAIN,
                &[
                    connected(SERVER),
                    write(0, 3),
                    acks(SERVER),
                    shut_down(0),
                    acks(SERVER),
                    data(SERVER),
                    fin(SERVER),
                    fin(SERVER),
                    segment(SERVER, RST, RIGHT, RIGHT, 0),
                    segment(SERVER, SYN, MORE_100, RIGHT, 0),
                    passes(4),
                ],
            ),
        ),
        (
            "both-open",
            script(
                PLAIN,
                &[
                    connect(1),
                    segment(SERVER_V6, SYN, RIGHT, RIGHT, 0),
                    segment(SERVER_V6, SYN_ACK, ONE_LESS, RIGHT, 0),
                    write(0, 0),
                    acks(SERVER_V6),
                ],
            ),
        ),
        (
            "both-open-reset",
            script(
                PLAIN,
                &[
                    connect(0),
                    segment(SERVER, SYN, RIGHT, RIGHT, 0),
                    segment(SERVER, SYN_RST, ONE_LESS, RIGHT, 0),
                    segment(SERVER, RST, ONE_LESS, RIGHT, 0),
                    segment(SERVER, NONE, ONE_LESS, RIGHT, 0),
                    segment(SERVER, RST, RIGHT, RIGHT, 0),
                ],
            ),
        ),
        (
            "both-close",
            script(
                PLAIN,
                &[
                    opened(SECOND, 0),
                    shut_down(0),
                    segment(SECOND, FIN, RIGHT, ONE_LESS, HUNDRED),
                    acks(SECOND),
                    passes(4),
                ],
            ),
        ),
        (
            "time-wait",
            script(
                PLAIN,
                &[
                    opened(FIRST, 0),
                    close(0),
                    acks(FIRST),
                    fin(FIRST),
                    segment(FIRST, RST, RIGHT, RIGHT, 0),
                    segment(FIRST, FIN, ONE_LESS, RIGHT, 0),
                    segment(FIRST, ACK, LESS_100, RIGHT, HUNDRED),
                    segment(FIRST, SYN, LESS_40000, RIGHT, 0),
                    passes(0),
                    opened(FIRST, 0),
                    ordinary(),
                ],
            ),
        ),
        (
            "time-wait-ends",
            script(
                [0, 8],
                &[
                    opened(FIRST, 0),
                    opened(THIRD_V6, 0),
                    close(0),
                    close(0),
                    acks(FIRST),
                    fin(FIRST),
                    acks(THIRD_V6),
                    fin(THIRD_V6),
                    passes(4),
                ],
            ),
        ),
        (
            "refused",
            script(PLAIN, &[connect(0), segment(SERVER, RST_ACK, RIGHT, RIGHT, 0), connect(1), passes(6)]),
        ),
        (
            "wrong-answers",
            script(
                PLAIN,
                &[
                    connect(0),
                    segment(SERVER, SYN_ACK, RIGHT, ONE_MORE, 0),
                    segment(SERVER, ACK, RIGHT, RIGHT, HUNDRED),
                    segment(SERVER, RST, RIGHT, RIGHT, 0),
                    segment(SERVER, SYN_ACK, RIGHT, RIGHT, HUNDRED),
                    read(0, 0),
                ],
            ),
        ),
        (
            "closed-unread",
            script(PLAIN, &[opened(FIRST, 0), data(FIRST), close(0), opened(SECOND, 0), abort(0)]),
        ),
        (
            "closed-then-data",
            script(
                PLAIN,
                &[
                    opened(FIRST, 0),
                    close(0),
                    acks(FIRST),
                    data(FIRST),
                    opened(SECOND, 0),
                    close(0),
                    passes(5),
                ],
            ),
        ),
    ]
}

fn attacks() -> Vec<(&'static str, Vec<Bytes>)> {
    let resets =
        [ONE_MORE, ONE_LESS, MORE_1460, MORE_65536, LESS_100].map(|off| segment(FIRST, RST, off, RIGHT, 0));
    let syns = [RIGHT, ONE_LESS, MORE_100, MORE_65536].map(|off| segment(FIRST, SYN, off, RIGHT, 0));
    let old = [LESS_40000, MORE_1460, MORE_65536, 13].map(|off| segment(FIRST, ACK, RIGHT, off, HUNDRED));
    let edits: [&[u8]; 8] = [
        &[12, 0xf0],
        &[12, 0x40],
        &[12, 0xa0, 20, 1],
        &[255, 19],
        &[255, 0],
        &[254, 200, 13, 0x3f],
        &[12, 0x60, 20, 8, 21, 0],
        &[0, 9, 2, 9],
    ];
    vec![
        (
            "resets",
            script([0, 4], &[opened(FIRST, 0), resets.concat(), segment(FIRST, RST, RIGHT, RIGHT, 0)]),
        ),
        ("syns", script(PLAIN, &[opened(FIRST, 0), syns.concat(), ordinary()])),
        ("old-acks", script(PLAIN, &[opened(FIRST, 0), write(0, 3), old.concat(), acks(FIRST)])),
        (
            "old-timestamps",
            script(
                PLAIN,
                &[
                    opened(FIRST, 0),
                    with_clock(FIRST, PSH, HUNDRED, LESS_100),
                    with_clock(FIRST, FIN, 0, MORE_100),
                    passes(7),
                    with_clock(FIRST, PSH, HUNDRED, LESS_100),
                ],
            ),
        ),
        (
            "half-open",
            script(
                PLAIN,
                &[
                    segment(FIRST, SYN, RIGHT, RIGHT, 0),
                    segment(FIRST, SYN, ONE_LESS, RIGHT, 0),
                    tens_of_ms(60),
                    segment(FIRST, SYN, ONE_LESS, RIGHT, 0),
                    segment(FIRST, RST, ONE_MORE, RIGHT, 0),
                    segment(FIRST, ACK, RIGHT, ONE_MORE, 0),
                    with_clock(FIRST, ACK, 0, LESS_100),
                    tens_of_ms(60),
                    segment(FIRST, SYN, MORE_100, RIGHT, 0),
                    passes(0),
                    segment(FIRST, RST, RIGHT, RIGHT, 0),
                    segment(SECOND, SYN, RIGHT, RIGHT, 0),
                    passes(6),
                ],
            ),
        ),
        (
            "cookies",
            script(
                PLAIN,
                &[
                    segment(OF_FEW, SYN, RIGHT, RIGHT, 0),
                    segment(OF_FEW, ACK, RIGHT, MORE_100, 0),
                    segment(OF_FEW, ACK, ONE_MORE, RIGHT, 0),
                    acks(OF_FEW),
                    accept(1),
                    data(OF_FEW),
                    read(0, 0),
                    write(0, 0),
                    acks(OF_FEW),
                ],
            ),
        ),
        (
            "stale-cookie",
            script(
                PLAIN,
                &[
                    segment(OF_FEW, SYN, RIGHT, RIGHT, 0),
                    passes(5),
                    acks(OF_FEW),
                    syn_with_options(OF_FEW, 0x7a, 2),
                ],
            ),
        ),
        (
            "nobody",
            script(
                PLAIN,
                &[data(SERVER), segment(SERVER, SYN, RIGHT, RIGHT, 0), segment(SERVER, RST, RIGHT, RIGHT, 0)],
            ),
        ),
        (
            "spoiled",
            script(PLAIN, &[opened(FIRST, 0), edits.map(|edits| raw(FIRST, edits)).concat(), ordinary()]),
        ),
        (
            "listener-goes",
            script(
                PLAIN,
                &[
                    segment(FIRST, SYN, RIGHT, RIGHT, 0),
                    acks(FIRST),
                    segment(SECOND, SYN, RIGHT, RIGHT, 0),
                    listen_anew(0),
                    acks(SECOND),
                ],
            ),
        ),
    ]
}

fn transfers() -> Vec<(&'static str, Vec<Bytes>)> {
    let out_of_order =
        [MORE_3000, MORE_1460, RIGHT, ONE_LESS].map(|off| segment(FIRST, PSH, off, RIGHT, FULL));
    vec![
        ("delayed-ack", script(PLAIN, &[opened(FIRST, 0), data(FIRST), tens_of_ms(5)])),
        (
            "out-of-order",
            script(
                PLAIN,
                &[
                    opened(FIRST, 0),
                    segment(FIRST, FIN, MORE_3000, RIGHT, FULL),
                    out_of_order.concat(),
                    read(0, 0),
                    segment(FIRST, URG, RIGHT, RIGHT, 7),
                    tens_of_ms(5),
                    read(0, 3),
                ],
            ),
        ),
        (
            "before-the-window",
            script(
                [0, 1],
                &[
                    segment(FIRST, SYN, RIGHT, RIGHT, 0),
                    segment(FIRST, PSH, LESS_100, RIGHT, MINIMUM),
                    accept(0),
                    tens_of_ms(5),
                    segment(FIRST, PSH, RIGHT, RIGHT, FULL),
                    tens_of_ms(5),
                    data(FIRST),
                    tens_of_ms(5),
                    [segment(FIRST, PSH, RIGHT, RIGHT, OCTET), tens_of_ms(5)].concat().repeat(5),
                    read(0, 0),
                    acks(FIRST),
                ],
            ),
        ),
        (
            "up-to-the-window",
            script(
                [0, 1],
                &[
                    connected(SERVER),
                    segment(SERVER, PSH, RIGHT, RIGHT, THOUSAND),
                    tens_of_ms(5),
                    segment(SERVER, PSH, RIGHT, RIGHT, THOUSAND),
                    tens_of_ms(5),
                    read(0, 0),
                ],
            ),
        ),
        (
            "beyond-the-window",
            script(
                [0, 3],
                &[
                    opened(FIRST, 0),
                    segment(FIRST, PSH, RIGHT, RIGHT, 7),
                    segment(FIRST, PSH, RIGHT, RIGHT, HUNDRED),
                    segment(FIRST, FIN, RIGHT, RIGHT, 0),
                    read(0, 3),
                    segment(FIRST, PSH, RIGHT, RIGHT, 7),
                    read(0, 0),
                    segment(FIRST, ACK, MORE_40000, RIGHT, HUNDRED),
                ],
            ),
        ),
        (
            "sacks",
            script(
                PLAIN,
                &[
                    opened(FIRST, 0),
                    write(0, 4),
                    with_sack(FIRST, LESS_40000, &[(1_460, 1_460)]),
                    with_sack(FIRST, 6, &[(5_000, 3_000), (1_460, 1_000)]),
                    tens_of_ms(1),
                    with_sack(FIRST, 6, &[(40_000, 1_460)]),
                    tens_of_ms(40),
                    acks(FIRST),
                    acks(FIRST),
                    tens_of_ms(1),
                    acks(FIRST),
                ],
            ),
        ),
        (
            "bbr",
            // This one starts at a known rate at once, and again after a pause.
            starting(
                [0x40, 0],
                0x0f,
                &[
                    opened(FIRST, 0),
                    write(0, 4),
                    tens_of_ms(10),
                    with_sack(FIRST, LESS_40000, &[(1_460, 1_460)]),
                    tens_of_ms(40),
                    acks(FIRST),
                    passes(0),
                    write(0, 3),
                    tens_of_ms(10),
                    acks(FIRST),
                ],
            ),
        ),
        (
            "without-sack",
            script(
                [0x23, 0x20],
                &[
                    opened(FIRST, 0),
                    write(0, 4),
                    acks(FIRST),
                    acks(FIRST),
                    tens_of_ms(1),
                    segment(FIRST, ACK, RIGHT, 6, 0).repeat(5),
                    tens_of_ms(1),
                    acks(FIRST),
                    write(0, 4),
                    passes(2),
                    acks(FIRST),
                    passes(6),
                ],
            ),
        ),
        (
            "closed-window",
            script(
                PLAIN,
                &[
                    opened(FIRST, 0),
                    with_window(FIRST, 1),
                    write(0, 3),
                    passes(2),
                    with_window(FIRST, 3),
                    passes(1),
                    with_window(FIRST, 2),
                    passes(2),
                    with_window(FIRST, 0),
                    acks(FIRST),
                    with_window(FIRST, 1),
                    write(0, 3),
                    passes(6),
                ],
            ),
        ),
        (
            "keepalive",
            script(
                [0x80, 0],
                &[
                    opened(FIRST, 0),
                    passes(2),
                    segment(FIRST, ACK, RIGHT, RIGHT, 0),
                    passes(6),
                    passes(6),
                    passes(6),
                ],
            ),
        ),
        (
            "ecn",
            script(
                [0x10, 0],
                &[
                    segment(FIRST, SYN_ECN, RIGHT, RIGHT, 0),
                    acks(FIRST),
                    accept(0),
                    marked(FIRST, PSH),
                    marked(FIRST, CWR),
                    write(0, 3),
                    segment(FIRST, ECE, RIGHT, 6, 0),
                    write(0, 3),
                    acks(FIRST),
                    connected(SERVER),
                ],
            ),
        ),
        (
            "fast-open",
            script(
                PLAIN,
                &[
                    fast_syn(OF_FAST, 1, 0, RIGHT),
                    segment(OF_FAST, RST, RIGHT, RIGHT, 0),
                    fast_syn(OF_FAST, 2, HUNDRED, RIGHT),
                    accept(2),
                    read(0, 0),
                    write(0, 3),
                    acks(OF_FAST),
                    data(OF_FAST),
                    read(0, 0),
                ],
            ),
        ),
        (
            "fast-open-reset",
            script(
                PLAIN,
                &[
                    fast_syn(OF_FAST_V6, 1, 0, RIGHT),
                    segment(OF_FAST_V6, RST, RIGHT, RIGHT, 0),
                    fast_syn(OF_FAST_V6, 2, HUNDRED, RIGHT),
                    segment(OF_FAST_V6, RST, RIGHT, RIGHT, 0),
                    fast_syn(OF_FAST_V6, 2, HUNDRED, MORE_1460),
                    passes(1),
                    segment(OF_FAST_V6, ACK, RIGHT, ONE_MORE, 0),
                    fast_syn(OF_FAST, 3, HUNDRED, RIGHT),
                    passes(6),
                ],
            ),
        ),
        (
            "icmp",
            script(
                PLAIN,
                &[
                    opened(FIRST, 0),
                    write(0, 3),
                    icmp(FIRST, RIGHT, 2, 700),
                    icmp(FIRST, LESS_100, 2, 10),
                    icmp(FIRST, RIGHT, 1, 0),
                    passes(6),
                    connect(0),
                    icmp(SERVER, RIGHT, 0, 0),
                    segment(SECOND, SYN, RIGHT, RIGHT, 0),
                    icmp(SECOND, RIGHT, 0, 0),
                ],
            ),
        ),
        (
            "little-memory",
            script(
                [0, 0x80],
                &[
                    opened(FIRST, 0),
                    opened(SECOND, 0),
                    write(0, 4),
                    write(1, 4),
                    segment(FIRST, PSH, RIGHT, RIGHT, 7).repeat(3),
                    segment(SECOND, PSH, MORE_3000, RIGHT, 7).repeat(3),
                    segment(SECOND, PSH, RIGHT, RIGHT, 7).repeat(2),
                    read(0, 0),
                    read(1, 0),
                    acks(FIRST),
                    acks(SECOND),
                ],
            ),
        ),
        (
            "few-connections",
            script(
                [0x44, 0x50],
                &[
                    opened(FIRST, 0),
                    opened(SECOND, 0),
                    connected(SERVER),
                    opened(THIRD_V6, 0),
                    write(0, 4),
                    tens_of_ms(9),
                    acks(FIRST),
                ],
            ),
        ),
        (
            "nagle",
            script(
                PLAIN,
                &[
                    opened(FIRST, 0),
                    write(0, 0),
                    write(0, 0),
                    write(0, 1),
                    vec![13, 0, 6],
                    write(0, 0),
                    vec![13, 0, 7],
                    passes(2),
                    acks(FIRST),
                ],
            ),
        ),
    ]
}

pub(super) fn segment_seeds() -> Vec<(String, Bytes)> {
    named([lives(), attacks(), transfers()].concat())
}

// --- Options ---

pub(super) fn options_seeds() -> Vec<(String, Bytes)> {
    let any = |bytes: &[u8]| [&[0], bytes].concat();
    let all = [2, 4, 5, 180, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 7, 34, 10, 1, 2, 3, 4, 5, 6, 7, 8];
    let sack = [1, 1, 5, 18, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 9, 0, 0, 1, 0];
    let header = [
        2, 0, 80, 19, 136, 0, 0, 0, 1, 0, 0, 0, 2, 0x80, 0x18, 1, 0, 0, 0, 0, 0, 1, 1, 8, 10, 0, 0, 0, 1, 0,
        0, 0, 2,
    ];
    let mut packet = header.to_vec();
    // The family comes before the packet.
    packet.insert(1, 0);
    packet.extend(b"payload");
    let chosen =
        [&[1, 0x5f, 5, 180, 7, 0, 0, 0, 1, 0, 0, 0, 2, 8][..], &[7; 8], &[0, 0, 0, 1, 0, 0, 0, 9].repeat(2)];
    named(vec![
        ("all", vec![any(&all)]),
        ("sack", vec![any(&sack)]),
        ("unknown", vec![any(&[253, 6, 1, 2, 3, 4, 4, 2, 0, 9])]),
        ("illegal-length", vec![any(&[2, 4, 5, 180, 9, 0, 4, 2])]),
        ("cut-off", vec![any(&[4, 2, 8, 10, 1, 2])]),
        ("packet", vec![packet]),
        ("chosen", vec![chosen.concat()]),
        ("too-many", vec![[&[1, 0xef, 5, 180, 7][..], &[0, 0, 0, 1].repeat(20)].concat()]),
    ])
}

// --- Cookies ---

pub(super) fn cookie_seeds() -> Vec<(String, Bytes)> {
    let begin = vec![0, 0, 9];
    let syn = |peer: u8, which: u8| -> Bytes {
        let mut bytes = vec![0, peer, which, 1, 2, 3, 4];
        if which & 8 != 0 {
            bytes.extend([0, 5]);
        }
        if which & 16 == 0 {
            bytes.push(7);
        }
        bytes
    };
    let answer = |which: u8, off: u8, more: &[u8]| [&[1, which, off], more].concat();
    let seconds = |step: u8| vec![3, step];
    let early = |peer: u8, which: u8| vec![4, peer, which];
    let client = |peer: u8, what: u8| vec![7, peer, what];
    named(vec![
        (
            "fresh",
            vec![
                begin.clone(),
                syn(0, 6),
                answer(0, 0, &[]),
                syn(1, 0x86),
                answer(1, 0, &[]),
                syn(2, 0x5e),
                answer(2, 16, &[]),
            ],
        ),
        (
            "ages",
            vec![
                begin.clone(),
                syn(0, 0),
                seconds(3),
                answer(0, 0, &[]),
                seconds(1),
                answer(0, 0, &[]),
                seconds(5),
                answer(0, 0, &[]),
                seconds(7),
                syn(0, 1),
                answer(0, 0, &[]),
            ],
        ),
        (
            "a-little-off",
            vec![
                begin.clone(),
                syn(0, 3),
                answer(0, 1, &[1]),
                answer(0, 2, &[1]),
                answer(0, 1, &[200]),
                answer(0, 3, &[1]),
                answer(0, 4, &[]),
                answer(0, 5, &[]),
                answer(0, 6, &[1]),
            ],
        ),
        (
            "any",
            vec![
                begin.clone(),
                vec![2, 0, 1, 2, 3, 4, 5, 6, 7, 8],
                syn(0, 15),
                vec![2, 0, 1, 2, 3, 5, 5, 6, 7, 8],
            ],
        ),
        (
            "without-options",
            vec![vec![15, 0, 9], syn(0, 6), answer(0, 0, &[]), syn(1, 0x80), answer(0, 16, &[])],
        ),
        (
            "fast-open",
            vec![
                begin.clone(),
                early(0, 0),
                early(1, 4),
                vec![6],
                early(0, 1),
                early(1, 0),
                vec![5, 1],
                early(0, 0),
                seconds(5),
                vec![5, 0],
                early(0, 0),
                vec![6],
                early(0, 2),
                early(0, 3),
                [&[4, 0, 5], &[9; 8][..]].concat(),
            ],
        ),
        (
            "client",
            vec![
                begin,
                client(0, 0),
                [client(0, 2), vec![9; 8]].concat(),
                client(0, 0),
                client(0, 4),
                client(0, 3),
                seconds(7),
                client(0, 0),
                client(0, 5),
                client(0, 0),
            ],
        ),
    ])
}

// --- Peers: every byte is a choice, and zero the plainest ---

/// Returns seeds of a plain connection, and of odd ones in each role, which the first byte selects.
pub(super) fn peer_seeds() -> Vec<(String, Bytes)> {
    let roles = [("client", 0_u8), ("listener", 1), ("cookies", 4), ("both-open", 5)];
    let odd = roles.into_iter().flat_map(|(name, role)| {
        (0..3_u8).map(move |nth| (format!("{name}-{nth}"), [vec![role], scattered(role * 3 + nth)].concat()))
    });
    core::iter::once(("plain".to_owned(), vec![0])).chain(odd).collect()
}

/// Returns pseudorandom bytes that depend on `seed`.
fn scattered(seed: u8) -> Bytes {
    let next = |state: &u32| Some(state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
    let numbers = core::iter::successors(Some(u32::from(seed) + 1), next).skip(1);
    numbers.take(600).map(|number| (number >> 24) as u8).collect()
}
