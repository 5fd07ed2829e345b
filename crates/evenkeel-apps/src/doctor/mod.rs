//! An examination of the machine: what its kernel, drivers and limits allow, what is lost at present, and
//! what mends it. It changes nothing, and sees what it can without root.
//!
//! `files.rs` reads, `parse.rs` knows the forms of files, and each area has a file with its checks.

mod files;
mod finding;
mod interface;
mod kernel;
mod livelock;
mod parse;
mod share;
mod trouble;

use std::thread;
use std::time::Duration;

use evenkeel::raw::device::{DeviceFacts, LinkError};
use evenkeel::raw::time::{Clock, Instant};
use schemars::JsonSchema;
use serde::Serialize;

use self::files::Files;
use self::trouble::Losses;

pub use self::finding::{Area, Check, Finding, Verdict};
pub use self::livelock::{Livelock, Step};
pub use self::trouble::LosingSocket;

/// The extent of an examination.
#[derive(Debug, Clone)]
pub struct Options {
    /// The network interfaces; those of hardware and veth pairs that are up if there is none.
    pub interfaces: Vec<String>,
    /// The time for which the machine is watched.
    pub watch: Duration,
    /// Whether the livelock test is run.
    pub livelock_test: bool,
}

/// The report of an examination.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Report {
    /// The time for which the machine was watched, in seconds.
    pub watched_seconds: f64,
    /// The network interfaces that were examined.
    pub interfaces: Vec<String>,
    /// The findings: by area and interface, the worst of each first.
    pub findings: Vec<Finding>,
    /// The open UDP sockets that have lost datagrams, those that lose most now first.
    pub losing_sockets: Vec<LosingSocket>,
    /// The results of the livelock test, if it was run.
    pub livelock: Option<Livelock>,
}

/// Examines the machine, and calls `progress` with a line about each step.
///
/// # Errors
/// There is no such interface.
pub fn examine(options: &Options, mut progress: impl FnMut(&str) + Send) -> Result<Report, LinkError> {
    let files = Files::of_machine();
    let interfaces = match options.interfaces.as_slice() {
        [] => interface::usual(&files),
        named => named.to_vec(),
    };
    let mut findings = kernel::findings(&files);
    for name in &interfaces {
        findings.extend(interface::findings(&files, name, &DeviceFacts::read(name)?));
    }
    findings.extend(share::findings(&files));
    progress("watching for losses");
    let (losses, losing_sockets, watched_seconds) = watch(&files, options.watch, &interfaces);
    findings.extend(losses);
    let mut livelock = None;
    if options.livelock_test {
        let first = interfaces.first().map(String::as_str);
        let tested = livelock::run(&mut progress);
        findings.push(match &tested {
            Ok(tested) => tested.finding(first),
            Err(why) => livelock::unseen(why),
        });
        livelock = tested.ok();
    }
    // The order is stable: the worst first, and otherwise as they were found.
    findings.sort_by(|a, b| (a.area, &a.interface, a.verdict).cmp(&(b.area, &b.interface, b.verdict)));
    Ok(Report { watched_seconds, interfaces, findings, losing_sockets, livelock })
}

/// Watches the kernel's counters for a while. Returns the findings, the losing sockets, and the time in
/// seconds.
fn watch(files: &Files, time: Duration, interfaces: &[String]) -> (Vec<Finding>, Vec<LosingSocket>, f64) {
    let clock = Clock::start();
    let before = Losses::read(files);
    let begin = clock.now();
    wait(&clock, begin + time);
    let after = Losses::read(files);
    let seconds = clock.now().since(begin).as_secs_f64();
    let losing = trouble::losing(files, &before, &after, seconds);
    let interface = interfaces.first().map(String::as_str);
    (trouble::findings(&before, &after, seconds, &losing, interface), losing, seconds)
}

fn wait(clock: &Clock, end: Instant) {
    while clock.now() < end {
        thread::park_timeout(end.since(clock.now()));
    }
}
