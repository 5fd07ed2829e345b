//! The sink that counts frames by protocol and by pair of sender and destination.

use evenkeel::raw::capture::Captured;
use evenkeel::raw::time::Duration;
use schemars::JsonSchema;
use serde::Serialize;

use super::headers::{Address, Headers, Protocol};
use super::program::Sink;

/// Counters of frames by protocol, and by pair of sender and destination.
#[derive(Debug, Default)]
pub struct Summary {
    frames: u64,
    bytes: u64,
    protocols: Frequent<Protocol>,
    talkers: Frequent<(Address, Address)>,
}

/// The counts of a summary.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Summarized {
    /// The number of frames.
    pub frames: u64,
    /// The bytes that the frames had on the wire.
    pub bytes: u64,
    /// Protocols, the most frequent first.
    pub protocols: Vec<Count>,
    /// The pairs of sender and destination, the most frequent first.
    pub talkers: Vec<Count>,
}

/// The number of frames of one protocol, or from one sender to one destination.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Count {
    /// The name of the protocol, or of the sender and the destination.
    pub name: String,
    /// The number of frames. If there were more distinct names than the summary keeps, it is too large by
    /// at most the number of the rarest name listed.
    pub frames: u64,
}

impl Summary {
    /// Returns the counts so far, and counts from zero then.
    #[must_use]
    pub fn take_counts(&mut self) -> Summarized {
        core::mem::take(self).counts()
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn counts(&self) -> Summarized {
        let list = |counts: Vec<(String, u64)>| {
            counts.into_iter().map(|(name, frames)| Count { name, frames }).collect()
        };
        let talkers = self.talkers.counts(TALKERS_SHOWN, |(from, to)| format!("{from} > {to}"));
        let protocols = self.protocols.counts(PROTOCOLS_SHOWN, ToString::to_string);
        let (frames, bytes) = (self.frames, self.bytes);
        Summarized { frames, bytes, protocols: list(protocols), talkers: list(talkers) }
    }
}

const PROTOCOLS_SHOWN: usize = 6;
const TALKERS_SHOWN: usize = 10;

impl Summarized {
    /// Formats the counts of `elapsed` as one line: rates, protocols, and the busiest pairs.
    #[must_use]
    pub fn line(&self, elapsed: Duration) -> String {
        use crate::quantity::{bit_rate, percent, pps};
        #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
        let per_second = |count: u64| count as f64 / elapsed.as_secs_f64().max(1e-9);
        #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
        let share = |count: &Count| {
            format!(
                "{} {} %",
                count.name,
                percent((count.frames as f64 / self.frames.max(1) as f64).min(1.0))
            )
        };
        let mut line = format!("{}, {}", pps(per_second(self.frames)), bit_rate(per_second(self.bytes * 8)));
        for (lead, counts, shown) in [("  ", &self.protocols, 3), ("  ", &self.talkers, 2)] {
            let shown: Vec<String> = counts.iter().take(shown).map(share).collect();
            if !shown.is_empty() {
                line.push_str(lead);
                line.push_str(&shown.join(", "));
            }
        }
        line
    }
}

impl Sink for Summary {
    fn take(&mut self, captured: &Captured<'_>, _time: u64) -> bool {
        let Headers { from, to, protocol, .. } = Headers::of(captured.link_type, captured.bytes);
        self.frames += 1;
        self.bytes += captured.original_bytes as u64;
        self.protocols.count(protocol);
        self.talkers.count((from.address, to.address));
        true
    }

    fn discard(&mut self, _captured: &Captured<'_>) {}
}

/// The number of different things counted at a time.
const KEPT: usize = 64;

/// The most frequent of many things, in bounded memory (Metwally, Agrawal and El Abbadi, *Efficient
/// computation of frequent and top-k elements in data streams*, ICDT 2005). A new thing replaces the rarest
/// one, and continues its count.
#[derive(Debug, Clone)]
struct Frequent<T> {
    counts: Vec<(T, u64)>,
}

impl<T> Default for Frequent<T> {
    fn default() -> Self {
        Self { counts: Vec::new() }
    }
}

impl<T: Copy + Ord> Frequent<T> {
    fn count(&mut self, thing: T) {
        if let Some(at) = self.counts.iter().position(|(known, _)| *known == thing) {
            let Some((_, count)) = self.counts.get_mut(at) else { return };
            *count += 1;
            // Frequent things move to the front, where a search finds them at once.
            if at > 0 {
                self.counts.swap(at, at - 1);
            }
        } else if self.counts.len() < KEPT {
            self.counts.push((thing, 1));
        } else if let Some(rarest) = self.counts.iter_mut().min_by_key(|(_, count)| *count) {
            *rarest = (thing, rarest.1 + 1);
        }
    }

    /// Returns the most frequent, in that order.
    fn counts(&self, shown: usize, name: impl Fn(&T) -> String) -> Vec<(String, u64)> {
        let mut counts = self.counts.clone();
        counts.sort_by_key(|&(thing, count)| (core::cmp::Reverse(count), thing));
        counts.iter().take(shown).map(|(thing, count)| (name(thing), *count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_frequent_is_found_among_what_is_rare() {
        let mut frequent = Frequent::default();
        for n in 0..100_000_u64 {
            frequent.count(if n % 4 == 0 { 7 } else { 1_000 + n });
        }
        let counts = frequent.counts(1, ToString::to_string);
        let [(name, count)] = &counts[..] else { panic!("{counts:?}") };
        assert_eq!(name, "7");
        assert!((25_000..=25_000 + 100_000 / KEPT as u64).contains(count), "{count}");
    }

    #[test]
    fn a_few_things_are_counted_exactly() {
        let mut frequent = Frequent::default();
        for n in 0..60_u64 {
            (0..=n).for_each(|_| frequent.count(n));
        }
        let counts = frequent.counts(60, ToString::to_string);
        assert_eq!((counts[0].clone(), counts[59].clone()), (("59".into(), 60), ("0".into(), 1)));
    }

    #[test]
    fn a_summary_is_one_line() {
        let count = |name: &str, frames| Count { name: name.into(), frames };
        let summarized = Summarized {
            frames: 1_000,
            bytes: 60_000,
            protocols: vec![count("udp", 990), count("arp", 10)],
            talkers: vec![count("10.0.0.1 > 10.0.0.2", 990)],
        };
        let line = summarized.line(Duration::from_secs(1));
        assert_eq!(line, "1.00 kpps, 480 kbit/s  udp 99.0 %, arp 1.0 %  10.0.0.1 > 10.0.0.2 99.0 %");
    }
}
