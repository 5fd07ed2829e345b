//! A router on devices, in real time.

use core::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use evenkeel::Engine;
use evenkeel::raw::device::Properties;
use evenkeel::raw::device::{Address, Device, DeviceSpec, OpenOptions, open_queues};
use evenkeel::raw::host::{Config, Host};
use evenkeel::raw::signal::Stop;
use evenkeel::raw::time::Clock;
use schemars::JsonSchema;
use serde::Serialize;

use super::active_rules::{ActiveRules, Text};
use super::error::RouterError;
use super::links;
use super::tables::{Place, Tables, Written};
use crate::captures::Embedded;
use crate::cores;
use crate::host_setup::{NEIGHBOR_UPDATES, SetupError};
use crate::link_plan::Link;

/// The settings of a router.
#[derive(Debug, Clone)]
pub struct Router {
    /// The links of the router, in the order of their interfaces.
    pub links: Vec<Link>,
    /// The processors that the router forwards on. Each has a host that is bound to it, with its share of the
    /// flows of every link. With several processors, all links are `packet:NAME` or `xdp:NAME`. If empty, the
    /// router is one host on the calling thread.
    pub cores: Vec<usize>,
    /// The settings of the hosts: their receive architecture and limits. Forwarding is always on.
    pub config: Config,
    /// The settings that may change while the router runs.
    pub changing: Changing,
    /// Whether addresses, routes and neighbours are the kernel's: all links are then `packet:NAME`.
    pub kernel_routes: bool,
    /// Whether packets between `xdp:NAME` links are forwarded in XDP, once the router has decided about their
    /// destination, and rules about their flow. Not possible with a capture, which would not see them.
    pub offload: bool,
    /// Limit of the screening queue.
    pub screen_queue_pkts: usize,
    /// Nice value of the screening process.
    pub screen_nice: i8,
    /// The file that records the packets that rules with `log` decide about.
    pub log: Option<PathBuf>,
    /// A capture of the packets that enter and leave by all links. Not possible with several cores.
    pub capture: Option<Embedded>,
}

/// The settings that a router reads again on request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changing {
    /// Screening rules; without any, all packets pass. A running router can change its rules, but cannot
    /// begin or stop to have some.
    pub rules: Option<Text>,
    /// Static routes and neighbours.
    pub tables: Written,
}

/// The plan that follows from a router's settings.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Plan {
    /// The links of the router.
    pub links: Vec<String>,
    /// Static routes.
    pub routes: Vec<String>,
    /// Static neighbours.
    pub neighbors: Vec<String>,
    /// Tables and rules; `None` if all packets pass.
    pub rules: Option<String>,
    /// Warnings about settings that are allowed but hardly intended.
    pub warnings: Vec<String>,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, all) in [("link", &self.links), ("route", &self.routes), ("neighbor", &self.neighbors)] {
            all.iter().try_for_each(|one| writeln!(f, "{kind:<8} {one}"))?;
        }
        f.write_str(self.rules.as_deref().unwrap_or("pass in all\n"))?;
        self.warnings.iter().try_for_each(|warning| writeln!(f, "warning  {warning}"))
    }
}

/// A callback that reads the changeable settings again, on SIGHUP. Its error is shown. A separate thread
/// calls it.
pub type Reread = Box<dyn FnMut() -> Result<Changing, String> + Send>;
/// A callback that shows a message of one line while the router runs.
pub type Say = Arc<dyn Fn(&str) + Send + Sync>;

impl Router {
    /// Checks whether the router could run, as far as that is known without its devices.
    ///
    /// # Errors
    /// [`RouterError`]
    pub fn check(&self) -> Result<(), RouterError> {
        self.plan().map(|_| ())
    }

    /// Returns the plan of the router: links, tables and rules as they were understood.
    ///
    /// # Errors
    /// [`RouterError`]
    pub fn plan(&self) -> Result<Plan, RouterError> {
        let places = self.places()?;
        Tables::of(&self.changing.tables, &places)?;
        let mut warnings = links::check(&self.links)?;
        let names = places.into_iter().map(|place| place.name).collect();
        let rules = self.changing.rules.as_ref().map(|text| ActiveRules::open(text, names, 1)).transpose()?;
        warnings.extend(rules.iter().flat_map(ActiveRules::notes));
        Ok(Plan {
            links: self.links.iter().map(ToString::to_string).collect(),
            routes: self.changing.tables.routes.iter().map(ToString::to_string).collect(),
            neighbors: self.changing.tables.neighbors.iter().map(ToString::to_string).collect(),
            rules: rules.map(|rules| rules.text()),
            warnings,
        })
    }

    pub(super) fn places(&self) -> Result<Vec<Place>, RouterError> {
        if self.links.len() < 2 {
            return Err(RouterError::Links("a router stands between two links or more".to_owned()));
        }
        links::check(&self.links)?;
        if self.kernel_routes {
            for link in &self.links {
                if !matches!(link.device, DeviceSpec::Packet(_)) || !link.addresses.is_empty() {
                    let what =
                        "the kernel's tables are followed on packet:NAME, whose addresses are the kernel's";
                    return Err(RouterError::Links(format!("{link}: {what}")));
                }
                if link.mac.is_some_and(|mac| mac != Address::Device) {
                    let what = "who asks for the kernel's addresses is told the device's hardware address: \
                        mac=device";
                    return Err(RouterError::Links(format!("{link}: {what}")));
                }
            }
        }
        self.check_cores()?;
        self.check_offload()?;
        let place = |link: &Link| Place { name: link.name.clone(), addresses: link.addresses.clone() };
        Ok(self.links.iter().map(place).collect())
    }

    fn check_cores(&self) -> Result<(), RouterError> {
        cores::check(&self.cores).map_err(RouterError::Cores)?;
        if self.cores.len() > 1 && self.capture.is_some() {
            let what = "a capture is written by one host; give one core, or capture with `evenkeel monitor`";
            return Err(RouterError::Cores(what.to_owned()));
        }
        if self.cores.len() > 1
            && let Some(link) = self.links.iter().find(|link| !link.device.spreads_over_hosts())
        {
            let what = "only packet:NAME and xdp:NAME spread their flows over several cores; give one core, \
                        or another link";
            return Err(RouterError::Cores(format!("{link}: {what}")));
        }
        Ok(())
    }

    fn check_offload(&self) -> Result<(), RouterError> {
        if !self.offload {
            return Ok(());
        }
        let between = self.links.iter().filter(|link| matches!(link.device, DeviceSpec::Xdp(_)));
        let what = if self.capture.is_some() {
            "a capture does not see the packets that are forwarded in XDP: no offload with a capture"
        } else if between.count() < 2 {
            "packets are forwarded in XDP between xdp:NAME links: give two or more"
        } else {
            return Ok(());
        };
        Err(RouterError::Links(what.to_owned()))
    }

    /// Returns a warning about a device through which no packets can be forwarded in XDP.
    pub(super) fn warning_about(&self, device: &dyn Device) -> Option<String> {
        let Properties { name, offload_device, .. } = device.properties();
        let is_meant = self.offload && device.info().rings_in_memory;
        (is_meant && offload_device.is_none()).then(|| {
            format!(
                "{name}: its driver takes no frames of XDP programs, so all goes through the router \
                 (for a veth: ethtool -K PEER gro on)"
            )
        })
    }

    /// Returns the number of hosts that the router consists of.
    pub(super) fn hosts(&self) -> usize {
        self.cores.len().max(1)
    }

    /// Creates the engine of the host with this index, without links.
    pub(super) fn engine(&self, index: usize, clock: Clock) -> Result<Engine, RouterError> {
        let mut config = self.config.clone();
        // One host announces the addresses for all hosts.
        config.stack.announce = index == 0;
        config.stack.forwarding = true;
        config.stack.forward_only = self.kernel_routes;
        config.stack.report_groups &= !self.kernel_routes;
        config.stack.neighbor_updates = if self.hosts() > 1 { NEIGHBOR_UPDATES } else { 0 };
        let mut engine = Engine::new(Host::new(config).map_err(SetupError::from)?, clock)?;
        engine.stop_on(Stop::on_signals()?);
        Ok(engine)
    }

    /// Opens a link, as a device for each host.
    pub(super) fn open(&self, index: usize, clock: Clock) -> Result<Vec<Box<dyn Device>>, RouterError> {
        let Some(link) = self.links.get(index) else { return Ok(Vec::new()) };
        // A peer that resolves the kernel's addresses gets the device's hardware address. It sends packets
        // there that the router is to forward.
        let default = if self.kernel_routes { Address::Device } else { Address::Own };
        let options = OpenOptions {
            address: link.mac.unwrap_or(default),
            kernel_addresses: link.kernel_addresses.clone(),
            offload: self.offload,
        };
        Ok(open_queues(&link.device, &options, self.hosts(), clock)?)
    }
}
