//! Filter expressions for the frames of several interfaces, which may have several link types.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel_core::bpf::Program;
use evenkeel_core::capture::{Filter, Tapped};
use evenkeel_core::frame::LinkType;
use evenkeel_core::stack::InterfaceId;

use super::frames::Frames;
use super::libpcap::{Expression, FilterError};

/// A filter expression with a program for each link type so far. A capture file may add a link type at any
/// time.
#[derive(Debug)]
pub struct Judge {
    expression: Expression,
    /// The link type and origin of the frames of each host interface, indexed by interface number.
    frames: Vec<Frames>,
    compiled: Vec<Compiled>,
    passed_over: PassedOver,
    /// A frame without its tag.
    room: Vec<u8>,
}

#[derive(Debug)]
struct Compiled {
    interface: InterfaceId,
    link_type: LinkType,
    /// The program; `None` if the expression has no meaning for these frames.
    program: Option<Program>,
    /// Frames are judged without their outer VLAN tag.
    untagged: bool,
}

/// The place of the VLAN tag in an Ethernet frame. A tag begins with one of [`TAG_PROTOCOLS`] (IEEE
/// 802.1Q).
const TAG: core::ops::Range<usize> = 12..16;
const TAG_PROTOCOLS: [[u8; 2]; 2] = [[0x81, 0], [0x88, 0xa8]];

/// The number of frames that a [`Judge`] passed over because its expression has no meaning for their link
/// type. All clones share one count.
#[derive(Debug, Clone, Default)]
pub struct PassedOver(Arc<Mutex<(u64, Option<FilterError>)>>);

impl Judge {
    /// Compiles an expression for the frames of the host's interfaces, in the order of their numbers.
    ///
    /// # Errors
    /// [`FilterError`]
    pub fn new(expression: Expression, frames: Vec<Frames>) -> Result<Self, FilterError> {
        let compiled = (0..).map(InterfaceId).zip(&frames).map(|(interface, frames)| {
            let (program, untagged) = (expression.compile(frames)?, expression.is_for_untagged(frames));
            Ok(Compiled { interface, link_type: frames.link_type(), program: Some(program), untagged })
        });
        let compiled = compiled.collect::<Result<_, _>>()?;
        Ok(Self { expression, frames, compiled, passed_over: PassedOver::default(), room: Vec::new() })
    }

    /// Returns a handle to the count of frames passed over.
    #[must_use]
    pub fn passed_over(&self) -> PassedOver {
        self.passed_over.clone()
    }

    fn compile(&self, interface: InterfaceId, link_type: LinkType) -> Compiled {
        let frames = self.frames.get(usize::from(interface.0)).unwrap_or(&Frames::ETHERNET);
        let program = self.expression.compile(&frames.with(link_type));
        let program = program.map_err(|error| self.passed_over.state().1 = Some(error)).ok();
        Compiled { interface, link_type, program, untagged: false }
    }
}

impl Compiled {
    /// Returns the number of bytes of a frame to keep; `None` if the expression has no meaning for the frame.
    fn keep(&mut self, frame: &Tapped<'_>, room: &mut Vec<u8>) -> Option<usize> {
        let program = self.program.as_mut()?;
        let bytes = frame.bytes;
        let tag = bytes.get(TAG).filter(|tag| TAG_PROTOCOLS.iter().any(|protocol| tag.starts_with(protocol)));
        if !self.untagged || self.link_type != LinkType::ETHERNET || tag.is_none() {
            return Some(program.keep(frame));
        }
        room.clear();
        room.extend_from_slice(bytes.get(..TAG.start)?);
        room.extend_from_slice(bytes.get(TAG.end..)?);
        Some(program.keep(&Tapped { bytes: room, ..*frame }))
    }
}

impl Filter for Judge {
    fn keep(&mut self, frame: &Tapped<'_>) -> usize {
        let (interface, link_type) = (frame.interface, frame.metadata.link_type);
        let is_for_it = |it: &Compiled| it.interface == interface && it.link_type == link_type;
        if !self.compiled.iter().any(is_for_it) {
            let compiled = self.compile(interface, link_type);
            self.compiled.push(compiled);
        }
        let compiled = self.compiled.iter_mut().find(|it| is_for_it(it));
        compiled.and_then(|compiled| compiled.keep(frame, &mut self.room)).unwrap_or_else(|| {
            self.passed_over.state().0 += 1;
            0
        })
    }
}

impl PassedOver {
    /// Returns the number of frames passed over.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.state().0
    }

    /// Returns the reason why the last of these frames was passed over; `None` if there was no such frame.
    #[must_use]
    pub fn reason(&self) -> Option<FilterError> {
        self.state().1.clone()
    }

    fn state(&self) -> MutexGuard<'_, (u64, Option<FilterError>)> {
        // No holder of the lock panics.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
