//! Checks that a router's links fit together. Certain mistakes are errors; unlikely settings give warnings.

use evenkeel::raw::wire::{IpAddress, IpCidr};

use super::error::RouterError;
use super::plan::network;
use crate::link_plan::Link;

/// Checks the links of a router. Returns warnings about settings that are allowed but hardly intended.
///
/// # Errors
/// [`RouterError::Links`] if two links have the same name, device, address or network.
pub(super) fn check(links: &[Link]) -> Result<Vec<String>, RouterError> {
    let mut warnings = Vec::new();
    for (index, link) in links.iter().enumerate() {
        addresses_of_one(link).map_err(RouterError::Links)?;
        for other in links.iter().take(index) {
            not_the_same(other, link).map_err(RouterError::Links)?;
            networks_apart(other, link, &mut warnings).map_err(RouterError::Links)?;
        }
    }
    Ok(warnings)
}

fn addresses_of_one(link: &Link) -> Result<(), String> {
    let mut all: Vec<IpAddress> = Vec::new();
    for address in link.addresses.iter().chain(&link.kernel_addresses).map(IpCidr::address) {
        if all.contains(&address) {
            return Err(format!("`{}` has {address} twice", link.name));
        }
        all.push(address);
    }
    Ok(())
}

fn not_the_same(one: &Link, other: &Link) -> Result<(), String> {
    if one.name == other.name {
        return Err(format!("two links are called `{}`", one.name));
    }
    // A TAP and a packet socket may be the two ends of one device.
    if one.device.interface() == other.device.interface() {
        return Err(format!("`{}` and `{}` are the same device: {}", one.name, other.name, one.device));
    }
    let all = |link: &Link| -> Vec<IpAddress> {
        let all = link.addresses.iter().chain(&link.kernel_addresses).map(IpCidr::address);
        all.filter(|address| !is_link_local(address)).collect()
    };
    let theirs = all(other);
    match all(one).iter().find(|address| theirs.contains(address)) {
        Some(address) => Err(format!("`{}` and `{}` have the same address, {address}", one.name, other.name)),
        None => Ok(()),
    }
}

/// Checks that two links have different networks. Hosts of one network are on one link. A part of a larger
/// network may be on another link, but its other hosts do not know that.
fn networks_apart(one: &Link, other: &Link, warnings: &mut Vec<String>) -> Result<(), String> {
    for &address in one.addresses.iter().filter(|cidr| !is_link_local(&cidr.address())) {
        for &theirs in &other.addresses {
            let (a, b) = (network(address), network(theirs));
            if a == b {
                return Err(format!("`{}` and `{}` are on the same network, {a}", one.name, other.name));
            }
            let (inner, outer) = if a.prefix_len() > b.prefix_len() { (a, b) } else { (b, a) };
            if outer.contains_addr(&inner.address()) {
                let (of_a, of_b) = (&one.name, &other.name);
                let names = if inner == a { (of_a, of_b) } else { (of_b, of_a) };
                warnings.push(format!(
                    "{inner} of `{}` is part of {outer} of `{}`, whose hosts will look for it on their own \
                     link",
                    names.0, names.1
                ));
            }
        }
    }
    Ok(())
}

fn is_link_local(address: &IpAddress) -> bool {
    match address {
        IpAddress::Ipv4(address) => address.is_link_local(),
        IpAddress::Ipv6(address) => address.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(links: &[&str]) -> Result<Vec<String>, String> {
        let links: Vec<Link> = links.iter().map(|text| text.parse().unwrap()).collect();
        check(&links).map_err(|error| error.to_string())
    }

    #[test]
    fn what_two_links_cannot_both_have_is_refused() {
        for (links, said) in [
            (["packet:a,10.0.1.1/24", "a=packet:b,10.0.2.1/24"], "two links are called `a`"),
            (
                ["x=packet:a,10.0.1.1/24", "y=packet:a,10.0.2.1/24"],
                "`x` and `y` are the same device: packet:a",
            ),
            (["x=packet:a,10.0.1.1/24", "y=tap:a,10.0.2.1/24"], "`x` and `y` are the same device"),
            (["x=xdp:a,10.0.1.1/24", "y=packet:a,10.0.2.1/24"], "`x` and `y` are the same device"),
            (["packet:a,10.0.1.1/24", "packet:b,10.0.1.1/30"], "`a` and `b` have the same address, 10.0.1.1"),
            (
                ["packet:a,fd00::1/64", "tap:b,kernel=fd00::1/64"],
                "`a` and `b` have the same address, fd00::1",
            ),
            (
                ["packet:a,10.0.1.1/24", "packet:b,10.0.1.2/24"],
                "`a` and `b` are on the same network, 10.0.1.0/24",
            ),
            (
                ["packet:a,fd00::1/64", "packet:b,fd00::2/64"],
                "`a` and `b` are on the same network, fd00::/64",
            ),
            (["packet:a,10.0.1.1/24,10.0.1.1/25", "packet:b,10.0.2.1/24"], "`a` has 10.0.1.1 twice"),
            (["tap:a,10.0.1.1/24,kernel=10.0.1.1/24", "packet:b"], "`a` has 10.0.1.1 twice"),
        ] {
            let error = checked(&links).unwrap_err();
            assert!(error.contains(said), "{links:?}: {error}");
        }
    }

    #[test]
    fn a_network_within_another_is_warned_of() {
        let said = "10.0.1.64/26 of `b` is part of 10.0.0.0/16 of `a`, whose hosts will look for it on their \
            own link";
        for links in [
            ["packet:a,10.0.0.1/16", "packet:b,10.0.1.65/26"],
            ["packet:b,10.0.1.65/26", "packet:a,10.0.0.1/16"],
        ] {
            assert_eq!(checked(&links).unwrap(), [said]);
        }
    }

    #[test]
    fn ordinary_links_pass() {
        let links = [
            "packet:a,10.0.1.1/24,10.0.3.1/24,fd00:1::1/64,fe80::1/64",
            "packet:b,10.0.2.1/24,fd00:2::1/64,fe80::1/64",
        ];
        assert_eq!(checked(&links).unwrap(), [""; 0]);
    }
}
