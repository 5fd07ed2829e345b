//! Tests of an echo service and a name service with the kernel's own clients.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use evenkeel::raw::process::Program;
use evenkeel::raw::receive::Architecture;
use evenkeel_apps::service::{Counters, Options, Service};
use evenkeel_testing::uninterrupted;

use crate::captured::{Capture, judge};
use crate::names::{ADDRESS, PORT, Responder};
use crate::stand::{KERNEL_V4, KERNEL_V6, Link, Stand, US_V4, US_V6, address_kernel, config, wait_for};
use crate::support::{Running, Scratch, attempt, run};

const ECHO: u16 = 7;
const GROUP_V4: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);
const GROUP_V6: Ipv6Addr = Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0, 0, 7);

/// The longest payload of UDP over IPv4, and over IPv6, whose length field does not count the IP header.
const LONGEST_V4: usize = 65_507;
const LONGEST_V6: usize = 65_527;

/// Creates an echo service that is a member of both groups, and ends after `count` requests.
pub(crate) fn echo(count: Option<u64>) -> Box<dyn Program> {
    let groups = vec![GROUP_V4.into(), GROUP_V6.into()];
    let options = Options { port: ECHO, groups, work: Duration::ZERO, echo: true, count };
    Box::new(Service::new(options, Arc::new(Counters::default())))
}

/// Runs all clients in one conversation, and then checks the capture of it.
pub(crate) fn clients_are_served(link: Link, architecture: Architecture) {
    let scratch = Scratch::new();
    let dump = scratch.file("ours.pcapng");
    let programs = vec![echo(None), Box::new(Responder::default()) as Box<dyn Program>];
    let stand = Stand::start(link, config(architecture), programs, Some(&dump));
    let capture = Capture::start(stand.device, scratch.file("kernel.pcap"));

    pings_are_answered(&stand);
    ports_without_a_socket_are_refused();
    netcat_hears_itself();
    datagrams_of_every_kind_of_length_come_back();
    ten_thousand_datagrams_come_and_go();
    groups_are_heard(stand.device);
    names_are_resolved(&scratch.file("names"));

    let seen = capture.stop();
    let (mac, recording) = (stand.mac(), stand.recording.clone().unwrap());
    let engine = stand.stop();
    let (free, promised) = engine.host().pool();
    assert_eq!(free, promised, "every buffer has come back");
    drop(engine);
    nothing_was_wrong_with_our_frames(&seen, &mac);
    nothing_was_wrong_with_our_frames(&dump, &mac);
    let count = run(&format!("capinfos -M -c {}", dump.display()));
    assert!(count.contains(&format!("Number of packets:   {}\n", recording.frames().unwrap())), "{count}");
}

fn pings_are_answered(stand: &Stand) {
    let link_local = format!("{}%{}", stand.link_local(), stand.device);
    for (count, options) in [
        (3, ""),
        (3, "-s 0"),
        (3, "-s 1452"),
        (3, "-s 1453"),
        (3, "-s 1472"),
        (3, "-s 1473"),
        (3, "-s 65000"),
    ] {
        for target in [US_V4, US_V6, &link_local] {
            ping(stand, count, options, target);
        }
    }
    ping(stand, 3, "-s 65507", US_V4);
    ping(stand, 3, "-M do -s 1472", US_V4);
    ping(stand, 3, "-M do -s 1452", US_V6);
    // The packets have options of the IP header, and labels, which the host ignores.
    ping(stand, 3, "-T tsonly", US_V4);
    ping(stand, 3, "-Q 0xb8", US_V4);
    ping(stand, 3, "-F 0xabcde", US_V6);
    for target in [US_V4, US_V6] {
        ping(stand, 2000, "-f", target);
    }
    wait_for("an answer to every ping", || unanswered_pings() == [0, 0]);
    let everybody = run(&format!("ping -n -c 2 -i 0.2 ff02::1%{}", stand.device));
    assert!(everybody.contains(&format!("from {}%", short(&stand.link_local()))), "{everybody}");
    let neighbours = run(&format!("ip neigh show dev {}", stand.device));
    for address in [US_V4, US_V6] {
        assert!(neighbours.contains(&format!("{address} lladdr {}", stand.mac())), "{neighbours}");
    }
}

/// Returns the canonical form of an address (RFC 5952).
fn short(address: &str) -> String {
    address.parse::<Ipv6Addr>().unwrap().to_string()
}

/// Asserts that `count` echo requests are answered, each with its own data.
fn ping(stand: &Stand, count: u32, options: &str, target: &str) {
    let interval = if options == "-f" { "" } else { "-i 0.01" };
    // Without a deadline, ping waits for the last answer only twice as long as for the others.
    let (_, report) = attempt(&format!("ping -n -c {count} {interval} -w 10 {options} {target}"));
    let before = report.split(" received,").next().unwrap();
    let received: u32 = before.rsplit(' ').next().unwrap().parse().unwrap_or(0);
    // ping sends more while it waits for a late answer, and may get those answers as well.
    assert!(received >= count, "{report}{:?}", stand.counters());
    // These are ping's messages about an answer with other data, or a duplicate.
    let complaints = ["wrong data byte", "DIFFERENT", "truncated", "DUP!"];
    assert!(!complaints.iter().any(|complaint| report.contains(complaint)), "{report}");
}

/// Returns the numbers of echo requests without an answer so far, of both families, by the kernel's own
/// counters.
fn unanswered_pings() -> [i64; 2] {
    let counters = run("nstat -asz IcmpOutEchos IcmpInEchoReps Icmp6OutEchos Icmp6InEchoReplies");
    let value = |name: &str| -> i64 {
        let line = counters.lines().find(|line| line.split_whitespace().next() == Some(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    [value("IcmpOutEchos") - value("IcmpInEchoReps"), value("Icmp6OutEchos") - value("Icmp6InEchoReplies")]
}

fn client(family: &str) -> UdpSocket {
    let socket = UdpSocket::bind((family, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    socket
}

/// The kernel's socket reports the ICMP error.
fn ports_without_a_socket_are_refused() {
    for (from, to) in [(KERNEL_V4, US_V4), (KERNEL_V6, US_V6)] {
        let socket = client(from);
        socket.connect((to, 9)).unwrap();
        for payload in [&b"anybody?"[..], &[0; 20_000]] {
            socket.send(payload).unwrap();
            let error = uninterrupted(|| socket.recv(&mut [0; 10])).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{to}");
        }
    }
}

fn netcat_hears_itself() {
    for to in [US_V4, US_V6] {
        let mut nc = Command::new("nc");
        nc.args(["-u", to, &ECHO.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut nc = Running(nc.spawn().unwrap());
        for line in [&b"hello\n"[..], b"again\n"] {
            nc.0.stdin.as_mut().unwrap().write_all(line).unwrap();
            let mut heard = [0; 6];
            nc.0.stdout.as_mut().unwrap().read_exact(&mut heard).unwrap();
            assert_eq!(heard, line);
        }
    }
}

/// Returns contents that differ from byte to byte and from datagram to datagram.
fn payload(len: usize, salt: usize) -> Vec<u8> {
    (0..len).map(|at| (at.wrapping_mul(167) ^ (at >> 8) ^ salt) as u8).collect()
}

fn datagrams_of_every_kind_of_length_come_back() {
    let mut heard = vec![0; 1 << 16];
    for (from, to, longest) in [(KERNEL_V4, US_V4, LONGEST_V4), (KERNEL_V6, US_V6, LONGEST_V6)] {
        let socket = client(from);
        let around = |len: usize| len - 2..=len + 2;
        // The lengths are: the shortest frame, one fragment and two, 8 bytes more or less, the longest.
        let lengths =
            (0..=20).chain(around(1452)).chain(around(1472)).chain(around(2928)).chain(around(2960));
        let lengths = lengths.chain((4000..longest).step_by(3331)).chain(longest - 9..=longest);
        for len in lengths {
            let sent = payload(len, len);
            socket.send_to(&sent, (to, ECHO)).unwrap();
            let (got, sender) =
                uninterrupted(|| socket.recv_from(&mut heard)).unwrap_or_else(|e| panic!("{to}, {len}: {e}"));
            assert_eq!(got, len, "{to}");
            assert!(heard[..got] == sent, "{to}: {len} bytes came back changed");
            assert_eq!(sender, SocketAddr::new(to.parse().unwrap(), ECHO));
        }
    }
}

fn ten_thousand_datagrams_come_and_go() {
    let mut heard = [0; 2048];
    for (from, to) in [(KERNEL_V4, US_V4), (KERNEL_V6, US_V6)] {
        let socket = client(from);
        for number in 0..5000 {
            let sent = payload(8 + number % 1400, number);
            socket.send_to(&sent, (to, ECHO)).unwrap();
            let len = uninterrupted(|| socket.recv(&mut heard))
                .unwrap_or_else(|e| panic!("{to}, number {number}: {e}"));
            assert!(heard[..len] == sent, "{to}, number {number}");
        }
    }
}

fn groups_are_heard(device: &str) {
    let link = run(&format!("ip -o link show dev {device}"));
    let index = link.split(':').next().unwrap().parse().unwrap();
    let to_v6 = SocketAddrV6::new(GROUP_V6, ECHO, 0, index);
    for (from, to, us) in
        [(KERNEL_V4, SocketAddr::new(GROUP_V4.into(), ECHO), US_V4), (KERNEL_V6, to_v6.into(), US_V6)]
    {
        let socket = client(from);
        for len in [5, 1400, 9000] {
            let sent = payload(len, 1);
            socket.send_to(&sent, to).unwrap();
            let mut heard = vec![0; 1 << 16];
            let (got, sender) =
                uninterrupted(|| socket.recv_from(&mut heard)).unwrap_or_else(|e| panic!("{to}, {len}: {e}"));
            assert!(heard[..got] == sent, "{to}, {len} bytes");
            assert_eq!(sender, SocketAddr::new(us.parse().unwrap(), ECHO), "an answer comes from no group");
        }
    }
}

fn names_are_resolved(batch: &Path) {
    const QUERIES: usize = 300;
    let names: Vec<String> = (0..QUERIES).map(|number| format!("host{number}.example.org A\n")).collect();
    std::fs::write(batch, names.concat()).unwrap();
    let expected = Ipv4Addr::from(ADDRESS).to_string();
    for server in [US_V4, US_V6] {
        let dig = format!("dig @{server} -p {PORT} +tries=1 +timeout=5");
        let answers = run(&format!("{dig} +short -f {}", batch.display()));
        assert_eq!(answers.lines().filter(|line| *line == expected).count(), QUERIES, "{answers}");
        assert_eq!(answers.lines().count(), QUERIES, "{answers}");
        let whole = run(&format!("{dig} www.example.org A"));
        assert!(whole.contains("status: NOERROR") && whole.contains("ANSWER: 1"), "{whole}");
        assert!(
            !whole.contains("WARNING")
                || whole.matches("WARNING").count() == whole.matches("recursion requested").count(),
            "{whole}"
        );
        let other = run(&format!("{dig} www.example.org TXT"));
        assert!(other.contains("status: NOERROR") && other.contains("ANSWER: 0"), "{other}");
    }
}

fn nothing_was_wrong_with_our_frames(file: &Path, mac: &str) {
    let verdict = judge(file, mac);
    assert!(verdict.faults.is_empty(), "{}: {:#?}", file.display(), verdict.faults);
    // There are at least 10 000 datagrams and 4000 pings, half of each over IPv4.
    let [ip, udp, icmp, icmpv6, _] = verdict.verified;
    assert!(verdict.frames > 14_000 && ip > 7_000 && udp > 10_000, "{verdict:?}");
    assert!(icmp > 2_000 && icmpv6 > 2_000, "{verdict:?}");
}

/// A bridge that snoops IGMP and MLD, as switches do, knows the groups that we have joined and left.
fn memberships_are_understood(link: Link) {
    let scratch = Scratch::new();
    let stand = Stand::start_bare(link, config(Architecture::SoftLrp), vec![echo(Some(1))], None);
    let capture = Capture::start(stand.device, scratch.file("kernel.pcap"));
    // The reports of joining may be over when the bridge begins, so it asks: every half a second, as its IPv6
    // address may come later than its first question, and for answers within a second instead of ten.
    let bridge = "mcast_snooping 1 mcast_querier 1 mcast_startup_query_count 20 \
                  mcast_startup_query_interval 50 mcast_query_response_interval 100 \
                  mcast_last_member_interval 10";
    run(&format!("ip link add br0 type bridge {bridge}"));
    run(&format!("ip link set {} master br0", stand.device));
    run("ip link set br0 up");
    address_kernel("br0");
    let knows = |group: &str| run("bridge mdb show dev br0").contains(&format!("grp {group} temp"));
    let (v4, v6) = (GROUP_V4.to_string(), GROUP_V6.to_string());
    wait_for("membership in the bridge's table", || knows(&v4) && knows(&v6));
    // The service ends after one request, and leaves its groups.
    client(KERNEL_V4).send_to(b"end", (US_V4, ECHO)).unwrap();
    wait_for("the end of membership", || !knows(&v4) && !knows(&v6));
    let verdict = judge(&capture.stop(), &stand.mac());
    assert!(verdict.faults.is_empty(), "{:#?}", verdict.faults);
    let [_, _, _, icmpv6, igmp] = verdict.verified;
    assert!(icmpv6 > 0 && igmp > 0, "{verdict:?}");
    stand.stop();
}

#[test]
fn a_snooping_bridge_understands_memberships_on_tap() {
    crate::support::in_namespace(|| memberships_are_understood(Link::Tap));
}

#[test]
fn a_snooping_bridge_understands_memberships_on_packet() {
    crate::support::in_namespace(|| memberships_are_understood(Link::Packet));
}

/// `judge` finds the defects that it looks for.
#[test]
fn the_judge_sees_faults() {
    crate::support::in_namespace(|| {
        let scratch = Scratch::new();
        let stand = Stand::start(Link::Packet, config(Architecture::SoftLrp), vec![echo(None)], None);
        // The capture is at our end, because frames of the attacker's device do not pass tcpdump there.
        let capture = Capture::start("ek0", scratch.file("kernel.pcap"));
        crate::attacker::send_faults(&stand);
        let (done, _) = attempt(&format!("ping -c 1 -W 5 {US_V4}"));
        assert!(done);
        let verdict = judge(&capture.stop(), crate::attacker::MAC);
        assert_eq!(verdict.faults.len(), crate::attacker::FAULTS, "{verdict:#?}");
    });
}
