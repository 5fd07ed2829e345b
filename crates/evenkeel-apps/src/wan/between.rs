//! An emulator on its own thread, between links that the caller has opened.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use evenkeel::raw::cable::End;
use evenkeel::raw::device::Device;
use evenkeel::raw::signal::Stop;
use evenkeel::raw::time::{Clock, Instant};

use super::Options;
use super::emulator::{Emulator, Remote};
use super::links;
use super::report::Report;

/// A link of it.
#[derive(Debug)]
pub enum Link {
    /// The near end of a cable.
    Cable(Box<End>),
    /// A device, by [`device`].
    Device(Box<dyn Device>),
}

/// Creates a cable with room for the frames that arrive while the machine gives a core to other threads.
/// Returns the far end, and the near one.
#[must_use]
pub fn cable(name: &'static str, number: u8) -> (End, Link) {
    let (far, near) = links::cable(name, number);
    (far, Link::Cable(Box::new(near)))
}

/// Opens a network interface of the calling thread's namespace, with the kernel's time stamps of frames.
///
/// # Errors
/// [`evenkeel::raw::device::LinkError`], as [`io::Error`]
pub fn device(name: &str) -> io::Result<Link> {
    Ok(Link::Device(links::packet(name).map_err(io::Error::other)?))
}

/// It forwards frames until [`Between::end`], or until it is dropped or the process is asked to end.
pub struct Between {
    remote: Remote,
    over: Arc<AtomicBool>,
    /// The thread; `None` once it was joined.
    thread: Option<JoinHandle<io::Result<Report>>>,
}

impl std::fmt::Debug for Between {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Between").field("thread", &self.thread).finish_non_exhaustive()
    }
}

impl Between {
    /// Starts forwarding.
    ///
    /// # Errors
    /// If the machine has no memory or no thread for it.
    pub fn begin(options: &Options, links: [Link; 2], clock: Clock) -> io::Result<Self> {
        let stop = Stop::on_signals()?;
        let mut emulator = Emulator::new(["left", "right"], options, clock, stop)?;
        for (port, link) in links.into_iter().enumerate() {
            match link {
                Link::Cable(end) => emulator.take_cable(port, *end)?,
                Link::Device(device) => emulator.take_device(port, device)?,
            }
        }
        let (remote, over) = (emulator.remote(), Arc::new(AtomicBool::new(false)));
        let is_over = Arc::clone(&over);
        let emulate = move || {
            emulator.run(Instant::NEVER, stop, |_| is_over.load(Ordering::Acquire))?;
            Ok(emulator.report(true))
        };
        let thread = thread::Builder::new().name("emulator".to_owned()).spawn(emulate)?;
        Ok(Self { remote, over, thread: Some(thread) })
    }

    /// Ends the emulator; returns its report.
    ///
    /// # Errors
    /// The reason why it ended early.
    pub fn end(mut self) -> io::Result<Report> {
        match self.stop() {
            Some(ended) => ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Ends the emulator, and waits for its thread.
    fn stop(&mut self) -> Option<thread::Result<io::Result<Report>>> {
        self.over.store(true, Ordering::Release);
        self.remote.notify();
        self.thread.take().map(JoinHandle::join)
    }
}

impl Drop for Between {
    fn drop(&mut self) {
        // A caller that needs the result calls `end`.
        drop(self.stop());
    }
}

#[cfg(test)]
mod tests {
    use evenkeel::raw::time::Duration;
    use evenkeel_wan::Settings;

    use super::super::RealTime;
    use super::*;

    #[test]
    fn what_is_dropped_leaves_no_thread_behind() {
        let (directions, spin) = ([Settings::PERFECT, Settings::PERFECT], Duration::ZERO);
        let options =
            Options { directions, seed: 1, spin, real_time: RealTime::Off, cpu: None, memory_pkts: 100_000 };
        let ((_left, first), (_right, second)) = (cable("left", 10), cable("right", 20));
        let between = Between::begin(&options, [first, second], Clock::start()).expect("an emulator");
        let over = Arc::clone(&between.over);
        drop(between);
        assert_eq!(Arc::strong_count(&over), 1, "its thread has the other one");
    }
}
