//! Options and headers: any bytes are parsed, with the result of an independent parser; and written options
//! parse to themselves.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use evenkeel_core::tcp::options::OPTIONS_MAX;
use evenkeel_core::tcp::segment::HEADER_LEN;
use evenkeel_core::tcp::{
    Cookie, Ecn, Header, Options, SackBlocks, Segment, SeqNumber, SeqRange, Timestamps,
};
use evenkeel_core::wire::TcpOption;

use super::Script;

const FROM: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1))];
const TO: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2))];

/// The options or the segment that an input encodes.
#[derive(Debug, Default)]
pub struct Report {
    /// Options that were read.
    pub options: Options,
    /// A segment that was read.
    pub segment: Option<Header>,
}

/// Runs an input. Its first byte selects the test.
pub fn run(input: &[u8]) -> Report {
    let mut script = Script(input);
    match script.byte() % 3 {
        0 => Report { options: any(script.0), segment: None },
        1 => Report { options: chosen(&mut script), segment: None },
        _ => Report { options: Options::default(), segment: whole(&mut script) },
    }
}

/// Parses any bytes, as they may stand between header and payload.
fn any(bytes: &[u8]) -> Options {
    let bytes = &bytes[..bytes.len().min(OPTIONS_MAX)];
    let options = Options::parse(bytes);
    compare(bytes, &options);
    let (written, len) = options.emit();
    assert!(len <= OPTIONS_MAX && len.is_multiple_of(4) && len == options.len());
    let mut again = options;
    // With alignment they may need more room than before; then the last blocks have none.
    let read = Options::parse(&written[..len]);
    again.sack.truncate(read.sack.as_slice().len());
    assert_eq!(read, again);
    assert_eq!(options.is_empty(), len == 0);
    options
}

/// Compares the result with smoltcp's, as far as smoltcp parses: it stops at options that we skip.
fn compare(mut bytes: &[u8], options: &Options) {
    let mut others = Options::default();
    while !bytes.is_empty() {
        // smoltcp counts blocks by their length alone, and takes a shift above 14 as 14.
        match TcpOption::parse(bytes) {
            Err(_) | Ok((_, TcpOption::EndOfList)) => break,
            Ok((rest, option)) => {
                match option {
                    TcpOption::MaxSegmentSize(mss) => others.mss = Some(mss),
                    TcpOption::WindowScale(_) => others.window_scale = bytes.get(2).copied(),
                    TcpOption::SackPermitted => others.sack_permitted = true,
                    TcpOption::TimeStamp { tsval, tsecr } => {
                        others.timestamps = Some(Timestamps { value: tsval, echo: tsecr });
                    }
                    TcpOption::Unknown { .. } | TcpOption::SackRange(_) | TcpOption::NoOperation => {}
                    TcpOption::EndOfList => unreachable!("handled above"),
                }
                bytes = rest;
            }
        }
    }
    if bytes.is_empty() {
        let ours = Options { sack: SackBlocks::default(), fast_open: None, ..*options };
        assert_eq!(ours, others);
    }
}

/// Writes options of the script's choice: those with room are parsed again, and no others.
fn chosen(script: &mut Script<'_>) -> Options {
    let options = options(script);
    let (written, len) = options.emit();
    assert!(len <= OPTIONS_MAX && len.is_multiple_of(4));
    let read = Options::parse(&written[..len]);
    // In the order of writing, each option is there if there was room.
    assert!(read.mss == options.mss && read.sack_permitted == options.sack_permitted);
    assert_eq!((read.timestamps, read.window_scale), (options.timestamps, options.window_scale));
    let blocks = read.sack.as_slice();
    assert_eq!(blocks, &options.sack.as_slice()[..blocks.len()]);
    assert!(read.fast_open.is_none_or(|cookie| Some(cookie) == options.fast_open));
    if len + 20 <= OPTIONS_MAX {
        // Either room for the largest cookie was left, or the cookie was written.
        assert_eq!(read.fast_open, options.fast_open);
    }
    if len + 12 <= OPTIONS_MAX {
        assert_eq!(read.sack, options.sack);
    }
    read
}

fn options(script: &mut Script<'_>) -> Options {
    let which = script.byte();
    let long = |script: &mut Script<'_>| u32::from(script.word()) << 16 | u32::from(script.word());
    let block =
        |script: &mut Script<'_>| SeqRange::new(SeqNumber::new(long(script)), SeqNumber::new(long(script)));
    Options {
        mss: (which & 1 != 0).then(|| script.word()),
        window_scale: (which & 2 != 0).then(|| script.byte()),
        sack_permitted: which & 4 != 0,
        timestamps: (which & 8 != 0).then(|| Timestamps { value: long(script), echo: long(script) }),
        fast_open: if which & 16 == 0 { None } else { cookie(script) },
        sack: (0..which >> 5).map(|_| block(script)).collect(),
    }
}

fn cookie(script: &mut Script<'_>) -> Option<Cookie> {
    let len = usize::from(script.byte() % 20);
    Cookie::new(script.bytes(len))
}

/// Parses a whole segment of any bytes with a right checksum, writes it, and parses it again.
fn whole(script: &mut Script<'_>) -> Option<Header> {
    let family = usize::from(script.byte() % 2);
    let (from, to) = (FROM[family], TO[family]);
    let mut bytes = script.0.to_vec();
    if bytes.len() >= HEADER_LEN {
        super::tcp_segment::seal(&mut bytes, &from, &to);
    }
    let Ok(segment) = Segment::parse(&bytes, from, to, Ecn::NotCapable) else { return None };
    assert!(segment.header.source != 0 && segment.header.destination != 0);
    let mut written = vec![0xaa; segment.len() + 4];
    let len = segment.emit(&mut written, from, to).expect("room for all of it");
    assert!(len == segment.len() && written[len..] == [0xaa; 4]);
    assert_eq!(segment.emit(&mut vec![0; len - 1], from, to), None);
    let again = Segment::parse(&written[..len], from, to, Ecn::NotCapable).expect("its checksum is right");
    let mut header = segment.header;
    header.options.sack.truncate(again.header.options.sack.as_slice().len());
    assert_eq!((again.header, again.payload.concat()), (header, segment.payload.concat()));
    assert_eq!(again.range(), segment.range());
    assert_eq!(segment.is_empty(), segment.payload_len() == 0);
    let read = again.header;
    // A change of one bit makes the checksum wrong.
    let bit = usize::from(script.word()) % (8 * len);
    written[bit / 8] ^= 1 << (bit % 8);
    let spoiled = Segment::parse(&written[..len], from, to, Ecn::NotCapable);
    assert!(spoiled.is_err(), "a flipped bit went unseen");
    Some(read)
}
