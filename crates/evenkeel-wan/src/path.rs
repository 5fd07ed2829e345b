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
    /// The number of bytes as which a frame counts for the rate and the queue.
    pub size: Size,
    /// The limit on the frames that wait to leave. A frame beyond it is dropped. Without a rate no frame
    /// waits.
    pub queue: Limit,
    /// The propagation delay of every frame.
    pub delay: Duration,
    /// The largest further delay of a frame. It is distributed uniformly from zero.
    pub jitter: Duration,
    /// Whether jitter lets later frames overtake earlier ones.
    pub jitter_reorders: bool,
    /// The model of which frames are lost before they reach the queue.
    pub loss: Loss,
    /// The share of frames that reach the queue twice, the copy directly before the original.
    pub duplication: Ratio,
    /// The share of frames in which one random bit is flipped.
    pub corruption: Ratio,
    /// The share of frames that are delayed by [`Settings::reordering_delay`], so that later frames overtake
    /// them.
    pub reordering: Ratio,
    /// The additional delay of frames that are reordered.
    pub reordering_delay: Duration,
}

/// The number of bytes as which a frame counts: its own from the Ethernet header on, but at least `least`,
/// plus `extra`.
///
/// ```
/// use evenkeel_wan::Size;
///
/// assert_eq!(Size::default().of(1_514), 1_514);
/// assert_eq!(Size::ETHERNET.of(1_514), 1_538);
/// assert_eq!(Size::IP.of(1_514), 1_500);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Size {
    /// Shorter frames are padded to this length.
    pub least: u32,
    /// The bytes that are added to the length, or subtracted if negative. A frame counts as at least one
    /// byte.
    pub extra: i32,
}

/// A limit on the frames that wait. A frame that is leaving no longer waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// A number of frames.
    Packets(usize),
    /// A number of bytes. A frame that does not fit whole is dropped.
    Bytes(u64),
    /// The longest time that a frame may wait.
    Time(Duration),
}

impl Settings {
    /// A perfect wire: no limit, no delay, no fault. Its queue has room for 1000 frames, as that of
    /// `tc-netem`, which matters once a rate is set.
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
    /// The size of the IP packet in a frame, without the Ethernet header.
    pub const IP: Self = Self { least: 0, extra: -14 };

    /// Returns the number of bytes as which a frame of `len_bytes` counts.
    #[must_use]
    pub fn of(self, len_bytes: usize) -> u32 {
        let len = u32::try_from(len_bytes).unwrap_or(u32::MAX).max(self.least);
        len.saturating_add_signed(self.extra).max(1)
    }
}

/// The counters of one direction of a link. Each offered frame, and each copy, was delivered, lost or
/// dropped, or is [under way](Path::under_way).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames that entered the path.
    pub offered: u64,
    /// Frames that came out.
    pub delivered: u64,
    /// Frames that were lost.
    pub lost: u64,
    /// Frames dropped because too many waited to leave.
    pub overflowed: u64,
    /// Frames added as copies.
    pub duplicated: u64,
    /// Frames with a flipped bit.
    pub corrupted: u64,
    /// Frames that were delayed for reordering.
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
///
/// ```
/// use evenkeel_timers::Instant;
/// use evenkeel_wan::{Frame, Path, Rng, Settings};
///
/// /// A simulator needs the length of a packet, and not its bytes.
/// struct Packet {
///     len: usize,
///     is_corrupt: bool,
/// }
///
/// impl Frame for Packet {
///     fn bytes(&self) -> usize {
///         self.len
///     }
///
///     fn flip(&mut self, _: u64) {
///         self.is_corrupt = true;
///     }
/// }
///
/// let mut path = Path::new(Settings::PERFECT, Rng::new(1), Instant::ZERO);
/// path.handle_frame_with(Instant::ZERO, Packet { len: 1_500, is_corrupt: false }, |_| None);
/// assert!(path.poll_frame(Instant::ZERO).is_some_and(|packet| !packet.is_corrupt));
/// ```
pub trait Frame {
    /// Returns the number of bytes from the Ethernet header on.
    fn bytes(&self) -> usize;

    /// Flips one bit of the frame. `bit` is below eight times the number of [`bytes`](Self::bytes).
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
/// Call [`Path::handle_frame`] for each frame, at the time at which it enters. Whenever
/// [`Path::poll_timeout`] is reached, call [`Path::poll_frame`] until it returns [`None`]. The due time of a
/// frame depends only on the times at which it and the frames before it entered, and on the seed. It does
/// not depend on how often the path is polled.
///
/// ```
/// use evenkeel_timers::{Duration, Instant};
/// use evenkeel_wan::{Loss, Path, Ratio, Rng, Settings};
///
/// let settings = Settings {
///     delay: Duration::from_millis(5),
///     loss: Loss::Independent(Ratio::percent(10)),
///     ..Settings::PERFECT
/// };
/// let mut path = Path::new(settings, Rng::new(42), Instant::ZERO);
/// for _ in 0..1_000 {
///     path.handle_frame(Instant::ZERO, vec![0; 100]);
/// }
/// while path.poll_frame(Instant::from_millis(5)).is_some() {}
///
/// // Every frame is accounted for, and with this seed 91 of them are lost on every machine.
/// let counters = path.counters();
/// assert!(counters.add_up(path.under_way()));
/// assert_eq!((counters.delivered, counters.lost), (909, 91));
/// ```
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
    /// Creates a path with these settings. Its trace, if it has one, begins at `begin`. Faults are drawn from
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

    /// Changes the settings for frames that enter later. Frames under way are not affected.
    pub fn set_settings(&mut self, settings: Settings) {
        self.wire.set_rate(&settings.rate, self.begin);
        self.settings = settings;
    }

    /// Returns the counters of the path.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns the number of frames in the path: those that wait, leave, or propagate.
    #[must_use]
    pub fn under_way(&self) -> usize {
        self.flying.len()
    }

    /// Accepts a frame that enters at `now`. Times must never go back.
    pub fn handle_frame(&mut self, now: Instant, frame: F)
    where
        F: Clone,
    {
        self.handle_frame_with(now, frame, |frame| Some(frame.clone()));
    }

    /// Accepts a frame of a type that needs `copy` for duplication. If `copy` returns [`None`], for example
    /// for lack of memory, no duplicate is made.
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

    /// Returns the time at which the next frame is due, or [`Instant::NEVER`] if none is under way.
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
