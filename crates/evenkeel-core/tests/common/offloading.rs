//! An interface that forwards by itself, as far as a test can see: it records what the host lets it do.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use evenkeel_core::cable::End;
use evenkeel_core::drop::Reason;
use evenkeel_core::frame::{Frame, Pool, PoolLimit};
use evenkeel_core::interface::{Demultiplexer, Interface, Properties, RxQueue, TxQueue};
use evenkeel_core::offload::{Flow, FlowHits, FlowScope, FlowVerdict, Offload, OffloadHop};
use evenkeel_core::wire::IpAddress;

/// The destinations of packets that an interface forwards, and verdicts about flows.
#[derive(Debug, Default)]
pub(crate) struct Forwards {
    pub(crate) addresses: Vec<IpAddress>,
    pub(crate) destinations: BTreeMap<IpAddress, OffloadHop>,
    pub(crate) verdicts: BTreeMap<Flow, FlowVerdict>,
    /// The number of packets dropped, and the hits that the host has not seen yet.
    pub(crate) refused: u64,
    pub(crate) hits: Vec<(u16, FlowHits)>,
    pub(crate) clears: usize,
    /// The number of packets forwarded since the host last looked, and of all.
    pub(crate) packets: (u64, u64),
}

/// The record of an interface, shared with the test.
pub(crate) type Shared = Arc<Mutex<Forwards>>;

#[derive(Debug)]
struct Recorder(Shared);

impl Offload for Recorder {
    fn set_addresses(&mut self, addresses: &mut dyn Iterator<Item = IpAddress>) {
        let mut forwards = self.0.lock().unwrap();
        assert!(forwards.destinations.is_empty() && forwards.verdicts.is_empty());
        forwards.addresses = addresses.collect();
    }

    fn forward(&mut self, destination: IpAddress, next: &OffloadHop) -> bool {
        self.0.lock().unwrap().destinations.insert(destination, *next);
        true
    }

    fn judge(&mut self, flow: &Flow, scope: &FlowScope, verdict: FlowVerdict) -> bool {
        assert_eq!(scope.cut(flow), *flow);
        self.0.lock().unwrap().verdicts.insert(*flow, verdict);
        true
    }

    fn clear(&mut self) {
        let mut forwards = self.0.lock().unwrap();
        forwards.destinations.clear();
        forwards.verdicts.clear();
        forwards.clears += 1;
    }

    fn each_used(&mut self, used: &mut dyn FnMut(u32)) {
        let mut forwards = self.0.lock().unwrap();
        if core::mem::take(&mut forwards.packets.0) > 0 {
            forwards.destinations.values().for_each(|hop| used(hop.number));
        }
    }

    fn forwarded(&self) -> u64 {
        self.0.lock().unwrap().packets.1
    }

    fn refused(&self) -> u64 {
        self.0.lock().unwrap().refused
    }

    fn each_hit(&mut self, hit: &mut dyn FnMut(u16, FlowHits)) {
        self.0.lock().unwrap().hits.drain(..).for_each(|(account, hits)| hit(account, hits));
    }
}

/// The end of a cable, as an interface that forwards by itself.
#[derive(Debug)]
pub(crate) struct Offloading {
    end: End,
    properties: Properties,
    recorder: Option<Recorder>,
}

impl Offloading {
    /// Wraps an end, which others reach as this device.
    pub(crate) fn new(end: End, device: u32) -> (Self, Shared) {
        let properties = Properties { offload_device: Some(device), ..end.properties().clone() };
        let shared = Shared::default();
        (Self { end, properties, recorder: Some(Recorder(Arc::clone(&shared))) }, shared)
    }
}

impl TxQueue for Offloading {
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

impl Interface for Offloading {
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
        self.end.dropped()
    }

    fn set_readable(&mut self, number: usize) {
        self.end.set_readable(number);
    }

    fn demultiplexer(&mut self) -> Option<Box<dyn Demultiplexer>> {
        self.end.demultiplexer()
    }

    fn offload(&mut self) -> Option<Box<dyn Offload>> {
        Some(Box::new(self.recorder.take()?))
    }
}
