//! Reports of running hosts. No host stops for a report: each describes itself between two work items.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use evenkeel::Remote;
use evenkeel::raw::host::Host;
use evenkeel::raw::time::{Duration, Instant};

/// The time to wait for the report of a host. A host in a long unit of work reports later.
const PATIENCE: Duration = Duration::from_millis(100);

/// The function that describes a host.
type Describe<R> = Arc<dyn Fn(&mut Host, Instant) -> R + Send + Sync>;

/// A collector of the reports of hosts.
pub(crate) struct Reports<R> {
    hosts: Remote,
    sender: Sender<(usize, R)>,
    receiver: Receiver<(usize, R)>,
    seen: Vec<Seen<R>>,
}

struct Seen<R> {
    describe: Describe<R>,
    /// The last report of the host.
    last: Option<R>,
    /// Whether the host was asked for a report and has not answered.
    asked: bool,
}

impl<R> fmt::Debug for Reports<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reports").field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

impl<R: Clone + Send + 'static> Reports<R> {
    /// Creates a collector for hosts, each of which has a function that describes it.
    pub(crate) fn new<D>(hosts: Remote, describe: impl IntoIterator<Item = D>) -> Self
    where
        D: Fn(&mut Host, Instant) -> R + Send + Sync + 'static,
    {
        let (sender, receiver) = channel();
        let seen = |describe| Seen { describe: Arc::new(describe), last: None, asked: false };
        Self { hosts, sender, receiver, seen: describe.into_iter().map(seen).collect() }
    }

    /// Returns the report of each host: the present one, or the last one of a host that does not answer in
    /// time; `None` before all have answered once.
    pub(crate) fn collect(&mut self) -> Option<Vec<R>> {
        for (index, seen) in self.seen.iter_mut().enumerate() {
            if !core::mem::replace(&mut seen.asked, true) {
                let (describe, sender) = (Arc::clone(&seen.describe), self.sender.clone());
                self.hosts.on(index, move |host, now| {
                    // The collector may be gone.
                    let _ = sender.send((index, describe(host, now)));
                });
            }
        }
        while self.seen.iter().any(|seen| seen.asked)
            && let Ok((index, last)) = self.receiver.recv_timeout(PATIENCE)
        {
            if let Some(seen) = self.seen.get_mut(index) {
                (seen.last, seen.asked) = (Some(last), false);
            }
        }
        self.seen.iter().map(|seen| seen.last.clone()).collect()
    }

    /// Returns whether all hosts have answered the last request.
    pub(crate) fn are_current(&self) -> bool {
        self.seen.iter().all(|seen| !seen.asked)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use evenkeel::raw::host::Config;
    use evenkeel::raw::receive::Architecture;
    use evenkeel::raw::time::Clock;
    use evenkeel::{Engine, Group};

    use super::*;

    #[test]
    fn a_host_that_does_not_run_is_not_current() {
        let host = Host::new(Config::of(Architecture::SoftLrp)).unwrap();
        let clock = Clock::start();
        let mut group = Group::new(vec![Engine::new(host, clock).unwrap()]).unwrap();
        let mut reports = Reports::new(group.remote(), [|_: &mut Host, _| ()]);
        assert!(reports.collect().is_none() && !reports.are_current(), "nobody runs the host");
        let until = clock.now() + Duration::from_millis(50);
        group.engines_mut().iter_mut().for_each(|engine| _ = engine.run(until, |_| false).unwrap());
        assert!(reports.collect().is_some() && reports.are_current(), "it has answered meanwhile");
    }
}
