//! Sockets behave as people know them: each case runs on the kernel's and on ours, over IPv4 and IPv6.
//!
//! The cases are by what the tests of `std::net` and tokio check. A case knows its sockets only by the traits
//! of `face.rs`, so that an expectation that is wrong fails on the kernel's.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test may fail, and a harness prints")]

mod differences;
mod face;
mod kernel;
mod ours;
mod tcp_accept;
mod tcp_bind;
mod tcp_close;
mod tcp_connect;
mod tcp_nonblocking;
mod tcp_options;
mod tcp_read;
mod tcp_reset;
mod tcp_threads;
mod tcp_timeouts;
mod tcp_write;
mod udp_bind;
mod udp_connected;
mod udp_datagrams;
mod udp_groups;
mod udp_nonblocking;
mod udp_options;
mod udp_peek;
mod udp_threads;
mod udp_timeouts;
mod world;

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use evenkeel_skip::{Lack, skip};
use libtest_mimic::{Arguments, Failed, Trial};

use face::{Family, Sockets};
use kernel::Kernel;
use ours::Ours;
use world::World;

/// The longest time that a case may take.
const LIMIT: Duration = Duration::from_secs(20);

/// A behaviour of sockets, and the families of addresses that have it.
struct Case<S: 'static> {
    name: &'static str,
    families: &'static [Family],
    run: fn(&World<S>),
}

/// Defines `cases`, which returns the cases of a file: those of both families, of IPv4, and of IPv6.
macro_rules! cases {
    ($($both:ident),* $(,)?; $($v4:ident),* $(,)?; $($v6:ident),* $(,)?) => {
        pub(crate) fn cases<S: $crate::face::Sockets>() -> Vec<$crate::Case<S>> {
            use $crate::face::Family::{V4, V6};
            vec![
                $($crate::Case { name: stringify!($both), families: &[V4, V6], run: $both },)*
                $($crate::Case { name: stringify!($v4), families: &[V4], run: $v4 },)*
                $($crate::Case { name: stringify!($v6), families: &[V6], run: $v6 },)*
            ]
        }
    };
    ($($both:ident),* $(,)?) => { $crate::cases! { $($both),*;; } };
}
use cases;

/// A case with a family of addresses and an implementation of sockets.
struct Test {
    implementation: &'static str,
    /// The name of the file, and that of the case.
    case: String,
    family: Family,
    run: Box<dyn FnOnce() + Send>,
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    let threads = std::env::var("RUST_TEST_THREADS").ok().and_then(|threads| threads.parse().ok());
    arguments.test_threads = arguments.test_threads.or(threads);
    let mut trials = Vec::new();
    match Kernel::isolate() {
        Ok(()) => trials.extend(tests::<Kernel>().into_iter().map(Test::into_trial)),
        Err(error) => skip("sockets of the kernel", &Lack::Root(&format!("no network namespace: {error}"))),
    }
    let ours = tests::<Ours>();
    trials.push(differences::are_cases(&ours));
    trials.extend(ours.into_iter().map(differences::trial));
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Returns all cases on sockets of this kind.
fn tests<S: Sockets>() -> Vec<Test> {
    let files = [
        ("tcp_accept", tcp_accept::cases::<S>()),
        ("tcp_bind", tcp_bind::cases()),
        ("tcp_close", tcp_close::cases()),
        ("tcp_connect", tcp_connect::cases()),
        ("tcp_nonblocking", tcp_nonblocking::cases()),
        ("tcp_options", tcp_options::cases()),
        ("tcp_read", tcp_read::cases()),
        ("tcp_reset", tcp_reset::cases()),
        ("tcp_threads", tcp_threads::cases()),
        ("tcp_timeouts", tcp_timeouts::cases()),
        ("tcp_write", tcp_write::cases()),
        ("udp_bind", udp_bind::cases()),
        ("udp_connected", udp_connected::cases()),
        ("udp_datagrams", udp_datagrams::cases()),
        ("udp_groups", udp_groups::cases()),
        ("udp_nonblocking", udp_nonblocking::cases()),
        ("udp_options", udp_options::cases()),
        ("udp_peek", udp_peek::cases()),
        ("udp_threads", udp_threads::cases()),
        ("udp_timeouts", udp_timeouts::cases()),
    ];
    let mut tests = Vec::new();
    for (file, cases) in files {
        for Case { name, families, run } in cases {
            tests.extend(families.iter().map(|&family| Test {
                implementation: S::NAME,
                case: format!("{file}::{name}"),
                family,
                run: Box::new(move || run(&World::new(family))),
            }));
        }
    }
    tests
}

impl Test {
    fn name(&self) -> String {
        let family = match self.family {
            Family::V4 => "v4",
            Family::V6 => "v6",
        };
        format!("{}::{}::{family}", self.implementation, self.case)
    }

    fn into_trial(self) -> Trial {
        Trial::test(self.name(), || self.run(LIMIT))
    }

    /// Runs the case in a thread of its own, which is left behind if it takes longer than `limit`.
    fn run(self, limit: Duration) -> Result<(), Failed> {
        let (end, ended) = mpsc::channel();
        let name = self.name();
        let run = move || end.send(panic::catch_unwind(AssertUnwindSafe(self.run)));
        thread::Builder::new().name(name).spawn(run)?;
        match ended.recv_timeout(limit) {
            Ok(result) => result.map_err(|panic| message(&*panic).into()),
            Err(_) => Err(format!("has not ended after {limit:?}").into()),
        }
    }
}

/// Returns the text of a panic.
fn message(panic: &dyn Any) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message")
}
