//! The differences that are known between the kernel's sockets and ours.

use std::time::Duration;

use libtest_mimic::{Failed, Trial};

use crate::Test;

/// The time that a case has which is known to fail. Some of them would wait forever.
const LIMIT: Duration = Duration::from_millis(500);

/// Whether the cases below are to be as on the kernel's sockets one day.
#[derive(Debug, Clone, Copy)]
enum Difference {
    /// Ours lack this behaviour.
    Missing,
    /// Ours behave in this other way on purpose.
    Kept,
}
use Difference::{Kept, Missing};

/// Cases that our sockets fail over each family, with the reasons.
const KNOWN: &[(Difference, &str, &[&str])] = &[
    (
        Missing,
        "an address and the unspecified one may be bound to one port, and the former gets all that is for it",
        &[
            "tcp_bind::specific_address_conflicts_with_the_unspecified_one",
            "tcp_bind::unspecified_address_conflicts_with_a_specific_one",
            "udp_bind::specific_address_conflicts_with_the_unspecified_one",
            "udp_bind::unspecified_address_conflicts_with_a_specific_one",
        ],
    ),
    (
        Missing,
        "a reset after the peer's end is one for writers, too, instead of a broken pipe",
        &["tcp_close::write_after_the_peer_has_gone_is_a_broken_pipe"],
    ),
    (
        Missing,
        "there is no option for the time to live",
        &[
            "tcp_options::ttl_is_64_at_first",
            "tcp_options::ttl_is_read_back",
            "tcp_options::ttl_is_shared_by_clones",
            "tcp_options::ttl_of_zero_is_invalid",
            "tcp_options::ttl_beyond_a_byte_is_invalid",
            "tcp_options::ttl_of_a_listener_is_read_back",
            "tcp_options::ttl_of_a_listener_is_inherited",
            "udp_options::ttl_is_64_at_first",
            "udp_options::ttl_is_read_back",
            "udp_options::ttl_is_shared_by_clones",
            "udp_options::ttl_of_zero_is_invalid",
            "udp_options::ttl_beyond_a_byte_is_invalid",
        ],
    ),
    (
        Missing,
        "a connected UDP socket is not told that its peer's port is closed",
        &[
            "udp_connected::closed_port_is_reported_by_take_error",
            "udp_connected::closed_port_is_reported_once",
            "udp_connected::closed_port_refuses_a_receiver",
            "udp_connected::closed_port_refuses_a_sender",
            "udp_connected::closed_port_refuses_a_waiting_receiver",
            "udp_connected::port_of_another_socket_of_the_peer_is_refused",
            "udp_connected::receives_after_a_refusal",
            "udp_connected::refusal_leaves_other_sockets",
            "udp_nonblocking::receive_gets_a_refusal",
        ],
    ),
    (
        Missing,
        "connecting a UDP socket does not choose the local address that its datagrams will have",
        &["udp_connected::local_address_becomes_specific"],
    ),
    (
        Missing,
        "a socket at the unspecified address of IPv4 receives over IPv6, too",
        &[
            "tcp_bind::unspecified_address_of_ipv4_is_none_of_ipv6",
            "udp_bind::unspecified_address_of_ipv4_is_none_of_ipv6",
        ],
    ),
    (
        Kept,
        "an address of IPv4 is never shown as one of IPv6",
        &[
            "tcp_bind::unspecified_address_of_ipv6_is_one_of_ipv4",
            "udp_bind::unspecified_address_of_ipv6_is_one_of_ipv4",
        ],
    ),
    (
        Missing,
        "the broadcast address of a network needs no permission",
        &[
            "udp_groups::broadcast_is_refused_after_permission_is_withdrawn",
            "udp_groups::broadcast_needs_permission",
        ],
    ),
    (
        Kept,
        "a listener may have the port of a connection that this host opened: segments are told apart by \
         both addresses",
        &["tcp_bind::port_of_a_connection_is_in_use"],
    ),
    (Kept, "no segment is sent to port 0, as there is no such port", &["tcp_connect::port_zero_refuses"]),
    (
        Kept,
        "a read of nothing returns at once, as the documentation of `Read` has it",
        &["tcp_nonblocking::empty_read_would_block"],
    ),
    (
        Kept,
        "shutting down the reading direction discards what has arrived, as in BSD",
        &["tcp_close::shutdown_of_reading_keeps_what_has_arrived"],
    ),
    (
        Kept,
        "joining a group again does nothing, as its one membership is on every interface",
        &["udp_groups::second_join_is_refused"],
    ),
    (
        Kept,
        "data for a direction that was shut down is acknowledged and discarded, as in BSD, and not reset",
        &["tcp_close::write_after_the_peer_shut_down_both_is_a_broken_pipe"],
    ),
    (
        Kept,
        "the addresses of a connection remain its own after a reset",
        &["tcp_reset::peer_after_a_reset_is_not_connected"],
    ),
];

/// Returns the known difference that a case is.
fn known(case: &str) -> Option<(Difference, &'static str)> {
    let (difference, reason, _) = KNOWN.iter().find(|(_, _, cases)| cases.contains(&case))?;
    Some((*difference, reason))
}

/// Returns a trial of our sockets. A case that is a known difference has to fail.
pub(crate) fn trial(test: Test) -> Trial {
    let Some((difference, reason)) = known(&test.case) else {
        return test.into_trial();
    };
    Trial::test(test.name(), move || match test.run(LIMIT) {
        Err(_) => Ok(()),
        Ok(()) => Err(format!("passes, and is listed as different ({difference:?}): {reason}").into()),
    })
}

/// Returns a trial of the list itself: it names cases, and each once.
pub(crate) fn are_cases(tests: &[Test]) -> Trial {
    let listed: Vec<_> = KNOWN.iter().flat_map(|(_, _, cases)| cases.iter().copied()).collect();
    let is_case = |known: &str| tests.iter().any(|test| test.case == known);
    let is_double = |(place, known): (usize, &&str)| listed[..place].contains(known);
    let others: Vec<_> = listed.iter().copied().filter(|known| !is_case(known)).collect();
    let double = listed.iter().enumerate().any(is_double);
    Trial::test("differences::are_cases", move || match (&others[..], double) {
        ([], false) => Ok(()),
        (others, double) => Err(Failed::from(format!("no cases: {others:?}; twice: {double}"))),
    })
}
