//! Losses between two moments of machines that exist as files only.

use std::os::unix::fs::symlink;

use evenkeel_testing::Scratch;

use super::*;

const HEADING: &str =
    "sl local_address rem_address st tx_queue rx_queue tr tm->when retrnsmt uid timeout inode";

/// Returns a line of `/proc/net/udp`, as on this machine.
fn line(port: u16, inode: u64, drops: u64) -> String {
    let host = u32::from_ne_bytes([127, 0, 0, 1]);
    let state = "00000000:0000 07 00000000:00000100 00:00000000 00000000 0 0";
    format!("7: {host:08X}:{port:04X} {state} {inode} 2 0 {drops}\n")
}

/// A machine at one moment.
fn at(udp: &str, dropped: u64, errors: u64) -> (Scratch, Files, Losses) {
    let scratch = Scratch::new();
    scratch.write("proc/net/softnet_stat", &format!("9 {dropped:x} 0\n"));
    scratch.write("proc/self/net/snmp", &format!("Udp: RcvbufErrors\nUdp: {errors}\n"));
    scratch.write("proc/self/net/snmp6", "Udp6RcvbufErrors 5\n");
    scratch.write("proc/self/net/netstat", "TcpExt: ListenDrops\nTcpExt: 0\n");
    scratch.write("proc/self/net/udp", &format!("{HEADING}\n{udp}"));
    let files = Files::below(scratch.file(""));
    let losses = Losses::read(&files);
    (scratch, files, losses)
}

fn find<'a>(found: &'a [Finding], check: &str) -> &'a Finding {
    found.iter().find(|finding| finding.check == check).unwrap()
}

#[test]
fn what_rises_is_bad_and_what_was_once_is_better_mended() {
    let (_a, _, before) = at("", 3, 10);
    let (_b, _, after) = at("", 3, 30);
    let found = findings(&before, &after, 2.0, &[], Some("eth0"));
    let udp = find(&found, "udp-buffers");
    assert_eq!((udp.verdict, udp.mend.as_deref()), (Verdict::Bad, Some("evenkeel guard eth0")));
    assert_eq!(udp.seen, format!("datagrams dropped: {} now, 35 in all", per_s(10.0)));
    assert_eq!(find(&found, "softnet-drops").verdict, Verdict::CouldBeBetter);
    assert_eq!(find(&found, "time-squeezes").verdict, Verdict::Good);
    assert_eq!(find(&found, "listen-drops").verdict, Verdict::Good);
    assert_eq!(find(&found, "socket").verdict, Verdict::Good);
}

#[test]
fn a_losing_socket_is_named_with_its_program() {
    let (_a, _, before) = at(&(line(53, 11, 100) + &line(67, 12, 7)), 0, 0);
    let (scratch, files, after) = at(&(line(53, 11, 150) + &line(67, 12, 7) + &line(68, 13, 0)), 0, 0);
    scratch.write("proc/77/comm", "na\u{1b}med\n");
    scratch.write("proc/77/fd/0", "");
    symlink("socket:[11]", scratch.file("proc/77/fd/3")).unwrap();
    let losing = losing(&files, &before, &after, 0.5);
    let [now, once] = &losing[..] else { panic!("{losing:?}") };
    assert_eq!((now.dropped_per_s, now.pid, now.program.as_deref()), (100.0, Some(77), Some("na?med")));
    assert_eq!((once.address.port(), once.dropped_per_s, once.pid), (67, 0.0, None));
    let found = findings(&before, &after, 0.5, &losing, None);
    let sockets: Vec<_> = found.iter().filter(|finding| finding.check == "socket").collect();
    assert_eq!(sockets[0].verdict, Verdict::Bad);
    assert_eq!(sockets[0].mend.as_deref(), Some("evenkeel guard IFACE --port 53"));
    assert_eq!(sockets[1].verdict, Verdict::CouldBeBetter);
    assert!(sockets[1].seen.contains("may not see"), "{}", sockets[1].seen);
}

#[test]
fn what_is_absent_or_cut_is_unknown() {
    let scratch = Scratch::new();
    scratch.write("proc/net/softnet_stat", "");
    scratch.write("proc/self/net/snmp", "Udp: RcvbufErrors\n");
    let losses = Losses::read(&Files::below(scratch.file("")));
    let found = findings(&losses, &losses, 1.0, &[], None);
    assert!(found.iter().all(|finding| finding.verdict == Verdict::Unknown), "{found:?}");
}

/// A counter that begins anew, as after a change of the network namespace, is no loss.
#[test]
fn a_counter_that_fell_has_no_rate() {
    assert_eq!(rate(10, 3, 1.0), 0.0);
    assert_eq!(rate(0, 5, 0.0), 0.0);
}
