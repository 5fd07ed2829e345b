//! The router between two cables.

use evenkeel_apps::measure::drain;
use evenkeel_core::cable::{self, Completion, End, WireCounters};
use evenkeel_core::frame::Pool;
use evenkeel_core::interface::Interface as _;

use super::outside::Outside;
use super::router::{INSIDE, Inside, OUTSIDE};

/// Receive rings. Longer than the router's transmit ring, so that nothing it sends is ever lost on the cable.
const RING_PKTS: usize = 512;
/// Descriptors of the router's transmit rings. They come back when this side has taken the frame and the host reclaims it.
const TRANSMIT_RING_PKTS: usize = 256;

/// The far ends of two cables.
#[derive(Debug)]
pub(super) struct Cables {
    ends: [End; 2],
    pool: Pool,
    drained: [u64; 2],
}

/// Two cables, and the router's ends of them.
pub(super) fn lay() -> (Cables, Inside) {
    let [first, second] = [0, 1].map(|link: usize| {
        let outside = cable::Options {
            address: OUTSIDE[link],
            ring_pkts: RING_PKTS,
            ..cable::Options::new("outside", 0)
        };
        let inside = cable::Options {
            address: INSIDE[link],
            ring_pkts: RING_PKTS,
            completion: Completion::ByPeer,
            transmit_ring_pkts: TRANSMIT_RING_PKTS,
            ..cable::Options::new(["in", "out"][link], 0)
        };
        cable::pair(outside, inside)
    });
    let mut pool = Pool::with_limit(4 * RING_PKTS);
    let mut ends = [first.0, second.0];
    // The pool is as large as the two rings ask for.
    ends.iter_mut().for_each(|end| end.attach(&mut pool).unwrap_or_default());
    (Cables { ends, pool, drained: [0; 2] }, Inside::Cables(Box::new([first.1, second.1])))
}

impl Cables {
    /// What became of the frames sent to the router.
    pub(super) fn sent(&self) -> WireCounters {
        self.ends[0].sent()
    }

    /// Frames that the router has sent, as far as the cables tell.
    pub(super) fn came_out(&mut self) -> u64 {
        let waiting = |end: &mut End| end.queue(0).pending() as u64 + end.queue(0).shed();
        self.ends.iter_mut().map(waiting).sum::<u64>() + self.drained.iter().sum::<u64>()
    }
}

impl Outside for Cables {
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
