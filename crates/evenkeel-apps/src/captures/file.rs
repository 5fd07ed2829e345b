//! The sink that writes a capture file.

use evenkeel::raw::capture::encode::{self, Described, Packet};
use evenkeel::raw::capture::{CaptureCounters, Captured, Direction, Output, Target, Totals, Writing};
use evenkeel::raw::device::LinkError;
use evenkeel::raw::frame::LinkType;
use evenkeel::raw::ip::InterfaceId;
use evenkeel::raw::time::Duration;

use super::program::Sink;

/// At its end the capture waits this long for a reader that takes nothing.
const PATIENCE: Duration = Duration::from_secs(2);

/// Writes frames to a capture file, or a row of them, or a pipe.
#[derive(Debug)]
pub struct CaptureFile {
    output: Output,
    begin: u64,
    /// The host's interfaces, in the order in which the file describes them.
    interfaces: Vec<Interface>,
    known: Known,
    /// The number of frames given up since the last written frame.
    given_up: u64,
    unwritten: u64,
}

/// An interface whose frames are captured. An interface with several link types is several interfaces in the
/// file.
#[derive(Debug)]
struct Interface {
    id: InterfaceId,
    described: Described,
    delivered: u64,
    received: Option<u64>,
    missed: u64,
}

/// The capture's counters and the time, in nanoseconds since 1970, as of the last update.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    counters: CaptureCounters,
    now: u64,
}

impl CaptureFile {
    /// Opens the file and describes the interfaces in it, at `now` in nanoseconds since 1970.
    ///
    /// # Errors
    /// [`LinkError`]
    pub fn open(
        target: Target,
        interfaces: Vec<(InterfaceId, Described)>,
        now: u64,
    ) -> Result<Self, LinkError> {
        let described: Vec<_> = interfaces.iter().map(|(_, described)| described.clone()).collect();
        let mut header = Vec::new();
        encode::begin(&mut header, &encode::operating_system(), &described);
        let output = Output::open(target, header, now)?;
        let interfaces = interfaces.into_iter().map(|(id, described)| Interface::new(id, described));
        let interfaces = interfaces.collect();
        Ok(Self { output, begin: now, interfaces, known: Known::default(), given_up: 0, unwritten: 0 })
    }

    /// Returns a handle to the progress of the writing.
    #[must_use]
    pub fn writing(&self) -> Writing {
        self.output.writing()
    }

    /// Records the counters that end a file: those of the capture queue at `now`, in nanoseconds since
    /// 1970.
    pub fn record(&mut self, counters: CaptureCounters, now: u64) {
        self.known = Known { counters, now };
    }

    /// Records how many frames an interface has received, if that is known, and how many of them it shed.
    pub fn record_interface(&mut self, id: InterfaceId, received: Option<u64>, missed: u64) {
        if let Some(interface) = self.interfaces.iter_mut().find(|i| i.id == id) {
            (interface.received, interface.missed) = (received, missed);
        }
    }

    /// Returns the place in the file of an interface that brings frames of this link type. If it has not
    /// brought such frames before, it is described now.
    fn place(&mut self, id: InterfaceId, link_type: LinkType) -> usize {
        let is_it = |it: &Interface| it.id == id && it.described.link_type == link_type;
        if let Some(place) = self.interfaces.iter().position(is_it) {
            return place;
        }
        let known = self.interfaces.iter().find(|it| it.id == id).map(|it| it.described.clone());
        let described = Described { link_type, ..known.unwrap_or_default() };
        self.output.describe(&described);
        self.interfaces.push(Interface::new(id, described));
        self.interfaces.len() - 1
    }

    /// Ends the file. Returns the number of frames in this file and in the previous ones.
    ///
    /// # Errors
    /// If not all frames could be written: the number of written frames, and the reason.
    pub fn finish(self) -> Result<u64, (u64, LinkError)> {
        let Self { output, begin, interfaces, known, unwritten, .. } = self;
        let writing = output.writing();
        let finished =
            output.finish(PATIENCE, |file| add_statistics(file, &interfaces, begin, known, unwritten));
        finished.map(|()| writing.packets()).map_err(|error| (writing.packets(), error))
    }
}

impl Interface {
    const fn new(id: InterfaceId, described: Described) -> Self {
        Self { id, described, delivered: 0, received: None, missed: 0 }
    }
}

impl Sink for CaptureFile {
    fn take(&mut self, captured: &Captured<'_>, time: u64) -> bool {
        let bytes = captured.bytes;
        if !self.output.has_room(bytes.len()) {
            return false;
        }
        if self.output.is_due(bytes.len(), time) {
            let known = Known { now: time, ..self.known };
            let Self { output, interfaces, begin, unwritten, .. } = self;
            // If there is no room for a new file now, the current one grows a little longer.
            output.turn_over(time, |file| add_statistics(file, interfaces, *begin, known, *unwritten));
        }
        let index = self.place(captured.interface, captured.link_type);
        if let Some(interface) = self.interfaces.get_mut(index) {
            interface.delivered += 1;
        }
        self.output.packet(&Packet {
            interface: index as u32,
            direction: if captured.sent { Direction::Outbound } else { Direction::Inbound },
            time,
            original_bytes: u32::try_from(captured.original_bytes).unwrap_or(u32::MAX),
            dropped_before: captured.dropped_before + core::mem::take(&mut self.given_up),
            bytes,
            comment: "",
        });
        true
    }

    fn discard(&mut self, captured: &Captured<'_>) {
        self.unwritten += 1;
        self.given_up += 1 + captured.dropped_before;
    }

    fn is_stuck(&self) -> bool {
        self.output.writing().failure().is_some()
    }

    fn flush(&mut self) -> bool {
        !self.output.flush()
    }

    fn is_over(&self) -> bool {
        self.output.writing().reader_gone()
    }
}

/// Adds the statistics that end a file. The losses of the queue and the disk are given to an interface only
/// if there is just one.
fn add_statistics(file: &mut Vec<u8>, interfaces: &[Interface], begin: u64, known: Known, unwritten: u64) {
    let alone = interfaces.len() == 1;
    let CaptureCounters { accepted, dropped, .. } = known.counters;
    for (index, interface) in interfaces.iter().enumerate() {
        let totals = Totals {
            begin,
            end: known.now,
            received: interface.received,
            missed: Some(interface.missed),
            accepted: alone.then_some(accepted),
            dropped: alone.then_some(dropped + unwritten),
            delivered: Some(interface.delivered),
        };
        encode::statistics(file, index as u32, &totals);
    }
}
