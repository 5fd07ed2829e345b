//! The placeholder for an interface while frames are taken from it.

use std::collections::VecDeque;

use crate::frame::{Frame, Pool, PoolLimit};
use crate::interface::{Burst, Demultiplexer, Interface, RxQueue};
use crate::tcp::FourTuple;
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

    fn buffered(&self) -> u64 {
        0
    }

    fn arm(&mut self) -> bool {
        false
    }

    fn missed(&self) -> u64 {
        0
    }

    fn missed_by_now(&self) -> Option<u64> {
        None
    }
}

impl Interface for Lent {
    fn name(&self) -> &'static str {
        "lent"
    }

    fn address(&self) -> EthernetAddress {
        EthernetAddress([0; 6])
    }

    fn mtu(&self) -> usize {
        0
    }

    fn attach(&mut self, _pool: &mut Pool) -> Result<(), PoolLimit> {
        Ok(())
    }

    fn detach(&mut self, _pool: &mut Pool) {}

    fn receives(&self, _flow: &FourTuple) -> bool {
        true
    }

    fn queues(&self) -> usize {
        1
    }

    fn queue(&self, _index: usize) -> &dyn RxQueue {
        self
    }

    fn queue_mut(&mut self, _index: usize) -> &mut dyn RxQueue {
        self
    }

    fn transmit(&mut self, _frames: &mut VecDeque<Frame>, _pool: &mut Pool) -> usize {
        0
    }

    fn transmit_batch(&self) -> usize {
        1
    }

    /// It does not stall: the one whose place this is has not been asked.
    fn unreclaimed(&self) -> Option<usize> {
        Some(0)
    }

    fn reclaim(&mut self, _pool: &mut Pool, _limit_pkts: usize) -> usize {
        0
    }

    fn channel_interrupts(&self) -> bool {
        false
    }

    fn demultiplexer(&mut self) -> Option<&mut dyn Demultiplexer> {
        None
    }

    fn set_readable(&mut self, _queue: usize) {}
}
