//! The log of packets about which rules have decided.

use crate::support::{Router, Scratch, in_namespace, run};
use crate::{LINKS, hosts};

#[test]
fn what_rules_log_is_in_the_file() {
    in_namespace(&[("tshark", "tshark")], || {
        let (a, _b) = hosts();
        let scratch = Scratch::new();
        scratch.write("servers.txt", "# not for us\n10.0.2.2\n");
        let rules = scratch.write(
            "rules.conf",
            "table <servers> file \"servers.txt\"\nblock log in on lan proto icmp to <servers>\n\npass log \
             in proto icmp6\n",
        );
        let log = scratch.write("refused.pcapng", "");
        let router = Router::start(&format!("{LINKS} --rules {rules} --log {log}"));
        assert!(!a.attempt("ping -c 3 -i 0.05 -W 1 10.0.2.2").0);
        a.run("ping -c 2 -i 0.05 -W 5 -s 1000 fd00:2::2");
        let done = router.stop();
        assert_eq!(
            (&done["screening"]["log"]["written"], &done["screening"]["log"]["lost"]),
            (&7.into(), &0.into()),
            "{done}"
        );
        let shown = run(&format!("capinfos -c -M -T -r {log}"));
        assert!(shown.split_whitespace().any(|word| word == "7"), "{shown}");
        // The comment of each packet names the rule that decided.
        let said = run(&format!("tshark -r {log} -T fields -e frame.comment"));
        let refused =
            format!("rule 1 at {rules}:2: block drop in log on lan proto icmp from any to <servers>");
        let passed = format!("rule 2 at {rules}:4: pass in log proto icmp6 all");
        let count = |remark: &str| said.lines().filter(|line| *line == remark).count();
        assert_eq!((count(&refused), count(&passed)), (3, 4), "{said}");
        assert_eq!(done["screening"]["rules"][1]["line"], 4, "{done}");
    });
}

/// On a disk of 64 KiB, packets that do not fit are counted, and no packet waits for the disk.
#[test]
fn a_full_disk_does_not_stop_traffic() {
    in_namespace(&[("unshare", "util-linux")], || {
        let (a, _b) = hosts();
        let scratch = Scratch::new();
        let rules = scratch.write("rules.conf", "pass log in proto icmp\n");
        let file = scratch.write("disk/refused.pcapng", "");
        let folder = file.trim_end_matches("/refused.pcapng").to_owned();
        let script = format!("mount -t tmpfs -o size=64k tmpfs {folder} && exec \"$@\"");
        let before = ["unshare", "-m", "sh", "-c", script.as_str(), "sh"];
        let mut router = Router::start_as(&before, &format!("{LINKS} --rules {rules} --log {file}"));
        let said = a.run("ping -q -f -c 30000 -s 120 -W 5 10.0.2.2");
        assert!(said.contains(" 0% packet loss"), "{said}");
        router.wait_until_said("not logged");
        a.run("ping -c 3 -i 0.05 -W 5 10.0.2.2");
        let done = router.stop();
        let log = &done["screening"]["log"];
        let count = |what: &str| log[what].as_u64().unwrap();
        assert_eq!(count("packets") + count("lost"), 2 * 30_003, "{log}");
        assert!(count("lost") > 0 && count("written") > 100 && count("written") < count("packets"), "{log}");
        assert!(log["last_failure"].as_str().is_some_and(|why| why.contains("No space left")), "{log}");
    });
}
