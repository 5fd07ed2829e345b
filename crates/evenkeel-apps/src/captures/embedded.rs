//! A capture inside a host that runs for another purpose.
//!
//! Programs of the host use the same rings, so the capture never delays them: frames that cannot be written
//! are discarded and counted.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use evenkeel::Engine;
use evenkeel::raw::capture::encode::Described;
use evenkeel::raw::capture::{Capture, CaptureCounters, Expression, Filter, Frames, Judge, Target};
use evenkeel::raw::device::{FRAME_BYTES, Properties};
use evenkeel::raw::host::Host;
use evenkeel::raw::ip::InterfaceId;
use evenkeel::raw::process::ProcessId;
use evenkeel::raw::time::Instant;
use schemars::JsonSchema;
use serde::Serialize;

use super::file::CaptureFile;
use super::product::Product;
use super::program::{Counters, Monitor, Options, shared};
use super::watch::{Writable, watch};
use crate::host_setup::SetupError;

/// Options for a capture inside a host that runs for another purpose.
#[derive(Debug, Clone)]
pub struct Embedded {
    /// The capture file.
    pub file: PathBuf,
    /// The most bytes kept of a frame.
    pub snaplen: usize,
    /// The filter that chooses the frames; `None` for all frames.
    pub filter: Option<Expression>,
    /// The callback for the events that the file cannot be written, and that it can be written again.
    pub notify: fn(Writable),
}

/// The result of an embedded capture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EmbeddedCaptured {
    /// The file.
    pub file: String,
    /// The number of frames in the file.
    pub captured: u64,
    /// Accepted frames that were dropped because the capture queue was full.
    pub dropped: u64,
    /// Accepted frames that were not written because the disk was full, or the reader took none.
    pub discarded: u64,
    /// Whether the file was written to its end.
    pub complete: bool,
    /// The reason why the capture is incomplete; `None` if it is complete.
    #[serde(skip)]
    pub incomplete: Option<String>,
}

/// The number of frames that may wait to be written: those of a burst.
const QUEUE_PKTS: usize = 1024;

/// A capture at work.
#[derive(Debug)]
pub struct Capturing {
    process: ProcessId,
    file: String,
    interfaces: Vec<InterfaceId>,
    product: Arc<Mutex<Product>>,
    tally: Arc<Counters>,
    failing: bool,
    counters: CaptureCounters,
    notify: fn(Writable),
}

impl Embedded {
    /// Starts capturing on interfaces that the host has.
    ///
    /// # Errors
    /// [`SetupError`] if the file cannot be created. That the host's memory does not allow it shows when the
    /// capture ends.
    pub fn start(&self, engine: &mut Engine, interfaces: &[InterfaceId]) -> Result<Capturing, SetupError> {
        let clock = *engine.clock();
        let snaplen = self.snaplen.min(FRAME_BYTES) as u32;
        let filter = self.filter.as_ref().map(ToString::to_string).unwrap_or_default();
        let described = interfaces.iter().filter_map(|&id| {
            let interface = engine.host_mut().interface_mut(id)?;
            let Properties { name, address, .. } = interface.properties().clone();
            let address = Some(address);
            Some((id, Described { name, address, snaplen, filter: filter.clone(), ..Described::default() }))
        });
        let described = described.collect();
        let judge = self.filter.clone().map(|it| Judge::new(it, vec![Frames::ETHERNET; interfaces.len()]));
        let judge = judge.transpose()?.map(|judge| Box::new(judge) as Box<dyn Filter>);
        let file =
            CaptureFile::open(Target::File(self.file.clone()), described, clock.wall_nanos(clock.now()))?;
        let product = Arc::new(Mutex::new(Product::File(Box::new(file))));
        let capture = Capture {
            filter: judge,
            snaplen: self.snaplen,
            limit_pkts: QUEUE_PKTS,
            interface: None,
            sent_too: true,
            feedback: false,
        };
        let tally = Arc::new(Counters::default());
        let options = Options { capture, count: None, discards: true };
        let monitor = Monitor::new(options, clock, Arc::clone(&product), Arc::clone(&tally));
        let process = engine.host_mut().spawn("capture", 0, Box::new(monitor));
        let file = self.file.display().to_string();
        Ok(Capturing {
            process,
            file,
            interfaces: interfaces.to_vec(),
            product,
            tally,
            failing: false,
            counters: CaptureCounters::default(),
            notify: self.notify,
        })
    }
}

impl Capturing {
    /// Updates the capture. Call it often, and before [`Capturing::finish`].
    pub fn attend(&mut self, host: &mut Host, now: u64) {
        watch(&self.product, &self.tally, &mut self.failing, &mut self.notify);
        if let Product::File(file) = &mut *shared(&self.product) {
            self.counters = self.tally.counters(host);
            file.record(self.counters, now);
            for &id in &self.interfaces {
                file.record_interface(id, None, host.untaken(id).missed());
            }
        }
    }

    /// Returns whether the capture file cannot be written at the moment.
    #[must_use]
    pub const fn is_failing(&self) -> bool {
        self.failing
    }

    /// Ends the program that captures, for a host that outlives its capture.
    pub(crate) fn stop(&self, host: &mut Host, now: Instant) {
        host.kill(self.process, now);
    }

    /// Ends the capture. The engine of its host must be dropped already, or the capture must be
    /// stopped.
    ///
    /// # Errors
    /// [`SetupError`] if there was no memory for it.
    pub fn finish(self) -> Result<EmbeddedCaptured, SetupError> {
        if let Some(error) = self.tally.refused() {
            return Err(error.into());
        }
        let CaptureCounters { accepted, dropped, .. } = self.counters;
        let (mut captured, mut incomplete) = (self.tally.taken(), None);
        if let Some(Ok(product)) = Arc::into_inner(self.product).map(Mutex::into_inner)
            && let Err((written, what)) = product.finish()
        {
            captured = written.min(captured);
            incomplete = Some(what);
        }
        let discarded = accepted.saturating_sub(dropped + captured);
        let complete = incomplete.is_none();
        Ok(EmbeddedCaptured { file: self.file, captured, dropped, discarded, complete, incomplete })
    }
}
