//! Hosts that share the kernel's addresses on a device.
//!
//! The kernel keeps its addresses, and with them ARP, NDP, ping and its own sockets. The host has the same
//! addresses, and of all traffic only that of its own sockets. It takes routes and neighbours over from the
//! kernel, and reserves the ports of its sockets there.

use evenkeel_core::host::Config;
use evenkeel_core::receive::Architecture;
use evenkeel_core::wire::IpCidr;
use evenkeel_link::{Entry, KernelStack, KernelTables, News, device_index};

use super::error::FollowError;

/// Returns the settings of a host that is to share the kernel's addresses
/// ([`Engine::share`](crate::Engine::share)): it sends nothing about addresses, groups and neighbours, and
/// chooses ports that the kernel does not give to its own sockets.
///
/// # Errors
/// [`FollowError::Architecture`] if the host is not to demultiplex on the interface. [`FollowError::Os`] if
/// the kernel gives out all dynamic ports.
pub fn sharing(mut config: Config) -> Result<Config, FollowError> {
    if config.architecture != Architecture::NiLrp {
        return Err(FollowError::Architecture(config.architecture));
    }
    config.stack.shared = true;
    config.tcp.ports = KernelStack::dynamic_ports()?;
    Ok(config)
}

/// Returns the addresses that the kernel has on a device.
///
/// # Errors
/// [`FollowError::NoAddress`] if it has none.
pub fn addresses_on(device: &str) -> Result<Vec<IpCidr>, FollowError> {
    let on = device_index(device)?;
    let mut addresses = Vec::new();
    KernelTables::open()?.read_all(|news| {
        if let News::Is { entry: Entry::Address { index, address }, .. } = news
            && index == on
        {
            addresses.push(address);
        }
    })?;
    if addresses.is_empty() {
        return Err(FollowError::NoAddress(device.to_owned()));
    }
    Ok(addresses)
}
