//! The part of an interface that forwards by itself: it records what the host lets it do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

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
pub(crate) struct Recorder(pub(crate) Shared);

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
