//! A load generator inside the kernel, for measurements on veth pairs: it sends several times as fast as any
//! socket.
//!
//! The program is `bpf/flood.c`. The kernel makes frames and runs it on each (`BPF_F_TEST_XDP_LIVE_FRAMES` of
//! linux/bpf.h, from Linux 5.18 on); it sends them to a device when they are due.

use core::fmt;

use aya::maps::{Array, MapData};
use aya::programs::{TestRun as _, TestRunAttrs, TestRunOptions};
use aya::{Ebpf, EbpfLoader, include_bytes_aligned};

use crate::attached::{load, xdp};
use crate::bpf::{error_of, take_map};
use crate::error::LinkError;
use crate::netdev::device_index;

static OBJECT: &[u8] = include_bytes_aligned!("../bpf/flood.o");
/// The name of the program in the object.
const PROGRAM: &str = "flood";
/// The operation in errors.
const SEND: &str = "send frames from the kernel";

/// The bytes at the front of a frame that the program writes anew each time it sends it: the headers of a
/// datagram of IPv4 and six bytes of its payload.
const WRITTEN: usize = 48;
/// Where in a frame the sum of UDP is. Zero means that there is none (RFC 768).
const SUM_AT: core::ops::Range<usize> = 40..42;
/// The frames that the kernel makes at once, at most. It sends them together, after the last one is due.
const BATCH_MAX: u64 = 64;
/// The number of batches in a second, unless that makes them too large. A socket of the kernel with its usual
/// limit holds about 50 of these datagrams.
const BATCHES: u64 = 20_000;
/// Units of the program's time in a second.
const TICKS: u64 = 1_000_000_000 << 8;

/// A value of the program's map: the interval between frames, their first bytes, and the device, the number
/// of flows and their first port as three numbers of 32 bits.
type Plan = [u64; 9];

/// A generator of datagrams of IPv4, which blocks the thread that uses it.
pub struct Flood {
    object: Ebpf,
    plan: Array<MapData, Plan>,
    planned: Plan,
    frame: Vec<u8>,
}

/// The progress of a [`Flood`], for other threads.
pub struct FloodProgress {
    progress: Array<MapData, [u64; 2]>,
    stopped: Array<MapData, u32>,
}

impl fmt::Debug for Flood {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flood").field("planned", &self.planned).finish_non_exhaustive()
    }
}

impl fmt::Debug for FloodProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FloodProgress").field("sent", &self.sent()).finish_non_exhaustive()
    }
}

impl Flood {
    /// The lowest rate that is kept, in frames a second.
    pub const PPS_MIN: u64 = 50_000;
    /// The highest rate that is kept; nothing sends faster.
    pub const PPS_MAX: u64 = 10_000_000;

    /// Prepares to send `frame`, a datagram of IPv4 without options, to `device`: in so many flows, whose
    /// source ports count up from that of the frame.
    ///
    /// A veth takes the frames only if its other end has NAPI: it does with GRO or an XDP program.
    ///
    /// # Errors
    /// There is no such device, the process lacks CAP_BPF or CAP_NET_ADMIN, or the kernel cannot run the
    /// program.
    pub fn open(device: &str, frame: &[u8], flows: u16) -> Result<(Self, FloodProgress), LinkError> {
        let failed = |error| error_of(SEND, error);
        let mut object = EbpfLoader::new().load(OBJECT).map_err(|error| error_of(SEND, error))?;
        load(xdp(&mut object, PROGRAM)?).map_err(|error| error_of(SEND, error))?;
        let mut frame = frame.to_vec();
        frame.resize(frame.len().max(WRITTEN), 0);
        frame[SUM_AT].fill(0);
        let mut planned: Plan = [0; 9];
        for (word, bytes) in planned[1..].iter_mut().zip(frame[..WRITTEN].as_chunks::<8>().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        let first_port = u32::from(u16::from_be_bytes([frame[34], frame[35]]));
        planned[7] = pair(device_index(device)?, flows.max(1).into());
        planned[8] = pair(first_port, 0);
        let mut progress: Array<MapData, [u64; 2]> = take_map(&mut object, "progress")?;
        progress.set(0, [0, 0], 0).map_err(failed)?;
        let (plan, stopped) = (take_map(&mut object, "plan")?, take_map(&mut object, "stopped")?);
        Ok((Self { object, plan, planned, frame }, FloodProgress { progress, stopped }))
    }

    /// Sends `frames` at `pps`, or as fast as it can; ends early, and without an error, when a signal
    /// arrives. After [`FloodProgress::stop`] it sends no more, and returns once it has made the rest.
    ///
    /// # Errors
    /// The kernel is older than Linux 5.18, or short of memory.
    pub fn send(&mut self, pps: u64, frames: u32) -> Result<(), LinkError> {
        let pps = pps.clamp(Self::PPS_MIN, Self::PPS_MAX);
        self.planned[0] = TICKS / pps;
        self.plan.set(0, self.planned, 0).map_err(|error| error_of(SEND, error))?;
        let options = TestRunOptions {
            data_in: Some(&self.frame),
            repeat: frames,
            attrs: TestRunAttrs::new().xdp_live_frames((pps / BATCHES).min(BATCH_MAX) as u32),
            ..TestRunOptions::new()
        };
        match xdp(&mut self.object, PROGRAM)?.test_run(options).map_err(|error| error_of(SEND, error)) {
            Err(LinkError::Os { source, .. }) if source.raw_os_error() == Some(libc::EINTR) => Ok(()),
            result => result.map(drop),
        }
    }
}

/// Returns two numbers as they are in memory, one after the other.
fn pair(first: u32, second: u32) -> u64 {
    let ([a, b, c, d], [e, f, g, h]) = (first.to_ne_bytes(), second.to_ne_bytes());
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

impl FloodProgress {
    /// Returns the number of frames that were sent so far.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.progress.get(&0, 0).map_or(0, |[_, sent]| sent)
    }

    /// Makes the flood send no more.
    pub fn stop(&mut self) {
        // Only a wrong index fails.
        let _ = self.stopped.set(0, 1, 0);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]

    use std::net::UdpSocket;
    use std::process::Command;
    use std::thread;
    use std::time::Duration;

    use evenkeel_skip::{Lack, skip};

    use super::*;

    fn run(command: &str) {
        let mut words = command.split_whitespace();
        let output = Command::new(words.next().unwrap()).args(words).output().unwrap();
        assert!(output.status.success(), "{command}: {output:?}");
    }

    /// Returns a datagram to the near end.
    fn frame() -> Vec<u8> {
        let ethernet = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], &[8, 0]].concat();
        let mut ip = vec![0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 9, 0, 7, 10, 9, 0, 1];
        let sum: u32 = ip.chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1])).sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        let udp = [&[0x13, 0x88, 0, 7, 0, 26, 0xbe, 0xef][..], b"as many as were asked"].concat();
        let mut frame = [ethernet, ip, udp].concat();
        frame.truncate(60);
        frame
    }

    /// The kernel delivers what was sent, from as many flows as were wanted, and intact.
    #[test]
    fn what_is_sent_arrives_at_a_socket() {
        let test = || {
            let name = "what_is_sent_arrives_at_a_socket";
            if let Err(error) = crate::enter_new_network() {
                return skip(name, &Lack::Root(&error.to_string()));
            }
            run(
                "ip link add fl0 address 02:00:00:00:00:01 type veth peer name fl1 address 02:00:00:00:00:02",
            );
            // With a program, it has NAPI.
            run("ip link set fl0 up");
            run("ip link set fl1 up");
            run("ip addr add 10.9.0.1/24 dev fl0");
            let guard = crate::Guard::attach(&["fl0".to_owned()], &crate::GuardOptions::default());
            if let Err(why) = &guard {
                return skip(name, &Lack::Other(&why.to_string()));
            }
            let socket = UdpSocket::bind("10.9.0.1:7").unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
            let (mut flood, mut progress) = Flood::open("fl1", &frame(), 4).unwrap();
            if let Err(why) = flood.send(Flood::PPS_MIN, 40) {
                return skip(name, &Lack::Other(&why.to_string()));
            }
            assert_eq!(progress.sent(), 40);
            let mut ports = [0; 4];
            for _ in 0..40 {
                let mut buffer = [0; 100];
                let (len, from) = socket.recv_from(&mut buffer).unwrap();
                assert_eq!(&buffer[..len], &frame()[42..]);
                ports[usize::from(from.port() - 5_000)] += 1;
            }
            assert_eq!(ports, [10; 4]);
            progress.stop();
            flood.send(Flood::PPS_MAX, 10_000).unwrap();
            assert_eq!(progress.sent(), 40);
        };
        thread::spawn(test).join().unwrap();
    }
}
