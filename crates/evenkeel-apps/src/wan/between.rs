//! An emulator on a thread of its own, between links that somebody else has opened.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use evenkeel_core::cable::{self, End};
use evenkeel_core::time::{Duration, Instant};
use evenkeel_link::{Clock, Device, Packet, PacketOptions, Stop, run_in_real_time};
use evenkeel_wan::Settings;

use super::emulator::{Emulator, Remote, Setup};
use super::links::RING_PKTS;
use super::report::Report;

/// What an emulator between two links does.
#[derive(Debug, Clone)]
pub struct Network {
    /// From the first link to the second, and back.
    pub ways: [Settings; 2],
    /// Of its dice.
    pub seed: u64,
    /// The longest time that something due is waited for awake.
    pub spin: Duration,
    /// The processor that its thread is bound to.
    pub cpu: Option<usize>,
    /// Frames that there is memory for.
    pub memory_pkts: usize,
}

/// A link of it.
#[derive(Debug)]
pub enum Link {
    /// The near end of a cable.
    Cable(Box<End>),
    /// A device, by [`device`].
    Device(Box<dyn Device>),
}

/// A cable with room for what comes while the machine gives a core to others: the far end, and the near one.
#[must_use]
pub fn cable(name: &'static str, number: u8) -> (End, Link) {
    let options = |number| cable::Options { ring_pkts: RING_PKTS, ..cable::Options::new(name, number) };
    let (far, near) = cable::pair(options(number), options(number.wrapping_add(1)));
    (far, Link::Cable(Box::new(near)))
}

/// A network interface of the calling thread's namespace, with the kernel's stamps of what comes.
///
/// # Errors
/// [`evenkeel_link::LinkError`], as [`io::Error`]
pub fn device(name: &str) -> io::Result<Link> {
    let options = PacketOptions { ring_pkts: RING_PKTS, stamps: true, ..PacketOptions::default() };
    Ok(Link::Device(Box::new(Packet::open(name, &options).map_err(io::Error::other)?)))
}

/// It lets frames through until [`Between::end`], or until the process is asked to end.
pub struct Between {
    remote: Remote,
    over: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<Report>>,
}

impl std::fmt::Debug for Between {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Between").field("thread", &self.thread).finish_non_exhaustive()
    }
}

impl Between {
    /// Lets frames through from now on.
    ///
    /// # Errors
    /// If the machine has no memory or no thread for it.
    pub fn begin(network: &Network, links: [Link; 2], clock: Clock) -> io::Result<Self> {
        let stop = Stop::on_signals()?;
        let mut emulator = Emulator::new(network.setup(), clock, stop)?;
        for (port, link) in links.into_iter().enumerate() {
            match link {
                Link::Cable(end) => emulator.take_cable(port, *end)?,
                Link::Device(device) => emulator.take_device(port, device)?,
            }
        }
        let (remote, over) = (emulator.remote(), Arc::new(AtomicBool::new(false)));
        let is_over = Arc::clone(&over);
        let emulate = move || {
            // The kernel prefers its thread to all ordinary ones if it may; else what it was late tells.
            let _ = run_in_real_time();
            emulator.run(Instant::NEVER, stop, |_| is_over.load(Ordering::Acquire))?;
            Ok(emulator.report(true))
        };
        let thread = thread::Builder::new().name("emulator".to_owned()).spawn(emulate)?;
        Ok(Self { remote, over, thread })
    }

    /// Ends it; says what it has done.
    ///
    /// # Errors
    /// Why it has ended before.
    pub fn end(self) -> io::Result<Report> {
        self.over.store(true, Ordering::Release);
        self.remote.notify();
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Network {
    fn setup(&self) -> Setup {
        Setup {
            names: ["left", "right"].map(str::to_owned),
            ways: self.ways.clone(),
            seed: self.seed,
            spin: self.spin,
            real_time: false,
            cpu: self.cpu,
            memory_pkts: self.memory_pkts,
        }
    }
}
