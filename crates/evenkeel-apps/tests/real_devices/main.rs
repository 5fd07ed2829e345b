//! Tests of a host on real devices, with the clients of the Linux kernel and other independent programs.
//!
//! Each test has its own network namespace and needs root; without root it reports that it was skipped.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod attacker;
mod captured;
mod conversation;
mod endings;
mod hostile;
mod names;
mod stand;
mod support;

use evenkeel::raw::receive::Architecture;
use stand::Link;

/// One test for each link and architecture that can run on it.
macro_rules! on_every_device {
    ($($name:ident: $test:path;)*) => { $(
        mod $name {
            use super::support::in_namespace;
            use super::{Architecture, Link};

            #[test]
            fn eager_on_tap() { in_namespace(|| $test(Link::Tap, Architecture::Eager)); }
            #[test]
            fn polled_on_tap() { in_namespace(|| $test(Link::Tap, Architecture::Polled)); }
            #[test]
            fn early_demux_on_tap() { in_namespace(|| $test(Link::Tap, Architecture::EarlyDemux)); }
            #[test]
            fn soft_lrp_on_tap() { in_namespace(|| $test(Link::Tap, Architecture::SoftLrp)); }
            #[test]
            fn eager_on_packet() { in_namespace(|| $test(Link::Packet, Architecture::Eager)); }
            #[test]
            fn polled_on_packet() { in_namespace(|| $test(Link::Packet, Architecture::Polled)); }
            #[test]
            fn early_demux_on_packet() { in_namespace(|| $test(Link::Packet, Architecture::EarlyDemux)); }
            #[test]
            fn soft_lrp_on_packet() { in_namespace(|| $test(Link::Packet, Architecture::SoftLrp)); }
        }
    )* };
}

on_every_device! {
    clients_are_served: crate::conversation::clients_are_served;
    hostile_frames_end_in_a_counted_drop: crate::hostile::every_frame_ends_in_a_counted_drop;
    floods_leave_memory_bounded: crate::hostile::floods_leave_memory_bounded;
    idle_costs_nothing: crate::endings::idle_costs_nothing;
}

/// Hosts behind an XDP program that leaves demultiplexing to them, or does it. It drops frames that are of no
/// use before a host sees them, so attacks are counted elsewhere: see the link's own tests.
mod behind_xdp {
    use evenkeel_testing::has_xdp;

    use super::support::in_namespace;
    use super::{Architecture, Link, conversation, endings, hostile};

    #[test]
    fn clients_are_served() {
        for architecture in [Architecture::Eager, Architecture::NiLrp] {
            in_namespace(move || {
                if has_xdp() {
                    conversation::clients_are_served(Link::Xdp, architecture);
                }
            });
        }
    }

    #[test]
    fn idle_costs_nothing() {
        for architecture in [Architecture::Eager, Architecture::NiLrp] {
            in_namespace(move || {
                if has_xdp() {
                    endings::idle_costs_nothing(Link::Xdp, architecture);
                }
            });
        }
    }

    #[test]
    fn floods_leave_memory_bounded() {
        in_namespace(|| {
            if has_xdp() {
                hostile::floods_leave_memory_bounded(Link::Xdp, Architecture::Eager);
            }
        });
    }
}
