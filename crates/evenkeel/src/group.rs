//! Several cores: one host on each, sharing nothing.
//!
//! Each host has its own receive queue of every interface, its own transmit side, its own tables, its own
//! polling thread, quota, feedback and cycle limit. The interface spreads flows over the queues by a hash, so
//! a flow stays on one core and in order. There is no lock on the way of a packet.
//!
//! The paper leaves open how several polling threads are to share several processors (TOCS 1997, section
//! 10). A pool of threads that serve the same interfaces needs locks around rings and tables and reorders
//! packets of one flow. It also leaves a cycle limit without a processor to apply to. Here a limit is the
//! share of *one core*. To keep a processor for users altogether, a group has fewer hosts than there are
//! processors.
//!
//! The hosts share only routes, addresses and neighbours, which change seldom. Messages copy them to all
//! hosts, and each host applies the messages between two units of work. An answer of ARP or NDP reaches one
//! host, perhaps not the one that asked, so hosts forward the neighbour updates that they receive. A packet
//! that comes by the queue of another host than its socket's goes from host to host in such messages, too.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use evenkeel_core::host::{Host, Stray};
use evenkeel_core::stack::NeighborUpdate;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_link::{self as link, Clock, EventFd, Halt, Notifier};

use crate::driver::ForOthers;
use crate::{Ended, Engine};

/// The number of neighbour updates that may wait for one host, and of strays. Further ones are lost, as a
/// frame may be, and are asked for or sent again.
const WAITING_MAX: usize = 1024;
/// The number of strays that a host takes at once. It looks at everything else before it takes more.
const STRAYS_AT_ONCE: usize = 64;

type Change = Box<dyn FnOnce(&mut Host, Instant) + Send>;

/// The sending side of the messages for a host.
#[derive(Clone)]
struct Mailbox {
    /// The channel of changes. It has no limit, as the program that runs the hosts fills it; updates come
    /// from the network and have a limit.
    changes: Sender<Change>,
    updates: SyncSender<NeighborUpdate>,
    strays: SyncSender<Stray>,
    event: EventFd,
}

/// The receiving side of a [`Mailbox`].
struct Inbox {
    changes: Receiver<Change>,
    updates: Receiver<NeighborUpdate>,
    strays: Receiver<Stray>,
    event: EventFd,
}

fn mailbox() -> io::Result<(Mailbox, Inbox)> {
    let ((changes, read_changes), (updates, read_updates)) = (channel(), sync_channel(WAITING_MAX));
    let (strays, read_strays) = sync_channel(WAITING_MAX);
    let event = EventFd::new()?;
    let inbox =
        Inbox { changes: read_changes, updates: read_updates, strays: read_strays, event: event.clone() };
    Ok((Mailbox { changes, updates, strays, event }, inbox))
}

impl Inbox {
    fn read(&self, host: &mut Host, now: Instant) {
        self.changes.try_iter().for_each(|change| change(host, now));
        self.updates.try_iter().for_each(|update| host.membership().sync_neighbor(update, now));
        let strays = self.strays.try_iter().take(STRAYS_AT_ONCE);
        if strays.map(|stray| host.membership().take_stray(stray, now)).count() == STRAYS_AT_ONCE {
            self.event.notify();
        }
    }
}

/// A cheap, cloneable handle that changes all hosts of a group, from any thread.
#[derive(Clone)]
pub struct Remote {
    boxes: Vec<Mailbox>,
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("hosts", &self.boxes.len()).finish_non_exhaustive()
    }
}

impl Remote {
    /// Has every host call `change` between two units of work, so that all get the same routes and
    /// addresses. Changes take effect in the order of the calls, on each host at its own time, and not
    /// before [`Group::run`].
    pub fn everywhere(&self, change: impl Fn(&mut Host, Instant) + Send + Sync + 'static) {
        let change = Arc::new(change);
        for host in 0..self.boxes.len() {
            let change = Arc::clone(&change);
            self.on(host, move |host, now| change(host, now));
        }
    }

    /// Has one host, given by its index in the group, call `change` between two units of work. `change` may
    /// modify the host or only inspect it.
    pub fn on(&self, host: usize, change: impl FnOnce(&mut Host, Instant) + Send + 'static) {
        if let Some(mailbox) = self.boxes.get(host) {
            // A host that is gone needs no change.
            let _ = mailbox.changes.send(Box::new(change));
            mailbox.event.notify();
        }
    }

    /// Passes on what the host with the index `from` has for others.
    fn pass_on(&self, news: ForOthers, from: usize) {
        match news {
            ForOthers::Neighbor(update) => {
                for (_, mailbox) in self.boxes.iter().enumerate().filter(|(index, _)| *index != from) {
                    if mailbox.updates.try_send(update).is_ok() {
                        mailbox.event.notify();
                    }
                }
            }
            ForOthers::Stray(stray) => {
                let next = self.boxes.iter().cycle().nth(from + 1);
                if let Some(mailbox) = next.filter(|mailbox| mailbox.strays.try_send(stray).is_ok()) {
                    mailbox.event.notify();
                }
            }
        }
    }
}

/// A guard that ends all hosts if one has failed, also by a panic.
struct Failure<'a> {
    failed: &'a AtomicBool,
    remote: &'a Remote,
    has_come: bool,
}

impl Drop for Failure<'_> {
    fn drop(&mut self) {
        if self.has_come {
            self.failed.store(true, Ordering::Relaxed);
            // A change wakes the hosts that are halted.
            self.remote.everywhere(|_, _| {});
        }
    }
}

/// A guard that counts a host's thread as running until it ends, also by a panic.
struct Running<'a> {
    running: &'a AtomicUsize,
    waiter: Arc<Notifier>,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        // The pause of the thread beside the hosts ends early only with the last of them.
        if self.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.waiter.notify();
        }
    }
}

/// Makes the hosts of these engines one group: they pass on neighbour updates and strays to each other.
pub(crate) fn join(engines: &mut [Engine]) -> io::Result<Remote> {
    let (mut remote, hosts) = (Remote { boxes: Vec::new() }, engines.len());
    for (index, engine) in engines.iter_mut().enumerate() {
        let (mailbox, inbox) = mailbox()?;
        engine.host_mut().membership().join(index, hosts);
        engine.attend_event(&mailbox.event, move |host, now| inbox.read(host, now));
        remote.boxes.push(mailbox);
    }
    for (index, engine) in engines.iter_mut().enumerate() {
        let remote = remote.clone();
        engine.on_news_for_others(move |news| remote.pass_on(news, index));
    }
    Ok(remote)
}

/// A group of hosts that appears as one host to the network.
///
/// The hosts must have the same interfaces, added in the same order, and the same addresses. If there are
/// several, their [`Config::neighbor_updates`](evenkeel_core::stack::Config::neighbor_updates) must not be
/// zero. Their engines must use the same clock.
#[derive(Debug)]
pub struct Group {
    engines: Vec<Engine>,
    remote: Remote,
}

impl Group {
    /// Joins hosts to a group.
    ///
    /// # Errors
    /// If the process may open no more descriptors.
    pub fn new(mut engines: Vec<Engine>) -> io::Result<Self> {
        let remote = join(&mut engines)?;
        Ok(Self { engines, remote })
    }

    /// Returns a handle that changes all hosts, also while they run.
    #[must_use]
    pub fn remote(&self) -> Remote {
        self.remote.clone()
    }

    /// Returns the engines of the hosts.
    #[must_use]
    pub fn engines(&self) -> &[Engine] {
        &self.engines
    }

    /// Returns the engines of the hosts for modification, for example to add programs.
    pub fn engines_mut(&mut self) -> &mut [Engine] {
        &mut self.engines
    }

    /// Runs each host on a thread of its own until each ends as [`Engine::run`] does. The threads are bound
    /// to the processors in `cpus`, one after the other, as far as there are any. `done` is called with the
    /// index of the host in the group. If one host fails, all end.
    ///
    /// # Errors
    /// The error of the failed engine with the lowest index, after all have ended.
    pub fn run(
        &mut self,
        cpus: &[usize],
        until: Instant,
        done: impl Fn(usize, &Host) -> bool + Sync,
    ) -> io::Result<Vec<Ended>> {
        self.run_beside(cpus, until, done, Duration::MAX, &[], || {})
    }

    /// Runs the hosts as [`Group::run`] does, while the calling thread calls `beside` repeatedly, after a
    /// pause of `every` each time. A readable descriptor of `wake` ends the pause; `beside` has to read it.
    /// No host waits for `beside`.
    ///
    /// # Errors
    /// As [`Group::run`].
    pub fn run_beside(
        &mut self,
        cpus: &[usize],
        until: Instant,
        done: impl Fn(usize, &Host) -> bool + Sync,
        every: Duration,
        wake: &[Arc<OwnedFd>],
        mut beside: impl FnMut(),
    ) -> io::Result<Vec<Ended>> {
        let (done, failed, remote) = (&done, &AtomicBool::new(false), &self.remote);
        let running = &AtomicUsize::new(self.engines.len());
        let (mut halt, clock) = (Halt::new()?, Clock::start_monotonic());
        wake.iter().for_each(|fd| _ = halt.watch(Arc::clone(fd)));
        thread::scope(|scope| {
            let threads: Vec<_> = self
                .engines
                .iter_mut()
                .enumerate()
                .map(|(index, engine)| {
                    let cpu = cpus.get(index).copied();
                    let counted = Running { running, waiter: halt.notifier() };
                    scope.spawn(move || {
                        let _counted = counted;
                        let mut failure = Failure { failed, remote, has_come: true };
                        cpu.map_or(Ok(()), link::pin_to_cpu)?;
                        let ended =
                            engine.run(until, |host| failed.load(Ordering::Relaxed) || done(index, host))?;
                        failure.has_come = false;
                        Ok(ended)
                    })
                })
                .collect();
            while running.load(Ordering::Acquire) > 0 {
                let next = clock.now() + every;
                // If there is no memory for the wait, `beside` is not called any more.
                if halt.until(&clock, next).is_err() {
                    break;
                }
                if running.load(Ordering::Acquire) > 0 {
                    beside();
                }
            }
            let ended: Vec<_> = threads.into_iter().map(thread::ScopedJoinHandle::join).collect();
            ended
                .into_iter()
                .map(|ended| ended.map_err(|_| io::Error::other("a host's thread panicked"))?)
                .collect()
        })
    }
}
