//! Datagrams that one processor has let through, and another one has not brought to their socket yet (RPS).

use std::net::{Ipv4Addr, UdpSocket};
use std::process::Command;
use std::time::Duration;
use std::{fs, thread};

use aya::programs::{TestRun as _, TestRunAttrs, TestRunOptions, Xdp};
use evenkeel_skip::{Lack, skip};

use super::{
    BACKLOGS, PROGRAM, ROOMY, Recipe, V4, folded, frame, guard_of_test, learn, sum, take_map, with_addresses,
};
use crate::guard::{Judged, Transport};

const ROUNDS: usize = 20;
const DATAGRAMS: u32 = 5_000;
/// As devices hand them over: one by one.
const BATCH: u32 = 1;

/// Returns a frame that the kernel takes from its loopback device.
fn acceptable() -> Vec<u8> {
    // There is a route back to it.
    let source = Ipv4Addr::new(198, 51, 100, 1).into();
    let mut frame = frame(&Recipe { source, ..Recipe::datagram(ROOMY) });
    frame[..6].fill(0);
    let sum = !folded(sum(&frame[14..34]));
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// Has another processor bring what comes by the loopback device to its socket.
fn steer_to(cpu: usize) {
    let script = format!(
        "mount -t sysfs sysfs /sys && echo {:x} > /sys/class/net/lo/queues/rx-0/rps_cpus",
        1_u64 << cpu
    );
    let output = Command::new("unshare").args(["--mount", "sh", "-c", &script]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Returns how many datagrams the kernel dropped because the queue of a socket was full.
fn dropped_by_kernel() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/net/udp").unwrap();
    text.lines().skip(1).map(|line| line.split_whitespace().last().unwrap().parse::<u64>().unwrap()).sum()
}

fn drain(socket: &UdpSocket) -> usize {
    std::iter::from_fn(|| socket.recv(&mut [0; 100]).ok()).count()
}

/// The program lets no more through than there is room for, also for those that are on their way.
#[test]
fn what_is_on_its_way_to_a_socket_needs_room() {
    with_addresses(|| {
        let name = thread::current().name().unwrap().to_owned();
        let [here, other, ..] = crate::cpus()[..] else {
            return skip(&name, &Lack::Other("one processor"));
        };
        let Some((mut object, guard)) = guard_of_test() else { return };
        if other >= 64 {
            return skip(&name, &Lack::Other("a processor whose backlog is not looked at"));
        }
        let _learning = learn(&mut object, BACKLOGS).unwrap();
        let known: aya::maps::Array<_, [u64; 65]> = take_map(&mut object, "backlogs").unwrap();
        steer_to(other);
        let socket = UdpSocket::bind((V4, ROOMY)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        // Until the place of its backlog is known.
        while known.get(&0, 0).unwrap()[other] == 0 {
            socket.send_to(&[0; 10], (V4, ROOMY)).unwrap();
            drain(&socket);
        }
        crate::pin_to_cpu(here).unwrap();
        let program: &Xdp = object.program(PROGRAM).unwrap().try_into().unwrap();
        let frame = acceptable();
        let (mut held, mut overfilled) = (0, Vec::new());
        for _ in 0..ROUNDS {
            let before = dropped_by_kernel();
            let options = TestRunOptions {
                data_in: Some(&frame),
                repeat: DATAGRAMS,
                attrs: TestRunAttrs::new().xdp_live_frames(BATCH),
                ..TestRunOptions::new()
            };
            program.test_run(options).unwrap();
            held += drain(&socket) as u64;
            overfilled.push(dropped_by_kernel() - before);
        }
        let accounts = guard.accounts().unwrap();
        let account = accounts.iter().find(|it| it.of == Judged::Port(Transport::Udp, ROOMY)).unwrap();
        assert_eq!(account.passed + account.dropped, ROUNDS as u64 * u64::from(DATAGRAMS));
        // If the other processor is stopped, its backlog is full as well.
        assert!(
            account.passed >= held + overfilled.iter().sum::<u64>(),
            "{account:?}, {held}, {overfilled:?}"
        );
        // While the socket is nearly empty, what is on its way does not count: so a few are too many. Without
        // the count there are 14 and more in all rounds. A processor that is stopped makes them many in some.
        overfilled.sort_unstable();
        assert!(overfilled[ROUNDS / 2] < 10, "{overfilled:?}");
    });
}
