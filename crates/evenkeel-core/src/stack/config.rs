//! The limits of the IP floor of a host, each with its unit, its default and the reason for it.

use core::time::Duration;

/// Limits and options of the IP floor of a host.
///
/// Frames that reassembly and the neighbour cache hold come from the host's pool, which is made larger by as
/// many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Whether packets for other hosts are forwarded, so that this is a router. False (RFC 1122 3.1).
    pub forwarding: bool,
    /// Whether a packet is forwarded only if it came by the interface that leads back to its source (RFC 1812
    /// 5.3.8, BCP 38). False: where ways differ there and back it would cut them.
    pub reverse_path: bool,
    /// Whether a neighbour is redirected that sends packets through this host although their next hop is on
    /// its own link (RFC 1812 5.2.7.2, RFC 4861 8.2). True. The packet is forwarded all the same.
    pub redirects: bool,
    /// Whether the addresses belong to another stack that answers for them: the kernel's, when its tables
    /// are followed. Packets to these addresses are then ignored: neither ARP nor NDP nor echo is answered,
    /// nothing is delivered, and no group is reported. False.
    pub forward_only: bool,
    /// Whether this host shares its addresses with another stack, the kernel's, of which it has only the
    /// ports that its sockets are bound to. The other stack answers ARP and NDP, joins groups and resolves
    /// neighbours ([`Host::share_with`](crate::host::Host::share_with)). This host sends no such message, and
    /// has no address that it is not given. False.
    pub shared: bool,
    /// Whether new addresses are probed for and announced, and defended against other hosts that claim them
    /// (RFC 5227, RFC 4861 7.2.6). False: on links whose hosts are all known, no announcement is needed.
    /// Conflicts are reported in any case ([`Host::next_conflict`](crate::host::Host::next_conflict)).
    pub announce: bool,
    /// Neighbours (ARP and NDP together) remembered at once, one at least. 512: two full /24 subnets; at
    /// about 100 bytes each.
    pub neighbors: usize,
    /// Neighbour updates kept until
    /// [`Membership::next_neighbor_update`](crate::host::Membership::next_neighbor_update) takes them for
    /// other hosts. 0: there are no others.
    pub neighbor_updates: usize,
    /// Frames that may wait for one neighbour's address. 64: one IP packet of the largest size is 45 frames
    /// of a 1500-byte MTU. RFC 1122 2.3.2.2 asks for at least one, the latest.
    pub pending_per_neighbor_pkts: usize,
    /// Frames that may wait for all neighbours together. 256.
    pub pending_pkts: usize,
    /// Packets in reassembly at once. 64; the oldest makes room for a new one.
    pub reassembly_packets: usize,
    /// Fragments one packet may come in. 64, enough for 65 535 bytes over an MTU of 1280 or more.
    pub fragments_per_packet: usize,
    /// Fragments held in reassembly altogether, hence frames. 256; the oldest packet makes room.
    pub fragment_pkts: usize,
    /// The time for which an IPv4 packet may stay in reassembly. 60 s (RFC 1122 3.3.2: between 60 and 120;
    /// the least, because later fragments may be of another packet with the same identification).
    pub reassembly_v4: Duration,
    /// The time for which an IPv6 packet may stay in reassembly. 60 s (RFC 8200 4.5).
    pub reassembly_v6: Duration,
    /// ICMP and ICMPv6 errors a second, all together (RFC 4443 2.4 f); a quarter of it to one prefix of
    /// addresses, and somewhat more or less at random: see [`reply_limit`](crate::tcp::reply_limit). 100; 0
    /// sends none.
    pub icmp_errors_per_s: u32,
    /// Errors that may be sent back to back. 10.
    pub icmp_error_burst: u32,
    /// Whether echo requests are answered. True.
    pub echo_reply: bool,
    /// TTL or hop limit of unicast packets. 64.
    pub hop_limit: u8,
    /// Multicast groups joined at once on all interfaces, the solicited-node groups of our addresses not
    /// counted. 64.
    pub groups: usize,
    /// Whether group membership is reported by IGMP and MLD. True; off for links that no router or switch
    /// listens on.
    pub report_groups: bool,
    /// Routes at most, of both families. 1 000 000, about the Internet's; memory is used as far as there are
    /// routes, some 100 bytes each.
    pub routes: usize,
    /// Destinations whose path MTU is remembered after "packet too big". 1024, at some 50 bytes each; the
    /// oldest makes room.
    pub path_mtus: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            forwarding: false,
            forward_only: false,
            shared: false,
            reverse_path: false,
            redirects: true,
            announce: false,
            neighbors: 512,
            neighbor_updates: 0,
            pending_per_neighbor_pkts: 64,
            pending_pkts: 256,
            reassembly_packets: 64,
            fragments_per_packet: 64,
            fragment_pkts: 256,
            reassembly_v4: Duration::from_secs(60),
            reassembly_v6: Duration::from_secs(60),
            icmp_errors_per_s: 100,
            icmp_error_burst: 10,
            echo_reply: true,
            hop_limit: 64,
            groups: 64,
            report_groups: true,
            routes: 1_000_000,
            path_mtus: 1024,
        }
    }
}

impl Config {
    /// Returns the largest number of frames that the stack may hold. Its pool must be able to spare as
    /// many.
    pub(crate) const fn held_pkts(&self) -> usize {
        self.pending_pkts + self.fragment_pkts
    }
}
