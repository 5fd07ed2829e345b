//! The differences between the kernel's sockets and ours, which are on purpose.

use std::time::Duration;

use libtest_mimic::{Failed, Trial};

use crate::Test;

/// The time that a case has which is known to fail. Some of them would wait forever.
const LIMIT: Duration = Duration::from_millis(500);

/// Cases that our sockets fail over each family, with the reasons why they behave in another way.
const KNOWN: &[(&str, &[&str])] = &[
    (
        "an address of IPv4 is never shown as one of IPv6",
        &[
            "tcp_bind::unspecified_address_of_ipv6_is_one_of_ipv4",
            "udp_bind::unspecified_address_of_ipv6_is_one_of_ipv4",
        ],
    ),
    (
        "a listener may have the port of a connection that this host opened: segments are told apart by \
         both addresses",
        &["tcp_bind::port_of_a_connection_is_in_use"],
    ),
    ("no segment is sent to port 0, as there is no such port", &["tcp_connect::port_zero_refuses"]),
    (
        "a read of nothing returns at once, as the documentation of `Read` has it",
        &["tcp_nonblocking::empty_read_would_block"],
    ),
    (
        "shutting down the reading direction discards what has arrived, as in BSD",
        &["tcp_close::shutdown_of_reading_keeps_what_has_arrived"],
    ),
    (
        "joining a group again does nothing, as its one membership is on every interface",
        &["udp_groups::second_join_is_refused"],
    ),
    (
        "data for a direction that was shut down is acknowledged and discarded, as in BSD, and not reset",
        &["tcp_close::write_after_the_peer_shut_down_both_is_a_broken_pipe"],
    ),
    (
        "the addresses of a connection remain its own after a reset",
        &["tcp_reset::peer_after_a_reset_is_not_connected"],
    ),
];

/// Returns the reason why a case is a known difference, if it is one.
fn known(case: &str) -> Option<&'static str> {
    KNOWN.iter().find(|(_, cases)| cases.contains(&case)).map(|(reason, _)| *reason)
}

/// Returns a trial of our sockets. A case that is a known difference has to fail.
pub(crate) fn trial(test: Test) -> Trial {
    let Some(reason) = known(&test.case) else {
        return test.into_trial();
    };
    Trial::test(test.name(), move || match test.run(LIMIT) {
        Err(_) => Ok(()),
        Ok(()) => Err(format!("passes, and is listed as different: {reason}").into()),
    })
}

/// Returns a trial of the list itself: it names cases, and each once.
pub(crate) fn are_cases(tests: &[Test]) -> Trial {
    let listed: Vec<_> = KNOWN.iter().flat_map(|(_, cases)| cases.iter().copied()).collect();
    let is_case = |known: &str| tests.iter().any(|test| test.case == known);
    let is_double = |(place, known): (usize, &&str)| listed[..place].contains(known);
    let others: Vec<_> = listed.iter().copied().filter(|known| !is_case(known)).collect();
    let double = listed.iter().enumerate().any(is_double);
    Trial::test("differences::are_cases", move || match (&others[..], double) {
        ([], false) => Ok(()),
        (others, double) => Err(Failed::from(format!("no cases: {others:?}; twice: {double}"))),
    })
}
