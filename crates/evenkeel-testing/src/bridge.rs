//! A bridge between two devices, in real time, through the emulator of `evenkeel-sim`: an impaired network
//! for kernels without `netem`.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use evenkeel_core::frame::{Frame, Pool};
use evenkeel_core::time::{Duration, Instant};
use evenkeel_link::{Clock, Device, Halt, Notifier};
use evenkeel_sim::net::{Conditions, Counters, Path};
use evenkeel_sim::rng::Rng;

/// The frames of a device's buffers, and as many on their way out.
const POOL_PKTS: usize = 4_096;
/// The most frames taken from one device before the other one has its turn.
const TURN_PKTS: usize = 64;
/// The interval of attempts at a device that takes nothing, because it does not report when it will.
const AGAIN: Duration = Duration::from_millis(1);

/// The traffic in one direction, from one device to the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// The counters of the emulator. A frame that it delivered left by the other device or was refused.
    pub emulated: Counters,
    /// Frames that the other device did not take.
    pub refused: u64,
    /// Frames in transit.
    pub flying: usize,
}

impl Traffic {
    /// Returns whether the counters account for every frame: received frames and their copies were delivered,
    /// lost or dropped, or are in transit.
    #[must_use]
    pub const fn adds_up(&self) -> bool {
        let e = &self.emulated;
        e.offered + e.duplicated == e.delivered + e.lost + e.overflowed + self.flying as u64
    }
}

/// Two devices that a thread connects until this is dropped. Then both are closed, and devices that were
/// created for them are removed.
#[derive(Debug)]
pub struct Bridge {
    shared: Arc<Mutex<Shared>>,
    notifier: Arc<Notifier>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    traffic: [Traffic; 2],
    conditions: Option<[Conditions; 2]>,
    stop: bool,
}

impl Bridge {
    /// Connects two devices with one receive ring each. The first of `conditions` applies from the first to
    /// the second. Equal seeds give equal faults to equal frames.
    ///
    /// # Errors
    /// A device has several receive rings: the order of frames in different rings is unknown, and so is the
    /// choice of frames with faults. Or the thread cannot be started.
    pub fn between(
        devices: [Box<dyn Device>; 2],
        conditions: [Conditions; 2],
        seed: u64,
    ) -> io::Result<Self> {
        if let Some(device) = devices.iter().find(|device| device.properties().queues > 1) {
            let what =
                format!("{} has several receive rings, and a bridge reads one", device.properties().name);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let mut halt = Halt::new()?;
        let mut pool = Pool::with_limit(POOL_PKTS);
        let mut rng = Rng::new(seed);
        let mut ports = Vec::new();
        for (mut device, conditions) in devices.into_iter().zip(conditions) {
            device.attach(&mut pool).map_err(io::Error::other)?;
            device.info().descriptors.list().into_iter().for_each(|(_, fd)| _ = halt.watch(fd));
            let path = Path::new(conditions, rng.fork());
            ports.push(Port { device, path, waiting: VecDeque::new(), refused: 0 });
        }
        pool.grow(POOL_PKTS / 2).map_err(io::Error::other)?;
        let shared =
            Arc::new(Mutex::new(Shared { traffic: Default::default(), conditions: None, stop: false }));
        let notifier = halt.notifier();
        let mut forwarder =
            Forwarder { ports, pool, halt, clock: Clock::start(), shared: Arc::clone(&shared) };
        let thread = thread::Builder::new().name("bridge".into()).spawn(move || forwarder.run())?;
        Ok(Self { shared, notifier, thread: Some(thread) })
    }

    /// Changes the conditions from now on. Frames in transit are not affected.
    ///
    /// # Panics
    /// If the thread has panicked.
    pub fn set_conditions(&self, conditions: [Conditions; 2]) {
        self.shared.lock().unwrap().conditions = Some(conditions);
        self.notifier.notify();
    }

    /// Returns the traffic from the first device to the second, and from the second to the first.
    ///
    /// # Panics
    /// If the thread has panicked.
    #[must_use]
    pub fn traffic(&self) -> [Traffic; 2] {
        self.shared.lock().unwrap().traffic
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        if let Ok(mut shared) = self.shared.lock() {
            shared.stop = true;
        }
        self.notifier.notify();
        // A failed thread has reported its error already.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// A device, and the direction from it to the other one.
struct Port {
    device: Box<dyn Device>,
    path: Path,
    /// The frames that wait to leave by this device.
    waiting: VecDeque<Frame>,
    /// The number of this device's frames that the other device did not take.
    refused: u64,
}

struct Forwarder {
    ports: Vec<Port>,
    pool: Pool,
    halt: Halt,
    clock: Clock,
    shared: Arc<Mutex<Shared>>,
}

impl Forwarder {
    fn run(&mut self) {
        loop {
            let now = self.clock.now();
            let full = (0..2).map(|from| self.take_in(from, now)).max() == Some(TURN_PKTS);
            (0..2).for_each(|from| self.give_out(from, now));
            if self.report() {
                return;
            }
            // The order matters: a device that is empty now wakes the thread at its next frame.
            if full || self.ports.iter_mut().any(|port| port.device.queue_mut(0).arm()) {
                continue;
            }
            let arrival = self.ports.iter().map(|port| port.path.poll_timeout()).min();
            let stalled = self.ports.iter().any(|port| !port.waiting.is_empty());
            let again = if stalled { now + AGAIN } else { Instant::NEVER };
            let deadline = arrival.unwrap_or(Instant::NEVER).min(again);
            self.halt.until(&self.clock, deadline).unwrap();
            let Self { ports, halt, .. } = self;
            // Each device has one ring, and so one descriptor.
            halt.readable().for_each(|index| ports[index].device.set_readable(0));
        }
    }

    /// Puts frames that arrived on a device into the network. Returns their number.
    fn take_in(&mut self, from: usize, now: Instant) -> usize {
        let Port { device, path, .. } = &mut self.ports[from];
        for taken in 0..TURN_PKTS {
            let Some(frame) = device.queue_mut(0).take(&mut self.pool) else { return taken };
            path.handle_frame(now, frame.bytes().to_vec());
            self.pool.recycle(frame);
        }
        TURN_PKTS
    }

    /// Sends frames that the network has delivered through the other device.
    fn give_out(&mut self, from: usize, now: Instant) {
        while let Some(bytes) = self.ports[from].path.poll_frame(now) {
            let to = &mut self.ports[1 - from];
            if to.waiting.len() >= TURN_PKTS {
                to.device.transmit(&mut to.waiting, &mut self.pool);
            }
            let room = to.waiting.len() < TURN_PKTS;
            match self.pool.take_copy(&bytes).filter(|_| room) {
                Some(frame) => to.waiting.push_back(frame),
                None => self.ports[from].refused += 1,
            }
        }
        let to = &mut self.ports[1 - from];
        to.device.transmit(&mut to.waiting, &mut self.pool);
    }

    /// Reports the traffic and applies new conditions. Returns whether the thread is to end.
    fn report(&mut self) -> bool {
        let mut shared = self.shared.lock().unwrap();
        for (traffic, port) in shared.traffic.iter_mut().zip(&self.ports) {
            *traffic =
                Traffic { emulated: port.path.counters(), refused: port.refused, flying: port.path.flying() };
        }
        for (conditions, port) in mem::take(&mut shared.conditions).into_iter().flatten().zip(&mut self.ports)
        {
            port.path.set_conditions(conditions);
        }
        shared.stop
    }
}
