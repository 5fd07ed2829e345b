//! The plan of a router: its routes and neighbours, in the form of the command line and of a
//! configuration file.

use core::fmt;
use core::str::FromStr;
use std::net::IpAddr;

use evenkeel::raw::device::hardware_address;
use evenkeel::raw::wire::{EthernetAddress, IpAddress, IpCidr, Ipv4Address, Ipv6Address};

use crate::link_plan::parse_cidr;

/// A route: `PREFIX,via=GATEWAY[,link=NAME][,metric=N]`, `PREFIX,link=NAME`, or `PREFIX,blackhole`,
/// `unreachable`, `prohibit`.
///
/// `default,via=GATEWAY` is the route to everything of the gateway's family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaticRoute {
    /// Destinations.
    pub to: IpCidr,
    /// The treatment of packets to these destinations.
    pub way: Way,
    /// The name of the link; if not given, the link on whose network the gateway is.
    pub link: Option<String>,
    /// The metric: among routes to one prefix the lowest counts.
    pub metric: u32,
}

/// The treatment of packets by a static route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Packets are sent to a gateway.
    Gateway(IpAddress),
    /// Packets are sent to their destination, a host on the link.
    OnLink,
    /// Packets are discarded silently.
    Blackhole,
    /// Packets are discarded, and the sender is notified that the destination cannot be reached.
    Unreachable,
    /// Packets are discarded, and the sender is notified that the destination is prohibited.
    Prohibit,
}

/// A neighbour with a known hardware address: `ADDRESS,HARDWARE[,link=NAME]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaticNeighbor {
    /// The address of the neighbour.
    pub address: IpAddress,
    /// The hardware address of the neighbour.
    pub hardware: EthernetAddress,
    /// The name of the link; if not given, the link on whose network the address is.
    pub link: Option<String>,
}

impl FromStr for StaticRoute {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const EXPECTED: &str = "expected PREFIX,via=GATEWAY[,link=NAME][,metric=N], PREFIX,link=NAME, or \
            PREFIX,blackhole (or unreachable, prohibit)";
        let mut parts = text.split(',').map(str::trim);
        let to = parts.next().unwrap_or_default();
        let (mut way, mut link, mut metric) = (None, None, 0);
        for part in parts {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            match key {
                "via" if way.is_none() => way = Some(Way::Gateway(address(value)?)),
                "blackhole" if way.is_none() => way = Some(Way::Blackhole),
                "unreachable" if way.is_none() => way = Some(Way::Unreachable),
                "prohibit" if way.is_none() => way = Some(Way::Prohibit),
                "link" if link.is_none() && !value.is_empty() => link = Some(value.to_owned()),
                "metric" => {
                    metric = value
                        .parse()
                        .map_err(|_| format!("`{part}`: expected metric=N, N from 0 to 4294967295"))?;
                }
                _ => return Err(format!("`{part}`: {EXPECTED}")),
            }
        }
        let way = way.or(link.as_ref().map(|_| Way::OnLink)).ok_or(EXPECTED)?;
        let to = match (to, way) {
            ("default", Way::Gateway(IpAddress::Ipv4(_))) => IpCidr::new(Ipv4Address::UNSPECIFIED.into(), 0),
            ("default", Way::Gateway(IpAddress::Ipv6(_))) => IpCidr::new(Ipv6Address::UNSPECIFIED.into(), 0),
            _ => prefix(to)?,
        };
        if let Way::Gateway(gateway) = way
            && gateway.version() != to.address().version()
        {
            return Err(format!("`{text}`: prefix and gateway are of different families"));
        }
        Ok(Self { to, way, link, metric })
    }
}

impl FromStr for StaticNeighbor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const EXPECTED: &str = "expected ADDRESS,HARDWARE[,link=NAME], such as 10.0.0.9,02:00:00:00:00:09";
        let mut parts = text.split(',').map(str::trim);
        let neighbor = address(parts.next().unwrap_or_default())?;
        let hardware = parts.next().and_then(hardware_address).ok_or(EXPECTED)?;
        let link = match parts.next().map(|part| part.strip_prefix("link=").filter(|name| !name.is_empty())) {
            None => None,
            Some(Some(name)) => Some(name.to_owned()),
            Some(None) => return Err(EXPECTED.to_owned()),
        };
        if parts.next().is_some() {
            return Err(EXPECTED.to_owned());
        }
        Ok(Self { address: neighbor, hardware, link })
    }
}

fn address(text: &str) -> Result<IpAddress, String> {
    let address = text.parse::<IpAddr>().map(IpAddress::from);
    address.map_err(|_| format!("`{text}`: expected an address, such as 10.0.0.1 or fd00::1"))
}

/// Reads a prefix. Non-zero bits after its length are refused, because either the address or the length is
/// wrong.
fn prefix(text: &str) -> Result<IpCidr, String> {
    let cidr = parse_cidr(text)
        .ok_or_else(|| format!("`{text}`: expected a prefix, such as 10.9.0.0/16 or fd09::/16"))?;
    let network = network(cidr);
    if network != cidr {
        return Err(format!("`{text}`: has bits behind its length; the prefix is {network}"));
    }
    Ok(cidr)
}

/// Returns the prefix that contains an address.
pub(super) fn network(cidr: IpCidr) -> IpCidr {
    match cidr {
        IpCidr::Ipv4(v4) => IpCidr::Ipv4(v4.network()),
        IpCidr::Ipv6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(v6.prefix_len())).unwrap_or(0);
            let bits = u128::from(v6.address()) & mask;
            IpCidr::new(Ipv6Address::from(bits).into(), v6.prefix_len())
        }
    }
}

impl fmt::Display for StaticRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.to)?;
        match self.way {
            Way::Gateway(gateway) => write!(f, ",via={gateway}")?,
            Way::OnLink => {}
            Way::Blackhole => f.write_str(",blackhole")?,
            Way::Unreachable => f.write_str(",unreachable")?,
            Way::Prohibit => f.write_str(",prohibit")?,
        }
        if let Some(link) = &self.link {
            write!(f, ",link={link}")?;
        }
        if self.metric != 0 { write!(f, ",metric={}", self.metric) } else { Ok(()) }
    }
}

impl fmt::Display for StaticNeighbor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes: Vec<_> = self.hardware.0.iter().map(|byte| format!("{byte:02x}")).collect();
        write!(f, "{},{}", self.address, bytes.join(":"))?;
        self.link.as_ref().map_or(Ok(()), |link| write!(f, ",link={link}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_read_and_shown_alike() {
        for text in [
            "10.9.0.0/16,via=10.0.2.2",
            "10.9.0.0/16,via=10.0.2.2,link=wan,metric=7",
            "fd09::/16,link=wan",
            "10.0.0.0/8,blackhole",
            "::/0,unreachable",
            "10.1.0.0/16,prohibit,metric=4",
        ] {
            assert_eq!(text.parse::<StaticRoute>().unwrap().to_string(), text);
        }
        let shown = |text: &str| text.parse::<StaticRoute>().unwrap().to_string();
        assert_eq!(shown("default,via=fd00::1"), "::/0,via=fd00::1");
        assert_eq!(shown("10.9.0.0/16, via=10.0.0.1"), "10.9.0.0/16,via=10.0.0.1");
        for (text, said) in [
            ("10.9.0.0/16", "expected PREFIX,via=GATEWAY"),
            ("10.9.0.0,via=10.0.0.1", "`10.9.0.0`: expected a prefix"),
            ("10.9.0.0/33,via=10.0.0.1", "expected a prefix"),
            (
                "10.9.1.2/16,via=10.0.0.1",
                "`10.9.1.2/16`: has bits behind its length; the prefix is 10.9.0.0/16",
            ),
            ("fd09::1/16,via=fd00::1", "the prefix is fd09::/16"),
            ("10.9.0.0/16,via=x", "`x`: expected an address"),
            ("10.9.0.0/16,via=fd00::1", "different families"),
            ("10.9.0.0/16,via=10.0.0.1,metric=-1", "metric=N"),
            ("10.9.0.0/16,gw=10.0.0.1", "`gw=10.0.0.1`: expected PREFIX"),
        ] {
            let error = text.parse::<StaticRoute>().unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn neighbours_are_read_and_shown_alike() {
        for text in ["10.0.0.9,02:00:00:00:00:0a", "fd00::9,02:00:00:00:00:09,link=wan"] {
            assert_eq!(text.parse::<StaticNeighbor>().unwrap().to_string(), text);
        }
        for text in
            ["10.0.0.9", "10.0.0.9,02:00", "10.0.0.9,02:00:00:00:00:09:00", "10.0.0.9,02:00:00:00:00:09,x"]
        {
            assert!(
                text.parse::<StaticNeighbor>().unwrap_err().contains("expected ADDRESS,HARDWARE"),
                "{text}"
            );
        }
    }
}
