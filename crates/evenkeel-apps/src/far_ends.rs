//! Peers of a router under test: a load generator on one side, and a receiver on the other.

use std::collections::VecDeque;

use evenkeel::raw::cable::{self, Completion, End, WireCounters};
use evenkeel::raw::cpu;
use evenkeel::raw::device::{
    Address, Device, Interface as _, LinkError, Packet, PacketOptions, Xdp, XdpOptions, buffer_bytes_for,
};
use evenkeel::raw::frame::{Frame, Pool, PoolLimit};
use evenkeel::raw::time::{Clock, Duration, Instant};
use evenkeel::raw::wire::EthernetAddress;

use crate::measure::{Schedule, Sending, Working, drain, per_second};
use crate::pace::Pace;
use crate::requests::Requests;

/// The most frames sent between two readings of the clock.
const BURST_PKTS: u64 = 64;

/// The interval at which a generator checks whether its router is ready.
const WAIT: Duration = Duration::from_micros(10);

/// The peers at the two links of a router.
pub trait FarEnds {
    /// Sends a frame towards the router. Whether its ring has room is the router's affair, and counted there.
    fn offer(&mut self, frame: &[u8]);

    /// Sends the frames that were offered.
    fn flush(&mut self);

    /// Receives and discards the frames that the router has sent.
    fn drain(&mut self);

    /// Returns the number of frames that have come out of the second link so far.
    fn forwarded(&mut self) -> u64;
}

/// The frames that a sender has at most.
const SENDER_PKTS: usize = 512;

/// A generator's end of a link of the kernel.
#[derive(Debug)]
pub struct Sender {
    device: Box<dyn Device>,
    pool: Pool,
    waiting: VecDeque<Frame>,
    sent: u64,
}

impl Sender {
    /// Opens an end of a veth pair: through AF_XDP, which sends several times as fast as a packet socket.
    /// Opens a packet socket if the process or the kernel has no AF_XDP.
    ///
    /// Through AF_XDP the device takes all frames from the kernel. Answers of a host that are not taken find
    /// the receive ring full.
    ///
    /// # Errors
    /// [`LinkError`] of the packet socket.
    pub fn open(name: &str) -> Result<Self, LinkError> {
        match Xdp::open(name, &XdpOptions { everything: true, ..XdpOptions::default() }) {
            Ok(device) => Ok(Self::through(Box::new(device))),
            Err(_) => Self::open_packet(name),
        }
    }

    /// Opens a device through a packet socket.
    ///
    /// # Errors
    /// [`LinkError`] says what to do.
    pub fn open_packet(name: &str) -> Result<Self, LinkError> {
        let options = PacketOptions { address: Address::Device, ..PacketOptions::default() };
        Ok(Self::through(Box::new(Packet::open(name, &options)?)))
    }

    fn through(device: Box<dyn Device>) -> Self {
        let mut pool = Pool::new(SENDER_PKTS);
        pool.fit(buffer_bytes_for(device.properties().mtu));
        Self { device, pool, waiting: VecDeque::new(), sent: 0 }
    }

    /// Returns the hardware address of the device.
    #[must_use]
    pub fn address(&self) -> EthernetAddress {
        self.device.properties().address
    }

    /// Queues a frame for [`Sender::flush`].
    pub fn offer(&mut self, frame: &[u8]) {
        self.waiting.extend(self.pool.take_copy(frame));
    }

    /// Sends the queued frames. Discards those that the device has no room for.
    pub fn flush(&mut self) {
        self.sent += self.device.transmit(&mut self.waiting, &mut self.pool) as u64;
        self.waiting.drain(..).for_each(|frame| self.pool.recycle(frame));
    }

    /// Takes the frames that have arrived, and passes each to `see`.
    pub fn take(&mut self, mut see: impl FnMut(&[u8])) {
        while let Some(frame) = self.device.queue_mut(0).take(&mut self.pool) {
            see(frame.bytes());
            self.pool.recycle(frame);
        }
    }

    /// Returns the number of frames that the device has taken.
    #[must_use]
    pub const fn sent(&self) -> u64 {
        self.sent
    }
}

/// A generator's end of a link to a host.
#[derive(Debug)]
pub enum FarEnd {
    /// Of a cable, with the buffers of its ring.
    Cable(Box<End>, Pool),
    /// Of a link of the kernel.
    Device(Sender),
}

impl FarEnd {
    /// Returns an end of a cable, ready for answers: `pool_pkts` buffers, as many as its ring holds or more.
    ///
    /// # Errors
    /// [`PoolLimit`] if the ring holds more.
    pub fn cable(mut end: End, pool_pkts: usize) -> Result<Self, PoolLimit> {
        let mut pool = Pool::with_limit(pool_pkts);
        end.attach(&mut pool)?;
        Ok(Self::Cable(Box::new(end), pool))
    }

    /// Returns the hardware address of the end.
    #[must_use]
    pub fn address(&self) -> EthernetAddress {
        match self {
            Self::Cable(end, _) => end.properties().address,
            Self::Device(sender) => sender.address(),
        }
    }

    /// Queues a frame for [`FarEnd::flush`]. A cable may take it at once.
    pub fn offer(&mut self, frame: &[u8]) {
        match self {
            Self::Cable(end, _) => _ = end.send(frame),
            Self::Device(sender) => sender.offer(frame),
        }
    }

    /// Sends the queued frames.
    pub fn flush(&mut self) {
        match self {
            Self::Cable(end, _) => end.flush(),
            Self::Device(sender) => sender.flush(),
        }
    }

    /// Takes the frames that have arrived, and passes each to `see`.
    pub fn take(&mut self, mut see: impl FnMut(&[u8])) {
        match self {
            Self::Cable(end, pool) => {
                while let Some(frame) = end.queue_mut(0).take(pool) {
                    see(frame.bytes());
                    pool.recycle(frame);
                }
            }
            Self::Device(sender) => sender.take(see),
        }
    }

    /// Returns the number of frames that left, of `offered` frames. A device may have no room for a frame.
    #[must_use]
    pub fn sent(&self, offered: u64) -> u64 {
        match self {
            Self::Cable(..) => offered,
            Self::Device(sender) => sender.sent(),
        }
    }
}

/// Frames offered to a router, and frames that it forwarded.
#[derive(Debug, Clone, Copy)]
pub struct Offered {
    /// Frames sent, including those before the window.
    pub frames: u64,
    /// Packets sent in the window, in packets a second.
    pub offered_pps: f64,
    /// Packets that came out in the window, in packets a second.
    pub forwarded_pps: f64,
    /// The share of the window in which the generator's thread really had its core.
    pub core_share: f64,
}

/// A flood for a router: frames, and a schedule.
#[derive(Debug)]
pub struct Flood<'a> {
    /// The frames, one after the other.
    pub frames: Requests,
    /// The clock of the schedule.
    pub clock: Clock,
    /// The schedule of a measurement, used again for each rate.
    pub schedule: Schedule,
    /// The signal to the router that the first window opens, and that the last frame is sent.
    pub sending: Sending,
    /// The state of the router: whether it is still at work.
    pub router: &'a Working,
}

impl Flood<'_> {
    /// Floods on the calling thread, at one rate after the other (in packets a second; `None` for the highest
    /// possible rate). Then receives until the router is done. Ends early if `stop` returns true. Returns the
    /// offered and the forwarded load at each rate.
    pub fn run<const RATES: usize>(
        mut self,
        rates_pps: [Option<u64>; RATES],
        outside: &mut impl FarEnds,
        mut stop: impl FnMut() -> bool,
    ) -> [Offered; RATES] {
        let mut start = self.clock.spin_until(self.schedule.start);
        while !self.router.has_begun() {
            start = self.clock.spin(WAIT);
        }
        let offered = rates_pps.map(|rate_pps| {
            let offered = self.flood(rate_pps, start, outside, &mut stop);
            start = self.clock.now();
            offered
        });
        drop(self.sending);
        while !self.router.is_over() {
            outside.drain();
        }
        offered
    }

    fn flood(
        &mut self,
        rate_pps: Option<u64>,
        start: Instant,
        outside: &mut impl FarEnds,
        stop: &mut impl FnMut() -> bool,
    ) -> Offered {
        let mut pace = rate_pps
            .map_or_else(|| Pace::unlimited(BURST_PKTS, start), |rate| Pace::new(rate, BURST_PKTS, start));
        let opens = start + self.schedule.warm_up;
        let (mut from, mut now) = (None, start);
        while from.is_none_or(|from: Count| now < from.at + self.schedule.window) && !stop() {
            if from.is_none() && now >= opens {
                from = Some(Count::of(outside, &pace, now));
                self.sending.measuring();
            }
            for _ in 0..pace.take(now) {
                outside.offer(self.frames.next());
            }
            outside.flush();
            outside.drain();
            now = self.clock.now();
        }
        let until = Count::of(outside, &pace, now);
        until.since(&from.unwrap_or(until))
    }
}

/// The counters of a flood at one time.
#[derive(Debug, Clone, Copy)]
struct Count {
    at: Instant,
    offered: u64,
    forwarded: u64,
    ran: Duration,
}

impl Count {
    fn of(outside: &mut impl FarEnds, pace: &Pace, at: Instant) -> Self {
        Self { at, offered: pace.granted(), forwarded: outside.forwarded(), ran: cpu::thread_cpu_time() }
    }

    fn since(&self, from: &Self) -> Offered {
        let window = self.at.since(from.at);
        let ran = self.ran.saturating_sub(from.ran).as_secs_f64();
        Offered {
            frames: self.offered,
            offered_pps: per_second(self.offered - from.offered, window),
            forwarded_pps: per_second(self.forwarded - from.forwarded, window),
            core_share: if window == Duration::ZERO { 0.0 } else { (ran / window.as_secs_f64()).min(1.0) },
        }
    }
}

/// The rings of the router's ends of its cables.
#[derive(Debug, Clone, Copy)]
pub struct Rings {
    /// Frames that the router's receive rings hold.
    pub receive_pkts: usize,
    /// Descriptors of the router's transmit rings. A descriptor is free again when the peer has taken the
    /// frame and the host has reclaimed it.
    pub transmit_pkts: usize,
}

/// The peers' ends of two cables.
#[derive(Debug)]
pub struct Cables {
    ends: [End; 2],
    pool: Pool,
    drained: [u64; 2],
}

impl Cables {
    /// Creates two cables. Their far ends have these addresses. Returns the far ends, and the router's ends.
    ///
    /// # Errors
    /// [`PoolLimit`] if the rings are longer than a pool may be.
    pub fn lay(
        far: [EthernetAddress; 2],
        router: [cable::Options; 2],
        rings: Rings,
    ) -> Result<(Self, [End; 2]), PoolLimit> {
        let Rings { receive_pkts, transmit_pkts } = rings;
        // The ring has room for all frames for which the router has descriptors, so no frame is lost on the
        // cable.
        let far_ring_pkts = 2 * transmit_pkts;
        let [first, second] = router;
        let [first, second] = [(far[0], first), (far[1], second)].map(|(address, near)| {
            let far =
                cable::Options { address, ring_pkts: far_ring_pkts, ..cable::Options::new("outside", 0) };
            let completion = Completion::ByPeer;
            let near = cable::Options {
                ring_pkts: receive_pkts,
                completion,
                transmit_ring_pkts: transmit_pkts,
                ..near
            };
            cable::pair(far, near)
        });
        let mut pool = Pool::with_limit(2 * far_ring_pkts);
        let mut ends = [first.0, second.0];
        for end in &mut ends {
            end.attach(&mut pool)?;
        }
        Ok((Self { ends, pool, drained: [0; 2] }, [first.1, second.1]))
    }

    /// Returns what became of the frames sent to the router.
    #[must_use]
    pub fn sent(&self) -> WireCounters {
        self.ends[0].sent()
    }

    /// Returns the number of frames that the router has sent, according to the cables.
    pub fn came_out(&mut self) -> u64 {
        let waiting = |end: &mut End| end.queue(0).pending() as u64 + end.queue(0).missed();
        self.ends.iter_mut().map(waiting).sum::<u64>() + self.drained.iter().sum::<u64>()
    }
}

impl FarEnds for Cables {
    fn offer(&mut self, frame: &[u8]) {
        self.ends[0].send(frame);
    }

    fn flush(&mut self) {
        self.ends[0].flush();
    }

    fn drain(&mut self) {
        for (end, drained) in self.ends.iter_mut().zip(&mut self.drained) {
            let frames = drain(end, &mut self.pool);
            if frames > 0 {
                end.complete(frames);
                *drained += frames;
            }
        }
    }

    fn forwarded(&mut self) -> u64 {
        self.drained[1]
    }
}
