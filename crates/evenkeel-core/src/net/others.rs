//! The coordinator towards the other hosts of a group: packets that they have no socket for, and those for
//! which there is none here.

use super::state::Net;
use crate::channel::Waiting;
use crate::drop::LinkDrop;
use crate::poll::Sources;
use crate::stack::{Datagram, IcmpError, Quoted};
use crate::stray::{Content, Stray};
use crate::tcp::endpoint::Quote;
use crate::time::Instant;

/// The network side of a host as a member of a group.
pub(crate) struct Others<'a> {
    net: &'a mut Net,
}

impl<'a> Others<'a> {
    pub(crate) const fn of(net: &'a mut Net) -> Self {
        Self { net }
    }

    /// Makes this host one of several that share interfaces and addresses.
    pub(crate) fn join(&mut self, index: usize, hosts: usize) {
        let net = &mut *self.net;
        net.strays.join(index, hosts);
        net.rx.place = net.strays.place();
        net.tcp.endpoint.leave_strays(net.strays.may_hand_over());
    }

    /// Processes a packet for which the previous host has no socket. The last host of all answers it.
    pub(crate) fn take(&mut self, Stray { content, hosts_left }: Stray, now: Instant) {
        self.limit(Some(hosts_left));
        match content {
            Content::Frame(interface, bytes) => {
                let net = &mut *self.net;
                net.ledger.received += 1;
                match net.pool.take_copy(&bytes) {
                    Some(frame) => {
                        let received = net.input_frame(Waiting { frame, interface, verdict: None }, now);
                        net.take_up(received, Sources::NONE, now);
                    }
                    None => net.ledger.drop_input(LinkDrop::NoBuffer, 1),
                }
            }
            Content::Error(error) => self.take_error(error, now),
        }
        self.limit(None);
    }

    /// Sets the number of hosts that the next packets may visit; `None` for those that come by an interface.
    fn limit(&mut self, hosts_left: Option<u8>) {
        let Net { strays, tcp, .. } = &mut *self.net;
        strays.set_hosts_left(hosts_left);
        tcp.endpoint.leave_strays(strays.may_hand_over());
    }

    /// Passes an ICMP error to TCP or to a socket. Hands it over if its flow may be another host's.
    pub(super) fn take_error(&mut self, error: IcmpError, now: Instant) {
        let (IcmpError { quote, kind }, net) = (error, &mut *self.net);
        match quote {
            Quoted::Segment(Quote { tuple, .. })
                if net.strays.may_hand_over() && !net.tcp.endpoint.has(&tuple) =>
            {
                net.strays.hand_over_error(error, now);
            }
            Quoted::Segment(quote) => net.segments(now).input_icmp_error(quote, kind),
            Quoted::Datagram(tuple) => match net.rx.udp_socket_at(&tuple.local) {
                Some(id) => net.sockets.fail(id, &tuple, kind.into()),
                None => net.strays.hand_over_error(error, now),
            },
        }
    }

    /// Hands over a datagram without a socket. Returns whether it did: otherwise, this host answers it.
    pub(super) fn hand_over(&mut self, datagram: &Datagram, now: Instant) -> bool {
        let Net { strays, ledger, .. } = &mut *self.net;
        if !datagram.is_unicast() || !strays.may_hand_over() {
            return false;
        }
        let reason = strays.hand_over(datagram.interface, datagram.whole_frames(), now);
        ledger.drop_input(reason, datagram.frames());
        true
    }
}
