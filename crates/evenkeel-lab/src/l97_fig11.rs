//! Timeline of a packet that the router forwards with polling off: Mogul and Ramakrishnan, TOCS 1997,
//! figure 11.
//!
//! One moment of the paper has no counterpart: the driver's copying begins at 29 µs, in the middle of one
//! price of the model.

use evenkeel::raw::host::Work;

use crate::experiment::{Experiment, Outcome};
use crate::router_setup::{Kernel, Setup};
use crate::trace::End::{Begins, Ends};
use crate::trace::{DEVICE, Stamp, one_packet, stamp};

pub(crate) const EXPERIMENT: Experiment = Experiment {
    id: "l97-fig11",
    title: "The way of one packet, polling off",
    source: "Mogul and Ramakrishnan, Eliminating receive livelock, TOCS 1997, figure 11 and section 8.1",
    measure,
};

const STAMPS: [Stamp; 10] = [
    stamp(19.0, "the receive service routine is called", (Begins, Work::Receive, 0)),
    stamp(77.0, "the packet is put into the IP queue", (Begins, Work::Enqueue, 0)).missed(DEVICE),
    stamp(142.0, "work at device level is over", (Ends, Work::Enqueue, 0)).missed(DEVICE),
    stamp(191.0, "IP input begins", (Begins, Work::Input, 0)),
    stamp(264.0, "IP output is called", (Begins, Work::Forward, 0)).missed(DEVICE),
    stamp(327.0, "the packet is handed to the interface", (Begins, Work::Transmit, 0)),
    stamp(444.0, "IP is through with it", (Ends, Work::Transmit, 0)).missed(DEVICE),
    stamp(522.0, "the transmit interrupt", (Begins, Work::Interrupt, 1)).missed(DEVICE),
    stamp(544.0, "the transmit service routine is called", (Begins, Work::Reclaim, 0)).missed(DEVICE),
    stamp(633.0, "all work for the packet is over", (Ends, Work::Reclaim, 0)).missed(DEVICE),
];

/// 19, 69, 59 and 49 µs of the trace are prices of the machine model.
const FITTED: &str = "cost.interrupt, cost.input, cost.forward, cost.soft-interrupt";

fn measure(seed: u64) -> Outcome {
    one_packet(&Setup { kernel: Kernel::PollingOff, ..Setup::UNMODIFIED }, &STAMPS, FITTED, seed)
}
