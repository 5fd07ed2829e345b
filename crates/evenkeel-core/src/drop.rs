//! The reasons for which frames are dropped. Every frame that is not delivered is counted under one of them,
//! where it is dropped.

use core::fmt;

pub use evenkeel_tcp::TcpDrop;

macro_rules! reasons {
    ($(#[$doc:meta])* $name:ident { $($variant:ident => $text:literal, $meaning:literal;)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum $name { $(#[doc = $meaning] $variant,)* }

        impl $name {
            /// Every reason of this layer, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Returns the name used in tables and machine-readable output.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// Returns the meaning of the reason in one line.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)* }
            }
        }
    };
}

reasons! {
    /// Dropped at or just above the link.
    LinkDrop {
        RingFull => "ring-full", "the interface's receive ring was full; the host did no work";
        NoBuffer => "no-buffer", "the pool had no free frame buffer";
        Truncated => "truncated", "shorter than an Ethernet header";
        NotForUs => "not-for-us", "unicast to another hardware address";
        UnknownEtherType => "unknown-ethertype", "neither ARP, IPv4 nor IPv6";
        BadArp => "bad-arp", "malformed ARP packet, or one not for our addresses";
        ListenOnly => "listen-only", "the host only listens, and sends nothing (output)";
        TooLong => "too-long", "longer than a receive buffer of the interface";
        UnusedQueue => "unused-queue", "came by a queue of the device that the host does not use";
    }
}

reasons! {
    /// Dropped by a queue between stages.
    QueueDrop {
        IpQueue => "ip-queue-full", "the shared IP queue was full (eager architectures)";
        Channel => "channel-full", "the channel was full: early discard, before any protocol work";
        Socket => "socket-full", "the socket queue was full, after all protocol work";
        Screen => "screen-full", "the screening queue was full: packets came faster than they were screened";
        Unscreened => "unscreened", "packets are to be screened, and nobody does";
        Capture => "capture-full", "the capture queue was full: a copy for a packet monitor";
        Output => "output-queue-full", "the output queue of the interface was full, after all protocol work \
            (output)";
        Closed => "closed", "the channel or socket was closed with frames in it";
        HandedOver => "handed-over", "no socket here has it: handed over to the next host of the group";
        Handover => "handover-full", "to be handed over to the next host of the group, and too many were";
    }
}

reasons! {
    /// Dropped by IP, ICMP or reassembly.
    IpDrop {
        Malformed => "ip-malformed", "bad version, length, option or extension header";
        Checksum => "ip-checksum", "bad IPv4 header checksum";
        NotLocal => "ip-not-local", "not addressed to this host, and not to be forwarded";
        Martian => "ip-martian", "source or destination address that no packet from outside can have";
        Scope => "ip-beyond-scope", "to be forwarded, but with a link-local address";
        ReversePath => "ip-reverse-path", "to be forwarded, but the way back to its source leads elsewhere";
        HopLimit => "hop-limit-exceeded", "to be forwarded, but its TTL or hop limit is used up";
        RouteDiscards => "route-discards", "its route is a blackhole, or says unreachable or prohibited";
        Refused => "refused", "to be forwarded, but screening refused it";
        UnknownProtocol => "ip-unknown-protocol", "no protocol above IP takes it";
        FragmentOverlap => "fragment-overlap", "overlaps a fragment already held; the whole datagram is \
            discarded (RFC 5722)";
        FragmentEcn => "fragment-ecn", "some fragments of the datagram say that its transport knows ECN, \
            others that it does not (RFC 3168)";
        FragmentTooBig => "fragment-too-big", "would make a datagram of more than 65 535 bytes";
        FragmentTimeout => "fragment-timeout", "the rest of the datagram did not come in time";
        FragmentLimit => "fragment-limit", "reassembly holds as many datagrams or fragments as it may";
        BadIcmp => "bad-icmp", "malformed ICMP, ICMPv6, IGMP or MLD message";
        RateLimited => "icmp-rate-limited", "an ICMP error was due but over its rate limit";
        NoRoute => "no-route", "no route to the destination";
        Unresolved => "neighbor-unresolved", "the next hop did not answer ARP or NDP, or too many packets \
            wait for it (output)";
        TooBig => "too-big", "larger than the MTU of its way, and not to be fragmented";
    }
}

reasons! {
    /// Dropped by UDP.
    UdpDrop {
        Malformed => "udp-malformed", "bad length";
        Checksum => "udp-checksum", "bad checksum, or none over IPv6";
        NoSocket => "udp-no-socket", "no socket is bound to the port";
    }
}

/// A reason of any layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Reason {
    /// At or just above the link.
    Link(LinkDrop),
    /// A queue between stages.
    Queue(QueueDrop),
    /// IP, ICMP or reassembly.
    Ip(IpDrop),
    /// UDP.
    Udp(UdpDrop),
    /// TCP.
    Tcp(TcpDrop),
}

const LINK: usize = 0;
const QUEUE: usize = LINK + LinkDrop::ALL.len();
const IP: usize = QUEUE + QueueDrop::ALL.len();
const UDP: usize = IP + IpDrop::ALL.len();
const TCP: usize = UDP + UdpDrop::ALL.len();

impl Reason {
    /// The name of the place where frames to be sent are dropped, for any reason.
    pub const OUTPUT_PLACE: &'static str = "output";

    /// The names of the places where interfaces drop frames: see [`Reason::place_on_interface`].
    pub const PLACES_ON_INTERFACE: [&'static str; 4] =
        ["interface ring", "adaptor", "channel on the interface", "demultiplexer on the interface"];

    /// Number of reasons of all layers.
    pub const COUNT: usize = TCP + TcpDrop::ALL.len();

    /// Returns an iterator over all reasons, in the order of [`Reason::index`].
    pub fn all() -> impl Iterator<Item = Self> {
        let link = LinkDrop::ALL.iter().map(|&r| Self::Link(r));
        let queue = QueueDrop::ALL.iter().map(|&r| Self::Queue(r));
        let ip = IpDrop::ALL.iter().map(|&r| Self::Ip(r));
        let udp = UdpDrop::ALL.iter().map(|&r| Self::Udp(r));
        let tcp = TcpDrop::ALL.iter().map(|&r| Self::Tcp(r));
        link.chain(queue).chain(ip).chain(udp).chain(tcp)
    }

    /// Returns the reason's place in a table of [`Reason::COUNT`] counters.
    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Self::Link(r) => LINK + r as usize,
            Self::Queue(r) => QUEUE + r as usize,
            Self::Ip(r) => IP + r as usize,
            Self::Udp(r) => UDP + r as usize,
            Self::Tcp(r) => TCP + r as usize,
        }
    }

    /// Returns the name used in tables and machine-readable output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Link(r) => r.name(),
            Self::Queue(r) => r.name(),
            Self::Ip(r) => r.name(),
            Self::Udp(r) => r.name(),
            Self::Tcp(r) => r.name(),
        }
    }

    /// Returns the meaning of the reason in one line.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Link(r) => r.meaning(),
            Self::Queue(r) => r.meaning(),
            Self::Ip(r) => r.meaning(),
            Self::Udp(r) => r.meaning(),
            Self::Tcp(r) => r.meaning(),
        }
    }

    /// Returns the name of the place where received frames are dropped for this reason.
    #[must_use]
    pub const fn place(self) -> &'static str {
        match self {
            Self::Link(LinkDrop::RingFull) => "interface ring",
            Self::Link(_) => "link input",
            Self::Queue(QueueDrop::IpQueue) => "shared IP queue",
            Self::Queue(QueueDrop::Channel) => "channel",
            Self::Queue(QueueDrop::Socket) => "socket queue",
            Self::Queue(QueueDrop::Closed) => "closed socket",
            Self::Queue(QueueDrop::Screen | QueueDrop::Unscreened) => "screening queue",
            Self::Queue(QueueDrop::Capture) => "capture queue",
            Self::Queue(QueueDrop::Output) => "output queue",
            Self::Queue(QueueDrop::HandedOver | QueueDrop::Handover) => "handover queue",
            Self::Ip(_) => "IP input",
            Self::Udp(_) => "UDP input",
            Self::Tcp(_) => "TCP input",
        }
    }

    /// Returns the name of the place where an interface that demultiplexes drops frames for this reason.
    #[must_use]
    pub const fn place_on_interface(self) -> &'static str {
        match self {
            Self::Link(LinkDrop::RingFull) => self.place(),
            Self::Link(_) => "adaptor",
            Self::Queue(_) => "channel on the interface",
            Self::Ip(_) | Self::Udp(_) | Self::Tcp(_) => "demultiplexer on the interface",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<LinkDrop> for Reason {
    fn from(r: LinkDrop) -> Self {
        Self::Link(r)
    }
}
impl From<QueueDrop> for Reason {
    fn from(r: QueueDrop) -> Self {
        Self::Queue(r)
    }
}
impl From<IpDrop> for Reason {
    fn from(r: IpDrop) -> Self {
        Self::Ip(r)
    }
}
impl From<TcpDrop> for Reason {
    fn from(r: TcpDrop) -> Self {
        Self::Tcp(r)
    }
}
impl From<UdpDrop> for Reason {
    fn from(r: UdpDrop) -> Self {
        Self::Udp(r)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_drops_frames_where_the_host_does_not() {
        for reason in Reason::all() {
            assert!(Reason::PLACES_ON_INTERFACE.contains(&reason.place_on_interface()), "{reason}");
            let is_ring = reason == LinkDrop::RingFull.into();
            assert_eq!(Reason::PLACES_ON_INTERFACE.contains(&reason.place()), is_ring, "{reason}");
        }
    }

    #[test]
    fn every_reason_has_a_place_and_a_name_of_its_own() {
        let all: Vec<_> = Reason::all().collect();
        assert_eq!(all.len(), Reason::COUNT);
        for (place, reason) in all.iter().enumerate() {
            assert_eq!(reason.index(), place);
            assert!(!reason.meaning().is_empty());
        }
        let mut names: Vec<_> = all.iter().map(|r| r.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Reason::COUNT);
    }
}
