//! A link of the emulator, and the direction from it to the other one.

use std::collections::VecDeque;

use evenkeel::raw::device::{Burst, Device, DeviceInfo, Interface, Refusal, Seen, Status};
use evenkeel::raw::drops::{LinkDrop, Reason};
use evenkeel::raw::frame::{Frame, Metadata, Pool};
use evenkeel::raw::time::{Clock, Duration, Instant};
use evenkeel_wan::{Path, Rng, Settings};

use super::wall::Wall;
use crate::latency::Histogram;

/// The most frames that wait for a device to take them.
const OUT_PKTS: usize = 256;
/// The most frames given to a device at a time.
const BATCH_PKTS: usize = 64;

/// The reason for which an XDP program drops a frame that is longer than its device's MTU allows.
const TOO_LONG: Reason = Reason::Link(LinkDrop::TooLong);

/// A frame on its way.
pub(super) struct InFlight(Frame);

impl evenkeel_wan::Frame for InFlight {
    fn bytes(&self) -> usize {
        self.0.len()
    }

    fn flip(&mut self, bit: u64) {
        if let Some(byte) = self.0.bytes_mut().get_mut((bit / 8) as usize) {
            *byte ^= 1 << (bit % 8);
        }
    }
}

/// A link, and the path of the frames that arrive on it.
pub(super) struct Port {
    pub(super) name: String,
    /// The device; `None` while it is gone.
    pub(super) interface: Option<Box<dyn Interface>>,
    status: Status,
    /// Whether frames that have come are visible without asking the kernel.
    pub(super) in_memory: bool,
    pub(super) path: Path<InFlight>,
    /// The earliest possible arrival time of the next frame.
    not_before: Instant,
    /// The frames to send on the port. `out_due` holds the time at which each was due.
    out: VecDeque<Frame>,
    out_due: VecDeque<Instant>,
    pub(super) tally: Counters,
    /// The frames that earlier devices of this link refused or missed.
    before: Lost,
}

/// The frames that a link's devices lost, by cause.
#[derive(Clone, Copy, Default)]
pub(super) struct Lost {
    /// Frames that were taken, and then refused, by [`Refusal`].
    refused: [u64; Refusal::ALL.len()],
    /// Arriving frames that were not taken in time.
    pub(super) missed: u64,
    /// Arriving frames that were larger than any buffer.
    pub(super) oversized: u64,
}

impl Lost {
    /// Returns how many frames devices took, and then refused.
    pub(super) fn refused(&self) -> u64 {
        self.refused.iter().sum()
    }

    /// Returns how many frames were refused for this reason.
    pub(super) fn refused_for(&self, reason: Refusal) -> u64 {
        self.refused[reason as usize]
    }

    /// Returns why most of the refused frames that were not too long were refused.
    pub(super) fn refused_because(&self) -> Option<Refusal> {
        let others = Refusal::ALL.into_iter().filter(|reason| *reason != Refusal::TooLong);
        others.max_by_key(|reason| self.refused_for(*reason)).filter(|reason| self.refused_for(*reason) > 0)
    }
}

/// The counters of the direction from a link, in addition to those of its path.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) bytes_in: u64,
    pub(super) bytes_out: u64,
    /// Frames taken by the device of the other link.
    pub(super) sent: u64,
    /// Frames that found the queue for that device full.
    pub(super) unsent: u64,
    /// Frames for a device that was gone.
    pub(super) gone: u64,
    /// Frames without memory for the copy that they were to have.
    pub(super) uncopied: u64,
    /// The delays from the time that frames were due to the time that they were given to the device. `late`
    /// holds the delays until the device had taken them.
    pub(super) given: Histogram,
    pub(super) late: Histogram,
}

impl Port {
    pub(super) fn new(name: &str, settings: Settings, rng: Rng, begin: Instant) -> Self {
        Self {
            name: name.to_owned(),
            interface: None,
            status: Status::default(),
            in_memory: true,
            path: Path::new(settings, rng, begin),
            not_before: begin,
            out: VecDeque::new(),
            out_due: VecDeque::new(),
            tally: Counters::default(),
            before: Lost::default(),
        }
    }

    /// Has this device from now on.
    pub(super) fn take_device(&mut self, device: Box<dyn Device>) {
        let DeviceInfo { status, rings_in_memory, .. } = device.info();
        (self.status, self.in_memory) = (status, rings_in_memory);
        self.interface = Some(device);
    }

    /// Has none any more: what was to leave by it is gone, too.
    pub(super) fn lose_device(&mut self, pool: &mut Pool) -> u64 {
        self.before = self.lost();
        self.status = Status::default();
        if let Some(interface) = self.interface.take() {
            pool.shrink(interface.properties().buffers);
        }
        self.out_due.clear();
        self.out.drain(..).count() as u64
    }

    /// Returns what the link's devices have lost.
    pub(super) fn lost(&self) -> Lost {
        let Lost { mut refused, missed, oversized } = self.before;
        for (frames, reason) in refused.iter_mut().zip(Refusal::ALL) {
            *frames += self.status.refused_for(reason);
        }
        let in_ring = self.interface.as_ref().map_or(0, |interface| interface.queue(0).missed());
        let before_ring = self.interface.as_ref().map_or_else(Vec::new, |interface| interface.dropped());
        let dropped = |is_such: fn(&Reason) -> bool| -> u64 {
            before_ring.iter().filter(|(reason, _)| is_such(reason)).map(|(_, frames)| frames).sum()
        };
        // The ring counts these, too.
        let too_long = self.status.too_long();
        let missed = missed + in_ring.saturating_sub(too_long) + dropped(|reason| *reason != TOO_LONG);
        Lost { refused, missed, oversized: oversized + too_long + dropped(|reason| *reason == TOO_LONG) }
    }

    /// Returns the number of frames that wait for the device.
    pub(super) fn stalled(&self) -> usize {
        self.out.len()
    }

    /// Puts at most `limit` arriving frames into the network. Returns whether there may be more.
    pub(super) fn take_in(&mut self, limit: usize, pool: &mut Pool, clock: &Clock, wall: &Wall) -> bool {
        let Some(interface) = &mut self.interface else { return false };
        let looked = clock.now();
        let Self { path, not_before, tally, .. } = self;
        let mut arrivals =
            Arrivals { path, tally, pool, clock, wall, not_before: *not_before, stamp_nanos: 0 };
        let taken = interface.queue_mut(0).receive(limit, &mut arrivals);
        *not_before = arrivals.not_before;
        if taken < limit {
            // The ring was empty then.
            *not_before = looked.max(*not_before);
        }
        taken == limit
    }

    /// Sends the frames that are due through `other`. Returns whether no more can be done now.
    pub(super) fn give_out(&mut self, other: &mut Self, pool: &mut Pool, clock: &Clock) -> bool {
        let now = clock.now();
        let mut all = false;
        for _ in 0..BATCH_PKTS {
            let Some((due, InFlight(frame))) = self.path.poll_due(now) else {
                all = true;
                break;
            };
            if other.interface.is_some() && other.out.len() < OUT_PKTS {
                other.out.push_back(frame);
                other.out_due.push_back(due);
            } else {
                let lost =
                    if other.interface.is_some() { &mut self.tally.unsent } else { &mut self.tally.gone };
                *lost += 1;
                pool.recycle(frame);
            }
        }
        if let (Some(interface), false) = (&mut other.interface, other.out.is_empty()) {
            let bytes = |out: &VecDeque<Frame>| out.iter().map(|frame| frame.len() as u64).sum::<u64>();
            let (before, given) = (bytes(&other.out), clock.now());
            let sent = interface.transmit(&mut other.out, pool);
            // The frame left in between. For veths and TAPs the other end's kernel processes it before the
            // call returns.
            let left = clock.now();
            for due in other.out_due.drain(..sent.min(other.out_due.len())) {
                self.tally.given.record(given.since(due));
                self.tally.late.record(left.since(due));
            }
            self.tally.sent += sent as u64;
            self.tally.bytes_out += before - bytes(&other.out);
            interface.reclaim(pool, usize::MAX);
        }
        all
    }
}

/// Takes frames from a link's ring into the network.
struct Arrivals<'a> {
    path: &'a mut Path<InFlight>,
    tally: &'a mut Counters,
    pool: &'a mut Pool,
    clock: &'a Clock,
    wall: &'a Wall,
    not_before: Instant,
    stamp_nanos: u64,
}

impl Burst for Arrivals<'_> {
    fn pool(&mut self) -> &mut Pool {
        self.pool
    }

    fn records(&self) -> bool {
        false
    }

    fn see(&mut self, _bytes: &[u8], metadata: &Metadata) -> Seen {
        self.stamp_nanos = metadata.stamp_nanos;
        Seen::Take
    }

    fn take(&mut self, frame: Frame) -> bool {
        // The clock is read again: this frame may have arrived a moment ago.
        let now = self.clock.now();
        let stamped = if self.stamp_nanos == 0 { now } else { self.wall.time_of(self.stamp_nanos) };
        // The bounds hold for any steps of the system's clock.
        let at = stamped.max(self.not_before).min(now);
        self.not_before = at;
        let Self { path, pool, tally, .. } = self;
        tally.bytes_in += frame.len() as u64;
        path.handle_frame_with(at, InFlight(frame), |InFlight(frame)| {
            let copy = pool.take_copy(frame.bytes());
            tally.uncopied += u64::from(copy.is_none());
            copy.map(InFlight)
        });
        true
    }
}

/// The lateness up to which the live line does not mention it.
pub(super) const ON_TIME: Duration = Duration::from_micros(100);
