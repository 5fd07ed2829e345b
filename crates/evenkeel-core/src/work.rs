//! The kinds of work that a work item consists of, and their counts.
//!
//! The core only counts. On a real core the counts explain where time went; in virtual time a machine model
//! turns them into time.

use crate::time::Duration;

macro_rules! work {
    ($($variant:ident => $name:literal, $meaning:literal;)*) => {
        /// A kind of work.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Work { $(#[doc = $meaning] $variant,)* }

        impl Work {
            /// Every kind, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Returns the name used in machine models and reports.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Returns the meaning of the kind in one line.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)* }
            }
        }
    };
}

work! {
    Interrupt => "interrupt", "entering and leaving a device interrupt";
    Clock => "clock", "a timer interrupt, and what was due";
    Receive => "receive", "the driver takes a frame from a receive ring";
    Demultiplex => "demultiplex", "the demultiplexing function classifies a frame";
    Enqueue => "enqueue", "a frame is put into the shared IP queue or a channel";
    SoftInterrupt => "soft-interrupt", "dispatching the software interrupt";
    PollRound => "poll-round", "the polling thread calls a device's callback";
    Input => "input", "IP and UDP input of a frame, or IP input of a segment";
    Segment => "segment", "TCP input of a segment, beside that of IP";
    Open => "open", "a SYN is put before its listener, beside TCP input of it";
    Control => "control", "ARP, NDP, ICMP, IGMP or MLD input of a frame";
    Forward => "forward", "routing a packet and putting it on its way";
    Filter => "filter", "a packet filter looks at a frame";
    Screen => "screen", "a packet to be forwarded is put before the screening process";
    Append => "append", "a datagram or a copy is appended to a queue that a process reads";
    Wakeup => "wakeup", "a sleeping process is made runnable";
    Switch => "switch", "switching to another process";
    SystemCall => "system-call", "entering and leaving a system call";
    StatusTest => "status-test", "a file is asked what it is ready for";
    SetWord => "set-word", "64 descriptors of a set are compared, or as many entries of poll gone through";
    NumberLook => "number-look", "a look for the lowest free number of a descriptor";
    Deliver => "deliver", "a datagram is handed to the program";
    Output => "output", "UDP and IP output of a datagram";
    SegmentOutput => "segment-output", "TCP and IP output of a segment";
    Transmit => "transmit", "the driver hands a frame to the interface";
    Reclaim => "reclaim", "the driver takes back the buffer of a frame that has left";
}

/// The number of times that each kind of work was done, and the CPU time that a program asked to burn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkLog {
    counts: [u32; Work::ALL.len()],
    /// CPU time a program asked to burn ([`crate::host::System::compute`]). The driver of the host burns it,
    /// or lets it pass.
    pub compute: Duration,
}

impl WorkLog {
    /// Records that `work` was done once.
    pub fn add(&mut self, work: Work) {
        self.counts[work as usize] += 1;
    }

    /// Records that `work` was done so many times.
    pub(crate) fn add_times(&mut self, work: Work, times: u32) {
        self.counts[work as usize] += times;
    }

    /// Returns how often `work` was done.
    #[must_use]
    pub fn count(&self, work: Work) -> u32 {
        self.counts[work as usize]
    }

    /// Returns an iterator over the kinds of work done, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (Work, u32)> {
        Work::ALL.iter().map(|&w| (w, self.count(w))).filter(|&(_, n)| n > 0)
    }

    pub(crate) fn clear(&mut self) {
        self.counts.fill(0);
        self.compute = Duration::ZERO;
    }
}
