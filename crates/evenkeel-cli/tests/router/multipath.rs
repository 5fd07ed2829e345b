//! Routes of the kernel with several next hops, and IPv4 routes through IPv6 gateways.

use crate::bird::{flows_by, two_ways};
use crate::support::{Host, Router, in_namespace, run};

/// The number of pinged addresses of B, each of which is a flow. The router chooses a next hop by a hash with
/// its own secret, always the same for a flow. With 100 flows, fewer than [`HALF`] take one of two equal
/// routes only once in five million runs.
const FLOWS: u8 = 100;
const HALF: [u64; 2] = [25; 2];

/// Pings all flows, and returns the number of packets that each of B's two links received.
fn spread(a: &Host, b: &Host, prefix: &str) -> [u64; 2] {
    let count = || ["h2", "h3"].map(|device| b.received(device));
    let before = count();
    for flow in 1..=FLOWS {
        a.run(&format!("ping -c 1 -W 5 {prefix}{flow}"));
    }
    let after = count();
    [after[0] - before[0], after[1] - before[1]]
}

#[test]
fn flows_are_spread_over_the_kernels_next_hops() {
    in_namespace(&[], || {
        let (a, b) = two_ways();
        b.run("ip route add local 10.9.0.0/16 dev lo");
        b.run("ip -6 route add local fd09::/16 dev lo");
        run("ip route add 10.9.0.0/16 nexthop via 10.0.2.2 weight 1 nexthop via 10.0.3.2 weight 3");
        run("ip -6 route add fd09::/16 nexthop via fd00:2::2 nexthop via fd00:3::2");
        let router = Router::start("--link packet:r1 --link packet:r2 --link packet:r3 --kernel-routes");
        // With weights 1 and 3, fewer flows happen once in half a million runs.
        for (prefix, least) in [("10.9.0.", [6, 54]), ("fd09::", HALF)] {
            let taken = spread(&a, &b, prefix);
            assert!(taken[0] >= least[0] && taken[1] >= least[1], "{prefix}: {taken:?}");
        }
        // Each flow stays on one of the links.
        for to in ["10.9.0.1", "10.9.0.2", "fd09::1", "fd09::2"] {
            let before = b.received("h2");
            a.run(&format!("ping -c 20 -i 0.01 -W 5 {to}"));
            let by = if b.received("h2") - before >= 20 { ["h2", "h3"] } else { ["h3", "h2"] };
            flows_by(&a, &b, to, by[0], by[1]);
        }
        // One next hop disappears; for IPv6 the kernel announces only that one.
        run("ip route replace 10.9.0.0/16 via 10.0.3.2");
        run("ip -6 route del fd09::/16 via fd00:2::2");
        all_by(&a, &b, "h3", "h2");
        // The next hop appears again, next to the other.
        run("ip route replace 10.9.0.0/16 nexthop via 10.0.2.2 nexthop via 10.0.3.2");
        run("ip -6 route append fd09::/16 via fd00:2::2");
        for prefix in ["10.9.0.", "fd09::"] {
            both_ways(&a, &b, prefix);
        }
        let done = router.stop();
        assert_eq!(done["kernel"]["skipped"], 0, "{done}");
    });
}

/// Waits until flows take both of B's links.
fn both_ways(a: &Host, b: &Host, prefix: &str) {
    let mut taken = [0; 2];
    let spread = (0..20).any(|_| {
        taken = spread(a, b, prefix);
        taken.iter().zip(HALF).all(|(taken, least)| *taken >= least)
    });
    assert!(spread, "both ways to {prefix}: {taken:?}");
}

/// Waits until all flows take B's link `by`, and asserts that none takes `not_by`.
fn all_by(a: &Host, b: &Host, by: &str, not_by: &str) {
    for prefix in ["10.9.0.", "fd09::"] {
        for flow in 1..=4 {
            let to = format!("{prefix}{flow}");
            let follows = || {
                let before = b.received(by);
                a.run(&format!("ping -c 4 -i 0.01 -W 5 {to}"));
                b.received(by) >= before + 4
            };
            assert!((0..100).any(|_| follows()), "{to} goes by {by}");
            flows_by(a, b, &to, by, not_by);
        }
    }
}

/// The routes are those of RFC 8950, as BGP over link-local addresses sets them up.
#[test]
fn ipv4_goes_by_the_ipv6_gateways_that_the_kernel_says() {
    in_namespace(&[], || {
        let (a, b) = two_ways();
        b.run("ip route add local 10.9.0.0/16 dev lo");
        // The link between the routers has no IPv4 addresses.
        run("ip addr del 10.0.3.1/24 dev r3");
        b.run("ip addr del 10.0.3.2/24 dev h3");
        run("ip route add 10.9.0.0/16 via inet6 fd00:3::2 dev r3");
        let router = Router::start("--link packet:r1 --link packet:r2 --link packet:r3 --kernel-routes");
        for to in ["10.9.0.1", "10.9.7.7"] {
            flows_by(&a, &b, to, "h3", "h2");
        }
        run("ip route replace 10.9.0.0/16 nexthop via inet6 fd00:3::2 dev r3 weight 1 nexthop via 10.0.2.2 \
             weight 1");
        both_ways(&a, &b, "10.9.0.");
        let done = router.stop();
        assert_eq!(done["kernel"]["skipped"], 0, "{done}");
    });
}
