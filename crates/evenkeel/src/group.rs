//! Several cores: one host on each, sharing nothing.
//!
//! Each host has its own receive queue of every interface, its own transmit side, its own tables, its own
//! polling thread, quota, feedback and cycle limit. The interface spreads flows over the queues by a hash, so
//! a flow stays on one core and in order. There is no lock on the way of a packet.
//!
//! The paper leaves open how several polling threads are to share several processors (TOCS 1997, section 10).
//! A pool of threads that serve the same interfaces needs locks around rings and tables, puts packets of one
//! flow out of order, and makes a cycle limit of something that has no processor of its own. Here a limit is
//! what it says, the share of *a core*; and to keep a processor for users altogether, a group has fewer hosts
//! than there are processors.
//!
//! What hosts must share is little and changes seldom: routes, addresses, neighbours. It is copied to all of
//! them by messages, which each host takes in between two units of work. An answer of ARP or NDP reaches one
//! host, and it may be another one that has asked: hosts pass on what neighbours say of themselves.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use evenkeel_core::host::Host;
use evenkeel_core::stack::NeighborUpdate;
use evenkeel_core::time::{Duration, Instant};
use evenkeel_link::{self as link, Clock, EventFd, Halt, Notifier};

use crate::{Ended, Engine};

/// Neighbour updates that may wait for one host. What neighbours say beyond that is lost, as a frame may be,
/// and asked for again.
const UPDATES: usize = 1024;

type Change = Box<dyn FnOnce(&mut Host, Instant) + Send>;

/// Where a host gets its messages.
#[derive(Clone)]
struct Mailbox {
    /// Whoever runs the hosts sends as many as there is memory for; the network is held to a limit.
    changes: Sender<Change>,
    updates: SyncSender<NeighborUpdate>,
    event: EventFd,
}

/// What is read from it.
struct Inbox {
    changes: Receiver<Change>,
    updates: Receiver<NeighborUpdate>,
}

fn mailbox() -> io::Result<(Mailbox, Inbox)> {
    let ((changes, read_changes), (updates, read_updates)) = (channel(), sync_channel(UPDATES));
    let event = EventFd::new()?;
    let inbox = Inbox { changes: read_changes, updates: read_updates };
    Ok((Mailbox { changes, updates, event }, inbox))
}

impl Inbox {
    fn read(&self, host: &mut Host, now: Instant) {
        self.changes.try_iter().for_each(|change| change(host, now));
        self.updates.try_iter().for_each(|update| host.sync_neighbor(update, now));
    }
}

/// Changes all hosts of a group, from any thread; copies are the same.
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
    /// Has every host call `change` between two units of work: the same routes, the same addresses
    /// everywhere. Changes take effect in the order of the calls, on each host in its own time, and not
    /// before [`Group::run`].
    pub fn everywhere(&self, change: impl Fn(&mut Host, Instant) + Send + Sync + 'static) {
        let change = Arc::new(change);
        for host in 0..self.boxes.len() {
            let change = Arc::clone(&change);
            self.on(host, move |host, now| change(host, now));
        }
    }

    /// Has one host, by its place in the group, call `change` between two units of work: to change it, or to
    /// see how it is getting on.
    pub fn on(&self, host: usize, change: impl FnOnce(&mut Host, Instant) + Send + 'static) {
        if let Some(mailbox) = self.boxes.get(host) {
            // A host that is gone needs no change.
            let _ = mailbox.changes.send(Box::new(change));
            mailbox.event.notify();
        }
    }

    fn tell(&self, update: NeighborUpdate, except: usize) {
        for (index, mailbox) in self.boxes.iter().enumerate() {
            if index != except && mailbox.updates.try_send(update).is_ok() {
                mailbox.event.notify();
            }
        }
    }
}

/// Ends all hosts if one has failed, also by a panic.
struct Failure<'a> {
    failed: &'a AtomicBool,
    remote: &'a Remote,
    has_come: bool,
}

impl Drop for Failure<'_> {
    fn drop(&mut self) {
        if self.has_come {
            self.failed.store(true, Ordering::Relaxed);
            // Those that are halted look up.
            self.remote.everywhere(|_, _| {});
        }
    }
}

/// Counts a host's thread until it ends, also by a panic.
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

/// Hosts that are one to the outside.
///
/// They must have the same interfaces, added in the same order, and the same addresses; and if there are
/// several, their [`Config::neighbor_updates`](evenkeel_core::stack::Config::neighbor_updates) must not be
/// zero. Their engines go by the same clock.
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
    pub fn new(engines: Vec<Engine>) -> io::Result<Self> {
        let mut group = Self { engines, remote: Remote { boxes: Vec::new() } };
        for engine in &mut group.engines {
            let (mailbox, inbox) = mailbox()?;
            engine.attend_event(&mailbox.event, move |host, now| inbox.read(host, now));
            group.remote.boxes.push(mailbox);
        }
        for (index, engine) in group.engines.iter_mut().enumerate() {
            let remote = group.remote.clone();
            engine.on_neighbor_update(move |update| remote.tell(update, index));
        }
        Ok(group)
    }

    /// Changes all hosts, also while they run.
    #[must_use]
    pub fn remote(&self) -> Remote {
        self.remote.clone()
    }

    /// The hosts' engines.
    #[must_use]
    pub fn engines(&self) -> &[Engine] {
        &self.engines
    }

    /// The same, to add programs.
    pub fn engines_mut(&mut self) -> &mut [Engine] {
        &mut self.engines
    }

    /// Runs each host on a thread of its own, bound to the processors in `cpus` one after the other as far as
    /// there are any, until each ends as [`Engine::run`] does. `done` is asked with the host's place in the
    /// group. If one fails, all end.
    ///
    /// # Errors
    /// That of the first engine that failed, after all have ended.
    pub fn run(
        &mut self,
        cpus: &[usize],
        until: Instant,
        done: impl Fn(usize, &Host) -> bool + Sync,
    ) -> io::Result<Vec<Ended>> {
        self.run_beside(cpus, until, done, Duration::MAX, &[], || {})
    }

    /// Runs hosts as [`Group::run`] does, and while they run the calling thread calls `beside` again and
    /// again, with a pause of `every` before each call. A descriptor of `wake` that is readable ends the
    /// pause; `beside` has to read what is there. No host waits for it.
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
                // Without memory to wait with, nobody is looked at any more.
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
