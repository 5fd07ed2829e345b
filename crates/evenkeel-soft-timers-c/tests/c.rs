//! A program in C, compiled and linked as its author would, does what it says.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::path::{Path, PathBuf};
use std::process::Command;

// So that the library is built.
use evenkeel_skip::Lack;
use evenkeel_soft_timers_c as _;

/// Returns the directory where cargo puts the libraries of the profile that this test was built with.
fn libraries() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

/// Compiles with these arguments into a file of that name.
fn compile(compiler: &str, name: &str, arguments: &[&str]) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let compiled = Command::new(compiler)
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-I"])
        .arg(root.join("include"))
        .arg("-o")
        .arg(&output)
        .args(arguments)
        .current_dir(root.join("examples"))
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    output
}

/// Compiles the example with the arguments that say what to link, runs it, and returns what it printed.
fn compile_and_run(compiler: &str, name: &str, link: &[&str]) -> String {
    let program = compile(compiler, name, &[&["-D_POSIX_C_SOURCE=200809L", "paced.c"], link].concat());
    let ran = Command::new(&program).output().unwrap();
    assert!(ran.status.success(), "{}: {}", ran.status, String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

fn check(printed: &str) {
    let lines: Vec<_> = printed.lines().collect();
    assert_eq!(lines.len(), 3, "{printed}");
    assert_eq!(lines[0], "1000000000 ticks and 1000 interrupts a second");
    assert!(lines[1].starts_with("trigger states: 1000 events, intervals 2"), "{printed}");
    assert!(lines[2].starts_with("its timer alone: 1000 events, intervals "), "{printed}");
}

/// Returns the compiler for C, if there is one.
fn compiler() -> Option<String> {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let found = Command::new(&compiler).arg("--version").output().is_ok();
    if !found {
        let lack = Lack::Program { program: &compiler, package: "gcc" };
        evenkeel_skip::skip(std::thread::current().name().unwrap_or("a test"), &lack);
    }
    found.then_some(compiler)
}

/// A program that acts like a server: it waits and calls. It fails if a trigger state at the end of a call
/// changes the result or `errno` of the call.
const CALLER: &str = r"
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>
int main(void)
{
    struct epoll_event event;
    int epoll = epoll_create1(0);
    for (int n = 0; n < 200000; n++)
        if (epoll_wait(epoll, &event, 1, 0) != 0 || close(-1) != -1 || errno != EBADF)
            return 1;
    return 0;
}
";

#[test]
fn a_program_that_knows_nothing_of_it_has_trigger_states() {
    let Some(compiler) = compiler() else { return };
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let source = temporary.join("caller.c");
    std::fs::write(&source, CALLER).unwrap();
    let program = compile(&compiler, "caller", &[source.to_str().unwrap()]);
    let archive = libraries().join("libevenkeel_soft_timers_c.a");
    let link = [archive.to_str().unwrap(), "-lpthread", "-ldl", "-lm"];
    let preload = [&["-fPIC", "-shared", "trigger_preload.c"], &link[..]].concat();
    let preload = compile(&compiler, "trigger_preload.so", &preload);
    for by in ["soft", "backing", "timerfd", "signal"] {
        let report = temporary.join(by);
        let _ = std::fs::remove_file(&report);
        let run = |by: &str| {
            let variables = [("EVENKEEL_BY", by), ("EVENKEEL_INTERVAL_NS", "100000")];
            let mut run = Command::new(&program);
            run.env("LD_PRELOAD", &preload).env("EVENKEEL_REPORT", &report).envs(variables);
            assert!(run.status().unwrap().success(), "{by}");
        };
        run("");
        assert!(!report.exists(), "nobody asked for events");
        run(by);
        let report = std::fs::read_to_string(&report).unwrap();
        let figures: Vec<u64> = report.split_whitespace().map(|figure| figure.parse().unwrap()).collect();
        assert!(figures.len() == 4 && figures[0] > 0 && figures[1] <= figures[2], "{by}: {report}");
        assert_eq!(figures[3] > 0, by == "soft", "in trigger states: {report}");
    }
}

#[test]
fn a_program_in_c_paces_by_soft_timers() {
    let Some(compiler) = compiler() else { return };
    let directory = libraries();
    let archive = directory.join("libevenkeel_soft_timers_c.a");
    let archive = archive.to_str().unwrap();
    check(&compile_and_run(&compiler, "paced_static", &[archive, "-lpthread", "-ldl", "-lm"]));
    let directory = directory.to_str().unwrap();
    let path = format!("-Wl,-rpath,{directory}");
    let shared = ["-L", directory, &path, "-levenkeel_soft_timers_c"];
    // The linker prefers the shared library where it finds both.
    check(&compile_and_run(&compiler, "paced_shared", &shared));
}
