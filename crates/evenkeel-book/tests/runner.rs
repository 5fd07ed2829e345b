//! The runner finds what is wrong with a page, and leaves nothing behind.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fs;
use std::path::Path;

use evenkeel_book::Page;
use evenkeel_book::runner::{self, Options, Report};
use evenkeel_book::session;

/// A program that is on the search path as `evenkeel`; it fails for everything but its two options.
const EVENKEEL: &str =
    "#!/bin/sh\nfor word; do case $word in --good|--help) ;; *) exit 2;; esac; done; echo good\n";

fn run_within(limit: u32, text: &str) -> Report {
    let folder = std::env::temp_dir().join(format!("evenkeel-runner-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let evenkeel = folder.join("evenkeel");
    if !evenkeel.exists() {
        // Nobody runs the file while it is being written.
        let new = folder.join(format!("new-{:?}", std::thread::current().id()));
        fs::write(&new, EVENKEEL).unwrap();
        fs::set_permissions(&new, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        fs::rename(new, &evenkeel).unwrap();
    }
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let options = Options { evenkeel: &evenkeel, repository, limit, observe: |_, _| () };
    runner::run("page.md", &Page::parse(text), &options).unwrap()
}

fn run(text: &str) -> Report {
    run_within(30, text)
}

#[track_caller]
fn assert_right(text: &str) {
    let report = run(text);
    assert!(report.failures.is_empty(), "{}", report.failures.join("\n"));
}

/// The page has one mistake, and what is said of it begins so.
#[track_caller]
fn assert_wrong(text: &str, begin: &str) {
    let report = run(text);
    assert!(report.failures.len() == 1 && report.failures[0].starts_with(begin), "{:#?}", report.failures);
}

#[test]
fn output_is_compared_with_numbers_alike() {
    assert_right("```console\n$ echo 12.5 ms; echo b >&2; echo c\n3 s\n...\nc\n```\n");
    assert_wrong(
        "# T\n\n```console\n$ echo a; echo b 1\na\nc 1\n```\n",
        "page.md:6: `echo a; echo b 1` prints something else (- page, + printed; numbers do not count)\n\
         \x20     a\n    - c 1\n    + b 1",
    );
    assert_wrong("```console\n$ echo a\n```\n", "page.md:2: `echo a` prints something else");
    assert_right("```sh\necho a\n```\n");
}

#[test]
fn an_exit_status_is_compared() {
    assert_right("<!-- run: status 3 -->\n```console\n$ true\n$ echo a; exit 3\na\n```\n");
    assert_wrong("```sh\nexit 3\n```\n", "page.md:2: `exit 3` exit status 3, not 0");
    assert_wrong("<!-- run: status 3 -->\n```sh\ntrue\n```\n", "page.md:3: `true` exit status 0, not 3");
    assert_wrong(
        "```sh\nno-such-program\n```\n",
        "page.md:2: `no-such-program` exit status 127, not 0; it printed:",
    );
    let report = run("```sh\nfalse\nfalse\n```\n\n```sh\nfalse\n```\n");
    assert_eq!((report.failures.len(), report.commands), (1, 1), "the first one ends the page");
}

#[test]
fn a_hanging_command_is_killed_with_all_that_it_started() {
    // What it starts leaves its process group. Nothing else on the machine sleeps for that long.
    let sleep = format!("sleep 5432{}", std::process::id());
    let report = run_within(2, &format!("```sh\necho begun; setsid {sleep} & {sleep}\n```\n"));
    let said = format!(
        "page.md:2: `echo begun; setsid {sleep} & {sleep}` did not end within 2 s; it printed:\n    begun"
    );
    assert_eq!(report.failures, [said]);
    let line = format!("{}\0", sleep.replace(' ', "\0"));
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let left = processes
        .filter(|entry| fs::read(entry.path().join("cmdline")).is_ok_and(|other| other == line.as_bytes()));
    assert_eq!(left.count(), 0);
}

#[test]
fn files_directories_and_variables_last_for_the_page() {
    assert_right(
        "<!-- run: file a/b.toml -->\n```toml\nx = 1\n```\n\n\
         ```console\n$ cd a && export X=y\n$ cat b.toml; echo $X\n\
         x = 1\ny\n```\n",
    );
    assert_wrong("```sh\ncat b.toml\n```\n", "page.md:2: `cat b.toml` exit status 1, not 0; it printed:");
}

#[test]
fn a_background_command_is_interrupted_and_its_whole_output_compared() {
    let service = "trap 'echo end 7; exit 0' INT; echo begin; while :; do sleep 0.05; done";
    let page = |ending: &str| {
        format!(
            "<!-- run: background -->\n```console\n$ {service}\nbegin\n```\n\n```sh\ntrue\n```\n\n\
             <!-- run: interrupt -->\n```console\n^C{ending}\n```\n"
        )
    };
    assert_right(&page("end 1"));
    assert_wrong(&page("ended"), "page.md:13: `trap");
    assert_wrong(
        "<!-- run: interrupt -->\n```console\nx\n```\n",
        "page.md:2: nothing is running in the background",
    );
    let never = "<!-- run: background -->\n```console\n$ echo other; exit 4\nfirst\n```\n";
    assert_wrong(
        never,
        "page.md:3: `echo other; exit 4` does not print its first line; it ended with exit status 4; \
         it printed:\n    other",
    );
}

#[test]
fn what_still_runs_at_the_end_begins_as_the_page_shows() {
    let page = |shown: &str| {
        format!(
            "<!-- run: background -->\n```console\n$ echo a; echo b; sleep 54322; echo c\na\n{shown}\n```\n"
        )
    };
    assert_right(&page("b"));
    assert_wrong(&page("c"), "page.md:5: `echo a; echo b; sleep 54322; echo c` prints something else");
}

#[test]
fn a_background_command_may_end_by_itself() {
    let page = |status: i32| {
        format!(
            "<!-- run: background -->\n```sh\nuntil [ -e go ]; do sleep 0.02; done; \
             echo gone; exit {status}\n```\n\n\
             ```sh\ntouch go\n```\n\n<!-- run: ends -->\n```console\ngone\n```\n"
        )
    };
    assert_right(&page(0));
    assert_wrong(&page(1), "page.md:11: `until");
}

#[test]
fn what_is_not_run_is_understood_all_the_same() {
    let report = run("<!-- run: no it takes minutes -->\n```console\n$ evenkeel --good | tee x\nold\n```\n");
    assert_eq!((report.failures.len(), report.commands), (0, 0));
    assert_eq!(report.not_run, [(3, "it takes minutes".to_owned())]);
    assert_wrong(
        "<!-- run: no it takes minutes -->\n```sh\nchrt -f 10 evenkeel --bad\n```\n",
        "page.md:3: `chrt -f 10 evenkeel --bad` is not understood",
    );
    assert_right(
        "<!-- run: instead evenkeel --good -->\n```console\n$ evenkeel --good --good\nminutes\n```\n",
    );
    assert_wrong(
        "<!-- run: instead false -->\n```sh\nevenkeel --good\n```\n",
        "page.md:3: `false` exit status 1, not 0",
    );
    assert_wrong(
        "<!-- run: instead true -->\n```sh\nevenkeel --bad\n```\n",
        "page.md:3: `evenkeel --bad` is not understood",
    );
}

#[test]
fn cargo_is_not_run_but_for_the_command_itself() {
    assert_right(
        "```console\n$ cargo run --release -- --good\ngood\n\
         $ cargo install --path crates/evenkeel-cli\n```\n",
    );
    assert_wrong(
        "```sh\ncargo install --path crates/evenkeel-none\n```\n",
        "page.md:2: `cargo install --path crates/evenkeel-none`: there is no crates/evenkeel-none",
    );
    assert_right("```sh\ncargo test -p evenkeel-wan --test paths\n```\n");
    assert_wrong(
        "```sh\ncargo test -p evenkeel-wan --test none\n```\n",
        "page.md:2: `cargo test -p evenkeel-wan --test none`",
    );
}

#[test]
fn a_page_for_root_has_a_network_of_its_own() {
    if !session::is_root() {
        let lack = evenkeel_skip::Lack::Root("a namespace");
        return evenkeel_skip::skip("a_page_for_root_has_a_network_of_its_own", &lack);
    }
    assert_right(
        "```console\n# ip netns add here && ip netns list\nhere\n# ip -brief link show up\n\
         lo UNKNOWN MAC <LOOPBACK,UP,LOWER_UP>\n\
         $ pwd\n...\n```\n"
            .replace("MAC", "00:00:00:00:00:00")
            .as_str(),
    );
}
