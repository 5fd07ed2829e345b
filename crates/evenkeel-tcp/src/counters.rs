//! The counters of TCP. A counter has the name that RFC 4022 or Linux gives it, if its meaning agrees.

use core::fmt;

/// The source of a counter's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Group {
    /// The counter is in RFC 4022, with `tcp` in front, and in Linux's `/proc/net/snmp` behind `Tcp:`.
    Tcp,
    /// The counter is in Linux's `/proc/net/netstat`, behind `TcpExt:`.
    TcpExt,
    /// The counter is of this crate only.
    Evenkeel,
}

impl Group {
    /// Returns the word in front of the counters in tables and machine-readable output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "Tcp",
            Self::TcpExt => "TcpExt",
            Self::Evenkeel => "Evenkeel",
        }
    }
}

macro_rules! counters {
    ($($group:ident { $($variant:ident => $name:literal, $meaning:literal;)* })*) => {
        /// An event that is counted.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Counter { $($(#[doc = $meaning] $variant,)*)* }

        impl Counter {
            /// Every counter, in the order of declaration.
            pub const ALL: &'static [Self] = &[$($(Self::$variant,)*)*];

            /// Returns the name of the counter.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $($(Self::$variant => $name,)*)* }
            }

            /// Whose name that is.
            #[must_use]
            pub const fn group(self) -> Group {
                match self { $($(Self::$variant)|* => Group::$group,)* }
            }

            /// Returns one line that describes the counter.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $($(Self::$variant => $meaning,)*)* }
            }
        }
    };
}

counters! {
    Tcp {
        ActiveOpens => "ActiveOpens", "connections that went from CLOSED to SYN-SENT";
        PassiveOpens => "PassiveOpens", "connections that went from LISTEN to SYN-RECEIVED";
        AttemptFails => "AttemptFails", "connections that ended in SYN-SENT or SYN-RECEIVED";
        EstabResets => "EstabResets", "connections that went from ESTABLISHED or CLOSE-WAIT to CLOSED";
        CurrEstab => "CurrEstab", "connections that are in ESTABLISHED or CLOSE-WAIT now; no count, but a \
            level";
        InSegs => "InSegs", "segments received, those in error included";
        OutSegs => "OutSegs", "segments sent, without those of retransmitted bytes only";
        RetransSegs => "RetransSegs", "segments sent that had bytes sent before";
        InErrs => "InErrs", "segments received in error: checksum, length, options";
        OutRsts => "OutRsts", "segments sent with RST";
        InCsumErrors => "InCsumErrors", "segments received with a wrong checksum (not in RFC 4022)";
    }
    TcpExt {
        SyncookiesSent => "SyncookiesSent", "SYN-ACKs sent with a SYN cookie";
        SyncookiesRecv => "SyncookiesRecv", "connections established from a SYN cookie";
        SyncookiesFailed => "SyncookiesFailed", "ACKs to a listener whose number is no SYN cookie of ours, \
            or too old a one";
        EmbryonicRsts => "EmbryonicRsts", "half-open connections ended by a reset";
        Tw => "TW", "TIME-WAIT ended by its timeout";
        TwRecycled => "TWRecycled", "TIME-WAIT ended by a new connection between the same sockets (RFC 6191)";
        PawsEstab => "PAWSEstab", "segments dropped as too old by their timestamp (RFC 7323, 5)";
        DelayedAcks => "DelayedACKs", "acknowledgements sent because the delay was over";
        DelayedAckLost => "DelayedACKLost", "segments received again, perhaps for want of an acknowledgement";
        OutOfWindowIcmps => "OutOfWindowIcmps", "ICMP errors about segments that are not under way";
        MemoryPressures => "TCPMemoryPressures", "times that the memory for buffers became scarce";
        ListenOverflows => "ListenOverflows", "segments dropped because the accept queue was full";
        ListenDrops => "ListenDrops", "SYNs and last ACKs of handshakes that a listener dropped, for \
            whatever reason";
        PureAcks => "TCPPureAcks", "segments received that did nothing but acknowledge";
        RenoRecovery => "TCPRenoRecovery", "fast recoveries without SACK (RFC 6582)";
        SackRecovery => "TCPSackRecovery", "fast recoveries with SACK";
        FullUndo => "TCPFullUndo", "fast recoveries undone because nothing had been lost";
        FastRetrans => "TCPFastRetrans", "segments retransmitted in fast recovery";
        SlowStartRetrans => "TCPSlowStartRetrans", "segments retransmitted after a timeout";
        Timeouts => "TCPTimeouts", "retransmission timeouts (RFC 6298)";
        SpuriousRtos => "TCPSpuriousRTOs", "retransmission timeouts that were not needed";
        LossProbes => "TCPLossProbes", "tail loss probes sent (RFC 8985, 7)";
        DsackOldSent => "TCPDSACKOldSent", "DSACKs sent for bytes already acknowledged (RFC 2883)";
        DsackOfoSent => "TCPDSACKOfoSent", "DSACKs sent for bytes out of order and already here";
        DsackRecv => "TCPDSACKRecv", "DSACKs received";
        AbortOnData => "TCPAbortOnData", "connections reset because data came that nobody will read";
        AbortOnClose => "TCPAbortOnClose", "connections reset because they were closed with data unread";
        AbortOnTimeout => "TCPAbortOnTimeout", "connections given up after too many timeouts";
        TimeWaitOverflow => "TCPTimeWaitOverflow", "TIME-WAIT cut short because there were too many: here \
            that of the one that had waited longest";
        ReqQFullDoCookies => "TCPReqQFullDoCookies", "SYNs answered with a cookie because the SYN queue was \
            full";
        ReqQFullDrop => "TCPReqQFullDrop", "SYNs dropped because the SYN queue was full and cookies were off";
        OfoQueue => "TCPOFOQueue", "segments received out of order";
        OfoPruned => "OfoPruned", "connections whose segments out of order were thrown away because memory \
            was scarce";
        OfoDrop => "TCPOFODrop", "segments received out of order and dropped for want of room";
        ChallengeAck => "TCPChallengeACK", "challenge ACKs sent (RFC 5961)";
        SynChallenge => "TCPSYNChallenge", "challenge ACKs sent in answer to a SYN (RFC 5961, 4)";
        FastOpenActive => "TCPFastOpenActive", "connections whose data in the SYN was acknowledged (RFC \
            7413)";
        FastOpenActiveFail => "TCPFastOpenActiveFail", "connections whose data in the SYN was not";
        FastOpenPassive => "TCPFastOpenPassive", "connections accepted with data in the SYN";
        FastOpenPassiveFail => "TCPFastOpenPassiveFail", "SYNs with a Fast Open cookie that is not ours, or \
            whose connection failed";
        FastOpenListenOverflow => "TCPFastOpenListenOverflow", "Fast Open refused because too many were \
            waiting for their handshake";
        FastOpenCookieReqd => "TCPFastOpenCookieReqd", "SYNs that asked for a Fast Open cookie";
        FastOpenBlackhole => "TCPFastOpenBlackhole", "paths on which Fast Open was given up for a while";
        FastOpenPassiveAltKey => "TCPFastOpenPassiveAltKey", "connections accepted with a Fast Open cookie \
            of the key before";
        FromZeroWindowAdv => "TCPFromZeroWindowAdv", "windows opened again";
        ToZeroWindowAdv => "TCPToZeroWindowAdv", "windows closed";
        SynRetrans => "TCPSynRetrans", "SYNs and SYN-ACKs sent again";
        AckSkippedSynRecv => "TCPACKSkippedSynRecv", "ACKs not sent for a half-open connection, for the rate \
            limit";
        AckSkippedTimeWait => "TCPACKSkippedTimeWait", "ACKs not sent in TIME-WAIT, for the rate limit";
        AckSkippedChallenge => "TCPACKSkippedChallenge", "challenge ACKs not sent, for the rate limit (RFC \
            5961, 7)";
        WinProbe => "TCPWinProbe", "zero-window probes sent";
        KeepAlive => "TCPKeepAlive", "keepalive probes sent";
        ZeroWindowDrop => "TCPZeroWindowDrop", "segments dropped because the window was closed";
        RcvQDrop => "TCPRcvQDrop", "segments dropped because the receive buffer was full";
    }
    Evenkeel {
        TimeWaitResets => "TimeWaitResets", "resets ignored in TIME-WAIT (RFC 1337)";
        HalfOpenTimeouts => "HalfOpenTimeouts", "half-open connections given up after the last SYN-ACK";
        ResetsSkipped => "ResetsSkipped", "resets of no connection not sent, for the rate limit";
    }
}

const LEN: usize = Counter::ALL.len();

/// A count of each.
#[derive(Clone, PartialEq, Eq)]
pub struct Counters([u64; LEN]);

impl Counters {
    /// Creates counters that are all zero.
    #[must_use]
    pub const fn new() -> Self {
        Self([0; LEN])
    }

    /// Adds one to a counter.
    pub const fn count(&mut self, counter: Counter) {
        self.add(counter, 1);
    }

    /// Adds `more` to a counter.
    pub const fn add(&mut self, counter: Counter, more: u64) {
        self.0[counter as usize] = self.0[counter as usize].wrapping_add(more);
    }

    /// Decrements a counter that is a level.
    pub(super) const fn lower(&mut self, counter: Counter) {
        self.0[counter as usize] = self.0[counter as usize].wrapping_sub(1);
    }

    /// Increments each of these counters.
    #[inline]
    pub fn count_all(&mut self, counted: CounterSet) {
        if !counted.is_empty() {
            self.count_each(counted);
        }
    }

    fn count_each(&mut self, counted: CounterSet) {
        for (mut rest, first) in counted.0.into_iter().zip([0, 64]) {
            while rest != 0 {
                let place = first + rest.trailing_zeros() as usize;
                if let Some(count) = self.0.get_mut(place) {
                    *count = count.wrapping_add(1);
                }
                rest &= rest - 1;
            }
        }
    }

    /// Returns the value of a counter.
    #[must_use]
    pub const fn get(&self, counter: Counter) -> u64 {
        self.0[counter as usize]
    }

    /// Adds the counters of another host of the group.
    pub fn merge(&mut self, other: &Self) {
        Counter::ALL.iter().for_each(|&counter| self.add(counter, other.get(counter)));
    }

    /// Returns every counter with its count.
    pub fn iter(&self) -> impl Iterator<Item = (Counter, u64)> + '_ {
        Counter::ALL.iter().map(|&counter| (counter, self.get(counter)))
    }
}

/// The set of counters that one call increments, each by one. A connection keeps no counters of its own,
/// because there may be very many connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CounterSet([u64; 2]);

const _: () = assert!(LEN <= 128, "a bit for each");

impl CounterSet {
    /// The empty set of counters.
    pub const EMPTY: Self = Self([0; 2]);

    /// Adds a counter to the set.
    pub const fn add(&mut self, counter: Counter) {
        self.add_if(true, counter);
    }

    /// Adds a counter to the set if `so` is true.
    pub const fn add_if(&mut self, so: bool, counter: Counter) {
        self.0[counter as usize / 64] |= (so as u64) << (counter as u32 % 64);
    }

    /// Returns whether the counter is in the set.
    #[must_use]
    pub const fn contains(self, counter: Counter) -> bool {
        self.0[counter as usize / 64] >> (counter as u32 % 64) & 1 == 1
    }

    /// Returns whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0[0] | self.0[1] == 0
    }
}

impl Default for Counters {
    fn default() -> Self {
        Self::new()
    }
}

/// Those that have counted something.
impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().filter(|entry| entry.1 > 0).map(|(c, n)| (c.name(), n))).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_counter_has_a_place_and_a_name_of_its_own() {
        let names: BTreeSet<_> = Counter::ALL.iter().map(|c| c.name()).collect();
        assert_eq!(names.len(), LEN);
        for (place, &counter) in Counter::ALL.iter().enumerate() {
            assert_eq!(counter as usize, place);
            assert!(!counter.meaning().is_empty());
        }
    }

    #[test]
    fn counts_and_merges() {
        let (mut one, mut other) = (Counters::new(), Counters::new());
        one.count(Counter::InSegs);
        other.add(Counter::InSegs, 2);
        other.count(Counter::Tw);
        one.merge(&other);
        assert_eq!((one.get(Counter::InSegs), one.get(Counter::Tw), one.get(Counter::OutSegs)), (3, 1, 0));
        assert_eq!(format!("{one:?}"), r#"{"InSegs": 3, "TW": 1}"#);
    }

    #[test]
    fn a_set_counts_each_once() {
        let mut counted = CounterSet::default();
        let last = *Counter::ALL.last().unwrap();
        for counter in [Counter::ActiveOpens, Counter::PassiveOpens, last, last] {
            counted.add(counter);
        }
        counted.add_if(false, Counter::InSegs);
        assert!(counted.contains(last) && !counted.contains(Counter::InSegs) && !counted.is_empty());
        let mut counters = Counters::new();
        counters.count_all(counted);
        counters.count_all(counted);
        let counted: Vec<_> = counters.iter().filter(|entry| entry.1 > 0).collect();
        assert_eq!(counted, [(Counter::ActiveOpens, 2), (Counter::PassiveOpens, 2), (last, 2)]);
    }

    /// The kernel this test runs on knows every name that is said to be its own.
    #[test]
    fn the_names_are_linuxs() {
        for (group, file) in [(Group::Tcp, "/proc/net/snmp"), (Group::TcpExt, "/proc/net/netstat")] {
            let Ok(text) = std::fs::read_to_string(file) else {
                println!("SKIPPED: no {file} here");
                continue;
            };
            let heading = text.lines().find(|line| line.starts_with(&format!("{}: ", group.name()))).unwrap();
            let known: BTreeSet<_> = heading.split_whitespace().skip(1).collect();
            for counter in Counter::ALL.iter().filter(|counter| counter.group() == group) {
                assert!(known.contains(counter.name()), "{} is no counter of {file}", counter.name());
            }
        }
    }
}
