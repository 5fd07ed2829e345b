//! Facts about a network device that the kernel and its driver report to everybody, for advice about it.

use std::io;

use aya::programs::loaded_programs;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::error::LinkError;
use crate::netdev::NetDevice;
use crate::rtnetlink::xdp_program;
use crate::sys::{EthtoolGet, EthtoolWords};
use crate::xdp::Features;

/// Large receive offload, in the flags of ethtool (linux/ethtool.h).
const ETH_FLAG_LRO: u32 = 1 << 15;

/// The facts about a network device. A fact that the kernel or the driver does not report is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceFacts {
    /// The kernel's index of the device.
    pub index: u32,
    /// Whether the device is up.
    pub is_up: bool,
    /// Whether both ends of its cable are up.
    pub has_carrier: bool,
    /// The MTU in bytes.
    pub mtu: usize,
    /// The name of the driver.
    pub driver: Option<String>,
    /// The receive queues in use.
    pub rx_queues: Option<u32>,
    /// The receive queues that the driver could use.
    pub rx_queues_max: Option<u32>,
    /// Whether received segments are merged by the kernel (GRO).
    pub gro: Option<bool>,
    /// Whether received segments are merged by the device (LRO).
    pub lro: Option<bool>,
    /// Whether the driver runs XDP programs itself (Linux 6.3).
    pub native_xdp: Option<bool>,
    /// Whether AF_XDP sockets get frames without a copy (Linux 6.3).
    pub zero_copy: Option<bool>,
    /// The XDP program; `Some(None)` if there is none.
    pub program: Option<Option<XdpProgram>>,
}

/// An XDP program at a network device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XdpProgram {
    /// The kernel's number of the program.
    pub id: u32,
    /// The name that its author gave it; `None` without the privilege to read it.
    pub name: Option<String>,
}

impl DeviceFacts {
    /// Reads the facts about the device called `name`, in the network namespace of the calling thread. It
    /// needs no privilege.
    ///
    /// # Errors
    /// [`LinkError::BadName`], [`LinkError::NoDevice`].
    pub fn read(name: &str) -> Result<Self, LinkError> {
        let device = NetDevice::open(name)?;
        let index = device.index()?.unsigned_abs();
        let ask = |what| ethtool(name, what).ok();
        let queues = ask(EthtoolGet::Channels).map(|words| queues(&words));
        let features = Features::of(index).ok();
        Ok(Self {
            index,
            is_up: device.is_up()?,
            has_carrier: device.has_carrier()?,
            mtu: device.mtu()?,
            driver: ask(EthtoolGet::Driver).as_ref().and_then(driver),
            rx_queues: queues.map(|(used, _)| used),
            rx_queues_max: queues.map(|(_, max)| max),
            gro: ask(EthtoolGet::Gro).map(|words| words[1] != 0),
            lro: ask(EthtoolGet::Flags).map(|words| words[1] & ETH_FLAG_LRO != 0),
            native_xdp: features.map(Features::is_native),
            zero_copy: features.map(Features::is_zero_copy),
            program: xdp_program(index).ok().map(|id| id.map(named)),
        })
    }
}

fn ethtool(name: &str, what: EthtoolGet) -> io::Result<EthtoolWords> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    what.ask(&socket, name)
}

/// Returns the receive queues in use and those possible, of `struct ethtool_channels`: a queue is for
/// receiving alone, or also for sending.
fn queues(words: &EthtoolWords) -> (u32, u32) {
    let [_, max_rx, _, _, max_combined, rx, _, _, combined, ..] = *words;
    (rx.saturating_add(combined), max_rx.max(max_combined))
}

/// Returns the name in `struct ethtool_drvinfo`: at most 32 bytes behind the first word.
fn driver(words: &EthtoolWords) -> Option<String> {
    let bytes = words.iter().skip(1).take(8).flat_map(|word| word.to_ne_bytes());
    let name: Vec<u8> = bytes.take_while(|&byte| byte != 0).collect();
    Some(String::from_utf8_lossy(&name).into_owned()).filter(|name| !name.is_empty())
}

/// Returns a program with its name, if this process may read that.
fn named(id: u32) -> XdpProgram {
    let program = loaded_programs().map_while(Result::ok).find(|program| program.id() == id);
    let name = program.and_then(|program| program.name_as_str().map(str::to_owned));
    XdpProgram { id, name: name.filter(|name| !name.is_empty()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_device_has_no_driver_and_no_program() {
        let facts = DeviceFacts::read("lo").unwrap();
        assert!(facts.index > 0 && facts.mtu > 1000, "{facts:?}");
        assert_eq!((facts.driver, facts.program), (None, Some(None)));
        assert!(matches!(DeviceFacts::read("no-such-dev"), Err(LinkError::NoDevice { .. })));
    }

    #[test]
    fn queues_for_receiving_and_for_both_count() {
        let mut words = [0; 49];
        words[..9].copy_from_slice(&[0x3c, 0, 0, 1, 8, 0, 0, 1, 2]);
        assert_eq!(queues(&words), (2, 8));
        words[..9].copy_from_slice(&[0x3c, 4, 4, 0, 0, 3, 3, 0, 0]);
        assert_eq!(queues(&words), (3, 4));
    }

    #[test]
    fn a_drivers_name_ends_at_a_zero_or_with_its_field() {
        let mut words = [u32::from_ne_bytes(*b"abcd"); 49];
        assert_eq!(driver(&words).unwrap().len(), 32);
        words[2] = u32::from_ne_bytes(*b"e\0fg");
        assert_eq!(driver(&words).as_deref(), Some("abcde"));
        assert_eq!(driver(&[0; 49]), None);
    }
}
