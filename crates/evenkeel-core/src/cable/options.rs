//! Options of an end of a cable.

use super::transmit::Completion;
use crate::wire::EthernetAddress;

/// The options of one end of a cable.
#[derive(Debug, Clone)]
pub struct Options {
    /// Name in reports.
    pub name: String,
    /// Hardware address.
    pub address: EthernetAddress,
    /// Largest IP packet in bytes. Default 1500.
    pub mtu: usize,
    /// Receive rings. Default 1.
    pub queues: usize,
    /// Frames each receive ring holds. Default 256.
    pub ring_pkts: usize,
    /// Whether the adaptor demultiplexes to channels. Default false.
    pub demultiplexes: bool,
    /// The moment at which its frames have left. Default [`Completion::AtOnce`].
    pub completion: Completion,
    /// Descriptors of its transmit ring, with [`Completion::ByPeer`]. Default 256.
    pub transmit_ring_pkts: usize,
}

impl Options {
    /// Returns the default options, with a locally administered address made from `number`.
    #[must_use]
    pub fn new(name: &str, number: u8) -> Self {
        Self {
            name: name.to_owned(),
            address: EthernetAddress([0x02, 0, 0, 0, 0, number]),
            mtu: 1500,
            queues: 1,
            ring_pkts: 256,
            demultiplexes: false,
            completion: Completion::AtOnce,
            transmit_ring_pkts: 256,
        }
    }
}
