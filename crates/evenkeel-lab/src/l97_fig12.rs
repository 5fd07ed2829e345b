//! Timeline of a packet that the router forwards by polling: Mogul and Ramakrishnan, TOCS 1997, figure 12.
//!
//! Some moments of the paper have no counterpart: the request for a poll (21 µs), a call during the
//! reception of the packet (160), and the enabling of interrupts (430 and 586), which costs nothing in the
//! model.

use evenkeel::raw::host::Work;

use crate::experiment::{Experiment, Outcome};
use crate::router_setup::Setup;
use crate::trace::End::{Begins, Ends};
use crate::trace::{DEVICE, Stamp, one_packet, stamp};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "l97-fig12",
    title: "The way of one packet, polling",
    source: "Mogul and Ramakrishnan, Eliminating receive livelock, TOCS 1997, figure 12 and section 8.1",
    measure,
};

const STAMPS: [Stamp; 11] = [
    stamp(53.0, "work at device level is over", (Ends, Work::Interrupt, 0)).missed(DEVICE),
    stamp(97.0, "the polling loop begins", (Begins, Work::PollRound, 0)).missed(DEVICE),
    stamp(112.0, "the packet is taken from the ring", (Begins, Work::Receive, 0)).missed(DEVICE),
    stamp(166.0, "IP input begins", (Begins, Work::Input, 0)),
    stamp(235.0, "IP output is called", (Begins, Work::Forward, 0)),
    stamp(294.0, "the packet is handed to the interface", (Begins, Work::Transmit, 0)),
    stamp(407.0, "IP is through with it", (Ends, Work::Transmit, 0)).missed(DEVICE),
    stamp(454.0, "the transmit interrupt", (Begins, Work::Interrupt, 1)),
    stamp(492.0, "the polling loop begins again", (Begins, Work::PollRound, 1)),
    stamp(544.0, "the transmit service routine is called", (Begins, Work::Reclaim, 0)),
    stamp(597.0, "all work for the packet is over", (Ends, Work::Reclaim, 0)),
];

/// 53, 44, 69 and 59 µs of the trace are prices of the machine model.
const FITTED: &str = "architecture.polled.interrupt, cost.switch, cost.input, cost.forward";

fn measure(seed: u64) -> Outcome {
    one_packet(&Setup::POLLING, &STAMPS, FITTED, seed)
}
