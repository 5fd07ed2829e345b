//! `--capture`: a file of incoming and outgoing frames while the router forwards.

use std::process::Command;

use crate::support::{Router, Scratch, in_namespace, run};
use crate::{LINKS, hosts};

#[test]
fn what_comes_and_goes_is_in_the_file() {
    in_namespace(&[("tshark", "tshark")], || {
        let (a, _b) = hosts();
        let scratch = Scratch::new();
        let file = scratch.write("both.pcapng", "");
        let router = Router::start(&format!("{LINKS} --capture {file},snaplen=96,filter=icmp"));
        a.run("ping -c 3 -i 0.05 -W 5 -s 1000 10.0.2.2");
        let done = router.stop();
        // The file has each request and each reply twice: incoming and outgoing.
        let capture = &done["capture"];
        assert_eq!((&capture["captured"], &capture["file"]), (&12.into(), &file.as_str().into()), "{done}");
        assert_eq!((&capture["dropped"], &capture["discarded"]), (&0.into(), &0.into()), "{done}");
        assert_eq!(done["counters"]["conserved"], true, "{done}");
        let fields = "-e frame.interface_name -e icmp.type -e ip.ttl -e frame.len -e frame.cap_len";
        let shown = run(&format!("tshark -n -r {file} -T fields -E separator=/s {fields}"));
        // The output also warns that tshark runs as root.
        let mut lines: Vec<_> = shown.lines().filter(|line| line.starts_with('r')).collect();
        lines.sort_unstable();
        assert_eq!(lines.len(), 12, "{shown}");
        lines.dedup();
        let expected = ["r1 0 63 1042 96", "r1 8 64 1042 96", "r2 0 64 1042 96", "r2 8 63 1042 96"];
        assert_eq!(lines, expected, "{shown}");
        // The capture ends properly: with the number of captured packets of each link.
        let described = run(&format!("capinfos -M {file}"));
        assert_eq!(described.matches("Number of stat entries = 1").count(), 2, "{described}");
    });
}

#[test]
fn a_full_disk_does_not_stop_traffic_and_every_frame_is_counted() {
    in_namespace(&[("unshare", "util-linux")], || {
        let (a, _b) = hosts();
        let scratch = Scratch::new();
        let file = scratch.write("disk/both.pcapng", "");
        let folder = file.trim_end_matches("/both.pcapng");
        let script = format!("mount -t tmpfs -o size=64k tmpfs {folder} && exec \"$@\"");
        let before = ["unshare", "-m", "sh", "-c", script.as_str(), "sh"];
        let router = Router::start_as(&before, &format!("{LINKS} --capture {file},filter=icmp"));
        let said = a.run("ping -q -f -c 10000 -s 500 -W 5 10.0.2.2");
        assert!(said.contains(" 0% packet loss"), "{said}");
        let done = router.stop();
        let capture = &done["capture"];
        let count = |what: &str| capture[what].as_u64().unwrap();
        assert_eq!(count("captured") + count("dropped") + count("discarded"), 4 * 10_000, "{capture}");
        // A frame of 542 bytes takes 576 in the file.
        assert!(count("discarded") > 0 && (50..=65_536 / 576).contains(&count("captured")), "{capture}");
        assert_eq!(done["counters"]["conserved"], true, "{done}");
    });
}

#[test]
fn several_cores_do_not_write_one_file() {
    let [first, second, ..] = evenkeel::raw::cpu::cpus()[..] else { return };
    let output = Command::new(env!("CARGO_BIN_EXE_evenkeel"))
        .args(["route", "--cores", &format!("{first},{second}"), "--capture", "both.pcapng", "--check"])
        .args(["--link", "packet:r1,10.0.1.1/24", "--link", "packet:r2,10.0.2.1/24"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("a capture is written by one host; give one core"), "{said}");
}
