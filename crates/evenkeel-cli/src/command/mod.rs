//! The commands, one file each: arguments, help, and actions.

mod account;
pub(crate) mod blast;
mod capture;
pub(crate) mod completions;
mod config_file;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod guard;
pub(crate) mod help;
mod hosting;
pub(crate) mod lab;
pub(crate) mod load;
pub(crate) mod man;
pub(crate) mod metrics;
pub(crate) mod monitor;
pub(crate) mod route;
pub(crate) mod schema;
pub(crate) mod serve;
pub(crate) mod stats;
pub(crate) mod stream;
pub(crate) mod top;
pub(crate) mod wan;

use std::path::PathBuf;

use evenkeel::raw::device::{Address, DeviceSpec, LinkSpec};
use evenkeel::raw::wire::{IpAddress, IpCidr};
use evenkeel_apps::host_setup::DeviceSetup;

use crate::failure::Failure;
use crate::supervision;

/// The place a command's host is attached to: an in-memory cable or a device.
enum Place {
    Cable { queues: usize },
    Device(DeviceSetup),
}

/// Returns whether the kernel keeps the addresses of the link's device, and shares them.
fn is_shared(link: &LinkSpec) -> bool {
    matches!(link, LinkSpec::Device(device) if device.is_shared())
}

/// Refuses an option that would give a host an address or a route of its own, if it has those of the kernel.
fn refuse_if_shared(link: &LinkSpec, is_given: bool, option: &str) -> Result<(), Failure> {
    if is_given && is_shared(link) {
        let line = format!("with `,share` addresses and routes are the kernel's: no {option}");
        return Err(Failure::Usage(line));
    }
    Ok(())
}

/// Returns the place for a link, after checking the options that belong to it. `own` are the addresses of the
/// host there.
fn place(
    link: &LinkSpec,
    own: &[IpCidr],
    kernel_addresses: &[IpCidr],
    gateways: &[IpAddress],
    mac: Option<Address>,
    dump: Option<&PathBuf>,
) -> Result<Place, Failure> {
    match (link, mac) {
        (LinkSpec::Device(DeviceSpec::Packet(_) | DeviceSpec::Xdp(_)), _) | (_, None) => {}
        (LinkSpec::Device(DeviceSpec::Tap(_)), Some(mac)) if mac != Address::Device => {}
        (LinkSpec::Device(DeviceSpec::Tap(_)), _) => {
            let line = "at the other end of a TAP the device's address is the kernel's: --mac own, random or \
                        another";
            return Err(Failure::Usage(line.to_owned()));
        }
        _ => return Err(Failure::Usage("--mac is for packet:NAME, xdp:NAME and tap:NAME only".to_owned())),
    }
    refuse_if_shared(link, mac.is_some(), "--mac")?;
    refuse_if_shared(link, !gateways.is_empty(), "--gateway")?;
    if !kernel_addresses.is_empty() && !matches!(link, LinkSpec::Device(DeviceSpec::Tap(_))) {
        return Err(Failure::Usage("--kernel-address is for tap:NAME only".to_owned()));
    }
    let is_own = |kernel: &&IpCidr| own.iter().any(|own| own.address() == kernel.address());
    if let Some(both) = kernel_addresses.iter().find(is_own) {
        let line = format!(
            "--kernel-address {both} is our own address: the kernel would answer for itself, and we would \
             never hear of it; give the kernel's end another of the same network"
        );
        return Err(Failure::Usage(line));
    }
    match link {
        LinkSpec::Cable { .. } if dump.is_some() || !gateways.is_empty() => {
            let option = if dump.is_some() { "--dump" } else { "--gateway" };
            Err(Failure::Usage(format!("{option} is for tap:NAME, packet:NAME and pcap:FILE only")))
        }
        LinkSpec::Cable { queues } => Ok(Place::Cable { queues: *queues }),
        LinkSpec::Device(device) => {
            let kernel_addresses = kernel_addresses.to_vec();
            let (device, mac, dump) = (device.clone(), mac.unwrap_or_default(), dump.cloned());
            Ok(Place::Device(DeviceSetup { device, kernel_addresses, mac, dump, say: supervision::say }))
        }
    }
}
