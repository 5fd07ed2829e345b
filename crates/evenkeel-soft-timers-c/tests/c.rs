//! A program in C, compiled and linked as its author would, does what it says.
#![allow(clippy::unwrap_used, reason = "a test may fail")]
#![allow(clippy::print_stderr, reason = "what is skipped is said")]

use std::path::{Path, PathBuf};
use std::process::Command;

// So that the library is built.
use evenkeel_soft_timers_c as _;

/// Where cargo puts the libraries of the profile that this test was built with.
fn libraries() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

/// Compiles the example with the arguments that say what to link, runs it, and returns what it printed.
fn compile_and_run(compiler: &str, name: &str, link: &[&str]) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let compiled = Command::new(compiler)
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-D_POSIX_C_SOURCE=200809L", "-I"])
        .arg(root.join("include"))
        .arg(root.join("examples/paced.c"))
        .arg("-o")
        .arg(&program)
        .args(link)
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
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

#[test]
fn a_program_in_c_paces_by_soft_timers() {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    if Command::new(&compiler).arg("--version").output().is_err() {
        eprintln!("SKIPPED: there is no C compiler ({compiler}).");
        return;
    }
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
