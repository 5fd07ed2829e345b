//! The placeholder for an interface while frames are taken from it.

use std::collections::VecDeque;

use crate::frame::{Frame, Pool};
use crate::interface::{Burst, Effort, Flows, Interface, Properties, RxCounters, RxQueue, TxQueue};
use crate::wire::EthernetAddress;

/// No interface: it has nothing, and takes nothing. Without a size, so that putting it there allocates
/// nothing.
#[derive(Debug)]
pub(super) struct Lent;

impl RxQueue for Lent {
    fn pending(&self) -> usize {
        0
    }

    fn receive(&mut self, _limit: usize, _burst: &mut dyn Burst) -> usize {
        0
    }

    fn arm(&mut self) -> bool {
        false
    }

    fn counters(&self, _effort: Effort) -> Option<RxCounters> {
        None
    }
}

impl TxQueue for Lent {
    fn transmit(&mut self, _frames: &mut VecDeque<Frame>, _pool: &mut Pool) -> usize {
        0
    }

    /// It does not stall: the one whose place this is has not been asked.
    fn unreclaimed(&self) -> Option<usize> {
        Some(0)
    }
}

impl Interface for Lent {
    fn properties(&self) -> &Properties {
        static NONE: Properties = Properties {
            name: String::new(),
            address: EthernetAddress([0; 6]),
            mtu: 0,
            queues: 1,
            transmit_batch: 1,
            buffers: 0,
            flows: Flows::All,
        };
        &NONE
    }

    fn queue(&self, _index: usize) -> &dyn RxQueue {
        self
    }

    fn queue_mut(&mut self, _index: usize) -> &mut dyn RxQueue {
        self
    }
}
