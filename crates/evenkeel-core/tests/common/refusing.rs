//! An interface that refuses frames for full channels, before they are on the cable.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use evenkeel_core::demux::{Change, DemuxTable};
use evenkeel_core::id::ChannelId;
use evenkeel_core::refuser::{Allowance, Refuser};
use evenkeel_core::wire::{EthernetFrame, IpAddress, Ipv4Packet, UdpPacket};

/// The model of an interface that refuses frames.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) table: DemuxTable,
    pub(crate) channels: BTreeMap<ChannelId, Counts>,
    /// Whether time has passed, so that the next frame passes that would be refused.
    pub(crate) is_late: bool,
    /// The frames refused for channels that are closed.
    pub(crate) refused_before: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    left: Option<u32>,
    refused: u64,
}

pub(crate) type Shared = Arc<Mutex<Gate>>;

impl Gate {
    /// Returns whether a datagram of IPv4 passes.
    pub(crate) fn lets_pass(&mut self, frame: &[u8]) -> bool {
        let ethernet = EthernetFrame::new_checked(frame).unwrap();
        let packet = Ipv4Packet::new_checked(ethernet.payload()).unwrap();
        let port = UdpPacket::new_checked(packet.payload()).unwrap().dst_port();
        let Some(channel) = self.table.channels_of_port(port)[0] else { return true };
        let Some(counts) = self.channels.get_mut(&channel) else { return true };
        match &mut counts.left {
            Some(0) if core::mem::take(&mut self.is_late) => true,
            Some(0) => {
                counts.refused += 1;
                false
            }
            Some(left) => {
                *left -= 1;
                true
            }
            None => true,
        }
    }

    pub(crate) fn refused(&self) -> u64 {
        self.refused_before + self.channels.values().map(|counts| counts.refused).sum::<u64>()
    }

    /// Returns the number of channels of which some frames are refused.
    pub(crate) fn limited(&self) -> usize {
        self.channels.values().filter(|counts| counts.left.is_some()).count()
    }

    /// Returns the number of channels that have an allowance.
    pub(crate) fn opened(&self) -> usize {
        self.channels.len()
    }

    /// Returns whether the interface would take an address for the host's.
    pub(crate) fn knows(&self, address: IpAddress) -> bool {
        self.table.addresses().any(|known| known == address)
    }
}

#[derive(Debug)]
pub(crate) struct Shares(pub(crate) Shared);

impl Refuser for Shares {
    fn open(&mut self, channel: ChannelId) -> Option<Box<dyn Allowance>> {
        self.0.lock().unwrap().channels.insert(channel, Counts::default());
        Some(Box::new(Of(Arc::clone(&self.0), channel)))
    }

    fn close(&mut self, channel: ChannelId) {
        let mut gate = self.0.lock().unwrap();
        gate.refused_before += gate.channels.remove(&channel).map_or(0, |counts| counts.refused);
    }

    fn update(&mut self, change: Change) {
        self.0.lock().unwrap().table.apply(change);
    }
}

#[derive(Debug)]
struct Of(Shared, ChannelId);

impl Of {
    fn with<T>(&self, f: impl FnOnce(&mut Counts) -> T) -> T {
        f(self.0.lock().unwrap().channels.get_mut(&self.1).unwrap())
    }
}

impl Allowance for Of {
    fn set(&mut self, frames: Option<u32>) {
        self.with(|counts| counts.left = frames);
    }

    fn left(&self) -> u32 {
        self.with(|counts| counts.left.unwrap_or(0))
    }

    fn refused(&self) -> u64 {
        self.with(|counts| counts.refused)
    }
}
