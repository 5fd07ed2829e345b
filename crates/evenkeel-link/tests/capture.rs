//! Tests of captures with common tools: each reads the other's files.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use std::collections::VecDeque;
use std::fs;
use std::net::UdpSocket;
use std::path::PathBuf;

use evenkeel_core::cable::{self, Completion, End};
use evenkeel_core::frame::{Frame, Pool};
use evenkeel_core::interface::{Interface, TxQueue as _};
use evenkeel_core::time::Duration;
use evenkeel_link::capture::{Reader, Recorded};
use evenkeel_link::{Clock, Device, Tap, TapOptions, open};
use evenkeel_skip::Lack;
use support::{Bench, has, in_namespace, is_ipv4, lacks, run};

/// A directory that is removed with its content.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("evenkeel-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Creates both ends of a cable, with their pools; the second end's ring holds 8 frames.
fn cable() -> ((End, Pool), (End, Pool)) {
    let ends = cable::pair(
        cable::Options::new("a", 1),
        cable::Options { ring_pkts: 8, ..cable::Options::new("b", 2) },
    );
    let attach = |mut end: End| {
        let mut pool = Pool::with_limit(4096);
        end.attach(&mut pool).unwrap();
        pool.grow(64).unwrap();
        (end, pool)
    };
    (attach(ends.0), attach(ends.1))
}

fn frame(number: u8) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5][..], &vec![number; 46 + usize::from(number)]].concat()
}

fn one(pool: &mut Pool, bytes: &[u8]) -> VecDeque<Frame> {
    VecDeque::from_iter(pool.take_copy(bytes))
}

#[test]
fn what_passes_an_interface_is_recorded_and_tshark_reads_it() {
    if !has("tshark") || !has("capinfos") {
        return lacks(&Lack::Program { program: "tshark", package: "tshark" });
    }
    let scratch = Scratch::new("record");
    let path = scratch.file("recorded.pcapng");
    let ((mut a, mut a_pool), (b, mut b_pool)) = cable();
    let mut b = Recorded::new(Box::new(b), &path, Clock::start()).unwrap();
    let recording = b.recording();
    for number in 0..10 {
        assert_eq!(a.transmit(&mut one(&mut a_pool, &frame(number)), &mut a_pool), 1);
    }
    assert_eq!(b.queue(0).pending(), 8);
    let mut number = 0;
    while let Some(taken) = b.queue_mut(0).take(&mut b_pool) {
        assert_eq!(taken.bytes(), frame(number));
        number += 1;
        assert_eq!(b.transmit(&mut VecDeque::from([taken]), &mut b_pool), 1);
    }
    assert_eq!((number, b.queue(0).missed()), (8, 2), "recording changes nothing");
    drop(b);
    assert_eq!(recording.frames().unwrap(), 16);

    let file = path.display();
    let fields = run(&format!(
        "tshark -r {file} -T fields -e frame.len -e frame.packet_flags_direction -e frame.interface_name"
    ));
    let lines: Vec<&str> = fields.lines().filter(|line| line.contains('\t')).collect();
    assert_eq!(lines.len(), 16, "{fields}");
    for (at, line) in lines.iter().enumerate() {
        let (len, direction) = (60 + at / 2, if at % 2 == 0 { "1" } else { "2" });
        let mut words = line.split('\t');
        assert_eq!(words.next().unwrap(), len.to_string());
        assert!(
            words.next().unwrap().trim_start_matches("0x").trim_start_matches('0') == direction,
            "{line}"
        );
        assert_eq!(words.next().unwrap(), "b");
    }
    let info = run(&format!("capinfos -M {file}"));
    assert!(info.contains("Number of packets:   16") && info.contains("nanoseconds"), "{info}");
    assert!(info.contains("Strict time order:   True"), "{info}");
}

#[test]
fn what_an_interface_leaves_is_recorded_once() {
    let scratch = Scratch::new("leaves");
    let path = scratch.file("recorded.pcapng");
    let by_peer = Completion::ByPeer;
    let a = cable::Options { completion: by_peer, transmit_ring_pkts: 4, ..cable::Options::new("a", 1) };
    let (a, mut far) = cable::pair(a, cable::Options::new("b", 2));
    let mut a = Recorded::new(Box::new(a), &path, Clock::start()).unwrap();
    let mut pool = Pool::with_limit(1024);
    pool.grow(8).unwrap();
    a.attach(&mut pool).unwrap();
    far.attach(&mut Pool::with_limit(1024)).unwrap();
    let mut waiting: VecDeque<_> = (0..6).filter_map(|number| pool.take_copy(&frame(number))).collect();
    assert_eq!((a.transmit(&mut waiting, &mut pool), a.transmit(&mut waiting, &mut pool)), (4, 0));
    far.complete(4);
    a.reclaim(&mut pool, usize::MAX);
    waiting.extend(pool.take_copy(&frame(6)));
    assert_eq!((a.transmit(&mut waiting, &mut pool), waiting.len()), (3, 0));
    drop(a);
    let recorded: Vec<_> = frames(&path).into_iter().map(|(_, frame)| frame).collect();
    assert_eq!(recorded, (0..7).map(frame).collect::<Vec<_>>());
}

#[test]
fn files_of_other_tools_are_read() {
    if !has("editcap") {
        return lacks(&Lack::Program { program: "editcap", package: "wireshark-common" });
    }
    let scratch = Scratch::new("convert");
    let ours = scratch.file("ours.pcapng");
    let ((a, mut pool), _b) = cable();
    {
        let mut recorded = Recorded::new(Box::new(a), &ours, Clock::start()).unwrap();
        for number in 0..50 {
            recorded.transmit(&mut one(&mut pool, &frame(number)), &mut pool);
        }
    }
    let expected = frames(&ours);
    assert_eq!(expected.len(), 50);
    for (format, unit) in [("pcapng", 1), ("nsecpcap", 1), ("pcap", 1000)] {
        let theirs = scratch.file(format);
        run(&format!("editcap -F {format} {} {}", ours.display(), theirs.display()));
        let got = frames(&theirs);
        let coarse: Vec<_> =
            expected.iter().map(|(time, frame)| (time / unit * unit, frame.clone())).collect();
        assert_eq!(got, coarse, "{format}");
    }
}

fn frames(path: &PathBuf) -> Vec<(u64, Vec<u8>)> {
    let mut reader = Reader::new(fs::File::open(path).unwrap()).unwrap();
    let mut frames = Vec::new();
    while reader.advance().unwrap() {
        frames.push((reader.time(), reader.frame().to_vec()));
    }
    frames
}

#[test]
fn a_device_is_recorded_and_its_capture_played_again() {
    in_namespace(|| {
        let scratch = Scratch::new("device");
        let path = scratch.file("tap.pcapng");
        let kernel_addresses = vec!["10.77.0.1/24".parse().unwrap()];
        let tap: Box<dyn Device> =
            Box::new(Tap::open("ek0", &TapOptions { kernel_addresses, ..TapOptions::default() }).unwrap());
        let mut bench = Bench::new(Recorded::new(tap, &path, Clock::start()).unwrap());
        run("ip neigh add 10.77.0.2 lladdr 02:00:00:00:00:01 dev ek0");
        let socket = UdpSocket::bind("10.77.0.1:0").unwrap();
        for number in 0..20 {
            socket.send_to(&[number; 100], "10.77.0.2:9").unwrap();
            let frame = bench.expect("datagram", |frame| is_ipv4(frame, 17));
            bench.pool.recycle(frame);
        }
        drop(bench);
        // The recorded device is removed, too.
        support::wait_until_gone("ek0");

        let spec = format!("pcap:{}", path.display()).parse().unwrap();
        let evenkeel_link::LinkSpec::Device(spec) = spec else { panic!("not a device") };
        let mut bench = Bench::boxed(open(&spec, Clock::start()).unwrap());
        for number in 0..20 {
            let frame = bench.expect("datagram", |frame| is_ipv4(frame, 17));
            assert_eq!(frame.bytes()[42..], [number; 100]);
            bench.pool.recycle(frame);
        }
        assert!(bench.frame_within(Duration::from_millis(50), |frame| is_ipv4(frame, 17)).is_none());
    });
}

#[test]
fn a_full_disk_ends_the_recording_and_not_the_interface() {
    let full = PathBuf::from("/dev/full");
    if !full.exists() {
        return lacks(&Lack::Other("there is no /dev/full"));
    }
    let ((mut a, mut a_pool), (b, mut b_pool)) = cable();
    let mut b = Recorded::new(Box::new(b), &full, Clock::start()).unwrap();
    let recording = b.recording();
    let large = vec![7; 1514];
    for _ in 0..100 {
        assert_eq!(a.transmit(&mut one(&mut a_pool, &large), &mut a_pool), 1);
        let taken = b.queue_mut(0).take(&mut b_pool).unwrap();
        assert_eq!(taken.bytes(), large);
        b_pool.recycle(taken);
        b.reclaim(&mut b_pool, usize::MAX);
        a.reclaim(&mut a_pool, usize::MAX);
    }
    let error = recording.frames().unwrap_err().to_string();
    assert!(error.contains("/dev/full") && error.contains("No space left"), "{error}");
}
