//! `evenkeel route` between two hosts of the Linux kernel: A - R - B, three network namespaces, with the
//! kernel's own tools and daemons.
//!
//! Each test needs root, and reports if it is skipped.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod bird;
mod capture;
#[path = "../common/mod.rs"]
mod common;
mod cores;
mod devices;
mod forwarding;
mod log;
mod multipath;
mod screening;
mod support;
mod xdp;

use support::Host;

/// The options of two links, with the router's addresses.
const LINKS: &str =
    "--link lan=packet:r1,10.0.1.1/24,fd00:1::1/64 --link wan=packet:r2,10.0.2.1/24,fd00:2::1/64";

/// Returns A and B, each with a link to R. R's kernel takes no part in these networks.
fn hosts() -> (Host, Host) {
    let (a, b) = (Host::new(), Host::new());
    support::run("sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1");
    a.link("r1", "a1", 1);
    b.link("r2", "b1", 2);
    a.default_route(1);
    b.default_route(2);
    (a, b)
}
