//! Addresses to connect from.

use std::fmt;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::str::FromStr;

use crate::failure::Failure;

/// A range of addresses of one family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sources {
    text: String,
    addresses: Vec<IpAddr>,
}

/// The most addresses in a range: enough to connect to every port.
const ADDRESSES_MAX: usize = 4_096;

impl Sources {
    pub(super) fn addresses(&self) -> Vec<IpAddr> {
        self.addresses.clone()
    }

    /// Checks that these are addresses of this machine.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let foreign = self.addresses.iter().find(|address| {
            let bound = UdpSocket::bind((**address, 0));
            bound.is_err_and(|error| error.kind() == ErrorKind::AddrNotAvailable)
        });
        match foreign {
            Some(address) => Err(Failure::Machine(format!(
                "--bind: {address} is no address of this machine: `ip address` lists them"
            ))),
            None => Ok(()),
        }
    }

    pub(super) fn first(&self) -> IpAddr {
        self.addresses.first().copied().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
    }
}

impl fmt::Display for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Sources {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || "expected an address, or two such as 127.0.0.2-127.0.0.9".to_owned();
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let addresses: Vec<IpAddr> = match (first.parse(), last.parse()) {
            (Ok(IpAddr::V4(first)), Ok(IpAddr::V4(last))) => {
                let row = first.to_bits()..=last.to_bits();
                row.take(ADDRESSES_MAX + 1).map(|bits| Ipv4Addr::from_bits(bits).into()).collect()
            }
            (Ok(IpAddr::V6(first)), Ok(IpAddr::V6(last))) => {
                let row = first.to_bits()..=last.to_bits();
                row.take(ADDRESSES_MAX + 1).map(|bits| Ipv6Addr::from_bits(bits).into()).collect()
            }
            _ => return Err(expected()),
        };
        match addresses.len() {
            0 => Err(format!("{last} is before {first}")),
            1..=ADDRESSES_MAX => Ok(Self { text: text.to_owned(), addresses }),
            _ => Err(format!("these are more than {ADDRESSES_MAX} addresses")),
        }
    }
}

/// Returns the number of the kernel's ports for connections from one address to one server.
pub(super) fn ports_per_address() -> u64 {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut ends = range.split_whitespace().filter_map(|end| end.parse::<u64>().ok());
    match (ends.next(), ends.next()) {
        (Some(first), Some(last)) => (last + 1).saturating_sub(first),
        // The default according to ip(7).
        _ => 28_232,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_alone_or_in_a_row() {
        let read = |text: &str| text.parse::<Sources>().map(|sources| sources.addresses);
        let of = |texts: &[&str]| Ok(texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<IpAddr>>());
        assert_eq!(read("127.0.0.2"), of(&["127.0.0.2"]));
        assert_eq!(
            read("127.0.0.254-127.0.1.1"),
            of(&["127.0.0.254", "127.0.0.255", "127.0.1.0", "127.0.1.1"])
        );
        assert_eq!(read("fd77::1-fd77::2"), of(&["fd77::1", "fd77::2"]));
        for (wrong, why) in [
            ("127.0.0.9-127.0.0.2", "before"),
            ("127.0.0.2-::1", "such as"),
            ("here", "such as"),
            ("10.0.0.0-10.255.255.255", "more than"),
            ("::-ffff::", "more than"),
        ] {
            assert!(read(wrong).is_err_and(|error| error.contains(why)), "{wrong}");
        }
        assert!(ports_per_address() > 0);
    }
}
