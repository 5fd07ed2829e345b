//! The host of a load generator that uses evenkeel's TCP.

use std::net::{IpAddr, SocketAddr};

use clap::Args;
use evenkeel::net::Net;
use evenkeel::raw::device::{Address, DeviceSpec, LinkSpec};
use evenkeel::raw::host::Config;
use evenkeel::raw::receive::Architecture;
use evenkeel::raw::wire::{IpAddress, IpCidr, IpEndpoint};
use evenkeel_apps::host_setup::{HostSetup, Limits};
use evenkeel_apps::load::{self, Hosts, News, OnHost, Plan, Request, Tasks};

use crate::command::Place;
use crate::failure::Failure;
use crate::receiving::Receiving;
use crate::{address, quantity, suggest};

/// Options of a generator that runs on an evenkeel host.
#[derive(Debug, Args)]
pub(super) struct Own {
    /// Use evenkeel's TCP, on cable, tap:NAME, packet:NAME or xdp:NAME [default: the kernel's].
    #[arg(
        long, value_name = "LINK", value_parser = suggest::own_link(), hide_possible_values = true
    )]
    on: Option<LinkSpec>,
    /// With --on: send from ADDRESS with its prefix length [default: 10.77.0.2/24, or fd77::2/64].
    #[arg(long, value_name = "ADDRESS/LENGTH", value_parser = address::cidr, requires = "on")]
    from: Option<IpCidr>,
    /// With --on tap:NAME: give ADDRESS to the kernel's end; repeat for more.
    #[arg(long, value_name = "ADDRESS/LENGTH", value_parser = address::cidr, requires = "on")]
    kernel_address: Vec<IpCidr>,
    /// With --on: reach other networks through the router at ADDRESS.
    #[arg(long, value_name = "ADDRESS", value_parser = address::host, requires = "on")]
    gateway: Option<IpAddress>,
    /// With --on: use this hardware address, as for `evenkeel send` [default: own].
    #[arg(
        long, value_name = "ADDRESS", requires = "on",
        value_parser = suggest::mac(), hide_possible_values = true
    )]
    mac: Option<Address>,
    /// With --on cable: serve a document of N bytes there [default: 1259].
    #[arg(long, value_name = "N", value_parser = quantity::count, requires = "on")]
    size: Option<u64>,
}

/// Bytes of a response in the paper's measurements.
const SIZE: u64 = 1_259;

impl Own {
    pub(super) fn is_chosen(&self) -> bool {
        self.on.is_some()
    }

    pub(super) fn name(&self) -> String {
        self.on.as_ref().map_or_else(|| "kernel".to_owned(), ToString::to_string)
    }

    /// Returns the generator's own address if it was given.
    pub(super) fn from(&self) -> Option<IpAddr> {
        self.from.map(|from| from.address().into())
    }

    /// Returns whether the link is a cable.
    pub(super) const fn is_cable(&self) -> bool {
        matches!(self.on, Some(LinkSpec::Cable { .. }))
    }

    /// Carries out a load by hyper's client, on sockets of a host. `to` has all addresses of the server.
    pub(super) fn run_tasks(
        &self,
        to: &[SocketAddr],
        receiving: &Receiving,
        tasks: &Tasks<'_>,
        limits: Limits,
        watch: impl FnMut(News<'_>),
    ) -> Result<OnHost, Failure> {
        let (link, setup, place) = self.checked(to, receiving, tasks.plan.seed)?;
        let load::Place::Device(at) = place else { return Err(Failure::Usage("--on cable".to_owned())) };
        let mut host = Net::builder().link(&link.to_string()).mac(at.mac).config(setup.config);
        for address in &setup.addresses {
            host = host.address(&address.to_string());
        }
        for address in &at.kernel_addresses {
            host = host.kernel_address(&address.to_string());
        }
        for gateway in &setup.gateways {
            host = host.gateway(&gateway.to_string());
        }
        let net = host.open().map_err(|e| Failure::Machine(e.to_string()))?;
        let done = tasks.run_on_net(&net, to.to_vec(), limits, watch);
        let (measured, effort, hosts) = done.map_err(super::protocols::failure)?;
        Ok(OnHost { measured, effort, hosts })
    }

    /// Carries out a plan. `to` has all addresses of the server.
    pub(super) fn run(
        &self,
        to: &[SocketAddr],
        receiving: &Receiving,
        generator: (Plan, Request),
        limits: Limits,
        watch: impl FnMut(News<'_>),
    ) -> Result<OnHost, Failure> {
        let (_, setup, place) = self.checked(to, receiving, generator.0.seed)?;
        let to = to.iter().map(|to| IpEndpoint::new(to.ip().into(), to.port())).collect();
        Ok(load::run_on_host(&setup, place, to, generator, limits, watch)?)
    }

    /// Returns the link, the host and its place on the link.
    fn checked(
        &self,
        to: &[SocketAddr],
        receiving: &Receiving,
        seed: u64,
    ) -> Result<(&LinkSpec, HostSetup, load::Place), Failure> {
        let Some(link) = &self.on else { return Err(Failure::Usage("--on LINK".to_owned())) };
        if let LinkSpec::Device(DeviceSpec::Pcap(_)) = link {
            let line = "nobody answers from a capture; use cable, tap:NAME or packet:NAME";
            return Err(Failure::Usage(line.to_owned()));
        }
        let (setup, place) = self.setup(link, to, receiving, seed)?;
        Ok((link, setup, place))
    }

    fn setup(
        &self,
        link: &LinkSpec,
        to: &[SocketAddr],
        receiving: &Receiving,
        seed: u64,
    ) -> Result<(HostSetup, load::Place), Failure> {
        crate::command::refuse_if_shared(link, self.from.is_some(), "--from")?;
        // One address of each family that the server has.
        let ours = [(true, "10.77.0.2/24"), (false, "fd77::2/64")].into_iter();
        let ours = ours.filter(|(v4, _)| to.iter().any(|to| to.is_ipv4() == *v4));
        let addresses = match self.from {
            Some(from) => vec![from],
            None if crate::command::is_shared(link) => Vec::new(),
            None => {
                ours.map(|(_, text)| address::cidr(text).map_err(Failure::Usage)).collect::<Result<_, _>>()?
            }
        };
        let gateways = self.gateway.into_iter().collect();
        let mut config = receiving.on(Some(link)).config(seed);
        config.tcp.ports = PORTS;
        let setup = HostSetup { addresses: addresses.clone(), gateways, config };
        let (own, gateways) = (&setup.addresses, self.gateway.as_slice());
        let place = crate::command::place(link, own, &self.kernel_address, gateways, self.mac, None)?;
        let place = match place {
            Place::Device(_) if self.size.is_some() => {
                return Err(Failure::Usage("--size is for cable only".to_owned()));
            }
            Place::Device(at) => load::Place::Device(at),
            Place::Cable { queues } => {
                let other = HostSetup {
                    addresses: to.iter().map(|to| beside(to.ip(), &addresses)).collect(),
                    gateways: Vec::new(),
                    config: Config { seed: seed.wrapping_add(1), ..Config::of(Architecture::SoftLrp) },
                };
                load::Place::Cable { queues, other: Box::new(other), size: self.size.unwrap_or(SIZE) }
            }
        };
        Ok((setup, place))
    }
}

/// Returns `address` with the prefix length of the first of `ours` that has its family, or else 64.
fn beside(address: IpAddr, ours: &[IpCidr]) -> IpCidr {
    let is_alike = |our: &&IpCidr| matches!(our, IpCidr::Ipv4(_)) == address.is_ipv4();
    let length = ours.iter().find(is_alike).map_or(64, IpCidr::prefix_len);
    IpCidr::new(address.into(), length)
}

/// All ports but the well-known ones, because many connections need many ports.
const PORTS: std::ops::RangeInclusive<u16> = 1_024..=u16::MAX;

/// Fails if the device of the generator's host failed, or if the counters of a host do not balance.
pub(super) fn judge(hosts: &Hosts) -> Result<(), Failure> {
    Failure::of_device(hosts.device_failed.as_ref())?;
    let server = hosts.server.as_ref().is_none_or(|server| server.counters.conserved);
    if hosts.counters.conserved && server { Ok(()) } else { Err(Failure::unbalanced()) }
}
