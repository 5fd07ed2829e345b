//! Settings of an emulated network, in the form of the command line.

use std::time::Duration;

use evenkeel_wan::{Bursts, Limit, Loss, Ratio, Size};

use crate::quantity;

/// A setting of both directions: forward, and back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Both<T>([T; 2]);

impl<T: Copy> Both<T> {
    /// Returns the setting of one direction: 0 is forward, 1 is back.
    pub(super) const fn of(&self, direction: usize) -> T {
        self.0[direction]
    }
}

/// The limit of the queue in front of a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Queue(pub(super) Limit);

/// A share of all frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Share(pub(super) Ratio);

impl Default for Share {
    fn default() -> Self {
        Self(Ratio::ZERO)
    }
}

/// Frames that are delayed further, and by how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Reorder {
    pub(super) share: Share,
    pub(super) held_back: Duration,
}

/// Reads one value for both directions, or two with a slash between them.
fn both<T: Copy>(text: &str, one: impl Fn(&str) -> Result<T, String>) -> Result<Both<T>, String> {
    match text.split_once('/') {
        None => one(text).map(|value| Both([value; 2])),
        Some((there, back)) => Ok(Both([one(there)?, one(back)?])),
    }
}

pub(super) fn rates(text: &str) -> Result<Both<Option<u64>>, String> {
    both(text, rate)
}

pub(super) fn times(text: &str) -> Result<Both<Duration>, String> {
    both(text, |text| if text == "none" { Ok(Duration::ZERO) } else { quantity::time(text) })
}

pub(super) fn queues(text: &str) -> Result<Both<Queue>, String> {
    both(text, queue)
}

pub(super) fn losses(text: &str) -> Result<Both<Loss>, String> {
    both(text, loss)
}

pub(super) fn shares(text: &str) -> Result<Both<Share>, String> {
    both(text, share)
}

pub(super) fn reorders(text: &str) -> Result<Both<Reorder>, String> {
    both(text, reorder)
}

/// Reads bits a second in the units of tc; `none` means no limit.
fn rate(text: &str) -> Result<Option<u64>, String> {
    if text == "none" {
        return Ok(None);
    }
    quantity::bit_rate(text).map(Some).map_err(|expected| expected + ", or none")
}

/// Reads the limit of a queue: a number of packets, bytes with a unit, or a time.
fn queue(text: &str) -> Result<Queue, String> {
    const UNITS: [(&str, f64); 3] = [("B", 1.0), ("kB", 1e3), ("MB", 1e6)];
    let (number, unit) = quantity::split(text);
    let bytes = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
    let bytes = quantity::positive(number).zip(bytes).map(|(number, factor)| number * factor);
    let limit = match bytes.and_then(quantity::whole) {
        Some(bytes) => Some(Limit::Bytes(bytes)),
        None if unit.is_empty() => number.parse().ok().map(Limit::Packets),
        None => quantity::time(text).ok().map(Limit::Time),
    };
    let some = |limit: &Limit| match limit {
        Limit::Packets(packets) => *packets > 0,
        Limit::Bytes(bytes) => *bytes > 0,
        Limit::Time(time) => !time.is_zero(),
    };
    limit.filter(some).map(Queue).ok_or_else(|| {
        "expected what may wait: a number of packets, such as 100, bytes, such as 64kB, or a time, such as \
         50ms"
            .to_owned()
    })
}

/// Reads a share in percent, with or without the sign; `none` means 0 %.
fn share(text: &str) -> Result<Share, String> {
    /// The resolution, in parts of a percent.
    const PARTS: f64 = 1e6;
    if text == "none" {
        return Ok(Share::default());
    }
    let percent = text.strip_suffix('%').and_then(quantity::positive).filter(|percent| *percent <= 100.0);
    let parts =
        percent.and_then(|percent| quantity::whole(percent * PARTS)).and_then(|n| u32::try_from(n).ok());
    parts
        .map(|parts| Share(Ratio::new(parts, 100_000_000)))
        .ok_or_else(|| "expected a share of all frames, such as 1% or 0.05%".to_owned())
}

/// Reads a share, or the name of a loss model and its shares.
fn loss(text: &str) -> Result<Loss, String> {
    let Some(shares) = text.strip_prefix("gemodel:") else {
        return share(text).map(|share| Loss::Independent(share.0)).map_err(|error| {
            format!("{error}; or gemodel:p,r[,1-h[,1-k]] for bursts, such as gemodel:0.1%,20%")
        });
    };
    let all = shares.split(',').map(share).collect::<Result<Vec<_>, _>>();
    let all = all.ok().filter(|all| (2..=4).contains(&all.len()));
    let Some([enter, leave, rest @ ..]) = all.as_deref() else {
        let what = "to turn bad, to turn good again, and of a loss when bad and when good";
        return Err(format!("expected gemodel:p,r[,1-h[,1-k]], probabilities {what}: gemodel:0.1%,20%"));
    };
    let (in_bad, in_good) = (rest.first().map_or(Ratio::percent(100), |share| share.0), rest.get(1));
    let in_good = in_good.map_or(Ratio::ZERO, |share| share.0);
    Ok(Loss::Bursts(Bursts { enter: enter.0, leave: leave.0, in_bad, in_good }))
}

fn reorder(text: &str) -> Result<Reorder, String> {
    if text == "none" {
        return Ok(Reorder::default());
    }
    let parts =
        text.split_once(',').and_then(|(of, time)| Some((share(of).ok()?, quantity::time(time).ok()?)));
    parts.map(|(share, held_back)| Reorder { share, held_back }).ok_or_else(|| {
        "expected a share of all frames, and for how long they are held back, such as 1%,5ms".to_owned()
    })
}

/// Reads the size that counts for a frame: extra bytes, `ip` or `ethernet`.
pub(super) fn overhead(text: &str) -> Result<Size, String> {
    match text {
        "ip" => Ok(Size::IP),
        "ethernet" => Ok(Size::ETHERNET),
        _ => {
            let extra = text.parse().ok().filter(|extra| (-14..=1_000).contains(extra));
            extra.map(|extra| Size { extra, ..Size::default() }).ok_or_else(|| {
                "expected a number of bytes from -14 to 1000, ip (-14), or ethernet (24, and 60 at least)"
                    .to_owned()
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_is_for_both_ways_and_two_are_for_one_each() {
        let both = |text| rates(text).map(|rate| [rate.of(0), rate.of(1)]);
        assert_eq!(both("50mbit"), Ok([Some(50_000_000); 2]));
        assert_eq!(both("50mbit/5Mbit"), Ok([Some(50_000_000), Some(5_000_000)]));
        assert_eq!(both("none/2.5kbit"), Ok([None, Some(2_500)]));
        for wrong in ["", "50", "50mbps", "50M", "0bit", "-1kbit", "1/2/3", "50mbit/", "9999gbit"] {
            assert!(rates(wrong).is_err_and(|error| error.contains("50mbit")), "{wrong}");
        }
        assert_eq!(times("5ms/none").map(|t| t.of(1)), Ok(Duration::ZERO));
    }

    #[test]
    fn a_queue_is_of_packets_bytes_or_time() {
        let limit = |text| queue(text).map(|queue| queue.0);
        assert_eq!(limit("100"), Ok(Limit::Packets(100)));
        assert_eq!(limit("1.5kB"), Ok(Limit::Bytes(1_500)));
        assert_eq!(limit("64MB"), Ok(Limit::Bytes(64_000_000)));
        assert_eq!(limit("2.5ms"), Ok(Limit::Time(Duration::from_micros(2_500))));
        for wrong in ["", "0", "0B", "0ms", "-5", "1.5", "5kb", "5 kB", "bdp"] {
            assert!(queue(wrong).is_err_and(|error| error.contains("64kB")), "{wrong}");
        }
    }

    #[test]
    fn losses_are_shares_or_a_model_of_bursts() {
        let ratio = |parts| Ratio::new(parts, 100_000_000);
        assert_eq!(loss("0.5%"), Ok(Loss::Independent(ratio(500_000))));
        assert_eq!(loss("100%"), Ok(Loss::Independent(ratio(100_000_000))));
        let bursts = |text| match loss(text) {
            Ok(Loss::Bursts(Bursts { enter, leave, in_bad, in_good })) => {
                Some([enter, leave, in_bad, in_good])
            }
            _ => None,
        };
        let (p, r) = (ratio(1_000_000), ratio(20_000_000));
        assert_eq!(bursts("gemodel:1%,20%"), Some([p, r, Ratio::percent(100), Ratio::ZERO]));
        assert_eq!(bursts("gemodel:1%,20%,1%,20%"), Some([p, r, p, r]));
        for wrong in ["1", "0.01", "101%", "gemodel", "gemodel:", "gemodel:1%", "gemodel:1%,1%,1%,1%,1%", "%"]
        {
            assert!(loss(wrong).is_err_and(|error| error.contains("gemodel:0.1%,20%")), "{wrong}");
        }
        assert!(reorder("1%").is_err() && reorder("1%,5").is_err());
        assert_eq!(reorder("1%,5ms").map(|reorder| reorder.held_back), Ok(Duration::from_millis(5)));
    }

    #[test]
    fn what_counts_of_a_frame_is_bytes_or_a_word() {
        assert_eq!((overhead("ip"), overhead("-14")), (Ok(Size::IP), Ok(Size::IP)));
        assert_eq!(overhead("24").map(|size| size.of(10)), Ok(34));
        assert_eq!(overhead("ethernet").map(|size| size.of(10)), Ok(84));
        for wrong in ["", "-15", "wifi", "1.5"] {
            assert!(overhead(wrong).is_err_and(|error| error.contains("ethernet")), "{wrong}");
        }
    }
}
