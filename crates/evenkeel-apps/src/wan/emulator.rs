//! The forwarding thread of the emulator, and its loop.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use evenkeel::raw::cpu::{
    ThreadMeter, ThreadTime, pin_to_cpu, prefer_this_thread, run_in_real_time, set_timer_slack,
};
use evenkeel::raw::device::{Device, Interface as _, buffer_bytes_for};
use evenkeel::raw::frame::{BUFFER_BYTES, Pool};
use evenkeel::raw::signal::Stop;
use evenkeel::raw::time::{Clock, Duration, Instant};
use evenkeel::raw::wait::{Halt, Notifier, Woken};
use evenkeel_wan::{Rng, Settings};

use super::clocked::{Margin, Until};
use super::port::Port;
use super::report::{self, Report};
use super::wall::Wall;

/// The most frames taken from one link, or sent, before the other link has its turn.
const TURN_PKTS: usize = 16;
/// The number of frames by which memory grows when less than [`SPARE_PKTS`] are free.
const GROWTH_PKTS: usize = 4_096;
const SPARE_PKTS: usize = 256;
/// The interval of attempts at a device that takes nothing, because it does not report when it will.
const AGAIN: Duration = Duration::from_micros(20);
/// The interval at which a thread that does not halt polls the kernel, for devices whose frames are not
/// visible in memory.
const ASK: Duration = Duration::from_micros(5);

/// Options for an emulator: the treatment of frames, and the thread that applies it.
#[derive(Debug, Clone)]
pub struct Options {
    /// The treatment of frames from the first link to the second, and back.
    pub directions: [Settings; 2],
    /// The seed of the random numbers.
    pub seed: u64,
    /// The longest time for which the thread waits awake for a frame to be due.
    pub spin: Duration,
    /// The priority of the thread over ordinary threads.
    pub real_time: RealTime,
    /// The processor that its thread is bound to.
    pub cpu: Option<usize>,
    /// The most frames that memory is allocated for.
    pub memory_pkts: usize,
}

/// The priority of a thread over all ordinary threads (SCHED_FIFO).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RealTime {
    /// The thread is an ordinary one.
    Off,
    /// The thread has priority if the kernel allows it. If not, the lateness in the report shows the
    /// effect.
    IfAllowed,
    /// The thread has priority, or the emulator does not run.
    Required,
}

impl RealTime {
    /// Gives the calling thread this priority. Returns whether that succeeded.
    fn begin(self) -> io::Result<bool> {
        match self {
            Self::Off => Ok(false),
            Self::IfAllowed => Ok(run_in_real_time().is_ok()),
            Self::Required => run_in_real_time().map(|()| true).map_err(|error| {
                let what = format!("no real time: {error}; run as root, or with CAP_SYS_NICE");
                io::Error::new(error.kind(), what)
            }),
        }
    }
}

/// An order from another thread to the emulator.
enum Order {
    /// Reports the progress, with percentiles if it is to be the `whole` report.
    Report { whole: bool, sender: Sender<Report> },
    /// Changes the treatment of frames that come from now on, in each direction.
    Change(Box<[Settings; 2]>),
    /// Makes room for frames of a device with this MTU.
    Fit(usize),
    /// Drops the device of this link, which is gone.
    Lose(usize),
    /// A link has this device.
    Take(usize, Box<dyn Device>),
}

/// A handle by which another thread sends orders to the emulator.
#[derive(Clone)]
pub(super) struct Remote {
    orders: Sender<Order>,
    ordered: Arc<AtomicBool>,
    notifier: Arc<Notifier>,
}

impl Remote {
    /// Returns a report so far, with percentiles if it is to be the `whole` report; `None` if the emulator
    /// has ended.
    pub(super) fn report(&self, whole: bool) -> Option<Report> {
        let (sender, receiver) = channel();
        self.order(Order::Report { whole, sender });
        receiver.recv().ok()
    }

    /// Changes the treatment of frames that come from now on, in each direction.
    pub(super) fn change(&self, directions: [Settings; 2]) {
        self.order(Order::Change(Box::new(directions)));
    }

    /// Makes room for frames of a device with this MTU.
    pub(super) fn fit(&self, mtu: usize) {
        self.order(Order::Fit(mtu));
    }

    /// Makes the emulator drop the device of a link, which is gone.
    pub(super) fn lose_device(&self, port: usize) {
        self.order(Order::Lose(port));
    }

    /// Makes the emulator use another device for a link.
    pub(super) fn take_device(&self, port: usize, device: Box<dyn Device>) {
        self.order(Order::Take(port, device));
    }

    /// Makes the emulator check whether it is done.
    pub(super) fn notify(&self) {
        self.notifier.notify();
    }

    fn order(&self, order: Order) {
        // An emulator that has ended receives no orders.
        let _ = self.orders.send(order);
        self.ordered.store(true, Ordering::Release);
        self.notifier.notify();
    }
}

/// A guard that calls its function when it is dropped, so that waiting threads are notified however a thread
/// ends, also by a panic.
pub(super) struct AtEnd<F: Fn()>(pub(super) F);

impl<F: Fn()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Two links and the network between them.
pub(super) struct Emulator {
    seed: u64,
    cpu: Option<usize>,
    real_time: RealTime,
    ports: [Port; 2],
    /// The descriptors of their devices: the number of each, and its place in the halt. A link in memory has
    /// none. The first descriptor in the halt is the stop's.
    watched: [Vec<(usize, usize)>; 2],
    pool: Pool,
    /// The bytes of the pool's buffers, and the number of frames that have memory.
    buffer_bytes: usize,
    memory_pkts: usize,
    halt: Halt,
    clock: Clock,
    wall: Wall,
    margin: Margin,
    asked: Instant,
    begin: Instant,
    orders: Receiver<Order>,
    ordered: Arc<AtomicBool>,
    sender: Sender<Order>,
    meter: Option<ThreadMeter>,
    at_begin: ThreadTime,
    preferred: bool,
    in_real_time: bool,
}

impl Emulator {
    pub(super) fn new(names: [&str; 2], options: &Options, clock: Clock, stop: &Stop) -> io::Result<Self> {
        let begin = clock.now();
        let mut halt = Halt::new()?;
        halt.watch(stop.fd());
        let mut rng = Rng::new(options.seed);
        let ports = [0, 1].map(|n| Port::new(names[n], options.directions[n].clone(), rng.fork(), begin));
        let (sender, orders) = channel();
        Ok(Self {
            seed: options.seed,
            cpu: options.cpu,
            real_time: options.real_time,
            ports,
            watched: [Vec::new(), Vec::new()],
            pool: Pool::with_limit(options.memory_pkts),
            buffer_bytes: BUFFER_BYTES,
            memory_pkts: options.memory_pkts,
            halt,
            wall: Wall::new(&clock),
            margin: Margin::up_to(options.spin),
            clock,
            asked: begin,
            begin,
            orders,
            ordered: Arc::default(),
            sender,
            meter: None,
            at_begin: ThreadTime::default(),
            preferred: false,
            in_real_time: false,
        })
    }

    pub(super) fn remote(&self) -> Remote {
        let notifier = self.halt.notifier();
        Remote { orders: self.sender.clone(), ordered: Arc::clone(&self.ordered), notifier }
    }

    /// Gives a link its device.
    pub(super) fn take_device(&mut self, port: usize, mut device: Box<dyn Device>) -> io::Result<()> {
        self.fit(device.properties().mtu)?;
        device.attach(&mut self.pool).map_err(io::Error::other)?;
        for (number, fd) in device.info().descriptors.list() {
            match self.watched[port].iter().find(|(other, _)| *other == number) {
                Some(&(_, index)) => self.halt.replace(index, fd),
                None => self.watched[port].push((number, self.halt.watch(fd))),
            }
        }
        self.ports[port].take_device(device);
        Ok(())
    }

    /// Makes room for frames of a device with this MTU, with larger buffers from now on. Frames in transit
    /// keep theirs.
    fn fit(&mut self, mtu: usize) -> io::Result<()> {
        let bytes = buffer_bytes_for(mtu);
        if bytes <= self.buffer_bytes {
            return Ok(());
        }
        self.buffer_bytes = bytes;
        self.pool = Pool::of_buffers(bytes, self.memory_pkts);
        let devices = self.ports.iter_mut().zip(&self.watched).filter(|(_, watched)| !watched.is_empty());
        for interface in devices.filter_map(|(port, _)| port.interface.as_mut()) {
            interface.attach(&mut self.pool).map_err(io::Error::other)?;
        }
        Ok(())
    }

    /// Connects a link to an end of a cable.
    pub(super) fn take_cable(&mut self, port: usize, mut end: evenkeel::raw::cable::End) -> io::Result<()> {
        end.attach(&mut self.pool).map_err(io::Error::other)?;
        end.set_waker(self.halt.waker());
        self.ports[port].interface = Some(Box::new(end));
        Ok(())
    }

    /// Forwards frames until `until`, or until the process is asked to end, or `done` returns true.
    pub(super) fn run(
        &mut self,
        until: Instant,
        stop: &Stop,
        done: impl Fn(&Self) -> bool,
    ) -> io::Result<()> {
        self.cpu.map_or(Ok(()), pin_to_cpu)?;
        self.preferred = prefer_this_thread();
        self.in_real_time = self.real_time.begin()?;
        set_timer_slack(Duration::from_nanos(1))?;
        let meter = ThreadMeter::of_this_thread();
        self.at_begin = meter.read().unwrap_or_default();
        self.meter = Some(meter);
        while !stop.requested() {
            // The check is a load; the swap is only for pending orders.
            if self.ordered.load(Ordering::Relaxed) && self.ordered.swap(false, Ordering::Acquire) {
                self.obey()?;
            }
            let busy = self.turn()?;
            if self.clock.now() >= until || done(self) {
                break;
            }
            if !busy {
                self.wait(until)?;
            }
        }
        Ok(())
    }

    /// Moves frames in and out. Returns whether there is more to do at once.
    fn turn(&mut self) -> io::Result<bool> {
        let mut busy = false;
        for from in 0..2 {
            busy |= self.ports[from].take_in(TURN_PKTS, &mut self.pool, &self.clock, &self.wall);
            // This includes frames of the other direction, which may have become due meanwhile.
            busy |= !self.give_out();
        }
        if self.pool.available() < SPARE_PKTS {
            // At its limit, frames stay in their rings.
            let _ = self.pool.grow(GROWTH_PKTS);
        }
        let now = self.clock.now();
        self.wall.compare(&self.clock, now);
        if now.since(self.asked) >= ASK && self.ports.iter().any(|port| !port.in_memory) {
            self.look(Instant::ZERO)?;
        }
        Ok(busy)
    }

    /// Waits until something is due, or comes.
    fn wait(&mut self, end: Instant) -> io::Result<()> {
        match self.margin.until(self.clock.now(), self.next_due().min(end)) {
            Until::Spin => Ok(()),
            // The order matters: a link that is empty now wakes the thread at its next frame.
            Until::Halt(_) if self.arm() => Ok(()),
            Until::Halt(at) => {
                if self.look(at)? == Woken::Deadline && self.asked >= at {
                    self.margin.woken(at, self.asked);
                }
                Ok(())
            }
        }
    }

    /// Sends the frames that are due. Returns whether no due frame is left on its way.
    fn give_out(&mut self) -> bool {
        let Self { ports: [one, other], pool, clock, .. } = self;
        let there = one.give_out(other, pool, clock);
        other.give_out(one, pool, clock) && there
    }

    fn next_due(&self) -> Instant {
        let due = self.ports.iter().map(|port| port.path.poll_timeout()).min().unwrap_or(Instant::NEVER);
        let stalled = self.ports.iter().any(|port| port.stalled() > 0);
        if stalled { due.min(self.clock.now() + AGAIN) } else { due }
    }

    fn arm(&mut self) -> bool {
        // All links are armed; a link that was not could not wake the thread.
        let mut any = false;
        for interface in self.ports.iter_mut().filter_map(|port| port.interface.as_mut()) {
            any |= interface.queue_mut(0).arm();
        }
        any
    }

    /// Halts until `until`; records which links have frames.
    fn look(&mut self, until: Instant) -> io::Result<Woken> {
        let woken = self.halt.until(&self.clock, until)?;
        self.asked = self.clock.now();
        for (port, watched) in self.ports.iter_mut().zip(&self.watched) {
            let Some(interface) = &mut port.interface else { continue };
            let readable = watched.iter().filter(|(_, index)| self.halt.is_readable(*index));
            readable.for_each(|(number, _)| interface.set_readable(*number));
        }
        Ok(woken)
    }

    fn obey(&mut self) -> io::Result<()> {
        while let Ok(order) = self.orders.try_recv() {
            match order {
                Order::Report { whole, sender } => drop(sender.send(self.report(whole))),
                Order::Change(directions) => {
                    let ports = self.ports.iter_mut().zip(*directions);
                    ports.for_each(|(port, settings)| port.path.set_settings(settings));
                }
                Order::Fit(mtu) => self.fit(mtu)?,
                Order::Lose(port) => {
                    let lost = self.ports[port].lose_device(&mut self.pool);
                    self.ports[1 - port].tally.gone += lost;
                }
                Order::Take(port, device) => self.take_device(port, device)?,
            }
        }
        Ok(())
    }

    /// Returns whether no frame waits to be taken in, is on its way, or waits for its device.
    pub(super) fn is_quiet(&self) -> bool {
        self.ports.iter().all(|port| {
            let pending = port.interface.as_ref().map_or(0, |interface| interface.queue(0).pending());
            pending + port.path.under_way() + port.stalled() == 0
        })
    }

    /// Returns the report so far. Percentiles take as long to find as some frames to treat, so they are
    /// found only `at_end`.
    pub(super) fn report(&self, at_end: bool) -> Report {
        let seconds = self.clock.now().since(self.begin).as_secs_f64();
        let [one, other] = &self.ports;
        let directions = vec![
            report::direction(one, other, seconds, at_end),
            report::direction(other, one, seconds, at_end),
        ];
        let used = self.meter.as_ref().and_then(ThreadMeter::read).unwrap_or_default() - self.at_begin;
        Report {
            seconds,
            seed: self.seed,
            conserved: directions.iter().all(|direction| direction.adds_up),
            directions,
            cpu: used.ran.as_secs_f64() / seconds.max(1e-9),
            run_delay: used.run_delay.as_secs_f64() / seconds.max(1e-9),
            preferred: self.preferred,
            real_time: self.in_real_time,
            clock: self.clock.source(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_hears_of_the_end_also_by_a_panic() {
        let over = AtomicBool::new(false);
        let ended = std::panic::catch_unwind(|| {
            let _ending = AtEnd(|| over.store(true, Ordering::Release));
            panic!("ended");
        });
        assert!(ended.is_err() && over.load(Ordering::Acquire));
    }
}
