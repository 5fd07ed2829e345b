//! The plan of a link of a router or of an emulated network, in the form of the command line and of a
//! configuration file.

use core::fmt;
use core::str::FromStr;
use std::net::IpAddr;

use evenkeel::raw::device::{Address, DeviceSpec, LinkSpec, SpecError, parse_queues};
use evenkeel::raw::wire::IpCidr;

/// A link of a router, or of an emulated network:
/// `[NAME=]DEVICE[,queues=N][,ADDRESS/LENGTH]...[,mac=ADDRESS][,kernel=ADDRESS/LENGTH]...`. The device may be
/// `xdp:NAME@QUEUE,...`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The name of the link in rules, routes and reports; the device's name if not given.
    pub name: String,
    /// The device of the link.
    pub device: DeviceSpec,
    /// The router's addresses on it.
    pub addresses: Vec<IpCidr>,
    /// The hardware address of the link. If not given, it is one of its own, or the device's if the
    /// kernel's tables are followed.
    pub mac: Option<Address>,
    /// For a TAP: addresses of the kernel's end.
    pub kernel_addresses: Vec<IpCidr>,
}

impl FromStr for Link {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (first, settings) = first_and_settings(text);
        let (name, named) =
            first.split_once('=').map_or((None, first), |(name, device)| (Some(name), device));
        let mut device = device_of_network(named)?;
        let name = name.or(device.interface()).unwrap_or_default().to_owned();
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        {
            return Err(format!("`{name}`: expected a name of letters, digits, `-`, `_` and `.`"));
        }
        let (mut addresses, mut kernel_addresses) = (Vec::new(), Vec::new());
        let (mut mac, mut queues) = (None, None);
        for part in settings.into_iter().flat_map(|settings| settings.split(',')).map(str::trim) {
            match part.split_once('=') {
                Some(("kernel", address)) => kernel_addresses.push(own_address(address)?),
                Some(("mac", address)) if mac.is_none() => mac = Some(address.parse()?),
                Some(("queues", number)) if queues.is_none() => {
                    queues = Some(parse_queues(number).map_err(|error| error.to_string())?);
                }
                Some((key @ ("mac" | "queues"), _)) => {
                    return Err(format!("`{part}`: this link has a {key}= already"));
                }
                None if part == "share" => return Err(SHARED.to_owned()),
                _ => addresses.push(own_address(part)?),
            }
        }
        if let Some(queues) = queues {
            set_queues(&mut device, queues)?;
        }
        let link = Self { name, device, addresses, mac, kernel_addresses };
        if link.mac == Some(Address::Device) && matches!(link.device, DeviceSpec::Tap(_)) {
            let what = "`mac=device` is for packet:NAME and xdp:NAME only: at the other end of a TAP it is \
                        the kernel's";
            return Err(what.to_owned());
        }
        if !link.kernel_addresses.is_empty() && !matches!(link.device, DeviceSpec::Tap(_)) {
            return Err("`kernel=` is for tap:NAME only".to_owned());
        }
        Ok(link)
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.device)?;
        self.addresses.iter().try_for_each(|address| write!(f, ",{address}"))?;
        if let Some(mac) = &self.mac {
            write!(f, ",mac={mac}")?;
        }
        self.kernel_addresses.iter().try_for_each(|address| write!(f, ",kernel={address}"))
    }
}

/// Splits a link's text behind its device. The numbers behind `xdp:NAME@0` are queues of the device.
fn first_and_settings(text: &str) -> (&str, Option<&str>) {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let has_list = |first: &str| {
        let device = first.split_once('=').map_or(first, |(_, device)| device);
        device.trim_start().starts_with("xdp:") && device.contains('@')
    };
    let ends = |&(at, _): &(usize, &str)| {
        let next = text.get(at + 1..).and_then(|rest| rest.split(',').next()).unwrap_or_default();
        !(is_number(next.trim()) && text.get(..at).is_some_and(has_list))
    };
    match text.match_indices(',').find(ends).and_then(|(at, _)| text.split_at_checked(at)) {
        Some((first, settings)) => (first.trim(), settings.get(1..)),
        None => (text.trim(), None),
    }
}

/// The reason why a device of a router is not shared.
const SHARED: &str = "`,share` is for servers and clients: a router has its devices to itself";

/// Reads a device that has a network behind it.
fn device_of_network(text: &str) -> Result<DeviceSpec, String> {
    match text.parse() {
        Ok(LinkSpec::Device(device)) if device.is_shared() => Err(SHARED.to_owned()),
        Ok(LinkSpec::Device(device)) if device.interface().is_some() => Ok(device),
        Ok(_) | Err(SpecError::Unknown(_)) => {
            Err(format!("`{text}` names no link to a network: expected tap:NAME, packet:NAME or xdp:NAME"))
        }
        Err(error) => Err(error.to_string()),
    }
}

fn set_queues(device: &mut DeviceSpec, queues: usize) -> Result<(), String> {
    match device {
        DeviceSpec::Tap(net) | DeviceSpec::Packet(net) => net.queues = queues,
        DeviceSpec::Xdp(xdp) => {
            return Err(SpecError::RingsOfXdp(format!("{xdp},queues={queues}")).to_string());
        }
        DeviceSpec::Pcap(_) => {}
    }
    Ok(())
}

fn own_address(text: &str) -> Result<IpCidr, String> {
    let cidr =
        parse_cidr(text).filter(|cidr| !cidr.address().is_unspecified() && !cidr.address().is_multicast());
    cidr.ok_or_else(|| {
        format!("`{text}`: expected an address with its prefix length, such as 10.0.0.1/24 or fd00::1/64")
    })
}

/// Reads an address with the length of its prefix.
pub(crate) fn parse_cidr(text: &str) -> Option<IpCidr> {
    let (address, length) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let length = length.parse().ok().filter(|length| *length <= if address.is_ipv4() { 32 } else { 128 })?;
    Some(IpCidr::new(address.into(), length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links() {
        // As in a file, where the device stands alone.
        assert_eq!(device_of_network("xdp:eth1,share"), Err(SHARED.to_owned()));
        let link: Link = "lan=packet:eth1,10.0.1.1/24,fd00:1::1/64".parse().unwrap();
        assert_eq!((link.name.as_str(), link.device), ("lan", DeviceSpec::Packet("eth1".into())));
        assert_eq!(link.addresses.len(), 2);
        let link: Link = "tap:t0,10.0.1.1/24,kernel=10.0.1.2/24".parse().unwrap();
        assert_eq!((link.name.as_str(), link.kernel_addresses.len()), ("t0", 1));
        let link: Link = "packet:eth1,10.0.1.1/24,queues=4".parse().unwrap();
        assert_eq!(link.to_string(), "eth1=packet:eth1,queues=4,10.0.1.1/24");
        for text in [
            "wan=packet:eth1,mac=device",
            "wan=packet:eth1,10.0.1.1/24,mac=02:00:00:00:00:09",
            "lan=tap:t0,queues=2,10.0.1.1/24",
            "eth1=xdp:eth1",
            "lan=xdp:eth1,10.0.1.1/24,mac=device",
            "lan=xdp:eth1@2,10.0.1.1/24",
            "lan=xdp:eth1@0,1,15,fd00:1::1/64",
        ] {
            assert_eq!(text.parse::<Link>().unwrap().to_string(), text);
        }
        for (text, said) in [
            ("eth1", "names no link"),
            ("cable", "expected tap:NAME, packet:NAME or xdp:NAME"),
            ("packet:eth1,10.0.0.1", "`10.0.0.1`: expected an address with its prefix length"),
            ("packet:eth1,224.0.0.1/4", "expected an address with"),
            ("packet:eth1,kernel=10.0.0.1/24", "tap:NAME only"),
            ("a b=packet:eth1", "expected a name of letters"),
            ("packet:eth1,mac=eth1", "`eth1`: expected own, device, random"),
            ("packet:eth1,mac=own,mac=own", "`mac=own`: this link has a mac= already"),
            ("packet:eth1,queues=4,queues=2", "`queues=2`: this link has a queues= already"),
            ("packet:eth1,queues=0", "from 1 to 16"),
            ("pcap:a.pcapng,queues=4", "`pcap:a.pcapng` names no link to a network"),
            ("tap:t0,mac=device", "packet:NAME and xdp:NAME only"),
            ("xdp:eth1@0,1,10.0.0.1", "`10.0.0.1`: expected an address with its prefix length"),
            ("xdp:eth1@0,1,share", "a router has its devices to itself"),
            ("xdp:eth1,0,1", "`0`: expected an address with its prefix length"),
            ("packet:eth1@0,1", "`eth1@0`: expected a name of letters"),
            ("xdp:eth1@0,99", "`@0,99`: expected numbers of queues"),
            ("xdp:eth1,10.0.1.1/24,queues=2", "`xdp:eth1,queues=2`: AF_XDP has a ring for each queue"),
            ("xdp:eth1,kernel=10.0.0.1/24", "tap:NAME only"),
        ] {
            let error = text.parse::<Link>().unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
