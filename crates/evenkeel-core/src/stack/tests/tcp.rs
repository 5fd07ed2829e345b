//! Segments on their way out.

use super::*;
use crate::tcp::endpoint::Transmit;
use crate::tcp::{Ecn, FourTuple};

/// Returns the most bytes of a segment on a connection opened to `destination`.
fn mss_to(node: &mut Node, destination: &IpAddress) -> Result<u16, OutputError> {
    node.stack.open_to(None, destination, Instant::ZERO).map(|(_, mss, _)| mss)
}

#[test]
fn a_segment_bears_the_codepoint_and_what_it_says_of_congestion() {
    let (mut a, mut b) = (Node::quiet(1), Node::quiet(2));
    introduce(&mut a, &mut b);
    for address in [v4, v6] {
        let tuple = FourTuple::new((address(2), 1000), (address(1), 80));
        let frame = b.pool.take_copy(&[0; 20]).unwrap();
        let segment =
            Transmit { tuple, len: 20, dscp: 46, hop_limit: None, ecn: Ecn::Capable, route: None, cut: None };
        b.with(|stack, io| stack.send_segment(frame, &segment, io)).unwrap();
        let sent = b.sent();
        let ip = &sent[0][14..];
        let class = if ip[0] >> 4 == 4 { ip[1] } else { ip[0] << 4 | ip[1] >> 4 };
        assert_eq!(class, 46 << 2 | 2);
    }
    b.check();
}

/// RFC 9293 3.9.1.1, MUST-46.
#[test]
fn there_is_no_way_to_open_a_connection_to_several_hosts() {
    let mut node = Node::quiet(1);
    for to in [IpAddress::v4(255, 255, 255, 255), v4(255), v4(0), IpAddress::v4(224, 0, 0, 1)] {
        assert_eq!(mss_to(&mut node, &to), Err(OutputError::NoRoute), "{to}");
    }
    assert_eq!(mss_to(&mut node, &v4(2)), Ok(1460));
}

/// RFC 1191 5: there are routers that do not say how large a packet may be.
#[test]
fn a_path_said_to_take_nothing_takes_what_every_path_does() {
    let mut node = Node::quiet(1);
    node.stack.learn_path_mtu(v4(2), 0, Instant::ZERO);
    node.stack.learn_path_mtu(v6(2), 0, Instant::ZERO);
    assert_eq!(mss_to(&mut node, &v4(2)), Ok(536));
    assert_eq!(mss_to(&mut node, &v6(2)), Ok(1220));
}
