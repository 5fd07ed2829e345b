//! ICMP errors that this host sends, and their rate limit (RFC 792, RFC 1122 3.2.2, RFC 4443).

use super::offender::offender;
use super::problem::Problem;
use super::redirect::Redirect;
use crate::drop::IpDrop;
use crate::frame::Frame;
use crate::id::InterfaceId;
use crate::stack::address::kinds::{Cast, is_link_local, is_link_scope};
use crate::stack::address::local::Local;
use crate::stack::header::{ETHERNET, Header};
use crate::stack::multicast::groups::Groups;
use crate::stack::output::Output;
use crate::stack::route::path::Path;
use crate::tcp::ReplyLimit;
use crate::wire::{IpAddress, IpProtocol};

/// The ICMP errors of one work item.
pub(crate) struct Errors<'a, 'io> {
    pub(crate) groups: &'a Groups,
    pub(crate) limit: &'a mut ReplyLimit,
    pub(crate) output: Output<'a, 'io>,
}

impl Errors<'_, '_> {
    fn local(&self) -> Local<'_> {
        Local { interfaces: self.output.routing.interfaces(), groups: self.groups }
    }

    /// Notifies the sender of the packet in `frame` of a problem, if that is allowed and within the rate
    /// limit.
    ///
    /// A fragment that is not the first is never reported: `frame` is then the first one's, or nothing.
    pub(crate) fn report(&mut self, interface: InterfaceId, frame: Option<&Frame>, problem: Problem) {
        let Some((link, packet)) = frame.and_then(|frame| frame.bytes().split_at_checked(ETHERNET)) else {
            return;
        };
        let to_group = link.first().is_none_or(|byte| byte & 1 == 1);
        if !to_group || problem.may_answer_group() {
            self.report_packet(interface, packet, problem);
        }
    }

    /// Notifies the sender of a packet without a link-layer header of a problem, if that is allowed and
    /// within the rate limit.
    pub(crate) fn report_packet(&mut self, interface: InterfaceId, packet: &[u8], problem: Problem) {
        let Some(offender) = offender(packet, problem.may_answer_group()) else { return };
        let Some((kind, code, word)) = (match offender.source {
            IpAddress::Ipv4(_) => problem.v4(),
            IpAddress::Ipv6(_) => Some(problem.v6()),
        }) else {
            return;
        };
        if self.local().cast(&offender.destination, interface) == Some(Cast::Broadcast) {
            return;
        }
        if !self.within_rate(&offender.source) {
            return;
        }
        let [a, b, c, d] = word.to_be_bytes();
        let head = [kind, code, 0, 0, a, b, c, d];
        self.reply(interface, offender.source, offender.destination, head, offender.quote);
    }

    /// Returns whether the rate limit allows one more error to `to` now. If not, counts the error as
    /// dropped.
    pub(crate) fn within_rate(&mut self, to: &IpAddress) -> bool {
        let io = &mut *self.output.io;
        let passes = self.limit.pass(&(*to).into(), io.now);
        if !passes {
            io.ledger.originated += 1;
            io.ledger.drop_output(IpDrop::RateLimited);
        }
        passes
    }

    /// Sends an ICMP message back to `to`, from the address it had sent to if that is one of ours.
    fn reply(&mut self, interface: InterfaceId, to: IpAddress, from: IpAddress, head: [u8; 8], quote: &[u8]) {
        if let Some((header, path)) = self.return_path(interface, to, from) {
            self.output.send_icmp(header, path, head, core::iter::once(quote));
        }
    }

    /// Returns the header and the path of an ICMP message to `to`, about a packet that was sent to `from`.
    /// If that packet was for this host or came from a neighbour, the message leaves by the interface that
    /// the packet came by. The sender of another packet in transit may be behind any interface, so the
    /// routes decide.
    pub(crate) fn return_path(
        &self,
        interface: InterfaceId,
        to: IpAddress,
        from: IpAddress,
    ) -> Option<(Header, Path)> {
        let (routing, local) = (self.output.routing, self.local());
        let on_link = matches!(to, IpAddress::Ipv6(address) if is_link_scope(address));
        let goes_back =
            on_link || local.cast(&from, interface).is_some() || routing.is_neighbor(&to, interface);
        let path =
            if goes_back { routing.path_back(&to, interface) } else { routing.path_to(&to, None) }.ok()?;
        let source = if local.cast(&from, interface) == Some(Cast::Unicast) {
            from
        } else {
            self.source_of_error(&to, path)?
        };
        let protocol = match to {
            IpAddress::Ipv4(_) => IpProtocol::Icmp,
            IpAddress::Ipv6(_) => IpProtocol::Icmpv6,
        };
        Some((Header::new(source, to, protocol, self.output.config.hop_limit), path))
    }

    /// Returns an address of the interface by which an error leaves (RFC 1812 4.3.2.4). If that has none
    /// which is valid where the error goes, returns one of another interface.
    fn source_of_error(&self, to: &IpAddress, path: Path) -> Option<IpAddress> {
        let next = path.neighbor_towards(to);
        let suits = |source: &IpAddress| is_link_local(to) || !is_link_local(source);
        let interfaces = self.output.routing.interfaces();
        let own = core::iter::once(path.interface).chain(interfaces.ids());
        own.filter_map(|interface| interfaces.source_for(to, &next, interface)).find(suits)
    }

    /// Redirects the sender of a packet that came by `interface` and leaves there for `neighbor`, if the
    /// sender is on that link and redirects are on.
    pub(crate) fn redirect(&mut self, packet: &[u8], interface: InterfaceId, neighbor: IpAddress) {
        let routing = self.output.routing;
        if !self.output.config.redirects {
            return;
        }
        let Some(redirect) = Redirect::of(packet, interface, neighbor, routing.interfaces()) else { return };
        let (to, from) = (redirect.offender.source, redirect.offender.destination);
        if !self.within_rate(&to) {
            return;
        }
        match redirect.target {
            IpAddress::Ipv4(gateway) => {
                self.reply(interface, to, from, Redirect::head_v4(gateway), redirect.offender.quote);
            }
            IpAddress::Ipv6(target) => {
                let source = routing.interfaces().of(interface).and_then(|own| own.link_local());
                let (Some(source), Ok(path)) = (source, routing.path_to(&to, Some(interface))) else {
                    return;
                };
                let hardware = self.output.neighbors.hardware((interface, target.into()));
                let header = Redirect::header_v6(source, to);
                let (body, len) = redirect.body_v6(target, hardware);
                let chunks = [body.get(..len).unwrap_or_default(), redirect.quote_v6()];
                self.output.send_icmp(header, path, Redirect::head_v6(), chunks.into_iter());
            }
        }
    }
}
