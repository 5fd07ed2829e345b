//! The arguments of all commands that run a server on a host.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use evenkeel::raw::device::{Address, LinkSpec};
use evenkeel::raw::host::Config;
use evenkeel::raw::kernel::addresses_on;
use evenkeel::raw::receive::Architecture;
use evenkeel::raw::wire::{IpAddress, IpCidr};
use evenkeel_apps::captures::Embedded;
use evenkeel_apps::host_setup::HostSetup;

use super::Place;
use crate::failure::Failure;
use crate::receiving::Receiving;
use crate::supervision::ServiceArguments;
use crate::{address, quantity, suggest};

/// Arguments that give the place of a host and the length of its run.
#[derive(Debug, Args)]
pub(crate) struct HostArguments {
    /// Receive from LINK: tap:NAME, packet:NAME, xdp:NAME(,share), pcap:FILE or cable.
    #[arg(value_name = "LINK", required = true, value_parser = suggest::link(), hide_possible_values = true)]
    link: Option<LinkSpec>,
    /// Use ADDRESS with its prefix length, IPv4 or IPv6; repeat for more [default: 10.77.0.2/24 and
    /// fd77::2/64].
    #[arg(long, value_name = "ADDRESS/LENGTH", value_parser = address::cidr)]
    address: Vec<IpCidr>,
    /// On tap: give ADDRESS to the kernel's end, so that the kernel's programs reach this host at once;
    /// repeat for more.
    #[arg(long, value_name = "ADDRESS/LENGTH", value_parser = address::cidr)]
    kernel_address: Vec<IpCidr>,
    /// Reach other networks through the router at ADDRESS; one for IPv4 and one for IPv6.
    #[arg(long, value_name = "ADDRESS", value_parser = address::host)]
    gateway: Vec<IpAddress>,
    /// Use this hardware address: own (derived from the machine and the name), device (that of packet:NAME,
    /// where the network accepts no other), random, or one such as 02:00:00:00:00:09 [default: own].
    #[arg(
        long, value_name = "ADDRESS", value_parser = suggest::mac(), hide_possible_values = true
    )]
    mac: Option<Address>,
    /// On packet and xdp: serve on these processors, such as 0,1.
    #[arg(long, value_name = "CPU,...", value_delimiter = ',', conflicts_with_all = ["capture", "dump"])]
    pub(crate) cores: Vec<usize>,
    /// Stop after TIME, such as 10s [default: at Ctrl-C; on cable after 5s].
    #[arg(long, value_name = "TIME", value_parser = quantity::time)]
    pub(crate) duration: Option<Duration>,
    #[command(flatten)]
    pub(crate) service: ServiceArguments,
    /// Write every incoming and outgoing frame to a capture file; not on cable.
    #[arg(long, value_name = "FILE.pcapng")]
    dump: Option<PathBuf>,
    /// Write incoming and outgoing frames to a pcapng file: at most `snaplen` bytes of each, and only frames
    /// that match `filter`, in tcpdump's language. Frames that the disk cannot take are counted.
    #[arg(long, value_name = "FILE[,snaplen=N][,filter=EXPRESSION]", value_parser = super::capture::inside,
          value_hint = clap::ValueHint::FilePath)]
    pub(crate) capture: Option<Embedded>,
    /// Print counters to standard error every TIME [default: on a terminal all the time].
    #[arg(long, value_name = "TIME", value_parser = quantity::period)]
    pub(crate) stats_interval: Option<Duration>,
    /// Print the final counters as one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

impl HostArguments {
    pub(crate) fn setup(&self, receiving: &Receiving) -> HostSetup {
        let config = receiving.on(self.link.as_ref()).config(1);
        HostSetup { addresses: self.addresses(), gateways: self.gateway.clone(), config }
    }

    fn addresses(&self) -> Vec<IpCidr> {
        if let Some(device) = self.shared_device() {
            // If it has none, opening it says so. Nobody types an address that needs a zone.
            let addresses = addresses_on(device).unwrap_or_default().into_iter();
            return addresses.filter(|cidr| !is_link_local(&cidr.address())).collect();
        }
        if self.address.is_empty() {
            return ["10.77.0.2/24", "fd77::2/64"].into_iter().flat_map(address::cidr).collect();
        }
        self.address.clone()
    }

    /// Returns the link. The kernel's sockets, which a command may use in its place, have none.
    pub(crate) fn link(&self) -> Result<&LinkSpec, Failure> {
        self.link.as_ref().ok_or_else(|| Failure::Usage("no LINK".to_owned()))
    }

    /// Returns the name of the device whose addresses the kernel shares.
    fn shared_device(&self) -> Option<&str> {
        match &self.link {
            Some(LinkSpec::Device(device)) if device.is_shared() => device.interface(),
            _ => None,
        }
    }

    pub(super) fn place(&self) -> Result<Place, Failure> {
        let (link, own) = (self.link()?, self.addresses());
        super::refuse_if_shared(link, !self.address.is_empty(), "--address")?;
        super::place(link, &own, &self.kernel_address, &self.gateway, self.mac, self.dump.as_ref())
    }
}

fn is_link_local(address: &IpAddress) -> bool {
    matches!(address, IpAddress::Ipv6(address) if address.is_unicast_link_local())
}

/// Returns the setup of the peer on a cable: a host with another address on the same network.
pub(crate) fn other_end(setup: &HostSetup) -> Result<HostSetup, Failure> {
    let [first, ..] = setup.addresses[..] else { return Err(Failure::Usage("no address".into())) };
    let neighbour = address::neighbour(first).map_err(Failure::Usage)?;
    let mut config = Config { seed: setup.config.seed.wrapping_add(1), ..Config::of(Architecture::SoftLrp) };
    // A port serves one connection a second to the same server. So clients that close first need all ports
    // (RFC 6056, 3.2).
    config.tcp.ports = 1_024..=u16::MAX;
    Ok(HostSetup { addresses: vec![neighbour], gateways: Vec::new(), config })
}
