//! The end of a cable, as an interface that does a part of the host's work by itself.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use evenkeel_core::cable::End;
use evenkeel_core::demux::DemuxTable;
use evenkeel_core::drop::{QueueDrop, Reason};
use evenkeel_core::frame::{Frame, Pool, PoolLimit};
use evenkeel_core::interface::{Demultiplexer, Interface, Properties, RxQueue, TxQueue};
use evenkeel_core::offload::Offload;
use evenkeel_core::refuser::Refuser;

use super::{offloading, refusing};

/// The end of a cable, as an interface that forwards packets or refuses frames by itself.
#[derive(Debug)]
pub(crate) struct Extended {
    end: End,
    properties: Properties,
    forwards: Option<offloading::Shared>,
    gate: Option<refusing::Shared>,
}

impl Extended {
    /// Makes an interface of `end` that forwards, and that others reach as this device.
    pub(crate) fn forwarding(end: End, device: u32) -> (Self, offloading::Shared) {
        let properties = Properties { offload_device: Some(device), ..end.properties().clone() };
        let shared = offloading::Shared::default();
        (Self { end, properties, forwards: Some(Arc::clone(&shared)), gate: None }, shared)
    }

    /// Makes an interface of `end` that refuses frames.
    pub(crate) fn refusing(end: End) -> (Self, refusing::Shared) {
        let properties = end.properties().clone();
        let (table, channels) = (DemuxTable::new(0), BTreeMap::new());
        let gate = refusing::Gate { table, channels, is_late: false, refused_before: 0 };
        let gate = Arc::new(Mutex::new(gate));
        (Self { end, properties, forwards: None, gate: Some(Arc::clone(&gate)) }, gate)
    }
}

impl TxQueue for Extended {
    fn transmit(&mut self, frames: &mut VecDeque<Frame>, pool: &mut Pool) -> usize {
        self.end.transmit(frames, pool)
    }

    fn unreclaimed(&self) -> Option<usize> {
        self.end.unreclaimed()
    }

    fn reclaim(&mut self, pool: &mut Pool, limit_pkts: usize) -> usize {
        self.end.reclaim(pool, limit_pkts)
    }
}

impl Interface for Extended {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn queue(&self, index: usize) -> &dyn RxQueue {
        self.end.queue(index)
    }

    fn queue_mut(&mut self, index: usize) -> &mut dyn RxQueue {
        self.end.queue_mut(index)
    }

    fn attach(&mut self, pool: &mut Pool) -> Result<(), PoolLimit> {
        self.end.attach(pool)
    }

    fn dropped(&self) -> Vec<(Reason, u64)> {
        let refused = self.gate.iter().map(|gate| gate.lock().unwrap().refused());
        refused.map(|refused| (QueueDrop::Channel.into(), refused)).collect()
    }

    fn set_readable(&mut self, number: usize) {
        self.end.set_readable(number);
    }

    fn demultiplexer(&mut self) -> Option<Box<dyn Demultiplexer>> {
        self.end.demultiplexer()
    }

    fn offload(&mut self) -> Option<Box<dyn Offload>> {
        Some(Box::new(offloading::Recorder(self.forwards.take()?)))
    }

    fn refuser(&mut self) -> Option<Box<dyn Refuser>> {
        Some(Box::new(refusing::Shares(Arc::clone(self.gate.as_ref()?))))
    }
}
