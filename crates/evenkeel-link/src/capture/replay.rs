//! `pcap:FILE`: a capture file, played as if its frames arrived now.

use std::collections::VecDeque;
use std::fs::File;
use std::io::BufReader;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evenkeel_core::frame::{Frame, LinkType, Metadata, Pool, PoolLimit};
use evenkeel_core::interface::{Burst, Effort, Interface, Properties, RxCounters, RxQueue, Seen, TxQueue};
use evenkeel_core::time::{Duration, Instant};
use evenkeel_core::wire::EthernetAddress;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use super::frames::Frames;
use super::read::{CaptureError, Reader};
use crate::clock::Clock;
use crate::device::{Descriptors, Device, DeviceInfo, DeviceState, IN_TRANSIT_PKTS, Status};
use crate::error::LinkError;
use crate::hardware::own_address;
use crate::listen::FRAME_BYTES;

/// Options for the playback of a capture.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReplayOptions {
    /// The speed of playback.
    pub pace: Pace,
    /// The hardware address of the interface. Default: the destination of the capture's first frame, if that
    /// is one station.
    pub address: Option<EthernetAddress>,
    /// Whether the interface is for a packet monitor, which only looks at frames. They may then be of any
    /// link type and size. A host gets Ethernet frames that fit its buffers; others are passed over and shed.
    pub monitored: bool,
}

/// The speed at which a capture is played.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Pace {
    /// The spacing of the capture.
    #[default]
    Captured,
    /// One frame at this interval.
    Every(Duration),
    /// All frames wait from the start, and the host takes them as fast as it can.
    AtOnce,
}

/// A capture file, as an interface with one receive ring. Transmitted frames are discarded.
///
/// Playing begins when a host takes the interface. At the end, or at damage in the file, its [`Status`]
/// reports that. For a host that halts, its descriptor is a timer that is set to the next frame's time.
#[derive(Debug)]
pub struct Replay {
    path: PathBuf,
    properties: Properties,
    queue: Player,
}

#[derive(Debug)]
struct Player {
    reader: Reader<BufReader<File>>,
    pace: Pace,
    clock: Clock,
    start: Instant,
    /// The captured time of the first frame that has one.
    first: Option<u64>,
    /// Frames played, or passed over because no buffer could hold them.
    played: u64,
    monitored: bool,
    oversized: u64,
    timer: Arc<OwnedFd>,
    status: Status,
}

impl Replay {
    /// Opens a pcap or pcapng file, which must have Ethernet frames unless it is monitored.
    ///
    /// # Errors
    /// [`LinkError::Capture`] describes the defect.
    pub fn open(path: &Path, options: &ReplayOptions, clock: Clock) -> Result<Self, LinkError> {
        let fail =
            |error: CaptureError| LinkError::Capture { path: path.to_owned(), what: error.to_string() };
        let file = File::open(path).map_err(|error| fail(error.into()))?;
        let file = BufReader::with_capacity(1 << 16, file);
        let reader = if options.monitored { Reader::of_any_link_type(file) } else { Reader::new(file) };
        let mut reader = reader.map_err(fail)?;
        let status = Status::default();
        if !reader.advance().map_err(fail)? {
            // Nothing at all, or nothing that can be played.
            reader.check_skipped().map_err(fail)?;
            status.set(DeviceState::Ended);
        }
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK);
        let timer =
            timer.map_err(|error| LinkError::Os { what: "make a timer".into(), source: error.into() })?;
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let is_ethernet = reader.link_type() == LinkType::ETHERNET;
        let address = options.address.or_else(|| destination(reader.frame()).filter(|_| is_ethernet));
        let address = address.unwrap_or_else(|| own_address(&name, EthernetAddress::default()));
        let queue = Player {
            first: reader.is_stamped().then(|| reader.time()),
            reader,
            pace: options.pace,
            clock,
            start: clock.now(),
            played: 0,
            monitored: options.monitored,
            oversized: 0,
            timer: Arc::new(timer),
            status,
        };
        let properties = Properties { buffers: IN_TRANSIT_PKTS, ..Properties::new(name, address) };
        Ok(Self { path: path.to_owned(), properties, queue })
    }

    /// Returns the path of the capture file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Returns the station that a frame is addressed to; `None` if its destination is not unicast.
fn destination(frame: &[u8]) -> Option<EthernetAddress> {
    frame.first_chunk().map(|&bytes| EthernetAddress(bytes)).filter(EthernetAddress::is_unicast)
}

impl TxQueue for Replay {
    fn transmit(&mut self, frames: &mut VecDeque<Frame>, pool: &mut Pool) -> usize {
        let count = frames.len();
        frames.drain(..).for_each(|frame| pool.recycle(frame));
        count
    }
}

impl Interface for Replay {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn queue(&self, _index: usize) -> &dyn RxQueue {
        &self.queue
    }

    fn queue_mut(&mut self, _index: usize) -> &mut dyn RxQueue {
        &mut self.queue
    }

    fn attach(&mut self, pool: &mut Pool) -> Result<(), PoolLimit> {
        self.queue.start = self.queue.clock.now();
        pool.grow(self.properties.buffers)
    }
}

impl Device for Replay {
    fn info(&self) -> DeviceInfo {
        let reader = &self.queue.reader;
        DeviceInfo {
            descriptors: Descriptors::new([Arc::clone(&self.queue.timer)]),
            rings_in_memory: true,
            status: self.queue.status.clone(),
            frames: Frames::of_file(reader.link_type(), reader.is_big_endian()),
            ..DeviceInfo::default()
        }
    }
}

impl Player {
    /// Returns the time at which the next frame of the capture is due; [`Instant::NEVER`] if there is none.
    fn due(&self) -> Instant {
        if self.status.state() != DeviceState::Running {
            return Instant::NEVER;
        }
        match self.pace {
            Pace::Captured => {
                let first = self.first.unwrap_or(self.reader.time());
                self.start + Duration::from_nanos(self.reader.time().saturating_sub(first))
            }
            Pace::Every(interval) => {
                let nanos = interval.as_nanos().saturating_mul(self.played.into());
                self.start + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
            }
            Pace::AtOnce => self.start,
        }
    }

    fn is_due(&self) -> bool {
        let due = self.due();
        due != Instant::NEVER && due <= self.clock.now()
    }

    fn advance(&mut self) {
        self.played += 1;
        match self.reader.advance() {
            Ok(true) if self.reader.is_stamped() => _ = self.first.get_or_insert(self.reader.time()),
            Ok(true) => {}
            Ok(false) => self.status.set(DeviceState::Ended),
            Err(error) => self.status.fail(error.to_string()),
        }
        self.status.set_passed_over(self.reader.skipped());
    }

    /// Lets the descriptor become readable at `due`; at no time if that is never.
    fn set_timer(&self, due: Instant) {
        let wait = match due {
            Instant::NEVER => Duration::ZERO,
            due => due.since(self.clock.now()).max(Duration::from_nanos(1)),
        };
        let once = Itimerspec { it_interval: Timespec::default(), it_value: crate::sys::timespec(wait) };
        // Fails for arguments out of range only, and these are in range.
        let _ = timerfd_settime(&*self.timer, TimerfdTimerFlags::empty(), &once);
    }
}

impl RxQueue for Player {
    fn pending(&self) -> usize {
        usize::from(self.is_due())
    }

    fn receive(&mut self, limit: usize, burst: &mut dyn Burst) -> usize {
        let mut done = 0;
        // One that is of no use counts, too, as on every device.
        for _ in 0..limit {
            if !self.is_due() {
                break;
            }
            let bytes = self.reader.frame();
            if !self.monitored && bytes.len() > FRAME_BYTES {
                self.oversized += 1;
                self.advance();
                continue;
            }
            if burst.pool().available() == 0 {
                break;
            }
            let cut_bytes = self.reader.original_bytes().saturating_sub(bytes.len() as u32);
            // Where there is no time stamp the first moment of 1970 stands for it: 0 means that the host's
            // clock is to be asked.
            let stamp_nanos = self.reader.time().max(1);
            let link_type = self.reader.link_type();
            let seen = burst.see(bytes, &Metadata { stamp_nanos, cut_bytes, sent: false, link_type });
            let frame = if seen == Seen::Take { burst.pool().take_copy(bytes) } else { None };
            self.advance();
            done += 1;
            let goes_on = frame.map_or(seen == Seen::Discard, |frame| burst.take(frame));
            if !goes_on {
                break;
            }
        }
        done
    }

    fn arm(&mut self) -> bool {
        let due = self.due();
        self.set_timer(due);
        self.is_due()
    }

    fn counters(&self, _effort: Effort) -> Option<RxCounters> {
        Some(RxCounters::missed(self.oversized))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::read::tests::Bytes;
    use crate::{Halt, Woken};

    /// A file that is removed again.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str, bytes: &[u8]) -> Self {
            let path = std::env::temp_dir().join(format!("evenkeel-{name}-{}.pcap", std::process::id()));
            std::fs::write(&path, bytes).unwrap();
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    /// Looks at frames and discards them.
    struct Shown {
        pool: Pool,
        frames: Vec<(usize, Metadata)>,
    }

    impl Burst for Shown {
        fn pool(&mut self) -> &mut Pool {
            &mut self.pool
        }

        fn records(&self) -> bool {
            true
        }

        fn see(&mut self, bytes: &[u8], metadata: &Metadata) -> Seen {
            self.frames.push((bytes.len(), *metadata));
            Seen::Discard
        }

        fn take(&mut self, _frame: Frame) -> bool {
            unreachable!("it wants none")
        }
    }

    fn play(file: &Scratch, pace: Pace) -> (Vec<(Duration, Vec<u8>)>, Status) {
        let clock = Clock::start();
        let mut replay =
            Replay::open(&file.0, &ReplayOptions { pace, ..ReplayOptions::default() }, clock).unwrap();
        let mut pool = Pool::with_limit(IN_TRANSIT_PKTS);
        replay.attach(&mut pool).unwrap();
        let mut halt = Halt::new().unwrap();
        replay.info().descriptors.list().into_iter().for_each(|(_, fd)| _ = halt.watch(fd));
        let (mut frames, start) = (Vec::new(), clock.now());
        while replay.info().status.state() == DeviceState::Running {
            let queue = replay.queue_mut(0);
            while let Some(frame) = queue.take(&mut pool) {
                frames.push((clock.now().since(start), frame.bytes().to_vec()));
                pool.recycle(frame);
            }
            if !queue.arm() && replay.info().status.state() == DeviceState::Running {
                let until = start + Duration::from_secs(20);
                let woken = halt.until(&clock, until).unwrap();
                // Other tests of this program send signals to it, which end a sleep early.
                assert!(woken == Woken::Readable || clock.now() < until, "the timer did not fire");
            }
        }
        assert_eq!(pool.available(), pool.capacity());
        (frames, replay.info().status)
    }

    #[test]
    fn frames_come_at_their_time_and_in_full() {
        let file =
            Bytes::little().classic(&[(5_000_000, &[1; 60]), (5_002_000, &[2; 61]), (5_030_000, &[3; 62])]);
        let file = Scratch::new("captured", &file.0);
        let (frames, status) = play(&file, Pace::Captured);
        let lengths: Vec<usize> = frames.iter().map(|(_, frame)| frame.len()).collect();
        assert_eq!(lengths, [60, 61, 62]);
        for ((time, _), due) in frames.iter().zip([0, 2, 30]) {
            // Playing begins when the host takes the interface, a moment before the test looks at the clock.
            assert!(
                *time + Duration::from_millis(1) >= Duration::from_millis(due),
                "{time:?}, due after {due} ms"
            );
        }
        assert_eq!(status.state(), DeviceState::Ended);
    }

    #[test]
    fn a_pace_can_be_given() {
        let frames: Vec<(u64, &[u8])> = (0..50).map(|n| (n * 3_600_000_000, &[7; 60][..])).collect();
        let file = Scratch::new("pace", &Bytes::little().classic(&frames).0);
        assert_eq!(play(&file, Pace::AtOnce).0.len(), 50);
        let (played, _) = play(&file, Pace::Every(Duration::from_micros(200)));
        assert!(played[49].0 + Duration::from_millis(1) >= Duration::from_micros(49 * 200));
    }

    #[test]
    fn damage_ends_the_play_with_a_reason() {
        let mut bytes = Bytes::little().classic(&[(0, &[1; 60]), (1, &[2; 60])]).0;
        bytes.truncate(bytes.len() - 1);
        let (frames, status) = play(&Scratch::new("damage", &bytes), Pace::AtOnce);
        assert_eq!((frames.len(), status.state()), (1, DeviceState::Failed));
        assert!(status.reason().unwrap().contains("cut off"));
    }

    #[test]
    fn what_no_buffer_holds_is_counted() {
        let large = vec![9; 4000];
        let file = Scratch::new("large", &Bytes::little().classic(&[(0, &large), (1, &[2; 60])]).0);
        let clock = Clock::start();
        let options = ReplayOptions { pace: Pace::AtOnce, ..ReplayOptions::default() };
        let mut replay = Replay::open(&file.0, &options, clock).unwrap();
        let mut pool = Pool::new(1);
        assert!(replay.queue_mut(0).take(&mut pool).is_none());
        assert_eq!((replay.queue(0).missed(), replay.queue(0).pending()), (1, 1));
        let frame = replay.queue_mut(0).take(&mut pool).unwrap();
        assert_eq!((frame.len(), replay.queue(0).missed()), (60, 1));
        pool.recycle(frame);
        let mut replay = Replay::open(&file.0, &ReplayOptions { monitored: true, ..options }, clock).unwrap();
        let mut shown = Shown { pool, frames: Vec::new() };
        assert_eq!(replay.queue_mut(0).receive(1, &mut shown), 1, "a monitor is shown all of it");
        assert_eq!(shown.frames, [(4000, Metadata { stamp_nanos: 1, ..Metadata::NONE })]);
        assert_eq!(replay.queue(0).missed(), 0);
    }

    /// Time begins with the first frame that has a time stamp; the host's clock, which is years later, has no
    /// part in it.
    #[test]
    fn frames_without_a_time_stamp_do_not_hold_up_the_others() {
        let file = Bytes::little().unstamped_then(1_700_000_000_000_000);
        let (frames, _) = play(&Scratch::new("unstamped", &file.0), Pace::Captured);
        assert_eq!(frames.len(), 2);
        assert!(frames[1].0 < Duration::from_secs(10));
    }

    #[test]
    fn a_capture_of_another_link_is_refused_and_frames_of_one_among_others_are_counted() {
        let clock = Clock::start();
        let other = Scratch::new("other", &Bytes::little().of_link_types(&[113, 113]).0);
        let error = Replay::open(&other.0, &ReplayOptions::default(), clock).unwrap_err().to_string();
        assert!(error.contains("captured on link type 113, not on Ethernet"), "{error}");
        let mixed = Scratch::new("mixed", &Bytes::little().of_link_types(&[113, 1, 228]).0);
        let (frames, status) = play(&mixed, Pace::AtOnce);
        assert_eq!((frames.len(), status.passed_over()), (1, 2));
        let options = ReplayOptions { monitored: true, pace: Pace::AtOnce, ..ReplayOptions::default() };
        let mut replay = Replay::open(&mixed.0, &options, clock).unwrap();
        assert_eq!(replay.info().frames, Frames::of_file(LinkType(113), false));
        let mut shown = Shown { pool: Pool::new(1), frames: Vec::new() };
        assert_eq!(replay.queue_mut(0).receive(9, &mut shown), 3);
        let types: Vec<_> = shown.frames.iter().map(|(_, metadata)| metadata.link_type.0).collect();
        assert_eq!(types, [113, 1, 228], "a monitor is shown frames of every link type");
    }

    #[test]
    fn files_that_cannot_be_played_say_why() {
        let clock = Clock::start();
        let open =
            |path: &Path| Replay::open(path, &ReplayOptions::default(), clock).unwrap_err().to_string();
        assert!(open(Path::new("/no/such/file")).contains("/no/such/file: cannot be read: No such file"));
        assert!(open(&Scratch::new("text", b"hello, I am a text").0).contains("not a pcap"));
    }

    #[test]
    fn an_empty_capture_has_ended_at_once() {
        let file = Scratch::new("empty", &Bytes::little().classic(&[]).0);
        let (frames, status) = play(&file, Pace::Captured);
        assert_eq!((frames.len(), status.state()), (0, DeviceState::Ended));
    }
}
