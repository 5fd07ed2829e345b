//! Scripts: what the user does, what arrives, what must leave, and when.
//!
//! A file of `scripts/` has those about one behaviour. `= what it shows` begins each; then there is one thing
//! a line, and `#` begins a comment:
//!
//! - `+10ms`: so much time passes (`s`, `ms`, `us`); may stand before any other line. Deadlines come when
//!   they are due
//! - `> P. 1:101 ack 1 win 512 <ts 10 0>`: leaves now, with flags (as of tcpdump), numbers, window, and
//!   these options and no others
//! - `< . 1:1 ack 101 win 1000`: arrives now
//! - `config ack-delay 0ms`: before the opening (see `configure`). By default as [`Config::default`], but
//!   without timestamps
//! - `connect`, `connect cookie 0a0b0c0d`, `connect request`: active open; with a Fast Open cookie; with the
//!   request for one
//! - `accept <mss 1000>`: passive open by a SYN with these options, answered 10 ms ago
//! - `early cookie 0a0b0c0d 50 <mss 1000>`: passive open by a SYN with a right cookie and 50 bytes; the
//!   SYN-ACK is due
//! - `established <mss 1000>`: active open with a peer whose SYN-ACK has these options and a window of 65535;
//!   10 ms pass, and our ACK leaves
//! - `write 1000`, `write 1000 takes 10`, `read 100`, `end`: the user's calls; all is written, all is read,
//!   the stream is at its end
//! - `shutdown`, `close`, `abort`, `nagle off`, `user-timeout 1s`, `keepalive 10s 1s 3`, `keepalive off`:
//!   likewise
//! - `state X`, `error X`, `reachable no`, `readable n`, `writable n`, `cwnd n`, `mss n`: what must hold now
//! - `capacity 8000000`, `most 8000000`: likewise, in bits a second
//! - `late 1ms`: before something else on the line, time passes and nobody looks at deadlines meanwhile
//! - `memory scarce`, `memory left 1000`, `memory plenty`: of what all connections share
//! - `count TCPWinProbe 2`: so much was counted up to now
//! - `too-big 1001 mss 1200`, `unreachable 1 hard`: ICMP about the segment with this number
//! - `silent 1`: the next hop does not answer, so that the segment with this number did not leave
//!
//! What leaves and is not expected, or not at that instant, is a failure; what is expected must leave in this
//! order. Numbers are relative to the SYNs, which in truth are near the end of the circle. Payload is a
//! pattern: each byte says where in the stream it belongs.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::Arc;

use crate::congestion::Algorithm;
use crate::connection::{
    Agreement, Allowance, Config, Connection, Keepalive, Open, Outgoing, StreamOption, SynAck, SynReceived,
    Unavailable,
};
use crate::rate::Rate;
use crate::recovery::Start;
use crate::time::{Duration, Instant};
use crate::{
    Cookie, Counter, Counters, Ecn, Flags, Header, Options, SackBlocks, Segment, SeqNumber, SeqRange,
    Timestamps,
};

/// Near the end of the circle, so that nearly every script goes across it.
const ISS: SeqNumber = SeqNumber::new(u32::MAX - 700);
const IRS: SeqNumber = SeqNumber::new(u32::MAX - 300);
const US: u16 = 40_000;
const PEER: u16 = 80;

/// Runs all scripts of a file, and fails with all that failed.
#[track_caller]
pub(super) fn run_file(path: &str) {
    let text = std::fs::read_to_string(path).unwrap_or_else(|why| panic!("{path}: {why}"));
    let name = path.rsplit('/').next().unwrap_or(path);
    let scripts: Vec<(&str, &str)> =
        text.split("\n= ").skip(1).map(|script| script.split_once('\n').unwrap_or((script, ""))).collect();
    assert!(!scripts.is_empty(), "{name} has no script");
    let failures: Vec<String> = scripts
        .iter()
        .filter_map(|(title, script)| run(script).err().map(|why| format!("{name}: {title}\n{why}")))
        .collect();
    println!("{name}: {} scripts", scripts.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Runs a script. Returns an error that describes why the script fails.
fn run(text: &str) -> Result<(), String> {
    let mut runner = Runner {
        config: Config { timestamps: false, ..Config::default() },
        now: Instant::ZERO + Duration::from_secs(1),
        connection: None,
        sent: VecDeque::new(),
        written: 0,
        read: 0,
        counters: Counters::new(),
        ipv6: false,
        log: String::new(),
    };
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        runner.line(line).map_err(|why| format!("line {}: {line}\n{why}\n{}", number + 1, runner.log))?;
    }
    runner.nothing_left().map_err(|why| format!("at the end: {why}\n{}", runner.log))
}

fn configure(config: &mut Config, text: &str) -> Result<(), String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.as_slice() {
        ["timestamps"] => config.timestamps = true,
        ["ecn"] => config.ecn = true,
        ["no", "sack"] => config.sack = false,
        ["no", "scaling"] => config.window_scaling = false,
        ["pacing"] => Arc::make_mut(&mut config.recovery).pacing = true,
        ["bbr"] => Arc::make_mut(&mut config.recovery).algorithm = Algorithm::Bbr,
        ["capacity", bits] => {
            let rate = Rate::bits_per_s(parse(bits)?.into());
            Arc::make_mut(&mut config.recovery).start = Start::At(rate);
        }
        ["ack-delay", time] => config.ack_delay = parse_time(time)?,
        ["receive", initial, max] => {
            (config.receive_buffer_initial, config.receive_buffer_max) =
                (parse(initial)? as usize, parse(max)? as usize);
        }
        ["send", initial, max] => {
            (config.send_buffer_initial, config.send_buffer_max) =
                (parse(initial)? as usize, parse(max)? as usize);
        }
        ["user-timeout", time] => config.user_timeout = parse_time(time)?,
        ["challenges", max] => config.challenge_acks_max = parse(max)? as u8,
        ["keepalive", idle, interval, probes] => {
            config.keepalive = Some(parse_keepalive(idle, interval, probes)?);
        }
        _ => return Err("cannot read this".into()),
    }
    Ok(())
}

struct Runner {
    config: Config,
    now: Instant,
    connection: Option<Connection>,
    /// Has left now, and is not expected yet.
    sent: VecDeque<(Header, Vec<u8>)>,
    written: u32,
    read: u32,
    counters: Counters,
    ipv6: bool,
    log: String,
}

impl Runner {
    fn line(&mut self, line: &str) -> Result<(), String> {
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        if let Some(time) = first.strip_prefix('+') {
            self.pass(parse_time(time)?)?;
            return self.line(rest.trim());
        }
        match first {
            "" => return Ok(()),
            "late" => {
                let (time, rest) = rest.split_once(' ').ok_or("no time")?;
                self.be_late(parse_time(time)?)?;
                return self.line(rest.trim());
            }
            ">" => return self.expect(rest),
            "config" if rest == "ipv6" => self.ipv6 = true,
            "config" => configure(&mut self.config, rest)?,
            "connect" | "accept" | "early" | "established" => {
                self.open(first, rest)?;
                if rest.starts_with("cookie") && first == "connect" {
                    // So that the user can write before the SYN leaves.
                    return Ok(());
                }
            }
            "<" => {
                let (header, payload) = parse_segment(rest, IRS, ISS)?;
                let header = Header { source: PEER, destination: US, ..header };
                let payload = payload.map(byte).collect::<Vec<_>>();
                self.log(&format!("< {rest}"));
                let now = self.now;
                let (a, b) = payload.split_at(payload.len() / 2);
                self.connection()?.on_segment(&Segment { header, payload: [a, b] }, now);
            }
            "count" => return self.check_count(rest),
            "state" | "error" | "readable" | "writable" | "cwnd" | "mss" | "reachable" => {
                return self.check(first, rest);
            }
            _ => self.call(first, rest)?,
        }
        self.drain();
        Ok(())
    }

    fn connection(&mut self) -> Result<&mut Connection, String> {
        self.connection.as_mut().ok_or_else(|| "no connection yet".into())
    }

    fn open(&mut self, how: &str, rest: &str) -> Result<(), String> {
        let open = Open {
            local_port: US,
            remote_port: PEER,
            ipv6: self.ipv6,
            mss: 1_460,
            iss: ISS,
            timestamp_offset: 0,
        };
        let (words, options) = split_options(rest)?;
        let words: Vec<&str> = words.split_whitespace().collect();
        let (now, config) = (self.now, Arc::new(self.config.clone()));
        match (how, words.as_slice()) {
            ("connect" | "established", []) => {
                self.connection = Some(Connection::connect(&config, &open, None, now));
            }
            ("connect", ["request"]) => {
                self.connection = Some(Connection::connect(&config, &open, Some(Cookie::REQUEST), now));
            }
            ("connect", ["cookie", hex]) => {
                self.connection = Some(Connection::connect(&config, &open, Some(parse_cookie(hex)?), now));
            }
            ("accept", []) => {
                let handshake = self.handshake(&options, SynAck::SentAt(now), Flags::NONE);
                self.connection = Some(Connection::accept(&config, &open, &handshake, now));
                self.pass(Duration::from_millis(10))?;
            }
            ("accept", ["ecn"]) => {
                let handshake = self.handshake(&options, SynAck::Sent(0), Flags::ECE | Flags::CWR);
                self.connection = Some(Connection::accept(&config, &open, &handshake, now));
            }
            ("early", ["cookie", hex, len]) => {
                let handshake = self.handshake(&options, SynAck::Due(Some(parse_cookie(hex)?)), Flags::NONE);
                let mut connection = Connection::accept(&config, &open, &handshake, now);
                let payload: Vec<u8> = (0..parse(len)?).map(byte).collect();
                let header = Header { seq: IRS, flags: Flags::SYN, ..Header::default() };
                connection.on_early_data(&Segment { header, payload: [&payload, &[]] }, now);
                self.connection = Some(connection);
            }
            _ => return Err("cannot read this".into()),
        }
        if how == "established" {
            self.drain();
            self.sent.clear();
            self.pass(Duration::from_millis(10))?;
            let flags = Flags::SYN | Flags::ACK;
            let header =
                Header { seq: IRS, ack: ISS + 1, flags, window: u16::MAX, options, ..Header::default() };
            let now = self.now;
            self.connection()?.on_segment(&Segment::bare(header), now);
            self.drain();
            self.sent.pop_front().ok_or("no ACK of the SYN")?;
        }
        Ok(())
    }

    fn handshake(&self, options: &Options, syn_ack: SynAck, ecn: Flags) -> SynReceived {
        let agreement = Agreement::on_syn(&self.config, options, Flags::SYN | ecn);
        SynReceived { irs: IRS, window: u16::MAX, agreement, syn_ack }
    }

    fn call(&mut self, call: &str, rest: &str) -> Result<(), String> {
        let words: Vec<&str> = rest.split_whitespace().collect();
        let now = self.now;
        self.log(&format!("{call} {rest}"));
        let (written, read) = (self.written, self.read);
        let connection = self.connection.as_mut().ok_or("no connection yet")?;
        match (call, words.as_slice()) {
            ("write", [len, takes @ ..]) => {
                let data: Vec<u8> = (written..written + parse(len)?).map(byte).collect();
                let taken = connection.write(&data).map_err(|why| why.to_string())?;
                let wanted = if let ["takes", len] = takes { parse(len)? as usize } else { data.len() };
                self.written += taken as u32;
                same("bytes taken", taken, wanted)?;
            }
            ("read", [len]) => {
                let mut data = vec![0; parse(len)? as usize];
                let got = connection.read(&mut data, now).map_err(|why| why.to_string())?;
                same("bytes read", got, data.len())?;
                self.read += got as u32;
                let right = (read..).map(byte).zip(&data).all(|(right, byte)| right == *byte);
                right.then_some(()).ok_or("wrong bytes")?;
            }
            ("end", []) => same("read", connection.read(&mut [0; 10], now), Ok(0))?,
            ("blocked", []) => {
                same("read", connection.read(&mut [0; 10], now), Err(Unavailable::WouldBlock))?
            }
            ("mute", []) => same("read", connection.read(&mut [0; 10], now), Err(Unavailable::Closed))?,
            ("deaf", []) => same("write", connection.write(b"x"), Err(Unavailable::Closed))?,
            ("shutdown", []) => connection.shutdown(),
            ("close", []) => connection.close(now),
            ("abort", []) => connection.abort(),
            ("capacity", [bits]) => {
                connection.set(StreamOption::Capacity(Rate::bits_per_s(parse(bits)?.into())), now);
            }
            ("most", [bits]) => {
                connection.set(StreamOption::RateMax(Some(Rate::bits_per_s(parse(bits)?.into()))), now);
            }
            ("nagle", [on]) => connection.set(StreamOption::Nagle(*on == "on"), now),
            ("user-timeout", [time]) => connection.set(StreamOption::UserTimeout(parse_time(time)?), now),
            ("keepalive", ["off"]) => connection.set(StreamOption::Keepalive(None), now),
            ("keepalive", [idle, interval, probes]) => {
                connection.set(StreamOption::Keepalive(Some(parse_keepalive(idle, interval, probes)?)), now);
            }
            ("too-big", [seq, "mss", mss]) => {
                connection.on_packet_too_big(ISS + parse(seq)?, parse(mss)? as u16, now);
            }
            ("unreachable", [seq, kind]) => {
                connection.on_unreachable(ISS + parse(seq)?, *kind == "hard");
            }
            ("silent", [seq]) => {
                connection.on_next_hop_silent(ISS + parse(seq)?);
            }
            ("memory", ["plenty"]) => connection.set_allowance(Allowance::default()),
            ("memory", ["scarce"]) => {
                connection.set_allowance(Allowance { pressed: true, ..Allowance::default() });
            }
            ("memory", ["left", bytes]) => {
                connection.set_allowance(Allowance { left: parse(bytes)?, pressed: true });
            }
            _ => return Err("cannot read this".into()),
        }
        Ok(())
    }

    fn check_count(&mut self, rest: &str) -> Result<(), String> {
        let (name, wanted) = rest.split_once(' ').ok_or("no number")?;
        let counter = Counter::ALL.iter().find(|counter| counter.name() == name);
        let counter = counter.ok_or_else(|| format!("no counter: {name}"))?;
        same(name, self.counters.get(*counter), parse(wanted)?.into())
    }

    fn check(&mut self, what: &str, wanted: &str) -> Result<(), String> {
        let connection = self.connection()?;
        let info = connection.info();
        let is = match what {
            "state" => connection.state().to_string(),
            "error" => connection.error().map_or("none".into(), |error| error.to_string()),
            "readable" => connection.readable().to_string(),
            "writable" => connection.writable().to_string(),
            "cwnd" => info.recovery.cwnd.to_string(),
            "reachable" => if info.unreachable { "no" } else { "yes" }.into(),
            _ => info.mss.to_string(),
        };
        same(what, is.as_str(), wanted)
    }

    /// Deadlines come one by one. What they make leave before the last instant cannot be expected by any
    /// line.
    fn pass(&mut self, time: Duration) -> Result<(), String> {
        self.nothing_left()?;
        let end = self.now + time;
        while let Some((at, timer)) = self.connection.as_ref().and_then(Connection::deadline) {
            if at > end {
                break;
            }
            if at < end {
                self.nothing_left()?;
            }
            self.now = self.now.max(at);
            self.log(&format!("deadline: {timer:?}"));
            let now = self.now;
            self.connection()?.on_deadline(now);
            self.drain();
            let again = self.connection()?.deadline();
            if again.is_some_and(|again| again.0 <= now) {
                return Err(format!("still due: {again:?}"));
            }
        }
        if self.now < end {
            self.nothing_left()?;
        }
        self.now = end;
        Ok(())
    }

    /// Advances time, and handles deadlines only after that.
    fn be_late(&mut self, time: Duration) -> Result<(), String> {
        self.nothing_left()?;
        self.now += time;
        let now = self.now;
        self.connection()?.on_deadline(now);
        self.drain();
        Ok(())
    }

    fn drain(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        self.counters.count_all(connection.take_counted());
        while let Some(Outgoing { segment, .. }) = connection.poll_transmit(self.now) {
            let sent = (segment.header, segment.payload.concat());
            self.counters.count_all(connection.take_counted());
            let text = print_segment(&sent.0, sent.1.len());
            self.sent.push_back(sent);
            let _ = writeln!(self.log, "{:?} > {text}", self.now);
        }
    }

    fn expect(&mut self, text: &str) -> Result<(), String> {
        let (header, payload) = self.sent.pop_front().ok_or("nothing left")?;
        let (mut wanted, bytes) = parse_segment(text, ISS, IRS)?;
        wanted = Header { source: US, destination: PEER, ..wanted };
        if !text.contains(" win ") {
            wanted.window = header.window;
        }
        if wanted != header || bytes.len() != payload.len() {
            return Err(format!("  but left: {}", print_segment(&header, payload.len())));
        }
        if !bytes.map(byte).eq(payload) {
            return Err("wrong bytes".into());
        }
        Ok(())
    }

    fn nothing_left(&self) -> Result<(), String> {
        let Some((header, payload)) = self.sent.front() else { return Ok(()) };
        Err(format!("not expected: {}", print_segment(header, payload.len())))
    }

    fn log(&mut self, what: &str) {
        let _ = writeln!(self.log, "{:?} {what}", self.now);
    }
}

fn same<T: PartialEq + core::fmt::Debug>(what: &str, is: T, wanted: T) -> Result<(), String> {
    if is == wanted { Ok(()) } else { Err(format!("{what}: {is:?}, not {wanted:?}")) }
}

/// Returns the byte with this place in a stream.
fn byte(place: u32) -> u8 {
    (place.wrapping_mul(7) % 251) as u8
}

fn parse(number: &str) -> Result<u32, String> {
    number.parse().map_err(|_| format!("no number: {number}"))
}

fn parse_keepalive(idle: &str, interval: &str, probes: &str) -> Result<Keepalive, String> {
    let (idle, interval) = (parse_time(idle)?, parse_time(interval)?);
    Ok(Keepalive { idle, interval, probes_max: parse(probes)? as u8 })
}

fn parse_time(text: &str) -> Result<Duration, String> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let number = u64::from(parse(text.trim_end_matches(unit))?);
    match unit {
        "s" => Ok(Duration::from_secs(number)),
        "ms" => Ok(Duration::from_millis(number)),
        "us" => Ok(Duration::from_micros(number)),
        _ => Err(format!("no time: {text}")),
    }
}

fn parse_cookie(hex: &str) -> Result<Cookie, String> {
    let bytes: Result<Vec<u8>, _> =
        hex.as_bytes().chunks(2).map(|c| u8::from_str_radix(&String::from_utf8_lossy(c), 16)).collect();
    bytes.ok().and_then(|bytes| Cookie::new(&bytes)).ok_or_else(|| format!("no cookie: {hex}"))
}

fn split_options(text: &str) -> Result<(&str, Options), String> {
    let Some((before, options)) = text.split_once('<') else { return Ok((text, Options::default())) };
    let mut all = Options::default();
    for option in options.trim_end().trim_end_matches('>').split(',') {
        let words: Vec<&str> = option.split_whitespace().collect();
        match words.as_slice() {
            ["mss", n] => all.mss = Some(parse(n)? as u16),
            ["ws", n] => all.window_scale = Some(parse(n)? as u8),
            ["sackok"] => all.sack_permitted = true,
            ["ts", value, echo] => {
                all.timestamps = Some(Timestamps { value: parse(value)?, echo: parse(echo)? })
            }
            ["cookie", hex] => all.fast_open = Some(parse_cookie(hex)?),
            ["request"] => all.fast_open = Some(Cookie::REQUEST),
            ["sack", blocks @ ..] => {
                all.sack =
                    blocks.iter().map(|block| parse_range(block)).collect::<Result<SackBlocks, _>>()?;
            }
            _ => return Err(format!("no option: {option}")),
        }
    }
    Ok((before.trim(), all))
}

/// Parses a range of relative numbers. They are made absolute later.
fn parse_range(text: &str) -> Result<SeqRange, String> {
    let (start, end) = text.split_once(':').ok_or_else(|| format!("no range: {text}"))?;
    Ok(SeqRange::new(SeqNumber::new(parse(start)?), SeqNumber::new(parse(end)?)))
}

/// Returns the header, and the places of the payload in the sender's stream. `sender` is the number of the
/// sender's SYN, `receiver` of the receiver's.
fn parse_segment(
    text: &str,
    sender: SeqNumber,
    receiver: SeqNumber,
) -> Result<(Header, core::ops::Range<u32>), String> {
    let (text, mut options) = split_options(text)?;
    options.sack = options
        .sack
        .as_slice()
        .iter()
        .map(|block| SeqRange::new(receiver + block.start.to_u32(), receiver + block.end.to_u32()))
        .collect();
    let mut words = text.split_whitespace();
    let flags = parse_flags(words.next().ok_or("no flags")?)?;
    let range = parse_range(words.next().ok_or("no numbers")?)?;
    let mut header = Header { seq: sender + range.start.to_u32(), flags, options, ..Header::default() };
    while let Some(word) = words.next() {
        match word {
            "ack" => header.ack = receiver + parse(words.next().unwrap_or_default())?,
            "win" => header.window = parse(words.next().unwrap_or_default())? as u16,
            "urg" => header.urgent = parse(words.next().unwrap_or_default())? as u16,
            "ect" => header.ecn = Ecn::Capable,
            "ce" => header.ecn = Ecn::Experienced,
            _ => return Err(format!("cannot read {word}")),
        }
    }
    let first = range.start.to_u32() + u32::from(flags.contains(Flags::SYN));
    let len = range.end.to_u32().saturating_sub(range.start.to_u32());
    Ok((header, first.saturating_sub(1)..first.saturating_sub(1) + len))
}

fn parse_flags(text: &str) -> Result<Flags, String> {
    text.chars().try_fold(Flags::NONE, |flags, letter| {
        Ok(flags
            | match letter {
                'S' => Flags::SYN,
                'F' => Flags::FIN,
                'R' => Flags::RST,
                'P' => Flags::PSH,
                '.' => Flags::ACK,
                'U' => Flags::URG,
                'E' => Flags::ECE,
                'W' => Flags::CWR,
                '-' => Flags::NONE,
                _ => return Err(format!("no flag: {letter}")),
            })
    })
}

fn print_segment(header: &Header, len: usize) -> String {
    let relative = |number: SeqNumber, to: SeqNumber| number.to_u32().wrapping_sub(to.to_u32()).cast_signed();
    let seq = relative(header.seq, ISS);
    let mut text = format!("{} {seq}:{}", header.flags, seq + len as i32);
    if header.flags.contains(Flags::ACK) {
        let _ = write!(text, " ack {}", relative(header.ack, IRS));
    }
    let _ = write!(text, " win {}", header.window);
    match header.ecn {
        Ecn::NotCapable => {}
        Ecn::Capable => text.push_str(" ect"),
        other => text.push_str(&format!(" {other:?}")),
    }
    if !header.options.is_empty() {
        let mut options = header.options;
        let blocks: Vec<String> = options
            .sack
            .as_slice()
            .iter()
            .map(|block| format!("{}:{}", relative(block.start, IRS), relative(block.end, IRS)))
            .collect();
        options.sack = SackBlocks::default();
        let _ = write!(text, " sack {blocks:?} {options:?}");
    }
    text
}

#[test]
fn what_differs_from_the_script_is_a_failure() {
    const SYN: &str = "S 0:0 win 65535 <mss 1460, sackok, ws 7>";
    let fails = |script: &str, why: &str| {
        let failure = run(script).unwrap_err();
        assert!(failure.contains(why), "{failure}");
    };
    assert_eq!(run(&format!("connect\n> {SYN}\n+1s > {SYN}")), Ok(()));
    fails("connect", "not expected: S 0:0");
    fails("connect\n> S 0:0 win 65534 <mss 1460, sackok, ws 7>", "but left: S 0:0 win 65535");
    fails(&format!("connect\n> {SYN}\n+999ms > {SYN}"), "nothing left");
    fails(&format!("connect\n> {SYN}\n+1001ms > {SYN}"), "not expected: S 0:0");
    fails("connect\n> S 0:0 win 65535 <mss 1460, sackok, ws 7>\nstate ESTABLISHED", "SYN-SENT");
}
