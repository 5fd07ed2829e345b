//! Wrong inputs for every option of every command: one clear line that names the option and the value, the
//! right status, and no files left behind.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;

use common::{command, evenkeel, in_namespace, run, skip};

/// Words of the library, of the operating system's error numbers, and of programmers, which no message may
/// contain.
const NOT_FOR_PEOPLE: [&str; 12] = [
    "os error",
    "invalid digit",
    "invalid float",
    "empty string",
    "target type",
    "valid UTF-8",
    "Os {",
    "Err(",
    "Some(",
    "None",
    "panicked",
    "Error {",
];

/// Checks that an output is a complaint: one line for people, and the status. Returns the line, or else
/// the defect.
fn complaint(what: &str, output: &Output, status: i32) -> Result<String, String> {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let wrong = |why: &str| Err(format!("{what}: {why}: {:?} {said}", output.status.code()));
    if output.status.code() != Some(status) {
        return wrong(&format!("status {status} expected"));
    }
    if said.lines().count() != 1 || !said.starts_with("evenkeel: ") || !said.ends_with('\n') {
        return wrong("not one line");
    }
    if !output.stdout.is_empty() {
        return wrong("a complaint belongs to standard error");
    }
    if let Some(word) = NOT_FOR_PEOPLE.iter().find(|word| said.contains(**word)) {
        return wrong(&format!("`{word}` is not for people"));
    }
    Ok(said)
}

/// The commands, with the arguments that each needs besides its options.
const COMMANDS: [(&str, &[&str]); 13] = [
    ("demo", &[]),
    ("echo", &["cable"]),
    ("sink", &["cable"]),
    ("send", &["cable"]),
    ("http", &["cable"]),
    ("blast", &["cable"]),
    ("monitor", &["cable"]),
    ("route", &["cable"]),
    ("wan", &["cable"]),
    ("load", &["127.0.0.1:9"]),
    ("lab run", &["o96-fig3"]),
    // The options that many commands share.
    ("help receiving", &["echo", "cable"]),
    ("help sending", &["http", "cable"]),
];

/// The options that take any text: `FILES` and other tables have their errors.
const ANY_TEXT: [&str; 22] = [
    "--access-log",
    "--body",
    "--cacert",
    "--capture",
    "--config",
    "--csv",
    "--day",
    "--dump",
    "--from",
    "--header",
    "--histogram",
    "--log",
    "--markdown",
    "--output",
    "--picture",
    "--report",
    "--root",
    "--rules",
    "--svg",
    "--tls-cert",
    "--tls-key",
    "--trace",
];

/// Invalid values, and the options that accept each of them nevertheless.
const VALUES: [(&str, &[&str]); 4] = [
    ("x", &["--write", "--method"]),
    ("-1", &["--write", "--overhead", "--screen-nice", "--forward-nice"]),
    ("", &[]),
    ("99999999999999999999999", &["--write"]),
];

/// Returns the options in a page of help that take a value, and whether the value follows `=`.
fn options(help: &str) -> Vec<(String, bool)> {
    let mut all = Vec::new();
    for line in help.lines() {
        let line = line.trim_start();
        let line = line.strip_prefix('-').map_or(line, |rest| match rest.split_once(", ") {
            Some((short, long)) if short.len() == 1 => long,
            _ => line,
        });
        let Some((option, value)) = line.split_once('<') else { continue };
        let name = option.trim_end_matches([' ', '=', '[']);
        if name.starts_with("--") && !name.contains(' ') && value.contains('>') {
            all.push((name.to_owned(), option.ends_with('=')));
        }
    }
    all
}

/// No option accepts a wrong word, a negative number, an empty value, or a number beyond all bounds.
#[test]
fn every_option_says_which_value_is_none() {
    let (mut wrong, mut cases) = (Vec::new(), 0);
    for (name, base) in COMMANDS {
        let words: Vec<&str> = name.split(' ').collect();
        let is_page = words[0] == "help";
        let help = evenkeel(&if is_page { words.clone() } else { [&words[..], &["--help"]].concat() });
        let mut base = if is_page { base.to_vec() } else { [&words[..], base].concat() };
        if is_page {
            let tcp = (base.first() == Some(&"echo")).then_some("--tcp");
            base.extend(tcp);
        }
        let options = options(&String::from_utf8(help.stdout).unwrap());
        assert!(options.len() > 3, "{name}: {options:?}");
        for (option, equals) in options.iter().filter(|(option, _)| !ANY_TEXT.contains(&option.as_str())) {
            for (value, may) in VALUES {
                if may.contains(&option.as_str()) {
                    continue;
                }
                let joined = format!("{option}={value}");
                let given = if *equals { vec![joined.as_str()] } else { vec![option.as_str(), value] };
                let arguments = [&base[..], &given].concat();
                cases += 1;
                match complaint(&arguments.join(" "), &evenkeel(&arguments), 2) {
                    Ok(said) if said.contains(option.as_str()) && said.contains(value) => {}
                    Ok(said) => wrong.push(format!("{}: {said}", arguments.join(" "))),
                    Err(why) => wrong.push(why),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {cases}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(cases > 400, "{cases}");
}

/// A directory with files that are invalid for nearly all uses.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("evenkeel-wrong-{}-{name}", std::process::id()));
        fs::create_dir_all(path.join("dir")).unwrap();
        fs::write(path.join("empty"), "").unwrap();
        fs::write(path.join("binary"), [0xff, 0xfe, 0, 1, 2, 3, 0x80]).unwrap();
        fs::write(path.join("text"), "hello\n").unwrap();
        Self(path)
    }

    fn names(&self) -> Vec<PathBuf> {
        let mut names = vec![self.0.clone()];
        let mut all = Vec::new();
        while let Some(path) = names.pop() {
            if path.is_dir() {
                names.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
            all.push(path);
        }
        all.sort();
        all
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs rows of arguments; asserts that each gives the expected status and a line with the expected text.
fn check(rows: &[(&str, i32, &str)], at: &Path) {
    let mut wrong = Vec::new();
    for (arguments, status, expected) in rows {
        let words: Vec<&str> =
            arguments.split(' ').map(|word| if word == "''" { "" } else { word }).collect();
        let output = command(&words).current_dir(at).output().unwrap();
        match complaint(arguments, &output, *status) {
            Ok(said) if said.contains(expected) => {}
            Ok(said) => wrong.push(format!("{arguments}: without `{expected}`: {said}")),
            Err(why) => wrong.push(why),
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

/// Cases with missing files, directories, empty files, and files of another kind.
const FILES: &[(&str, i32, &str)] = &[
    ("demo --from absent", 1, "cannot read absent: No such file"),
    ("demo --from dir", 1, "cannot read dir: Is a directory"),
    ("demo --from text", 2, "cannot read text: no results of `evenkeel demo --json`"),
    ("demo --no-report --picture absent/x", 1, "absent/x: No such file"),
    ("demo --no-report --picture ''", 2, "--picture"),
    ("send cable absent", 1, "cannot read absent: No such file"),
    ("send cable dir", 1, "cannot read dir: "),
    ("send cable ''", 2, "[FILE]"),
    ("send cable --bytes 9 -o absent/x", 1, "cannot write absent/x: No such file"),
    ("send cable --bytes 9 -o dir", 1, "cannot write dir: Is a directory"),
    ("send cable --bytes 9 --capture absent/x", 1, "absent/x: cannot be created: No such file"),
    ("send cable --bytes 9 --dump x", 2, "--dump is for tap:NAME, packet:NAME and pcap:FILE only"),
    ("monitor pcap:absent", 1, "absent: cannot be read: No such file"),
    ("monitor pcap:dir", 1, "dir: cannot be read: Is a directory"),
    ("monitor pcap:empty", 1, "empty: not a pcap or pcapng file"),
    ("monitor pcap:binary", 1, "binary: not a pcap or pcapng file"),
    ("monitor pcap:text", 1, "text: not a pcap or pcapng file"),
    ("monitor pcap:", 2, "pcap:capture.pcapng"),
    ("monitor cable -w dir", 1, "dir: cannot be created: Is a directory"),
    ("monitor cable -w absent/x", 1, "absent/x: cannot be created: No such file"),
    ("monitor cable -w text/x", 1, "text/x: cannot be created: Not a directory"),
    ("monitor cable -w absent/x -C 1M", 1, "cannot be created: No such file"),
    ("monitor cable -w ''", 2, "--write"),
    ("echo pcap:text", 1, "text: not a pcap or pcapng file"),
    ("echo cable --capture dir", 1, "dir: cannot be created: Is a directory"),
    ("echo cable --capture ,snaplen=9", 2, "--capture"),
    ("echo cable --capture x,snaplen=none", 2, "above 0 behind snaplen="),
    ("echo cable --dump ''", 2, "--dump"),
    ("sink pcap:absent", 1, "absent: cannot be read: No such file"),
    ("http cable --capture absent/x", 1, "absent/x: cannot be created: No such file"),
    ("http --kernel-sockets --listen 0 --root absent", 1, "--root: cannot open `absent`: No such file"),
    ("http --kernel-sockets --listen 0 --root text", 1, "--root: cannot open `text`: Not a directory"),
    ("http --kernel-sockets --root ''", 2, "--root"),
    ("http --kernel-sockets --root dir --access-log dir", 1, "--access-log dir: Is a directory"),
    ("http --kernel-sockets --root dir --tls-cert absent --tls-key text", 1, "cannot read `absent`: No such"),
    ("http --kernel-sockets --root dir --tls-cert empty --tls-key empty", 2, "`empty` has no certificate"),
    ("blast cable --dump x", 2, "--dump is for"),
    ("route --config absent", 1, "cannot read absent: No such file"),
    ("route --config dir", 1, "cannot read dir: Is a directory"),
    ("route --config binary", 1, "cannot read binary: is not text"),
    ("route --config empty", 2, "give --link twice, or [[link]] in the file of --config"),
    ("route --config text", 2, "text:1:6: key with no value"),
    ("route --check --link packet:a --link packet:b --rules absent", 1, "cannot read absent: No such file"),
    ("route --check --link packet:a --link packet:b --rules dir", 1, "cannot read dir: Is a directory"),
    ("route --check --link packet:a --link packet:b --rules binary", 1, "cannot read binary: is not text"),
    ("route --check --link packet:a --link packet:b --rules text", 2, "text:1:1: expected `pass`"),
    ("wan cable --trace absent", 1, "--trace: cannot read absent: No such file"),
    ("wan cable --trace dir", 1, "--trace: cannot read dir: Is a directory"),
    ("wan cable --trace binary", 1, "--trace: cannot read binary: is not text"),
    ("wan cable --trace empty", 2, "empty: no delivery opportunity"),
    ("wan cable --trace text", 2, "text: line 1: `hello`: expected the time"),
    ("load 127.0.0.1:9 --day absent", 1, "--day: cannot read absent (or say synthetic): No such file"),
    ("load 127.0.0.1:9 --day dir", 1, "--day: cannot read dir (or say synthetic): Is a directory"),
    ("load 127.0.0.1:9 --day binary", 1, "--day: cannot read binary (or say synthetic): is not text"),
    ("load 127.0.0.1:9 --day empty", 2, "empty: the first line must say the rate at 00:00"),
    ("load 127.0.0.1:9 --day text", 2, "text: line 1: `hello` is no time and rate"),
    ("load 127.0.0.1:9 --day /dev/zero", 1, "larger than 64 MiB"),
    ("load 127.0.0.1:9 --body @absent", 1, "--body: cannot read absent: No such file"),
    ("load 127.0.0.1:9 --histogram dir", 1, "--histogram"),
    ("load 127.0.0.1:9 --histogram absent/x", 1, "cannot write absent/x"),
    (
        "demo --no-kernel --report dir",
        1,
        "cannot write dir: Is a directory (choose another file with --report",
    ),
    ("demo --no-kernel --report absent/x", 1, "cannot write absent/x: No such file"),
    ("demo --no-kernel --report ''", 2, "--report"),
    ("lab run o96-fig4 --no-files --csv text/x", 1, "cannot write text/x"),
    ("lab run o96-fig4 --no-files --svg text/x", 1, "cannot write text/x"),
    ("lab run o96-fig4 --no-files --markdown dir", 1, "cannot write dir: Is a directory"),
];

#[test]
fn a_file_that_cannot_be_used_is_named() {
    let scratch = Scratch::new("files");
    let before = scratch.names();
    check(FILES, &scratch.0);
    assert_eq!(scratch.names(), before, "something was left behind");
}

/// Cases with invalid links, commands, options and addresses, and with those that do not go together.
const OTHERS: &[(&str, i32, &str)] = &[
    ("ecko", 2, "echo"),
    ("--nosuch", 2, "--nosuch"),
    ("help recieving", 2, "receiving"),
    ("echo", 2, "<LINK>"),
    ("echo wire", 2, "`wire` names no link; expected `cable`"),
    ("echo ''", 2, "<LINK>"),
    ("echo packet:", 2, "packet:eth1"),
    ("echo packet:a/b", 2, "1 to 15 bytes"),
    ("echo packet:a-name-that-is-far-too-long", 2, "1 to 15 bytes"),
    ("echo packet:no-such-dev", 1, "no network device is called `no-such-dev`: `ip link` lists them"),
    ("echo packet:lo,queues=x", 2, "from 1 to 16"),
    ("echo xdp:eth1", 1, "no network device is called `eth1`"),
    ("echo xdp:eth1,queues=2", 2, "xdp:eth1@0,1"),
    ("echo xdp:eth1,share", 1, "no network device is called `eth1`"),
    ("echo xdp:eth1,share --address 10.0.0.1/24", 2, "routes are the kernel's: no --address"),
    ("echo xdp:eth1,share --gateway 10.0.0.1", 2, "routes are the kernel's: no --gateway"),
    ("echo xdp:eth1,share --mac random", 2, "routes are the kernel's: no --mac"),
    ("send xdp:eth1,share --from 10.0.0.1/24 --to 10.0.0.2:7", 2, "routes are the kernel's: no --from"),
    ("echo xdp:lo,share --architecture eager", 1, "needs the architecture ni-lrp, not eager"),
    ("route --link xdp:eth1,share --link tap:t0,10.0.2.1/24", 2, "a router has its devices to itself"),
    ("echo cable:0", 2, "from 1 to 64"),
    ("echo cable extra", 2, "extra"),
    ("echo cable --por 9", 2, "--port"),
    ("echo cable --port", 2, "--port"),
    ("echo cable --port 9 --port 10", 2, "--port"),
    ("echo cable --udp --tcp", 2, "--udp or --tcp"),
    ("echo cable --group 10.0.0.1", 2, "239.1.2.3"),
    ("echo cable --kernel-address 10.77.0.1/24", 2, "tap:NAME only"),
    ("http", 2, "<LINK>"),
    ("http cable --root dir", 2, "tap:NAME or packet:NAME, and cable has none"),
    ("http pcap:text --root dir", 2, "--kernel-sockets"),
    ("http cable --listen 8080", 2, "--root"),
    ("http cable --kernel-sockets --root dir", 2, "--kernel-sockets"),
    ("http --kernel-sockets", 2, "--root"),
    ("http --kernel-sockets --root dir --mac own", 2, "--mac"),
    ("http --kernel-sockets --root dir --quota 8", 2, "--quota"),
    ("http --kernel-sockets --root dir --congestion bbr", 2, "--congestion"),
    ("http --kernel-sockets --root dir --listen 80.90", 2, "such as 8080, 10.77.0.2:80 or [fd77::2]:80"),
    ("http --kernel-sockets --root dir --listen 192.0.2.1:80", 1, "cannot listen on 192.0.2.1:80: "),
    ("http --kernel-sockets --root dir --size 9", 2, "--size"),
    ("http --kernel-sockets --root dir --tls-cert text", 2, "--tls-key"),
    ("http packet:lo --root dir --tls-key text", 2, "--tls-cert"),
    ("monitor no-such-dev", 1, "no network device is called `no-such-dev`"),
    ("monitor ''", 2, "<LINK>"),
    ("monitor cable --print -w x", 2, "--print"),
    ("monitor cable -W 3", 2, "--files needs --file-size or --file-time"),
    ("monitor cable -p", 2, "--no-promiscuous is for network interfaces only"),
    ("monitor packet:lo --rate 5", 2, "--rate is for cable only"),
    ("monitor cable -s -1", 2, "--snaplen"),
    ("monitor cable -c -1", 2, "--count"),
    ("monitor cable -C -1 -w x", 2, "--file-size"),
    ("monitor cable -w - --json", 2, "cannot take both"),
    ("send cable text --bytes 9", 2, "--bytes"),
    ("send pcap:text", 2, "nobody answers from a capture"),
    ("route --link packet:a", 2, "--link twice"),
    ("route nosuch", 2, "cable"),
    ("route --link packet:no-such-dev --link packet:b", 1, "no network device is called `no-such-dev`"),
    ("wan --link packet:a", 2, "--link twice"),
    ("wan nosuch", 2, "cable"),
    ("wan --link packet:no-such-dev --link packet:b", 1, "no network device is called `no-such-dev`"),
    ("wan cable --link packet:a", 2, "without --link"),
    ("wan cable --loss 200%", 2, "--loss"),
    ("load http://", 2, "such as http://"),
    ("load ftp://127.0.0.1/", 2, "http://"),
    ("load http://127.0.0.1:99999/", 2, "<URL>"),
    ("load 127.0.0.1:9 extra", 2, "extra"),
    ("load 127.0.0.1:9 --method -1", 2, "expected a method such as GET or POST"),
    ("load 127.0.0.1:9 --bind 10.99.99.99", 1, "--bind: 10.99.99.99 is no address of this machine"),
    ("load 127.0.0.1:9 --on nosuch", 2, "--on"),
    ("stats 0", 2, "[PID]"),
    ("stats 1 2", 2, "2"),
    ("stats 4194304", 1, "process 4194304: no such process serves its figures to this user"),
    ("stats --interval 5", 2, "--interval"),
    ("top 0 --once", 2, "[PID]"),
    ("top 4194304 --once", 1, "process 4194304: no such process serves its figures to this user"),
    ("top --interval 5", 2, "--interval"),
    ("lab run", 2, "<ID>"),
    ("lab run o96-fig33", 2, "o96-fig3"),
    ("lab run no-such-figure", 2, "no experiment is called `no-such-figure`"),
    ("lab run o96-fig3 --seeds 3 --seed 4", 2, "--seed"),
    ("lab nosuch", 2, "nosuch"),
    ("completions", 2, "<SHELL>"),
    ("completions nosuch", 2, "bash"),
];

#[test]
fn what_does_not_exist_or_go_together_is_named() {
    let scratch = Scratch::new("others");
    let before = scratch.names();
    check(OTHERS, &scratch.0);
    assert_eq!(scratch.names(), before, "something was left behind");
}

#[test]
fn a_device_that_is_down_is_brought_up_like_this() {
    in_namespace("a_device_that_is_down_is_brought_up_like_this", || {
        run("ip link add near type veth peer name far");
        let down = "`near` is down: ip link set near up";
        let rows = [
            "monitor near",
            "echo packet:near",
            "blast packet:near --to 10.0.0.1:9 --from 10.0.0.2/24",
            "route --link packet:near,10.0.0.1/24 --link packet:far,10.0.1.1/24",
            "wan --link packet:near --link packet:far",
        ]
        .map(|arguments| (arguments, 1, down));
        check(&rows, Path::new("/"));
        check(&[("monitor any", 1, "no network interface is up")], Path::new("/"));
    });
}

/// Without privileges, the error names the missing privilege or permission.
#[test]
fn a_missing_privilege_is_named() {
    const NOBODY: u32 = 65_534;
    if !common::is_root() {
        return skip(
            "a_missing_privilege_is_named",
            "not root, so that nothing can be tried as another user",
        );
    }
    let scratch = Scratch::new("privilege");
    let secret = scratch.0.join("secret");
    fs::write(&secret, "hello\n").unwrap();
    run(&format!("chmod 600 {}", secret.display()));
    let secret = secret.display().to_string();
    let (pcap, inside) = (format!("pcap:{secret}"), scratch.0.join("new").display().to_string());
    let rows: [(&[&str], &str); 8] = [
        (&["monitor", "lo"], "give the program CAP_NET_RAW"),
        (&["echo", "packet:lo"], "no permission"),
        (&["monitor", "tap:ekwrong"], "CAP_NET_ADMIN"),
        (&["monitor", &pcap], "secret: cannot be read: Permission denied"),
        (&["send", "cable", &secret], "secret: Permission denied"),
        (&["send", "cable", "--bytes", "9", "-o", &inside], "new: Permission denied"),
        (&["monitor", "cable", "-w", &inside], "new: cannot be created: Permission denied"),
        (&["route", "--config", &secret], "secret: Permission denied"),
    ];
    for (arguments, expected) in rows {
        let output = command(arguments).uid(NOBODY).gid(NOBODY).output();
        let Ok(output) = output else {
            return skip(
                "a_missing_privilege_is_named",
                "another user may not run the program where it lies",
            );
        };
        let said = complaint(&arguments.join(" "), &output, 1).unwrap();
        assert!(said.contains(expected) || said.contains("is not an Ethernet device"), "{said}");
    }
    assert!(!Path::new(&inside).exists());
}
