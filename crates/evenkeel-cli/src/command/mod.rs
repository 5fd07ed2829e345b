//! One file for each command: its arguments, its help, and what it does.

pub(crate) mod blast;
mod capture;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod help;
mod hosting;
pub(crate) mod lab;
pub(crate) mod monitor;
pub(crate) mod route;
pub(crate) mod serve;
pub(crate) mod stream;

use std::path::PathBuf;

use evenkeel::core::wire::{IpAddress, IpCidr};
use evenkeel::link::{DeviceSpec, LinkSpec};
use evenkeel_apps::site::Port;

use crate::failure::Failure;

/// Where a command's host is attached.
enum Place {
    Cable { queues: usize },
    Port(Port),
}

/// A link with the options that belong to it.
fn place(
    link: &LinkSpec,
    kernel_addresses: &[IpCidr],
    gateways: &[IpAddress],
    dump: Option<&PathBuf>,
) -> Result<Place, Failure> {
    if !kernel_addresses.is_empty() && !matches!(link, LinkSpec::Device(DeviceSpec::Tap(_))) {
        return Err(Failure::Usage("--kernel-address is for tap:NAME only".to_owned()));
    }
    match link {
        LinkSpec::Cable { .. } if dump.is_some() || !gateways.is_empty() => {
            let option = if dump.is_some() { "--dump" } else { "--gateway" };
            Err(Failure::Usage(format!("{option} is for tap:NAME, packet:NAME and pcap:FILE only")))
        }
        LinkSpec::Cable { queues } => Ok(Place::Cable { queues: *queues }),
        LinkSpec::Device(device) => {
            let kernel_addresses = kernel_addresses.to_vec();
            Ok(Place::Port(Port { device: device.clone(), kernel_addresses, dump: dump.cloned() }))
        }
    }
}
