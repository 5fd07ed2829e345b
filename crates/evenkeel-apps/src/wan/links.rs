//! The devices of the links: their opening, and their changes while the emulator runs.

use evenkeel::raw::cable::{self, End};
use evenkeel::raw::device::{
    Device, DeviceChange, DeviceSpec, Interface as _, LinkError, Packet, PacketOptions, Tap, TapOptions, Xdp,
    XdpOptions, device_now,
};

use super::emulator::Remote;
use super::error::WanError;
use crate::link_plan::Link;

/// The number of frames in a ring, enough while the machine gives the thread's core to others.
pub(super) const RING_PKTS: usize = 8_192;
/// The most frames that the ring of an AF_XDP socket holds.
const XDP_RING_PKTS: usize = 4_096;

/// Creates a cable of that name. Returns its far end, which has `number`, and its near end, which has the
/// next number.
pub(super) fn cable(name: &'static str, number: u8) -> (End, End) {
    let options = |number| cable::Options { ring_pkts: RING_PKTS, ..cable::Options::new(name, number) };
    cable::pair(options(number), options(number.wrapping_add(1)))
}

/// Opens a network interface of any MTU, with the kernel's time stamps of frames.
pub(super) fn packet(name: &str) -> Result<Box<dyn Device>, LinkError> {
    let options =
        PacketOptions { ring_pkts: RING_PKTS, stamps: true, jumbo: true, ..PacketOptions::default() };
    Ok(Box::new(Packet::open(name, &options)?))
}

/// Opens a network interface through AF_XDP. All its frames are taken, to whichever station they are.
fn xdp(link: &Link, queues: &[u32]) -> Result<Box<dyn Device>, WanError> {
    let options = XdpOptions {
        ring_pkts: XDP_RING_PKTS,
        queues: queues.to_vec(),
        everything: true,
        ..XdpOptions::default()
    };
    let name = link.device.interface().unwrap_or_default();
    let device = Xdp::open(name, &options)?;
    match device.properties().queues {
        0..=1 => Ok(Box::new(device)),
        several => Err(WanError::Links(format!(
            "{name} has {several} queues, and of frames in several queues nobody knows which came first: \
             ethtool -L {name} combined 1, or xdp:{name}@0 if all frames come by that one"
        ))),
    }
}

/// Opens the device of a link.
pub(super) fn open(link: &Link) -> Result<Box<dyn Device>, WanError> {
    Ok(match &link.device {
        DeviceSpec::Tap(device) => {
            let kernel_addresses = link.kernel_addresses.clone();
            let options = TapOptions { kernel_addresses, jumbo: true, ..TapOptions::default() };
            Box::new(Tap::open(&device.name, &options)?)
        }
        DeviceSpec::Packet(device) => packet(&device.name)?,
        DeviceSpec::Xdp(device) => xdp(link, &device.queues)?,
        // A link of another kind has been refused.
        DeviceSpec::Pcap(path) => return Err(LinkError::BadName { name: path.display().to_string() }.into()),
    })
}

/// The state of a link's device, according to the announcements of the kernel.
pub(super) struct Followed {
    link: Link,
    name: String,
    /// The kernel's index of the device; `None` while it is gone.
    number: Option<u32>,
    pub(super) mtu: usize,
    /// The index of the last device that could not be opened.
    refused: Option<u32>,
}

impl Followed {
    pub(super) fn new(link: &Link, device: &dyn Device) -> Self {
        Self {
            link: link.clone(),
            name: device.properties().name.clone(),
            number: device.info().index,
            mtu: device.properties().mtu,
            refused: None,
        }
    }

    /// Returns what is to be said of frames that come by the link `from` and are to leave by this one.
    pub(super) fn complaint(&self, from: &Self) -> Option<String> {
        let (Self { link, name, mtu, .. }, larger) = (self, from.mtu);
        (larger > *mtu).then(|| {
            let (from, to) = (&from.link.name, &link.name);
            format!(
                "the MTU of {from} is {larger} and that of {to} is {mtu}: longer frames cannot leave by \
                 {to}, and are counted as too long: ip link set {name} mtu {larger}"
            )
        })
    }

    /// Follows an announcement of the kernel about some device. Returns the line to show, if there is one.
    pub(super) fn follow(&mut self, port: usize, change: &DeviceChange, emulator: &Remote) -> Option<String> {
        match change {
            DeviceChange::Gone { index } if self.number == Some(*index) => {
                self.number = None;
                emulator.lose_device(port);
                Some(format!("{}: the device was removed", self.name))
            }
            DeviceChange::Is { index, name, up: true, mtu }
                if *name == self.name && self.number.is_none() =>
            {
                self.mtu = *mtu;
                self.take_up(port, *index, emulator)
            }
            DeviceChange::Is { index, mtu, .. } if self.number == Some(*index) && *mtu != self.mtu => {
                self.mtu = *mtu;
                emulator.fit(*mtu);
                Some(format!("{}: the MTU is {mtu} now, and is followed", self.name))
            }
            DeviceChange::Lost => {
                // This change would have been announced.
                let now = device_now(&self.name);
                let there =
                    matches!(&now, Some(DeviceChange::Is { index, .. }) if Some(*index) == self.number);
                let gone = self.number.filter(|_| !there).map(|index| DeviceChange::Gone { index });
                let said =
                    gone.into_iter().chain(now).filter_map(|change| self.follow(port, &change, emulator));
                Some(said.collect::<Vec<_>>().join("; ")).filter(|said| !said.is_empty())
            }
            DeviceChange::Is { .. } | DeviceChange::Gone { .. } => None,
        }
    }

    fn take_up(&mut self, port: usize, index: u32, emulator: &Remote) -> Option<String> {
        match open(&self.link) {
            Ok(device) => {
                (self.number, self.refused) = (Some(index), None);
                emulator.take_device(port, device);
                Some(format!("{}: the device is in use again", self.name))
            }
            Err(error) => {
                let is_new = self.refused.replace(index) != Some(index);
                is_new.then(|| format!("{}: cannot take it up again: {error}", self.name))
            }
        }
    }
}
