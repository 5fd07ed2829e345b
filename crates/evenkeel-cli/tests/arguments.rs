//! Bad arguments and missing privileges: one clear line with advice, and an exit status that distinguishes
//! the user's errors from the machine's.
#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::{evenkeel, is_root};

/// Runs a command, and returns its one line of error; asserts that it fails with `status`.
fn complaint(status: i32, arguments: &[&str]) -> String {
    let output = evenkeel(arguments);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
    assert_eq!(said.lines().count(), 1, "{arguments:?}: not one line: {said}");
    assert!(output.stdout.is_empty(), "{arguments:?}: a complaint belongs to standard error");
    said
}

#[test]
fn bad_arguments_are_explained_in_one_line() {
    let cases: &[(&[&str], &str)] = &[
        (&["dmeo"], "demo"),
        (&["demo", "--work", "1"], "such as 500ns"),
        (&["demo", "--points", "1"], "3..=100"),
        (&["demo", "--seconds-per-point", "0"], "above 0"),
        (&["demo", "--architectures", "eager,bsd"], "soft-lrp"),
        (&["demo", "--no-report", "--report", "x.html"], "--report"),
        (&["echo"], "<LINK>"),
        (&["echo", "wire"], "expected `cable`"),
        (&["echo", "tap:"], "tap:ek0"),
        (&["echo", "tap:a-name-that-is-far-too-long"], "1 to 15"),
        (&["echo", "cable", "--prot", "9"], "--port"),
        (&["echo", "cable", "--port", "0"], "--port"),
        (&["echo", "cable", "--port", "65536"], "65535"),
        (&["echo", "cable", "--address", "10.0.0.1"], "10.77.0.2/24"),
        (&["echo", "cable", "--address", "10.77.0.2/32"], "shorter prefix"),
        (&["echo", "cable", "--group", "10.0.0.1"], "239.1.2.3"),
        (&["echo", "cable", "--architecture", "bsd"], "soft-lrp"),
        (&["echo", "cable", "--clocked-interrupts", "0"], "expected a time above 0"),
        (&["sink", "cable", "--stats-interval", "0"], "expected a time above 0"),
        (&["monitor", "cable", "--stats-interval", "0"], "expected a time above 0"),
        (&["echo", "cable", "--dump", "x.pcapng"], "packet:NAME"),
        (&["echo", "cable", "--gateway", "10.77.0.1"], "packet:NAME"),
        (&["echo", "packet:lo", "--kernel-address", "10.77.0.1/24"], "tap:NAME"),
        (&["sink", "cable", "--rate", "fast"], "500k or 2M"),
        (&["echo", "cable", "--tcp", "--rate", "5"], "--tcp"),
        (&["echo", "cable", "--tcp", "--group", "239.1.2.3"], "--group is for UDP"),
        (&["echo", "cable", "--udp", "--tcp"], "--udp or --tcp"),
        (&["echo", "packet:lo", "--udp", "--backlog", "5"], "--backlog needs --tcp"),
        (&["echo", "cable", "--bytes", "64k"], "--tcp"),
        (&["sink", "cable", "--connections"], "--connections needs --tcp"),
        (&["sink", "cable", "--clients", "3"], "--clients needs --tcp"),
        (&["sink", "cable", "--tcp", "--clients", "0"], "1..=16384"),
        (&["send"], "<LINK>"),
        (&["send", "cable", "--bytes", "0"], "above 0"),
        (&["send", "cable", "file", "--bytes", "5"], "--bytes"),
        (&["send", "cable", "--bytes", "5", "--json", "--output", "-"], "--output FILE"),
        (&["send", "cable", "--to", "10.77.0.1"], "10.77.0.1:9"),
        (&["send", "cable", "--from", "10.77.0.2/24", "--to", "[fd77::1]:9"], "different families"),
        (&["send", "cable", "--gateway", "10.77.0.1"], "packet:NAME"),
        (&["send", "packet:lo", "--sink"], "--sink is for cable"),
        (&["send", "cable", "--limit-rate", "50"], "such as 64kbit"),
        (&["send", "cable", "--congestion", "vegas"], "possible values"),
        (&["route", "tap:keel0"], "expected cable, or two links, each with --link"),
        (&["wan", "packet:eth1"], "expected cable, or two links, each with --link"),
        (&["send", "cable", "--start", "known"], "known=RATE"),
        (&["http", "cable", "--start", "known=fast"], "such as 64kbit"),
        (&["echo", "cable", "--congestion", "bbr"], "--congestion needs --tcp"),
        (&["sink", "cable", "--udp", "--limit-rate", "5mbit"], "--limit-rate needs --tcp"),
        (&["send", "pcap:x.pcapng"], "nobody answers from a capture"),
        (&["http"], "<LINK>"),
        (&["http", "cable", "--size", "0"], "above 0"),
        (&["http", "cable", "--tcp"], "--tcp"),
        (&["blast", "cable", "--rate", "0"], "above 0"),
        (&["blast", "cable", "--to", "10.77.0.1"], "10.77.0.1:9"),
        (&["blast", "cable", "--size", "9000"], "1452"),
        (&["blast", "cable", "--from", "10.77.0.2/24", "--to", "[fd77::1]:9"], "different families"),
        (&["blast", "pcap:x.pcapng"], "--dump"),
        (&["route"], "--link twice"),
        (&["route", "--link", "packet:a,10.0.1.1"], "such as 10.0.0.1/24"),
        (&["route", "--link", "cable"], "tap:NAME, packet:NAME or xdp:NAME"),
        (&["route", "--route", "10.9.0.0,via=10.0.2.2"], "expected a prefix"),
        (&["route", "--neighbor", "10.0.2.9"], "10.0.0.9,02:00:00:00:00:09"),
        (&["route", "--link", "packet:a", "--link", "packet:a"], "two links are called `a`"),
        (
            &["route", "--link", "packet:a", "--link", "packet:b", "--route", "10.0.0.0/8,via=1.1.1.1"],
            "on no link's network",
        ),
        (
            &["route", "--link", "packet:a", "--link", "packet:b", "--log", "refused.pcapng"],
            "--log needs --rules",
        ),
        (&["route", "cable", "--cores", "0,1"], "--cores is for packet:NAME"),
        (
            &["route", "--link", "packet:a", "--link", "packet:b", "--cores", "99999"],
            "this process may run on",
        ),
        (&["route", "--link", "packet:a", "--link", "packet:b", "--cores", "0-1"], "--cores"),
        (
            &["route", "--link", "packet:a,10.0.1.1/24", "--link", "packet:b,10.0.1.1/24"],
            "`a` and `b` have the same address, 10.0.1.1",
        ),
        (
            &["route", "--link", "x=packet:a,10.0.1.1/24", "--link", "y=packet:a,10.0.2.1/24"],
            "`x` and `y` are the same device",
        ),
        (
            &["route", "--link", "packet:a,10.0.1.1/24", "--link", "packet:b,10.0.1.2/24"],
            "`a` and `b` are on the same network",
        ),
        (&["route", "--route", "10.9.1.0/16,via=10.0.2.2"], "the prefix is 10.9.0.0/16"),
        (&["route", "--link", "packet:a,mac=x"], "expected own, device, random"),
        (&["route", "--kernel-routes", "--link", "packet:a,mac=own", "--link", "packet:b"], "mac=device"),
        (
            &[
                "route",
                "--link",
                "packet:a,10.0.1.1/24",
                "--link",
                "packet:b",
                "--route",
                "10.9.0.0/16,via=10.0.1.1",
            ],
            "10.0.1.1 is the router's own address, on `a`",
        ),
        (&["echo", "tap:ek0", "--mac", "device"], "the kernel's"),
        (&["echo", "cable", "--mac", "random"], "packet:NAME, xdp:NAME and tap:NAME only"),
        (&["send", "packet:ek0", "--mac", "ff:ff:ff:ff:ff:ff"], "expected own, device, random"),
        (&["wan"], "--link twice"),
        (&["wan", "--link", "cable", "--link", "packet:a"], "names no link to a network"),
        (&["wan", "--link", "packet:a", "--link", "x=packet:a"], "both links are the same device: packet:a"),
        (&["wan", "--link", "packet:a,10.0.0.1/24", "--link", "packet:b"], "frames pass unchanged"),
        (&["wan", "--link", "packet:a,queues=2", "--link", "packet:b"], "without queues="),
        (&["wan", "cable", "--link", "packet:a"], "without --link"),
        (&["wan", "cable", "--stats-interval", "1s"], "without --stats-interval"),
        (&["wan", "cable", "--rate", "50mbps"], "such as 64kbit, 50mbit or 1gbit"),
        (&["wan", "cable", "--rate", "5mbit", "--trace", "x"], "--trace"),
        (&["wan", "cable", "--delay", "50"], "such as 500ns"),
        (&["wan", "cable", "--delay", "1ms", "--jitter", "2ms"], "needs a --delay of as much"),
        (&["wan", "cable", "--jitter", "26ms"], "needs a --delay of as much"),
        (&["wan", "cable", "--jitter-reorders"], "--jitter"),
        (&["wan", "cable", "--queue", "none"], "such as 100"),
        (&["wan", "cable", "--overhead", "none"], "a number of bytes"),
        (&["wan", "cable", "--loss", "0.01"], "such as 1% or 0.05%"),
        (&["wan", "cable", "--loss", "gemodel:1%"], "gemodel:0.1%,20%"),
        (&["wan", "cable", "--queue", "0"], "such as 100, bytes, such as 64kB, or a time, such as 50ms"),
        (&["wan", "cable", "--reorder", "1%"], "such as 1%,5ms"),
        (&["wan", "cable", "--overhead", "wifi"], "ethernet (24, and 60 at least)"),
        (&["wan", "cable", "--cpu", "99999"], "this process may run on"),
        (
            &["wan", "--link", "packet:a", "--link", "packet:b", "--offered", "1mbit"],
            "--offered is for cable only",
        ),
        (&["load"], "<URL>"),
        (&["load", "ftp://127.0.0.1/"], "expected http:// or https://"),
        (&["load", "https://10.77.0.1/", "--on", "cable"], "HTTP/1.1 without TLS"),
        (&["load", "10.77.0.1:9", "--on", "cable", "--http2"], "HTTP/1.1 without TLS"),
        (&["load", "127.0.0.1:9", "--insecure"], "--insecure are for https"),
        (&["load", "127.0.0.1:9", "--cacert", "x.pem"], "--cacert and"),
        (&["load", "https://127.0.0.1:9", "--cacert", "x.pem", "--insecure"], "--insecure"),
        (&["load", "127.0.0.1:9", "--streams", "5"], "--http2"),
        (&["load", "127.0.0.1:9", "--http2", "-H", "TE: trailers"], "HTTP/2 has no field"),
        (&["load", "127.0.0.1:9", "--threads", "3", "--connections", "2"], "needs a connection"),
        (&["load", "10.77.0.1:9", "--threads", "2", "--on", "cable"], "--on"),
        (&["load", "http://127.0.0.1:0/"], "such as http://"),
        (&["load", "127.0.0.1:9", "--rate", "0"], "such as 0.5, 1500 or 10k"),
        (&["load", "127.0.0.1:9", "--rate", "max"], "such as 0.5, 1500 or 10k"),
        (&["load", "127.0.0.1:9", "--closed", "--rate", "5"], "--rate"),
        (&["load", "127.0.0.1:9", "--arrivals", "bursty"], "poisson"),
        (&["load", "127.0.0.1:9", "--duration", "10"], "with its unit"),
        (&["load", "127.0.0.1:9", "--close", "--requests-per-connection", "5"], "--requests-per-connection"),
        (&["load", "127.0.0.1:9", "--keep-alive", "--close"], "--close"),
        (&["load", "127.0.0.1:9", "--cold-rate", "5"], "--cold"),
        (&["load", "127.0.0.1:9", "--bind", "here"], "127.0.0.2-127.0.0.9"),
        (&["load", "127.0.0.1:9", "--bind", "::1"], "different families"),
        (&["load", "127.0.0.1:9", "--bind", "127.0.0.2", "--on", "cable"], "--on"),
        (&["load", "127.0.0.1:9", "--from", "10.77.0.2/24"], "--on"),
        (&["load", "10.77.0.1:9", "--on", "pcap:x.pcapng"], "nobody answers from a capture"),
        (&["load", "10.77.0.1:9", "--on", "cable", "--from", "fd77::2/64"], "different families"),
        (&["load", "10.77.0.1:9", "--on", "tap:ek0", "--size", "5"], "--size is for cable"),
        (&["load", "10.77.0.1:9", "--on", "cable", "--kernel-address", "10.77.0.1/24"], "tap:NAME only"),
        (&["load", "127.0.0.1:9", "--compress", "100"], "--day"),
        (&["load", "127.0.0.1:9", "--day", "synthetic", "--compress", "1M"], "a second at least"),
        (&["load", "127.0.0.1:9", "--day", "synthetic", "--peak", "5k"], "can have a peak from 30.1"),
        (&["load", "127.0.0.1:9", "-H", "no colon"], "Accept: text/html"),
        (&["load", "127.0.0.1:9", "-H", "Connection: close"], "for evenkeel to say"),
        (&["load", "127.0.0.1:9", "--method", "GET IT"], "such as GET or POST"),
        (&["stats", "x"], "[PID]"),
        (&["stats", "--interval", "0"], "expected a time above 0"),
        (&["top", "x"], "[PID]"),
        (&["top", "--interval", "50ms"], "at least 100ms"),
        (&["top", "--json"], "--once"),
        (&["top", "--once", "--duration", "5s"], "--duration"),
        (&["top"], "standard output is no terminal: `evenkeel top --once`"),
        (&["metrics", "x"], "[PID]"),
        (&["metrics", "--listen", "9464"], "127.0.0.1:9464"),
        (&["metrics", "--listen", "localhost:9464"], "127.0.0.1:9464"),
        (&["metrics", "--duration", "5s"], "--listen"),
        (&["lab", "run"], "<ID>"),
        (&["demo", "--work", "1h"], "at most 1ms"),
        (&["demo", "--points", "-5"], "-5 is not in 3..=100"),
        (&["demo", "--points", "x"], "expected a whole number"),
        (&["echo", "cable", "--duration", "-5s"], "expected a time with its unit"),
        (&["blast", "cable", "--rate", "-1k"], "expected frames a second above 0"),
        (&["lab", "run", "l97-fig6", "--seeds", "-3"], "-3 is not in 1..=1000"),
        (&["send", "cable", "--bytes", "-1.5M"], "expected a count above 0"),
        (&["echo", "tap:ek0", "--kernel-address", "10.77.0.2/24"], "is our own address"),
        (&["blast", "tap:ek0", "--from", "10.0.0.1/24", "--kernel-address", "10.0.0.1/8"], "our own address"),
        (&["lab", "run", "no-such-figure"], "no experiment is called `no-such-figure`"),
        (&["completions", "tcl"], "bash"),
    ];
    for (arguments, hint) in cases {
        let said = complaint(2, arguments);
        assert!(said.contains(hint), "{arguments:?}: {said}");
    }
}

/// The processors that the test names are those of the machine.
#[test]
fn cores_must_be_different_and_several_of_them_need_links_with_queues() {
    let cpus = evenkeel::raw::cpu::cpus();
    let cores = |of: &[usize]| of.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let links = ["route", "--link", "packet:a", "--link", "tap:b", "--cores"];
    let twice = cores(&[cpus[0], cpus[0]]);
    let said = complaint(2, &[&links[..], &[twice.as_str()]].concat());
    assert!(said.contains("is given twice"), "{said}");
    if let [first, second, ..] = cpus[..] {
        let said = complaint(2, &[&links[..], &[cores(&[first, second]).as_str()]].concat());
        assert!(said.contains("b=tap:b") && said.contains("only packet:NAME"), "{said}");
    }
}

#[test]
fn the_line_names_the_help_of_the_command_that_was_meant() {
    assert!(complaint(2, &["blast", "cable", "--rat", "5"]).ends_with("see `evenkeel blast --help`\n"));
    assert!(complaint(2, &["lab", "run", "--sed", "5"]).ends_with("see `evenkeel lab run --help`\n"));
    assert!(complaint(2, &["dmeo"]).ends_with("see `evenkeel --help`\n"));
}

#[test]
fn what_the_machine_refuses_is_explained_in_one_line() {
    let said = complaint(1, &["echo", "packet:no-such-dev", "--duration", "1ms"]);
    assert!(said.contains("ip link") || said.contains("run as root"), "{said}");
    let said = complaint(1, &["send", "cable", "/no/such/file"]);
    assert!(said.contains("cannot read /no/such/file"), "{said}");
    let said = complaint(1, &["sink", "pcap:/no/such/file.pcapng"]);
    assert!(said.contains("/no/such/file.pcapng"), "{said}");
    if !is_root() {
        let said = complaint(1, &["echo", "tap:keeltest9", "--duration", "1ms"]);
        assert!(said.contains("run as root") || said.contains("/dev/net/tun"), "{said}");
    }
}

#[test]
fn help_teaches() {
    for command in [
        &["demo"][..],
        &["echo"],
        &["sink"],
        &["send"],
        &["http"],
        &["blast"],
        &["load"],
        &["monitor"],
        &["doctor"],
        &["guard"],
        &["route"],
        &["wan"],
        &["stats"],
        &["top"],
        &["lab", "list"],
        &["lab", "run"],
        &["completions"],
    ] {
        let help = help(&[command, &["--help"]].concat());
        // The parts are in this order.
        let parts = ["\n\nUsage: ", "\n\nExamples:\n", "  --json", "\n\nExit status:\n  0  ", "\nSee also: "];
        let places: Vec<_> = parts.iter().map(|part| help.find(part)).collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{command:?}: {places:?}: {help}");
    }
}

fn help(arguments: &[&str]) -> String {
    let output = evenkeel(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Each page of help is short enough to be read to its end. Options that many commands share are explained
/// in one place.
#[test]
fn help_is_short_and_says_where_there_is_more() {
    let commands =
        ["demo", "echo", "sink", "send", "http", "blast", "monitor", "route", "wan", "completions"];
    let pages: Vec<_> = commands.iter().map(|command| help(&[command, "--help"])).collect();
    let lines: usize = pages.iter().map(|page| page.lines().count()).sum();
    assert!(lines < 900, "{lines} lines");
    for (command, page) in commands.iter().zip(&pages) {
        assert!(page.lines().count() < 115, "{command}: {} lines", page.lines().count());
        assert_eq!(page, &help(&["help", command]));
        let receives = page.contains("--architecture <");
        assert_eq!(receives, page.contains("evenkeel help receiving"), "{command}");
        assert!(!page.contains("--tick-sampling"), "{command}");
    }
    let receiving = help(&["help", "receiving"]);
    for option in [
        "--architecture",
        "--tick-sampling",
        "--clocked-interrupts",
        "--aggregation-quota",
        "--feedback-by",
        "Pause the receive rings that fill it",
    ] {
        assert!(receiving.contains(option), "{receiving}");
    }
    let sending = help(&["help", "sending"]);
    for option in ["--limit-rate", "--congestion", "--start", "--restart", "--pacing", "RFC 9438"] {
        assert!(sending.contains(option), "{sending}");
    }
    for (command, page) in commands.iter().zip(&pages) {
        assert_eq!(page.contains("--limit-rate"), page.contains("evenkeel help sending"), "{command}");
        assert!(!page.contains("--congestion <"), "{command}");
    }
    assert!(help(&["--help"]).contains("evenkeel help receiving"));
    assert!(complaint(2, &["help", "nothing"]).contains("no page"));
}

/// Short help names every option of long help, explains those for a first use, and ends with a pointer.
#[test]
fn short_help_fits_a_screen() {
    let commands: [&[&str]; 21] = [
        &[],
        &["demo"],
        &["echo"],
        &["sink"],
        &["send"],
        &["http"],
        &["blast"],
        &["load"],
        &["monitor"],
        &["route"],
        &["wan"],
        &["stats"],
        &["top"],
        &["metrics"],
        &["lab"],
        &["lab", "list"],
        &["lab", "run"],
        &["completions"],
        &["man"],
        &["schema"],
        &["help"],
    ];
    for command in commands {
        let (short, long) = (help(&[command, &["-h"]].concat()), help(&[command, &["--help"]].concat()));
        let lines = short.lines().count();
        assert!(lines <= 24 && lines <= long.lines().count(), "{command:?}: {lines} lines\n{short}");
        assert!(short.lines().all(|line| line.chars().count() <= 80), "{short}");
        let pointer = format!("`{} --help` explains all", [&["evenkeel"], command].concat().join(" "));
        assert!(short.lines().last().unwrap().starts_with(&pointer), "{short}");
        let options = long.lines().filter(|line| line.starts_with("  -") || line.starts_with("      --"));
        for option in options.filter_map(|line| line.split("--").nth(1)?.split([' ', '=', '[']).next()) {
            assert!(
                short.contains(&format!("--{option}")),
                "{command:?} -h does not name --{option}\n{short}"
            );
        }
    }
}

/// A command whose help could not be written fails.
#[test]
fn help_that_cannot_be_written_is_a_failure() {
    for arguments in [&["--help"][..], &["echo", "--help"], &["-h"], &["--version"], &["help", "echo"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = common::command(arguments).stdout(full).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains("cannot write to standard output: No space left"), "{said}");
    }
}

#[test]
fn without_a_command_the_help_is_shown_and_it_is_an_error() {
    let output = evenkeel(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("Usage:"));
}

/// Writes a configuration and rules, runs a router with them, and returns its one line of error without
/// the folder; asserts that it fails.
fn complaint_about_file(name: &str, config: &str, rules: &str) -> String {
    let folder = std::env::temp_dir().join(format!("evenkeel-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("router.toml");
    std::fs::write(&path, config).unwrap();
    std::fs::write(folder.join("rules.conf"), rules).unwrap();
    let said = complaint(2, &["route", "--config", path.to_str().unwrap()]);
    let prefix = format!("evenkeel: {}/", folder.display());
    std::fs::remove_dir_all(&folder).unwrap();
    said.strip_prefix(&prefix).unwrap_or_else(|| panic!("not about {prefix}: {said}")).to_owned()
}

#[test]
fn a_configuration_file_is_complained_about_with_line_and_column() {
    const LINKS: &str = "link = [\"packet:a,10.0.1.1/24\", \"packet:b,10.0.2.1/24\"]\n";
    let cases: &[(&str, &str, &str)] = &[
        ("quota = \"x\"\n", "", "router.toml:1:9: expected a number of frames"),
        (
            "\nquotta = 8\n",
            "",
            "router.toml:2:1: unexpected option 'quotta' found; tip: a similar option exists",
        ),
        ("quota = \n", "", "router.toml:1:9: "),
        (
            "link = [\"packet:a\",\n \"wire\"]\n",
            "",
            "router.toml:2:3: `wire` names no link to a network: expected tap:NAME",
        ),
        (
            "[[link]]\ndevice = \"packet:a\"\naddress = [\"10.0.1.1\"]\n",
            "",
            "router.toml:3:13: `10.0.1.1`: expected an address",
        ),
        ("[[link]]\nname = \"a\"\n", "", "router.toml:1:1: this link has no `device`"),
        (
            "[[link]]\ndevise = \"a\"\n",
            "",
            "router.toml:2:1: `devise` belongs to no link: expected name, device",
        ),
        ("cores = [0, \"x\"]\n", "", "router.toml:1:13: expected a whole number"),
        ("config = \"x\"\n", "", "router.toml:1:1: `config` is for the command line only"),
        (
            "LINKS[[route]]\nto = \"10.9.0.0/16\"\nvia = \"10.7.0.1\"\n",
            "",
            "router.toml:2:1: `10.9.0.0/16,via=10.7.0.1`: 10.7.0.1 is on no",
        ),
        (
            "LINKSrules = \"rules.conf\"\n",
            "pass\npass from 10.0.0\n",
            "rules.conf:2:11: expected an address, `any`, a <table> or a link, found `10.0.0`",
        ),
        (
            "LINKSrules = \"rules.conf\"\n",
            "pass on c\n",
            "rules.conf:1:9: no link is called `c`: there is a or b",
        ),
    ];
    for (index, (config, rules, expected)) in cases.iter().enumerate() {
        let said = complaint_about_file(&format!("config{index}"), &config.replace("LINKS", LINKS), rules);
        assert!(said.starts_with(expected), "{config}: {said}");
    }
}

/// A file may have as many routes as the Internet needs.
#[test]
fn a_hundred_thousand_routes_are_read() {
    let folder = std::env::temp_dir().join(format!("evenkeel-{}-routes", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("router.toml");
    let mut text = "link = [\"packet:a,10.0.1.1/24\", \"packet:b,10.0.2.1/24\"]\n".to_owned();
    for n in 0..100_000_u32 {
        let prefix = format!("20.{}.{}.{}/32", n >> 16, n >> 8 & 255, n & 255);
        text.push_str(&format!("[[route]]\nto = \"{prefix}\"\nvia = \"10.0.2.2\"\n"));
    }
    std::fs::write(&path, &text).unwrap();
    let check = ["route", "--check", "--config", path.to_str().unwrap()];
    let output = evenkeel(&check);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8(output.stdout).unwrap().matches("route  ").count(), 100_000);
    // One wrong route is found among all routes.
    std::fs::write(&path, text.replace("20.1.134.159/32", "20.1.134.159/31")).unwrap();
    let said = complaint(2, &check);
    let line = text.lines().position(|line| line.contains("20.1.134.159/32")).unwrap() + 1;
    assert!(said.contains(&format!("router.toml:{line}:7: ")) && said.contains("20.1.134.158/31"), "{said}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The router refuses files of more than 64 MiB, so that none takes all memory.
#[test]
fn a_file_without_end_is_refused() {
    let links = ["--link", "packet:a,10.0.1.1/24", "--link", "packet:b,10.0.2.1/24"];
    for option in ["--rules", "--config"] {
        let said = complaint(1, &[&["route", "--check"], &links[..], &[option, "/dev/zero"]].concat());
        assert!(said.contains("/dev/zero: larger than 64 MiB"), "{said}");
    }
    let path = std::env::temp_dir().join(format!("evenkeel-{}-endless.conf", std::process::id()));
    std::fs::write(&path, "table <bad> { } file \"/dev/zero\"\nblock from <bad>\n").unwrap();
    let said =
        complaint(2, &[&["route", "--check"], &links[..], &["--rules", path.to_str().unwrap()]].concat());
    assert!(said.contains("cannot read /dev/zero: larger than 64 MiB"), "{said}");
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_network_within_another_is_warned_of() {
    let links = ["--link", "packet:a,10.0.0.1/16", "--link", "packet:b,10.0.1.65/26"];
    let output = evenkeel(&[&["route", "--check"], &links[..]].concat());
    assert!(output.status.success());
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("warning  10.0.1.64/26 of `b` is part of 10.0.0.0/16 of `a`"), "{said}");
}
