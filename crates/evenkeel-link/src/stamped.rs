//! A frame that contains its sending time, for measurements of packet clocking.

use evenkeel_core::cable::End;
use evenkeel_core::time::Instant;

/// The bytes of number and time, at the end of the frame.
const STAMP: usize = 16;

/// A frame that is sent repeatedly, each time with its number and the time at its end.
#[derive(Debug)]
pub struct StampedFrame {
    end: End,
    frame: Vec<u8>,
    number: u64,
}

/// The number and time in a [`StampedFrame`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// The number of frames sent before this one.
    pub number: u64,
    /// The time at which the frame left.
    pub at: Instant,
}

impl StampedFrame {
    /// Creates a frame that is sent from an end of a cable. It is sent once at once, with number 0 and no
    /// time. So later sends allocate nothing and take no lock, and a signal handler may send the frame.
    /// Returns [`None`] if the frame has no room for a stamp.
    #[must_use]
    pub fn new(end: End, frame: Vec<u8>) -> Option<Self> {
        let mut stamped = (frame.len() >= STAMP).then_some(Self { end, frame, number: 0 })?;
        stamped.send(Instant::ZERO);
        Some(stamped)
    }

    /// Sends the frame, stamped with its number and with `now`.
    pub fn send(&mut self, now: Instant) {
        let stamp = self.frame.len() - STAMP;
        self.frame[stamp..stamp + 8].copy_from_slice(&self.number.to_be_bytes());
        self.frame[stamp + 8..].copy_from_slice(&now.as_nanos().to_be_bytes());
        self.number += 1;
        self.end.send(&self.frame);
        self.end.flush();
    }
}

impl Stamp {
    /// Reads the stamp of a frame that was sent as a [`StampedFrame`].
    #[must_use]
    pub fn of(frame: &[u8]) -> Option<Self> {
        let (rest, at) = frame.split_last_chunk()?;
        let (_, number) = rest.split_last_chunk()?;
        let at = Instant::from_nanos(u64::from_be_bytes(*at));
        Some(Self { number: u64::from_be_bytes(*number), at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_core::cable::{self, Options};
    use evenkeel_core::frame::Pool;
    use evenkeel_core::interface::Interface as _;

    #[test]
    fn a_frame_arrives_with_its_number_and_its_time() {
        let (near, mut far) = cable::pair(Options::new("near", 1), Options::new("far", 2));
        let mut pool = Pool::with_limit(512);
        far.attach(&mut pool).unwrap();
        let mut frame = StampedFrame::new(near, vec![7; 60]).unwrap();
        let at = Instant::from_micros(5);
        frame.send(at);
        let stamps = [(0, Instant::ZERO), (1, at)].map(|(number, at)| Stamp { number, at });
        for stamp in stamps {
            let frame = far.queue_mut(0).take(&mut pool).unwrap();
            assert_eq!((Stamp::of(frame.bytes()), &frame.bytes()[..44]), (Some(stamp), &[7; 44][..]));
            pool.recycle(frame);
        }
    }

    #[test]
    fn what_is_too_short_has_no_stamp() {
        let (near, _far) = cable::pair(Options::new("near", 1), Options::new("far", 2));
        assert!(StampedFrame::new(near, vec![0; 15]).is_none());
        assert_eq!([Stamp::of(&[]), Stamp::of(&[0; 15])], [None; 2]);
    }
}
