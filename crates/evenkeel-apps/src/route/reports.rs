//! Reports of running hosts. No host stops for a report: each describes itself between two work items.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use evenkeel::Remote;
use evenkeel::raw::time::{Duration, Instant};

use super::part::Part;
use super::report::{Routed, lock};

/// The time to wait for the report of a host. A host in a long unit of work reports later.
const PATIENCE: Duration = Duration::from_millis(100);

/// A collector of the reports of hosts.
pub(super) struct Reports {
    hosts: Remote,
    parts: Vec<Arc<Mutex<Part>>>,
    start: Instant,
    sender: Sender<(usize, Routed)>,
    receiver: Receiver<(usize, Routed)>,
    seen: Vec<Seen>,
}

#[derive(Clone, Default)]
struct Seen {
    /// The last report of the host.
    last: Option<Routed>,
    /// Whether the host was asked for a report and has not answered.
    asked: bool,
}

impl Reports {
    /// Creates a collector for hosts that have run since `start`.
    pub(super) fn new(hosts: Remote, parts: &[Arc<Mutex<Part>>], start: Instant) -> Self {
        let (sender, receiver) = channel();
        Self {
            hosts,
            parts: parts.to_vec(),
            start,
            sender,
            receiver,
            seen: vec![Seen::default(); parts.len()],
        }
    }

    /// Returns the report of each host: the present one, or the last one of a host that does not answer in
    /// time; `None` before all have answered once.
    pub(super) fn collect(&mut self) -> Option<Vec<Routed>> {
        for (index, (seen, part)) in self.seen.iter_mut().zip(&self.parts).enumerate() {
            if !core::mem::replace(&mut seen.asked, true) {
                let (part, sender, start) = (Arc::clone(part), self.sender.clone(), self.start);
                self.hosts.on(index, move |host, now| {
                    let routed = lock(&part).describe(host, now, now.since(start));
                    // The collector may be gone.
                    let _ = sender.send((index, routed));
                });
            }
        }
        while self.seen.iter().any(|seen| seen.asked)
            && let Ok((index, last)) = self.receiver.recv_timeout(PATIENCE)
        {
            if let Some(seen) = self.seen.get_mut(index) {
                *seen = Seen { last: Some(last), asked: false };
            }
        }
        self.seen.iter().map(|seen| seen.last.clone()).collect()
    }
}
