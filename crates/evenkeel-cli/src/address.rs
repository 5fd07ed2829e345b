//! Addresses on the command line.

use std::net::{IpAddr, SocketAddr};

use evenkeel::raw::wire::{IpAddress, IpCidr, IpEndpoint};

/// Reads a host's address with its prefix length: `10.77.0.2/24`, `fd77::2/64`.
pub(crate) fn cidr(text: &str) -> Result<IpCidr, String> {
    let expected =
        || "expected an address with its prefix length, such as 10.77.0.2/24 or fd77::2/64".to_owned();
    let (address, length) = text.split_once('/').ok_or_else(expected)?;
    let address: IpAddr = address.parse().map_err(|_| expected())?;
    let length: u8 = length.parse().map_err(|_| expected())?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    if length > longest {
        return Err(format!("expected a prefix length of at most {longest}"));
    }
    if address.is_unspecified() || address.is_multicast() {
        return Err("expected the address of one host, not of none or of a group".to_owned());
    }
    Ok(IpCidr::new(IpAddress::from(address), length))
}

/// Reads a multicast group: `239.1.2.3`, `ff15::77`.
pub(crate) fn group(text: &str) -> Result<IpAddress, String> {
    let group = text.parse::<IpAddr>().ok().filter(IpAddr::is_multicast).map(IpAddress::from);
    group.ok_or_else(|| "expected a multicast group, such as 239.1.2.3 or ff15::77".to_owned())
}

/// Reads an address without a prefix length: `10.77.0.1`, `fd77::1`.
pub(crate) fn host(text: &str) -> Result<IpAddress, String> {
    let address = text.parse::<IpAddr>().map(IpAddress::from);
    address.map_err(|_| "expected an address, such as 10.77.0.1 or fd77::1".to_owned())
}

/// Reads an address and a port above zero: `10.77.0.1:9`, `[fd77::1]:9`.
pub(crate) fn endpoint(text: &str) -> Result<IpEndpoint, String> {
    let expected = "expected an address and a port above 0, such as 10.77.0.1:9 or [fd77::1]:9";
    let endpoint = text.parse::<SocketAddr>().ok().filter(|at| at.port() > 0);
    endpoint.map(IpEndpoint::from).ok_or_else(|| expected.to_owned())
}

/// Returns the address of another host of the network of `of`.
pub(crate) fn neighbour(of: IpCidr) -> Result<IpCidr, String> {
    let beside = [3, 1].into_iter().map(|bits| with_last_byte(of.address(), bits));
    let is_host = |other: &IpAddress| match (of, *other) {
        (IpCidr::Ipv4(net), IpAddress::Ipv4(other)) => {
            net.contains_addr(&other) && net.network().address() != other && net.broadcast() != Some(other)
        }
        (net, other) => net.contains_addr(&other),
    };
    let other = beside.into_iter().find(is_host).map(|other| IpCidr::new(other, of.prefix_len()));
    other.ok_or_else(|| format!("no room for a second host in {of}: expected a shorter prefix"))
}

/// Returns `address` with `bits` of its last byte inverted.
fn with_last_byte(address: IpAddress, bits: u8) -> IpAddress {
    match IpAddr::from(address) {
        IpAddr::V4(v4) => IpAddr::from((u32::from(v4) ^ u32::from(bits)).to_be_bytes()).into(),
        IpAddr::V6(v6) => IpAddr::from((u128::from(v6) ^ u128::from(bits)).to_be_bytes()).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_both_families() {
        assert_eq!(cidr("10.77.0.2/24").unwrap().to_string(), "10.77.0.2/24");
        assert_eq!(cidr("fd77::2/64").unwrap().to_string(), "fd77::2/64");
        for wrong in [
            "10.77.0.2",
            "10.77.0.2/33",
            "fd77::2/129",
            "10.77.0/24",
            "x/24",
            "10.0.0.1/-1",
            "224.0.0.1/4",
            "0.0.0.0/0",
        ] {
            assert!(cidr(wrong).is_err_and(|e| e.starts_with("expected")), "{wrong}");
        }
    }

    #[test]
    fn a_network_has_a_second_host_or_not() {
        let other = |text| neighbour(cidr(text).unwrap()).map(|other| other.to_string());
        assert_eq!(other("10.77.0.2/24"), Ok("10.77.0.1/24".into()));
        assert_eq!(other("10.77.0.1/30"), Ok("10.77.0.2/30".into()));
        assert_eq!(other("10.77.0.252/24"), Ok("10.77.0.253/24".into()));
        assert_eq!(other("10.77.0.3/24"), Ok("10.77.0.2/24".into()));
        assert_eq!(other("fd77::2/64"), Ok("fd77::1/64".into()));
        assert!(other("10.77.0.2/32").is_err() && other("fd77::2/128").is_err());
    }

    #[test]
    fn groups_and_endpoints() {
        assert!(group("239.1.2.3").is_ok() && group("ff15::77").is_ok() && group("10.0.0.1").is_err());
        assert_eq!(endpoint("[fd77::1]:9").unwrap().port, 9);
        assert!(endpoint("10.77.0.1").is_err() && endpoint("10.77.0.1:0").is_err());
        assert!(host("fd77::1").is_ok() && host("router").is_err());
    }
}
