//! Looking at hosts while they run. None of them stops for it: each describes itself between two units of
//! work.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use evenkeel::Remote;
use evenkeel_core::time::{Duration, Instant};

use super::part::Part;
use super::report::{Routed, lock};

/// How long to wait for what a host says of itself. One that is in a long unit of work says it later.
const PATIENCE: Duration = Duration::from_millis(100);

/// Asks hosts what they have done.
pub(super) struct Reports {
    hosts: Remote,
    parts: Vec<Arc<Mutex<Part>>>,
    start: Instant,
    tell: Sender<(usize, Routed)>,
    told: Receiver<(usize, Routed)>,
    seen: Vec<Seen>,
}

#[derive(Clone, Default)]
struct Seen {
    /// What the host said last.
    last: Option<Routed>,
    /// It was asked, and has not answered.
    asked: bool,
}

impl Reports {
    /// Reports at hosts that have run since `start`.
    pub(super) fn new(hosts: Remote, parts: &[Arc<Mutex<Part>>], start: Instant) -> Self {
        let (tell, told) = channel();
        Self { hosts, parts: parts.to_vec(), start, tell, told, seen: vec![Seen::default(); parts.len()] }
    }

    /// What each host has done, as it says now, or said before if it does not answer; `None` before all have
    /// answered once.
    pub(super) fn collect(&mut self) -> Option<Vec<Routed>> {
        for (index, (seen, part)) in self.seen.iter_mut().zip(&self.parts).enumerate() {
            if !core::mem::replace(&mut seen.asked, true) {
                let (part, tell, start) = (Arc::clone(part), self.tell.clone(), self.start);
                self.hosts.on(index, move |host, now| {
                    let routed = lock(&part).describe(host, now, now.since(start));
                    // Nobody may be there to hear it any more.
                    let _ = tell.send((index, routed));
                });
            }
        }
        while self.seen.iter().any(|seen| seen.asked)
            && let Ok((index, last)) = self.told.recv_timeout(PATIENCE)
        {
            if let Some(seen) = self.seen.get_mut(index) {
                *seen = Seen { last: Some(last), asked: false };
            }
        }
        self.seen.iter().map(|seen| seen.last.clone()).collect()
    }
}
