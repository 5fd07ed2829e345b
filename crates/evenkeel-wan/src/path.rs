//! One direction of a link.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use evenkeel_timers::{Duration, Instant};

use crate::event::Events;
use crate::loss::Loss;
use crate::rate::{Rate, Wire};
use crate::rng::{Ratio, Rng};

/// The settings of one direction of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The rate at which frames leave.
    pub rate: Rate,
    /// As how many bytes a frame counts where the rate and the queue are concerned.
    pub size: Size,
    /// The limit on the frames that wait to leave. A frame beyond it is dropped. Not used without a rate.
    pub queue: Limit,
    /// Propagation delay, of every frame.
    pub delay: Duration,
    /// A further delay of each frame, uniform from zero to this.
    pub jitter: Duration,
    /// Whether jitter lets later frames overtake earlier ones.
    pub jitter_reorders: bool,
    /// Frames that vanish before they come to the queue.
    pub loss: Loss,
    /// Frames that come to the queue twice, the copy directly in front of the original.
    pub duplication: Ratio,
    /// Frames in which one bit is flipped, anywhere.
    pub corruption: Ratio,
    /// Frames held back by [`Settings::reordering_delay`], so that later ones overtake them.
    pub reordering: Ratio,
    /// The additional delay of frames that are reordered.
    pub reordering_delay: Duration,
}

/// As how many bytes a frame counts: its own from the Ethernet header on, `least` if these are fewer, and
/// `extra`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Size {
    /// Shorter frames are padded to this length.
    pub least: u32,
    /// Added, or taken away if it is negative; one byte is the least that a frame counts as.
    pub extra: i32,
}

/// A limit on the frames that wait. A frame that is leaving no longer waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// So many frames.
    Packets(usize),
    /// So many bytes, of frames that all fit.
    Bytes(u64),
    /// No frame for longer than this.
    Time(Duration),
}

impl Settings {
    /// A perfect wire: no limit, no delay, no fault. A queue of 1000 frames, as `tc-netem` has it, should it
    /// get a rate.
    pub const PERFECT: Self = Self {
        rate: Rate::Unlimited,
        size: Size { least: 0, extra: 0 },
        queue: Limit::Packets(1_000),
        delay: Duration::ZERO,
        jitter: Duration::ZERO,
        jitter_reorders: false,
        loss: Loss::NONE,
        duplication: Ratio::ZERO,
        corruption: Ratio::ZERO,
        reordering: Ratio::ZERO,
        reordering_delay: Duration::ZERO,
    };
}

impl Default for Settings {
    fn default() -> Self {
        Self::PERFECT
    }
}

impl Size {
    /// The size of a frame on an Ethernet (IEEE 802.3): at least 60 bytes, and preamble, start delimiter,
    /// frame check sequence and the gap between frames.
    pub const ETHERNET: Self = Self { least: 60, extra: 8 + 4 + 12 };
    /// The IP packet in it, without the Ethernet header.
    pub const IP: Self = Self { least: 0, extra: -14 };

    /// Returns the number of bytes as which a frame of `len_bytes` counts.
    #[must_use]
    pub fn of(self, len_bytes: usize) -> u32 {
        let len = u32::try_from(len_bytes).unwrap_or(u32::MAX).max(self.least);
        len.saturating_add_signed(self.extra).max(1)
    }
}

/// The counters of one direction of a link. Each frame put in, and each copy, was delivered, lost, dropped,
/// or is [under way](Path::under_way).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames put in.
    pub offered: u64,
    /// Frames that came out.
    pub delivered: u64,
    /// Frames that vanished.
    pub lost: u64,
    /// Frames dropped because too many waited to leave.
    pub overflowed: u64,
    /// Frames added as copies.
    pub duplicated: u64,
    /// Frames with a flipped bit.
    pub corrupted: u64,
    /// Frames held back.
    pub reordered: u64,
}

impl Counters {
    /// Returns whether the counters account for every frame if `under_way` frames are under way.
    #[must_use]
    pub const fn add_up(&self, under_way: usize) -> bool {
        self.offered + self.duplicated == self.delivered + self.lost + self.overflowed + under_way as u64
    }
}

/// A frame that a path transports: bytes, or a type of the caller.
pub trait Frame {
    /// Returns the number of bytes from the Ethernet header on.
    fn bytes(&self) -> usize;

    /// Turns over one of its bits.
    fn flip(&mut self, bit: u64);
}

impl Frame for Vec<u8> {
    fn bytes(&self) -> usize {
        self.len()
    }

    fn flip(&mut self, bit: u64) {
        if let Some(byte) = self.get_mut((bit / 8) as usize) {
            *byte ^= 1 << (bit % 8);
        }
    }
}

/// One direction of a link.
///
/// Call [`Path::handle_frame`] for each frame that enters, at the time it enters; then, whenever
/// [`Path::poll_timeout`] is reached, [`Path::poll_frame`] until it gives nothing. When a frame is due
/// depends on when it and those before it entered, and on nothing else: not on how often the path is polled.
#[derive(Debug)]
pub struct Path<F = Vec<u8>> {
    settings: Settings,
    begin: Instant,
    rng: Rng,
    /// Whether the link is in its bad state.
    bad: bool,
    wire: Wire,
    waiting: Waiting,
    /// No frame that keeps to the order is due before.
    last_due: Instant,
    flying: Events<F>,
    counters: Counters,
}

impl<F: Frame> Path<F> {
    /// Creates a path with these settings that begins, as traces do, at `begin`. Its faults are drawn from
    /// `rng`.
    #[must_use]
    pub fn new(settings: Settings, rng: Rng, begin: Instant) -> Self {
        let wire = Wire::new(&settings.rate, begin);
        Self {
            settings,
            begin,
            rng,
            bad: false,
            wire,
            waiting: Waiting::default(),
            last_due: Instant::ZERO,
            flying: Events::new(),
            counters: Counters::default(),
        }
    }

    /// Changes the settings from now on. Frames under way are not affected.
    pub fn set_settings(&mut self, settings: Settings) {
        self.wire.set_rate(&settings.rate, self.begin);
        self.settings = settings;
    }

    /// Returns the counters of the path.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns the number of frames that wait, leave, or fly.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.flying.len()
    }

    /// Puts in a frame. Times never go back.
    pub fn handle_frame(&mut self, now: Instant, frame: F)
    where
        F: Clone,
    {
        self.handle_frame_with(now, frame, |frame| Some(frame.clone()));
    }

    /// Puts in a frame of a type that needs `copy` for duplication. If `copy` returns [`None`], for lack of
    /// memory, there is no duplicate.
    pub fn handle_frame_with(&mut self, now: Instant, mut frame: F, copy: impl FnOnce(&F) -> Option<F>) {
        self.counters.offered += 1;
        if self.settings.loss.strikes(&mut self.bad, &mut self.rng) {
            self.counters.lost += 1;
            return;
        }
        if self.rng.chance(self.settings.corruption) {
            self.counters.corrupted += 1;
            frame.flip(self.rng.below(frame.bytes() as u64 * 8));
        }
        let copy = if self.rng.chance(self.settings.duplication) { copy(&frame) } else { None };
        if let Some(copy) = copy {
            self.counters.duplicated += 1;
            self.send(now, copy);
        }
        self.send(now, frame);
    }

    fn send(&mut self, now: Instant, frame: F) {
        let Some(left) = self.leave(now, self.settings.size.of(frame.bytes())) else {
            self.counters.overflowed += 1;
            return;
        };
        let mut due = left + self.settings.delay + self.rng.duration(self.settings.jitter);
        if self.rng.chance(self.settings.reordering) {
            self.counters.reordered += 1;
            due += self.settings.reordering_delay;
        } else if !self.settings.jitter_reorders {
            due = due.max(self.last_due);
            self.last_due = due;
        }
        self.flying.schedule(due, frame);
    }

    /// Returns when the frame has left; `None` if too much waits already.
    fn leave(&mut self, now: Instant, bytes: u32) -> Option<Instant> {
        let start = self.wire.start(now);
        if start > now {
            self.waiting.forget(now);
            if !self.waiting.has_room(self.settings.queue, bytes, start.since(now)) {
                return None;
            }
            self.waiting.add(start, bytes);
        }
        Some(self.wire.accept(now, bytes))
    }

    /// Takes the next frame that is due by `now`.
    pub fn poll_frame(&mut self, now: Instant) -> Option<F> {
        self.poll_due(now).map(|(_due, frame)| frame)
    }

    /// Returns the next frame that is due at `now`, with the time at which it was due.
    pub fn poll_due(&mut self, now: Instant) -> Option<(Instant, F)> {
        let due = self.flying.next_due();
        let frame = self.flying.pop_due(now)?;
        self.counters.delivered += 1;
        Some((due, frame))
    }

    /// Returns when the next frame is due; [`Instant::NEVER`] if none is under way.
    #[must_use]
    pub fn poll_timeout(&self) -> Instant {
        self.flying.next_due()
    }
}

/// The frames that wait to leave: the time at which each begins to, and the size with which it counts.
#[derive(Debug, Default)]
struct Waiting {
    frames: VecDeque<(Instant, u32)>,
    bytes: u64,
}

impl Waiting {
    /// Forgets what has begun to leave by `now`.
    fn forget(&mut self, now: Instant) {
        while let Some(&(_, bytes)) = self.frames.front().filter(|(start, _)| *start <= now) {
            self.frames.pop_front();
            self.bytes -= u64::from(bytes);
        }
    }

    fn has_room(&self, limit: Limit, bytes: u32, wait: Duration) -> bool {
        match limit {
            Limit::Packets(packets) => self.frames.len() < packets,
            Limit::Bytes(most) => self.bytes + u64::from(bytes) <= most,
            Limit::Time(longest) => wait <= longest,
        }
    }

    fn add(&mut self, start: Instant, bytes: u32) {
        self.frames.push_back((start, bytes));
        self.bytes += u64::from(bytes);
    }
}
