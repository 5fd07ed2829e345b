//! Paces datagrams on the loopback interface, 20 µs apart, in a program that is busy with other work. Prints
//! the intervals at which they left. For comparison, the kernel's sleep then paces them on an idle thread.
//!
//! `cargo run --release -p evenkeel-soft-timers --example paced_udp -- [interval in µs] [datagrams]`
#![allow(clippy::print_stdout, reason = "it prints a table")]

use std::hint::black_box;
use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_soft_timers::{Call, Options, SoftClock};

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1).filter_map(|argument| argument.parse::<u64>().ok());
    let interval = arguments.next().unwrap_or(20) * 1_000;
    let datagrams = arguments.next().unwrap_or(50_000) as usize;
    let clock = SoftClock::start(Options::default())?;
    println!("{datagrams} datagrams, one every {} µs; intervals in µs:\n", interval / 1_000);
    println!("{:<30}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}", "", "mean", "1 %", "median", "90 %", "99 %", "most");

    let (times, work) = paced(&clock, interval, datagrams)?;
    report("soft timer, busy program", &times);
    let slept = slept(&clock, interval, datagrams.min(5_000))?;
    report("kernel's sleep, idle program", &slept);

    let counts = clock.counts();
    let events = counts.triggered + counts.overdue;
    println!("\n{work} requests were handled meanwhile, at the end of each of which is a trigger state.");
    println!(
        "Of {events} events the backing took care of {}; its timer went off {} times.",
        counts.overdue, counts.interrupts
    );
    Ok(())
}

/// A socket that sends to another one, which is never read: the kernel drops what finds no room.
struct Sender {
    socket: UdpSocket,
    _receiver: UdpSocket,
    /// The time at which each datagram left.
    times: Vec<u64>,
}

impl Sender {
    fn new(datagrams: usize) -> io::Result<Self> {
        let receiver = UdpSocket::bind("127.0.0.1:0")?;
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        socket.connect(receiver.local_addr()?)?;
        Ok(Self { socket, _receiver: receiver, times: Vec::with_capacity(datagrams) })
    }

    fn send(&mut self, clock: &SoftClock) {
        self.times.push(clock.measure_time());
        // Paced or not, a datagram may be lost.
        let _ = self.socket.send(&[0; 1_200]);
    }
}

/// Sends a paced train of datagrams. One event is pending at a time, as in the paper: its handler sends and
/// schedules the next one, sooner if the train is behind its target, but never closer than half of it.
pub(crate) fn paced(clock: &SoftClock, target: u64, datagrams: usize) -> io::Result<(Vec<u64>, u64)> {
    let sender = Arc::new(Mutex::new(Sender::new(datagrams)?));
    let done = Arc::new(AtomicBool::new(false));
    let (sends, is_done) = (Arc::clone(&sender), Arc::clone(&done));
    let handler = Call::again(move |clock: &SoftClock, again| {
        let Ok(mut sender) = sends.lock() else { return };
        sender.send(clock);
        if sender.times.len() < datagrams {
            let train = clock.measure_time() - sender.times[0];
            let late = train > (sender.times.len() as u64 - 1) * target;
            clock.schedule_soft_event(if late { target / 2 } else { target }, again);
        } else {
            is_done.store(true, Ordering::Relaxed);
        }
    });
    clock.schedule_soft_event(target, handler);
    let mut requests = 0;
    while !done.load(Ordering::Relaxed) {
        handle_a_request();
        clock.trigger();
        requests += 1;
    }
    let times = sender.lock().map(|mut sender| std::mem::take(&mut sender.times)).unwrap_or_default();
    Ok((times, requests))
}

/// Computes for some microseconds.
fn handle_a_request() {
    let mut sum = 0_u64;
    for n in 0..black_box(4_000_u64) {
        sum = sum.wrapping_mul(31).wrapping_add(n);
    }
    black_box(sum);
}

#[expect(clippy::disallowed_methods, reason = "this is what others do")]
fn slept(clock: &SoftClock, interval: u64, datagrams: usize) -> io::Result<Vec<u64>> {
    let mut sender = Sender::new(datagrams)?;
    for _ in 0..datagrams {
        std::thread::sleep(Duration::from_nanos(interval));
        sender.send(clock);
    }
    Ok(sender.times)
}

fn report(name: &str, times: &[u64]) {
    let mut intervals: Vec<_> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e3).collect();
    intervals.sort_unstable_by(f64::total_cmp);
    let mean = intervals.iter().sum::<f64>() / intervals.len() as f64;
    let quantile = |q: f64| intervals[((intervals.len() - 1) as f64 * q) as usize];
    print!("{name:<30}{mean:>9.1}");
    for q in [0.01, 0.5, 0.9, 0.99, 1.0] {
        print!("{:>9.1}", quantile(q));
    }
    println!();
}
