//! Proportional rate reduction (RFC 9937, formerly 6937bis): how much may leave for each acknowledgment while
//! the window shrinks to `ssthresh`.

/// The effect of one acknowledgment on the reduction. All values are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Delivery {
    /// Newly known to have arrived, cumulatively or selectively: `DeliveredData`.
    pub(super) delivered: u32,
    /// On their way after this acknowledgment: `inflight`.
    pub(super) in_flight: u32,
    /// `SND.UNA` advanced and no further loss is indicated: `SafeACK`.
    pub(super) safe: bool,
}

/// The state of one reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Prr {
    /// `RecoverFS`: on their way when the reduction began.
    recover_flight: u32,
    /// `prr_delivered`.
    delivered: u64,
    /// `prr_out`.
    out: u64,
}

impl Prr {
    pub(super) fn new(recover_flight: u32) -> Self {
        Self { recover_flight: recover_flight.max(1), delivered: 0, out: 0 }
    }

    /// Records that `bytes` left, old or new.
    pub(super) fn on_sent(&mut self, bytes: u32) {
        self.out += u64::from(bytes);
    }

    /// Returns the window after an acknowledgment, for a reduction to `ssthresh`, all in bytes (section 6).
    pub(super) fn window(&mut self, ack: Delivery, ssthresh: u32, mss: u32) -> u32 {
        self.delivered += u64::from(ack.delivered);
        let mut allowed = if ack.in_flight > ssthresh {
            self.in_proportion(ssthresh)
        } else {
            self.bounded(ack, ssthresh, mss)
        };
        if self.out == 0 || ack.in_flight == 0 {
            // The fast retransmit leaves whatever the proportion says; and with nothing on its way nothing
            // would ever arrive.
            allowed = allowed.max(u64::from(mss));
        }
        ack.in_flight.saturating_add(u32::try_from(allowed).unwrap_or(u32::MAX))
    }

    /// Returns the bytes that may still leave if `ssthresh / RecoverFS` bytes leave for each byte that
    /// arrives.
    fn in_proportion(&self, ssthresh: u32) -> u64 {
        let due = u128::from(self.delivered) * u128::from(ssthresh);
        let due = u64::try_from(due.div_ceil(u128::from(self.recover_flight))).unwrap_or(u64::MAX);
        due.saturating_sub(self.out)
    }

    /// Too much is lost already. What arrives is replaced, and in good progress one segment more (PRR-SSRB),
    /// but not beyond `ssthresh`.
    fn bounded(&self, ack: Delivery, ssthresh: u32, mss: u32) -> u64 {
        let conserving = self.delivered.saturating_sub(self.out).max(u64::from(ack.delivered));
        let allowed = if ack.safe { conserving + u64::from(mss) } else { conserving };
        allowed.min(u64::from(ssthresh - ack.in_flight))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MSS: u32 = 1000;

    /// Twenty segments, the first lost, the window halved; limited transmit sent two new ones. The first
    /// example of RFC 6937, section 4, but for its rounding up to segments: here they leave when they are due
    /// in full.
    #[test]
    fn one_loss_of_twenty_lets_every_second_acknowledgment_send() {
        let mut prr = Prr::new(20 * MSS);
        // Of 22, two are sacked and one is lost.
        let mut in_flight = 19 * MSS;
        let mut sent = Vec::new();
        for ack in 3..=21 {
            in_flight -= MSS;
            let window = prr.window(Delivery { delivered: MSS, in_flight, safe: false }, 10 * MSS, MSS);
            if window - in_flight >= MSS {
                sent.push(ack);
                prr.on_sent(MSS);
                in_flight += MSS;
            }
        }
        // With ssthresh on the way the proportion ends, and what arrives is replaced.
        assert_eq!(sent, [3, 6, 8, 10, 12, 14, 16, 19, 20, 21]);
        assert_eq!(in_flight, 10 * MSS);
    }

    /// Of twenty the first fifteen are lost; PRR-CRB: each acknowledgment lets one segment leave. The second
    /// example of RFC 6937.
    #[test]
    fn after_a_burst_loss_what_arrives_is_replaced() {
        let mut prr = Prr::new(20 * MSS);
        let mut in_flight = 5 * MSS;
        for ack in 1..=5 {
            in_flight -= MSS;
            let window = prr.window(Delivery { delivered: MSS, in_flight, safe: false }, 10 * MSS, MSS);
            assert_eq!(window, 5 * MSS, "acknowledgment {ack}");
            prr.on_sent(MSS);
            in_flight += MSS;
        }
        // Retransmissions arrive: SND.UNA advances, and PRR-SSRB lets two leave for one, up to ssthresh.
        for ack in 6..=10 {
            in_flight -= MSS;
            let window = prr.window(Delivery { delivered: MSS, in_flight, safe: true }, 10 * MSS, MSS);
            assert_eq!(window, ack * MSS, "acknowledgment {ack}");
            prr.on_sent(2 * MSS);
            in_flight += 2 * MSS;
        }
    }

    proptest! {
        /// The two bounds that section 6 promises, whatever arrives and is lost.
        #[test]
        fn what_leaves_is_in_proportion_and_never_beyond_ssthresh(
            flight in 4u32..200,
            steps in prop::collection::vec((0u32..4, 0u32..3, any::<bool>()), 1..200),
        ) {
            let ssthresh = flight / 2 * MSS;
            let mut prr = Prr::new(flight * MSS);
            let mut in_flight = flight * MSS;
            let mut sent = 0u64;
            let mut arrived = 0u64;
            for (delivered, lost, safe) in steps {
                let delivered = (delivered * MSS).min(in_flight);
                in_flight -= delivered;
                in_flight -= (lost * MSS).min(in_flight);
                arrived += u64::from(delivered);
                let ack = Delivery { delivered, in_flight, safe };
                let window = prr.window(ack, ssthresh, MSS);
                prop_assert!(window >= in_flight);
                let may = window - in_flight;
                let first = if sent == 0 || in_flight == 0 { MSS } else { 0 };
                if in_flight > ssthresh {
                    let due = (arrived * u64::from(ssthresh)).div_ceil(u64::from(flight * MSS));
                    prop_assert!(sent + u64::from(may) <= due.max(sent) + u64::from(first));
                } else {
                    prop_assert!(window <= ssthresh.max(in_flight + first));
                    let due = u64::from(delivered).max(arrived.saturating_sub(sent));
                    prop_assert!(u64::from(may) <= due + u64::from(MSS));
                }
                let leaves = may / MSS * MSS;
                prr.on_sent(leaves);
                sent += u64::from(leaves);
                in_flight += leaves;
            }
        }
    }
}
