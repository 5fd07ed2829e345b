//! Challenge ACKs: the limit on answers to segments out of place (RFC 5961, 7).

use alloc::boxed::Box;

use super::config::Config;
use crate::time::Instant;

/// The limit on challenge ACKs. Few connections ever send one.
#[derive(Debug, Default)]
pub(super) struct Challenges(Option<Box<Period>>);

/// The count of challenge ACKs in the current period.
#[derive(Debug, Default)]
struct Period {
    since: Instant,
    answered: u8,
}

impl Challenges {
    /// Returns whether another challenge ACK may leave, and counts it if so. At most `most` leave in each
    /// [`Config::CHALLENGE_PERIOD`].
    pub(super) fn pass(&mut self, most: u8, now: Instant) -> bool {
        let period = self.0.get_or_insert_default();
        if period.answered == 0 || now.since(period.since) >= Config::CHALLENGE_PERIOD {
            **period = Period { since: now, answered: 0 };
        }
        let passes = period.answered < most;
        period.answered += u8::from(passes);
        passes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_pass_in_a_period_and_as_many_in_the_next() {
        let (mut challenges, now) = (Challenges::default(), Instant::from_millis(1));
        let passed = |challenges: &mut Challenges, now| (0..20).filter(|_| challenges.pass(3, now)).count();
        assert_eq!(passed(&mut challenges, now), 3);
        assert_eq!(passed(&mut challenges, now + Config::CHALLENGE_PERIOD / 2), 0);
        assert_eq!(passed(&mut challenges, now + Config::CHALLENGE_PERIOD), 3);
    }
}
