//! Names of links on the command line.

use core::fmt;
use core::str::FromStr;
use std::path::PathBuf;

use evenkeel_core::wire::IpCidr;

use crate::capture::{Pace, Replay, ReplayOptions};
use crate::clock::Clock;
use crate::device::{Device, QUEUES_MAX};
use crate::error::LinkError;
use crate::hardware::Address;
use crate::listen::{Listen, Listener};
use crate::netdev::{DeviceName, refuse_kernel_forwarding};
use crate::packet::{Packet, PacketOptions};
use crate::tap::{Tap, TapOptions};
use crate::xdp::{Xdp, XdpOptions};

/// A link: `cable`, `cable:QUEUES`, `tap:NAME`, `packet:NAME`, both also with `,queues=N`,
/// `xdp:NAME` or `xdp:NAME@QUEUE,...`, both also with `,share`, or `pcap:FILE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkSpec {
    /// An in-memory link between two hosts of one process.
    Cable {
        /// The number of receive rings at each end.
        queues: usize,
    },
    /// A device of the operating system.
    Device(DeviceSpec),
}

/// A link that [`open`] opens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceSpec {
    /// A TAP device.
    Tap(NetSpec),
    /// An existing network device, through packet sockets.
    Packet(NetSpec),
    /// An existing network device, through AF_XDP.
    Xdp(XdpSpec),
    /// A capture file to play.
    Pcap(PathBuf),
}

/// A network device, and the number of receive rings for its flows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetSpec {
    /// The name of the device.
    pub name: String,
    /// Receive rings, from 1 to [`QUEUES_MAX`].
    pub queues: usize,
}

/// A network device whose frames an XDP program classifies, and the queues to use of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XdpSpec {
    /// The name of the device.
    pub name: String,
    /// The numbers of the queues; none for all that the device has.
    pub queues: Vec<u32>,
    /// Whether the kernel keeps the device's addresses and shares them: [`XdpOptions::shared`].
    pub shared: bool,
}

impl DeviceSpec {
    /// Returns the name of the kernel's network interface; `None` for a capture file.
    #[must_use]
    pub fn interface(&self) -> Option<&str> {
        match self {
            Self::Tap(device) | Self::Packet(device) => Some(&device.name),
            Self::Xdp(device) => Some(&device.name),
            Self::Pcap(_) => None,
        }
    }

    /// Returns whether several hosts can share the device: [`open_queues`].
    #[must_use]
    pub const fn spreads_over_hosts(&self) -> bool {
        matches!(self, Self::Packet(_) | Self::Xdp(XdpSpec { shared: false, .. }))
    }

    /// Returns whether the kernel keeps the device's addresses and shares them with the host.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        matches!(self, Self::Xdp(XdpSpec { shared: true, .. }))
    }
}

impl From<&str> for NetSpec {
    fn from(name: &str) -> Self {
        Self { name: name.to_owned(), queues: 1 }
    }
}

/// The most receive rings of a cable.
pub const CABLE_QUEUES_MAX: usize = 64;

/// An error in the name of a link.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// The text is not the name of a kind of link.
    #[error(
        "`{0}` names no link; expected `cable`, `cable:QUEUES`, `tap:NAME` or `packet:NAME` (both also with \
         `,queues=N`), `xdp:NAME` (also with `,share`), or `pcap:FILE`"
    )]
    Unknown(String),
    /// The part after the colon is missing.
    #[error("`{kind}` needs a {what}: {kind}:{example}")]
    Incomplete {
        /// The kind of link.
        kind: &'static str,
        /// The missing part.
        what: &'static str,
        /// An example.
        example: &'static str,
    },
    /// The text is not a number of queues.
    #[error("`cable:{0}`: expected a number of queues from 1 to {CABLE_QUEUES_MAX}")]
    CableQueues(String),
    /// The text is not a number of queues of a network device.
    #[error("`queues={0}`: expected a number of queues from 1 to {QUEUES_MAX}")]
    Queues(String),
    /// The text after the name of a network device is no setting.
    #[error("`{0}` is no setting of a device; expected `queues=N`")]
    Setting(String),
    /// The text cannot be the name of a network device.
    #[error("{0}")]
    BadName(String),
    /// A number of receive rings was given for AF_XDP.
    #[error("`xdp:{0}`: AF_XDP has a ring for each queue of the device; to use some of them: xdp:eth1@0,1")]
    RingsOfXdp(String),
    /// The text is not a list of a device's queues.
    #[error("`@{0}`: expected numbers of queues of the device, such as `@0` or `@0,1`, at most {QUEUES_MAX}")]
    DeviceQueues(String),
}

impl FromStr for LinkSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let (kind, rest) = text.split_once(':').map_or((text, None), |(kind, rest)| (kind, Some(rest)));
        let device = |kind: &'static str, example: &'static str| {
            let (name, queues) = rest.unwrap_or("").split_once(QUEUES).unwrap_or((rest.unwrap_or(""), "1"));
            if name.is_empty() {
                return Err(SpecError::Incomplete { kind, what: "device name", example });
            }
            if let Some((_, setting)) = name.split_once(',').filter(|(_, setting)| setting.contains('=')) {
                return Err(SpecError::Setting(setting.to_owned()));
            }
            let name = DeviceName::new(name).map_err(|error| SpecError::BadName(error.to_string()))?;
            Ok(NetSpec { name: name.as_str().to_owned(), queues: parse_queues(queues)? })
        };
        match kind {
            "cable" => Ok(Self::Cable { queues: rest.map_or(Ok(1), cable_queues)? }),
            "tap" => Ok(Self::Device(DeviceSpec::Tap(device("tap", "ek0")?))),
            "packet" => Ok(Self::Device(DeviceSpec::Packet(device("packet", "eth1")?))),
            "pcap" => {
                let file = rest.filter(|file| !file.is_empty());
                let missing = SpecError::Incomplete { kind: "pcap", what: "file", example: "capture.pcapng" };
                Ok(Self::Device(DeviceSpec::Pcap(file.ok_or(missing)?.into())))
            }
            "xdp" => Ok(Self::Device(DeviceSpec::Xdp(xdp(rest.unwrap_or(""))?))),
            _ => Err(SpecError::Unknown(text.to_owned())),
        }
    }
}

/// Parses the name of a device, the numbers of its queues, and whether it is shared: `eth1`, `eth1@0,1`, or
/// `eth1,share`.
fn xdp(text: &str) -> Result<XdpSpec, SpecError> {
    let (text, shared) = text.strip_suffix(SHARE).map_or((text, false), |text| (text, true));
    let (name, numbers) = text.split_once('@').map_or((text, None), |(name, list)| (name, Some(list)));
    if name.is_empty() {
        return Err(SpecError::Incomplete { kind: "xdp", what: "device name", example: "eth1" });
    }
    if name.contains(QUEUES) {
        return Err(SpecError::RingsOfXdp(text.to_owned()));
    }
    let wrong = |list: &str| SpecError::DeviceQueues(list.to_owned());
    let parse = |list: &str| {
        let numbers: Result<Vec<u32>, _> = list.split(',').map(|number| number.parse()).collect();
        let mut numbers = numbers.map_err(|_| wrong(list))?;
        numbers.sort_unstable();
        numbers.dedup();
        if numbers.len() > QUEUES_MAX || numbers.iter().any(|number| *number as usize >= QUEUES_MAX) {
            return Err(wrong(list));
        }
        Ok(numbers)
    };
    let name = DeviceName::new(name).map_err(|error| SpecError::BadName(error.to_string()))?;
    let queues = numbers.map_or(Ok(Vec::new()), parse)?;
    Ok(XdpSpec { name: name.as_str().to_owned(), queues, shared })
}

/// The text between a device's name and its number of receive rings.
const QUEUES: &str = ",queues=";

/// The text after the name of a device whose addresses the kernel shares.
const SHARE: &str = ",share";

fn cable_queues(text: &str) -> Result<usize, SpecError> {
    let queues = text.parse().ok().filter(|queues| (1..=CABLE_QUEUES_MAX).contains(queues));
    queues.ok_or_else(|| SpecError::CableQueues(text.to_owned()))
}

/// Parses the number of receive rings into which the flows of a network device are distributed.
///
/// # Errors
/// [`SpecError::Queues`]
pub fn parse_queues(text: &str) -> Result<usize, SpecError> {
    let queues = text.parse().ok().filter(|queues| (1..=QUEUES_MAX).contains(queues));
    queues.ok_or_else(|| SpecError::Queues(text.to_owned()))
}

impl fmt::Display for LinkSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cable { queues: 1 } => f.write_str("cable"),
            Self::Cable { queues } => write!(f, "cable:{queues}"),
            Self::Device(device) => device.fmt(f),
        }
    }
}

impl fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tap(device) => write!(f, "tap:{device}"),
            Self::Packet(device) => write!(f, "packet:{device}"),
            Self::Xdp(device) => write!(f, "xdp:{device}"),
            Self::Pcap(path) => write!(f, "pcap:{}", path.display()),
        }
    }
}

impl fmt::Display for XdpSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        for (number, before) in self.queues.iter().zip(core::iter::once('@').chain(core::iter::repeat(','))) {
            write!(f, "{before}{number}")?;
        }
        f.write_str(if self.shared { SHARE } else { "" })
    }
}

impl fmt::Display for NetSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if self.queues > 1 { write!(f, "{QUEUES}{}", self.queues) } else { Ok(()) }
    }
}

/// The choices of a host when it opens its device, of whatever kind that is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OpenOptions {
    /// The hardware address of the host on a network device. With [`Address::Device`], a packet socket is
    /// refused while the kernel forwards the frames of that device.
    pub address: Address,
    /// Addresses for the kernel's end of a TAP device.
    pub kernel_addresses: Vec<IpCidr>,
    /// Whether a device that is opened through AF_XDP forwards packets for a router: [`XdpOptions::offload`].
    pub offload: bool,
}

/// Opens a device with the default options of its kind. `clock` is the clock of the host's loop.
///
/// # Errors
/// [`LinkError`] says what to do; nothing is left behind.
pub fn open(spec: &DeviceSpec, clock: Clock) -> Result<Box<dyn Device>, LinkError> {
    open_with(spec, &OpenOptions::default(), clock)
}

/// Opens a device for a host. `clock` is the clock of the host's loop.
///
/// # Errors
/// [`LinkError`] says what to do; nothing is left behind.
pub fn open_with(
    spec: &DeviceSpec,
    options: &OpenOptions,
    clock: Clock,
) -> Result<Box<dyn Device>, LinkError> {
    let address = options.address;
    Ok(match spec {
        DeviceSpec::Tap(NetSpec { name, queues }) => {
            let (queues, kernel_addresses) = (*queues, options.kernel_addresses.clone());
            let options = TapOptions { queues, kernel_addresses, address, ..TapOptions::default() };
            Box::new(Tap::open(name, &options)?)
        }
        DeviceSpec::Packet(device) => {
            Box::new(Packet::open(&device.name, &packet_options(device, address)?)?)
        }
        DeviceSpec::Xdp(device) => Box::new(Xdp::open(&device.name, &xdp_options(device, options))?),
        DeviceSpec::Pcap(path) => Box::new(Replay::open(path, &ReplayOptions::default(), clock)?),
    })
}

/// Opens a device as a device for each of `hosts` hosts ([`Packet::open_queues`], [`Xdp::open_queues`]). A
/// TAP or a capture has no parts: all of it is the only element.
///
/// # Errors
/// [`LinkError`] says what to do; nothing is left behind.
pub fn open_queues(
    spec: &DeviceSpec,
    options: &OpenOptions,
    hosts: usize,
    clock: Clock,
) -> Result<Vec<Box<dyn Device>>, LinkError> {
    fn boxed(devices: Vec<impl Device + 'static>) -> Vec<Box<dyn Device>> {
        devices.into_iter().map(|device| -> Box<dyn Device> { Box::new(device) }).collect()
    }
    Ok(match spec {
        DeviceSpec::Packet(device) => {
            let options = packet_options(device, options.address)?;
            boxed(Packet::open_queues(&device.name, &options, hosts)?)
        }
        DeviceSpec::Xdp(device) => {
            boxed(Xdp::open_queues(&device.name, &xdp_options(device, options), hosts)?)
        }
        DeviceSpec::Tap(_) | DeviceSpec::Pcap(_) => vec![open_with(spec, options, clock)?],
    })
}

fn xdp_options(device: &XdpSpec, options: &OpenOptions) -> XdpOptions {
    let (queues, shared) = (device.queues.clone(), device.shared);
    let OpenOptions { address, offload, .. } = *options;
    XdpOptions { queues, address, shared, offload, ..XdpOptions::default() }
}

fn packet_options(device: &NetSpec, address: Address) -> Result<PacketOptions, LinkError> {
    if address == Address::Device {
        refuse_kernel_forwarding(&device.name)?;
    }
    Ok(PacketOptions { queues: device.queues, address, ..PacketOptions::default() })
}

/// Opens a device for a packet monitor. A network device is only listened to, with one receive ring of
/// `ring_pkts` times 2 KiB. Through AF_XDP, all frames of the device are taken from the kernel, and `listen`
/// means nothing. A capture is read as fast as possible.
///
/// # Errors
/// [`LinkError`] says what to do; nothing is left behind. [`LinkError::ManyRings`] if `spec` wants more than
/// one.
pub fn listen(
    spec: &DeviceSpec,
    listen: &Listen,
    ring_pkts: usize,
    clock: Clock,
) -> Result<Box<dyn Device>, LinkError> {
    if let DeviceSpec::Tap(device) | DeviceSpec::Packet(device) = spec
        && device.queues > 1
    {
        return Err(LinkError::ManyRings { name: device.name.clone(), queues: device.queues });
    }
    Ok(match spec {
        DeviceSpec::Tap(device) => Box::new(Tap::open(&device.name, &TapOptions::default())?),
        DeviceSpec::Packet(NetSpec { name, .. }) => Box::new(Listener::open(name, listen, ring_pkts)?),
        DeviceSpec::Xdp(XdpSpec { name, queues, .. }) => {
            let (queues, everything) = (queues.clone(), true);
            Box::new(Xdp::open(name, &XdpOptions { ring_pkts, queues, everything, ..XdpOptions::default() })?)
        }
        DeviceSpec::Pcap(path) => {
            let options = ReplayOptions { pace: Pace::AtOnce, monitored: true, ..ReplayOptions::default() };
            Box::new(Replay::open(path, &options, clock)?)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_shown_alike() {
        let device = LinkSpec::Device;
        let xdp = |queues: &[u32], shared| {
            device(DeviceSpec::Xdp(XdpSpec { name: "eth1".into(), queues: queues.to_vec(), shared }))
        };
        for (text, spec) in [
            ("cable", LinkSpec::Cable { queues: 1 }),
            ("cable:4", LinkSpec::Cable { queues: 4 }),
            ("tap:ek0", device(DeviceSpec::Tap("ek0".into()))),
            ("packet:eth0.100", device(DeviceSpec::Packet("eth0.100".into()))),
            ("packet:e,0,queues=4", device(DeviceSpec::Packet(NetSpec { name: "e,0".into(), queues: 4 }))),
            ("tap:ek0,queues=16", device(DeviceSpec::Tap(NetSpec { name: "ek0".into(), queues: 16 }))),
            ("xdp:eth1", xdp(&[], false)),
            ("xdp:eth1@0,2", xdp(&[0, 2], false)),
            ("xdp:eth1,share", xdp(&[], true)),
            ("xdp:eth1@0,2,share", xdp(&[0, 2], true)),
            ("pcap:/tmp/a:b.pcapng", device(DeviceSpec::Pcap("/tmp/a:b.pcapng".into()))),
        ] {
            assert_eq!(text.parse(), Ok(spec.clone()));
            assert_eq!(spec.to_string(), text);
        }
        assert_eq!("cable:1".parse(), Ok(LinkSpec::Cable { queues: 1 }));
    }

    #[test]
    fn a_monitor_that_is_to_have_several_rings_is_refused() {
        for text in ["tap:no-such-dev,queues=2", "packet:no-such-dev,queues=4"] {
            let Ok(LinkSpec::Device(spec)) = text.parse() else { panic!("{text}") };
            let all = Listen { filter: None, promiscuous: false };
            let error = listen(&spec, &all, 32, Clock::start()).unwrap_err();
            assert!(error.to_string().contains("without `,queues="), "{error}");
        }
    }

    #[test]
    fn what_is_wrong_and_what_was_expected_is_said() {
        let error = |text: &str| text.parse::<LinkSpec>().unwrap_err().to_string();
        assert!(error("tun:ek0").contains("`tun:ek0` names no link; expected `cable`"));
        assert!(error("").contains("expected") && error("").contains("`,queues=N`"));
        assert_eq!(error("tap"), "`tap` needs a device name: tap:ek0");
        assert_eq!(error("packet:"), "`packet` needs a device name: packet:eth1");
        assert_eq!(error("pcap:"), "`pcap` needs a file: pcap:capture.pcapng");
        for bad in ["cable:0", "cable:65", "cable:", "cable:x"] {
            assert!(error(bad).contains("from 1 to 64"), "{bad}");
        }
        for bad in ["tap:a,queues=0", "packet:a,queues=17", "tap:a,queues=", "packet:a,queues=2,queues=2"] {
            assert!(error(bad).contains("from 1 to 16"), "{bad}");
        }
        assert_eq!(error("tap:a,queue=2"), "`queue=2` is no setting of a device; expected `queues=N`");
        assert_eq!(error("tap:,queues=2"), "`tap` needs a device name: tap:ek0");
        assert!(error("tap:a/b").contains("cannot be a network device's name"));
        assert_eq!(error("xdp:@1"), "`xdp` needs a device name: xdp:eth1");
        assert!(error("xdp:a,queues=2").contains("xdp:eth1@0,1"));
        for bad in ["xdp:a@", "xdp:a@x", "xdp:a@16", "xdp:a@0,"] {
            assert!(error(bad).contains("numbers of queues"), "{bad}");
        }
    }
}
