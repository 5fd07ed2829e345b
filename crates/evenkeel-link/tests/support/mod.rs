//! Network namespaces for tests on real devices.
#![allow(dead_code, unreachable_pub, reason = "each test program uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::VecDeque;
use std::panic;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;

use evenkeel_core::frame::{Frame, Pool};
use evenkeel_core::time::{Duration, Instant};
use evenkeel_link::{Clock, Device, Halt};
use evenkeel_skip::Lack;
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Runs `test` on its own thread, in its own network namespace, which ends with the thread even if the test
/// fails.
///
/// Tests of a program take turns. A child that one of them starts has copies of all descriptors until it
/// executes its program, and would keep a device open that another test closes and opens again.
///
/// Without the privilege for that, reports it on stderr and returns.
pub fn in_namespace(test: impl FnOnce() + Send + 'static) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let name = thread::current().name().unwrap_or("a test").to_owned();
    let isolated = thread::Builder::new().name(name).spawn(move || {
        // SAFETY: only the network namespace of this thread changes; no descriptor table or address space is
        // unshared.
        if let Err(error) = unsafe { unshare_unsafe(UnshareFlags::NEWNET) } {
            return lacks(&Lack::Root(&format!("no network namespace: {error}")));
        }
        if !has("ip") {
            return lacks(&Lack::Program { program: "ip", package: "iproute2" });
        }
        run("ip link set lo up");
        test();
    });
    if let Err(panic) = isolated.unwrap().join() {
        panic::resume_unwind(panic);
    }
}

/// Reports and records that the test of this thread did not run.
pub fn lacks(lack: &Lack<'_>) {
    evenkeel_skip::skip(thread::current().name().unwrap_or("a test"), lack);
}

/// Returns whether a program can be run.
pub fn has(program: &str) -> bool {
    Command::new(program).arg("-h").output().is_ok()
}

/// Runs a command in this thread's namespace; returns its output, and panics if it fails.
pub fn run(command: &str) -> String {
    let (done, text) = attempt(command);
    assert!(done, "{command}: {text}");
    text
}

/// Runs a command in this thread's namespace; returns whether it succeeded, and its output.
pub fn attempt(command: &str) -> (bool, String) {
    let mut words = command.split_whitespace();
    let output = Command::new(words.next().unwrap()).args(words).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// Waits until a device is gone. Programs that other tests start hold copies of this process's descriptors
/// until they execute.
#[allow(clippy::disallowed_methods, reason = "waits for other programs, not for frames")]
pub fn wait_until_gone(device: &str) {
    let show = format!("ip link show {device}");
    for _ in 0..1_000 {
        if !attempt(&show).0 {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("{device} is still there");
}

/// Calls `has_come` repeatedly until it returns true. The time depends on how long the machine leaves the
/// kernel without a core.
pub fn with_patience(what: &str, clock: Clock, mut has_come: impl FnMut() -> bool) {
    let deadline = clock.now() + Duration::from_secs(30);
    while !has_come() {
        assert!(clock.now() < deadline, "{what} did not come");
        thread::yield_now();
    }
}

/// A device with the pool and clock to drive it by hand.
pub struct Bench<D: ?Sized> {
    pub pool: Pool,
    pub clock: Clock,
    halt: Halt,
    pub device: Box<D>,
}

impl<D: Device> Bench<D> {
    pub fn new(device: D) -> Self {
        Self::boxed(Box::new(device))
    }
}

impl<D: Device + ?Sized> Bench<D> {
    pub fn boxed(device: Box<D>) -> Self {
        let mut halt = Halt::new().unwrap();
        device.info().descriptors.list().into_iter().for_each(|(_, fd)| _ = halt.watch(fd));
        Self { pool: Pool::new(64), clock: Clock::start(), halt, device }
    }

    /// The next frame for which `wanted` holds, within ten seconds; others are dropped.
    pub fn expect(&mut self, what: &str, wanted: impl Fn(&[u8]) -> bool) -> Frame {
        self.frame_within(Duration::from_secs(10), wanted).unwrap_or_else(|| panic!("no {what} came"))
    }

    /// Returns the next frame for which `wanted` holds, if it comes in time; discards others.
    pub fn frame_within(&mut self, time: Duration, wanted: impl Fn(&[u8]) -> bool) -> Option<Frame> {
        let deadline = self.clock.now() + time;
        while let Some(frame) = self.next(deadline) {
            if wanted(frame.bytes()) {
                return Some(frame);
            }
            self.pool.recycle(frame);
        }
        None
    }

    fn next(&mut self, deadline: Instant) -> Option<Frame> {
        loop {
            if let Some(frame) = self.device.queue_mut(0).take(&mut self.pool) {
                return Some(frame);
            }
            if self.clock.now() >= deadline {
                return None;
            }
            if !self.device.queue_mut(0).arm() {
                self.halt.until(&self.clock, deadline).unwrap();
            }
            (0..self.device.properties().queues).for_each(|queue| self.device.set_readable(queue));
        }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        let mut frames = VecDeque::from_iter(self.pool.take_copy(bytes));
        assert_eq!(self.device.transmit(&mut frames, &mut self.pool), 1);
    }
}

/// Returns whether a frame is IPv4 with this protocol number. The frame has no VLAN tag.
pub fn is_ipv4(frame: &[u8], protocol: u8) -> bool {
    frame.get(12..14) == Some(&[8, 0]) && frame.get(23) == Some(&protocol)
}

/// Returns whether a frame is an ARP request for the IPv4 address.
pub fn is_arp_request(frame: &[u8], target: [u8; 4]) -> bool {
    frame.get(12..14) == Some(&[8, 6])
        && frame.get(20..22) == Some(&[0, 1])
        && frame.get(38..42) == Some(&target)
}

/// Returns the answer to an ARP request: that we, at `mac`, have the requested address (RFC 826).
pub fn arp_reply(request: &[u8], mac: [u8; 6]) -> Vec<u8> {
    let (asker_mac, asker, target) = (&request[22..28], &request[28..32], &request[38..42]);
    let header = [asker_mac, &mac, &[8, 6]].concat();
    let body = [&[0, 1, 8, 0, 6, 4, 0, 2], &mac[..], target, asker_mac, asker].concat();
    [header, body].concat()
}

/// Returns the answer to an ICMP echo request (RFC 792): addresses exchanged, type 0, and the checksum
/// adjusted for the new type.
pub fn echo_reply(request: &[u8]) -> Vec<u8> {
    let mut reply = request.to_vec();
    reply[..6].copy_from_slice(&request[6..12]);
    reply[6..12].copy_from_slice(&request[..6]);
    reply[26..30].copy_from_slice(&request[30..34]);
    reply[30..34].copy_from_slice(&request[26..30]);
    reply[34] = 0;
    let sum = u32::from(u16::from_be_bytes([request[36], request[37]])) + 0x0800;
    let folded = (sum & 0xffff) + (sum >> 16);
    reply[36..38].copy_from_slice(&(folded as u16).to_be_bytes());
    reply
}
