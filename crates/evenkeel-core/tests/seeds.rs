//! The fuzz targets over their seeds: what fuzzing has found stays found, on the stable toolchain and in
//! every run of the tests.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use evenkeel_core::drop::{IpDrop, LinkDrop, QueueDrop, Reason};
use evenkeel_core::ledger::Ledger;
use evenkeel_core::tcp::connection::Error;
use evenkeel_core::tcp::{Counter, Counters, State};

#[path = "../../../fuzz/src/lib.rs"]
#[allow(dead_code, unreachable_pub, reason = "the seeds are read here, and written there")]
mod fuzz;

/// Runs every seed of a target, in the order of their names.
fn seeds<T>(target: &str, run: fn(&[u8]) -> T) -> Vec<T> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let entries = fs::read_dir(folder).expect("the folder of the seeds");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("a seed").path()).collect();
    files.sort();
    files
        .iter()
        .map(|file| {
            // What is shown if the test fails says which seed it was.
            eprintln!("{}", file.display());
            run(&fs::read(file).expect("a seed that can be read"))
        })
        .collect()
}

fn reasons(counters: &[Ledger]) -> BTreeSet<Reason> {
    counters.iter().flat_map(Ledger::drops).map(|(reason, ..)| reason).collect()
}

#[test]
fn demux() {
    assert!(seeds("demux", fuzz::demux::run).len() >= 10);
}

/// Seeds that no longer get anywhere would find nothing: they deliver, and reach nearly every way a frame can
/// end.
#[test]
fn ip_input() {
    let counters = seeds("ip_input", fuzz::ip_input::run);
    assert!(counters.iter().map(|b| b.delivered).sum::<u64>() > 25);
    let missing: Vec<_> = Reason::all()
        .filter(|r| matches!(r, Reason::Ip(_) | Reason::Udp(_)) && !reasons(&counters).contains(r))
        .collect();
    use IpDrop::{HopLimit, NoRoute, Refused, ReversePath, RouteDiscards, Scope, TooBig};
    // A host's own packets always have their way here, and it forwards none of others.
    assert_eq!(
        missing,
        [Scope, ReversePath, HopLimit, RouteDiscards, Refused, NoRoute, TooBig].map(Reason::from)
    );
}

/// They forward, fragment, and reach every way in which a packet to be forwarded can end.
#[test]
fn forward() {
    let counters = seeds("forward", fuzz::forward::run);
    assert!(counters.iter().map(|b| b.forwarded).sum::<u64>() > 30);
    assert!(counters.iter().any(|b| b.originated > b.forwarded && b.transmitted > 8), "fragments");
    let ways = [
        IpDrop::Malformed,
        IpDrop::NotLocal,
        IpDrop::Martian,
        IpDrop::Scope,
        IpDrop::ReversePath,
        IpDrop::HopLimit,
        IpDrop::RouteDiscards,
        IpDrop::Refused,
        IpDrop::NoRoute,
        IpDrop::Unresolved,
        IpDrop::TooBig,
        IpDrop::FragmentTooBig,
        IpDrop::RateLimited,
    ];
    let missing: Vec<_> =
        ways.into_iter().filter(|r| !reasons(&counters).contains(&Reason::Ip(*r))).collect();
    assert_eq!(missing, []);
}

#[test]
fn host() {
    let counters = seeds("host", fuzz::host::run);
    assert!(counters.iter().map(|b| b.delivered).sum::<u64>() > 25);
    // The host is in no group of hosts.
    let is_of_group = |queue: &&QueueDrop| matches!(queue, QueueDrop::HandedOver | QueueDrop::Handover);
    for queue in QueueDrop::ALL.iter().filter(|queue| !is_of_group(queue)) {
        assert!(reasons(&counters).contains(&Reason::Queue(*queue)), "{queue:?}");
    }
    assert!(reasons(&counters).contains(&LinkDrop::ListenOnly.into()));
    assert!(counters.iter().map(|b| b.forwarded).sum::<u64>() > 25);
    assert!(!reasons(&counters).contains(&LinkDrop::NoBuffer.into()), "every queue has its own buffers");
}

/// They bring connections into every state, give each a segment there, and reach nearly all that TCP counts.
#[test]
fn tcp_segment() {
    let reports = seeds("tcp_segment", fuzz::tcp_segment::run);
    // A listener is no connection, and in TIME-WAIT there is none any more.
    let states = State::ALL.into_iter().filter(|state| !matches!(state, State::Listen | State::TimeWait));
    let missing: Vec<_> = states
        .filter(|state| !reports.iter().any(|r| r.states.contains(state) && r.given_in.contains(state)))
        .collect();
    assert_eq!(missing, []);
    assert!(reports.iter().map(|r| r.read).sum::<u64>() > 20_000);
    assert!(reports.iter().map(|r| r.sent).sum::<u64>() > 200_000);
    let mut counters = Counters::new();
    reports.iter().for_each(|r| counters.merge(&r.counters));
    println!("{counters:?}");
    let reached = [
        Counter::InErrs,
        Counter::RetransSegs,
        Counter::Timeouts,
        Counter::LossProbes,
        Counter::OfoQueue,
        Counter::PawsEstab,
        Counter::ChallengeAck,
        Counter::SynChallenge,
        Counter::RcvQDrop,
        Counter::SyncookiesSent,
        Counter::SyncookiesRecv,
        Counter::SyncookiesFailed,
        Counter::EmbryonicRsts,
        Counter::HalfOpenTimeouts,
        Counter::TimeWaitResets,
        Counter::TimeWaitOverflow,
        Counter::TwRecycled,
        Counter::Tw,
        Counter::DelayedAcks,
        Counter::FastOpenPassive,
        Counter::FastOpenPassiveFail,
        Counter::FastOpenCookieReqd,
        Counter::MemoryPressures,
        Counter::OutOfWindowIcmps,
    ];
    let missing: Vec<_> = reached.into_iter().filter(|counter| counters.get(*counter) == 0).collect();
    assert_eq!(missing, []);
    for error in [Error::Refused, Error::Reset, Error::TimedOut, Error::Unreachable] {
        assert!(reports.iter().any(|r| r.errors.contains(&error)), "{error}");
    }
}

#[test]
fn tcp_options() {
    let reports = seeds("tcp_options", fuzz::tcp_options::run);
    assert!(reports.iter().any(|r| r.options.sack.as_slice().len() == 2));
    assert!(reports.iter().any(|r| r.options.fast_open.is_some() && r.options.timestamps.is_some()));
    assert!(reports.iter().any(|r| r.segment.is_some()));
}

#[test]
fn tcp_cookies() {
    let reports = seeds("tcp_cookies", fuzz::tcp_cookies::run);
    assert!(reports.iter().map(|r| r.established).sum::<u64>() >= 6);
    assert!(reports.iter().map(|r| r.stale).sum::<u64>() >= 2);
    assert!(reports.iter().map(|r| r.opened_fast).sum::<u64>() >= 3);
    let mut counters = Counters::new();
    reports.iter().for_each(|r| counters.merge(&r.counters));
    for counter in [
        Counter::SyncookiesFailed,
        Counter::FastOpenPassiveFail,
        Counter::FastOpenPassiveAltKey,
        Counter::FastOpenListenOverflow,
        Counter::ReqQFullDrop,
    ] {
        assert!(counters.get(counter) > 0, "{}", counter.name());
    }
}
