//! Faults of the device while a host is on it, beside the kernel with its own hardware address.

use std::net::UdpSocket as KernelSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use evenkeel::net::{Net, UdpSocket};
use evenkeel_testing::{Place, Program, attempt, has_xdp, in_namespace, run, wait_for};

use super::kernel;

pub(super) const BPFTOOL: Program = ("bpftool", "bpftool");
const PROGRAMS: [Program; 3] = [("ip", "iproute2"), ("ping", "iputils-ping"), BPFTOOL];

/// A host with an echo service, under a flood of another socket, beside the kernel.
struct Served {
    net: Net,
    far: Place,
    ends: Arc<AtomicBool>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Served {
    fn start() -> Self {
        let far = Place::new();
        let net = kernel::beside(&far);
        let ends = Arc::new(AtomicBool::new(false));
        let flooded = UdpSocket::bind(&net, "0.0.0.0:9").unwrap();
        let socket = UdpSocket::bind(&net, "0.0.0.0:7").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let (end, flood_ends) = (Arc::clone(&ends), Arc::clone(&ends));
        let server = thread::spawn(move || {
            let _flooded = flooded;
            while !end.load(Ordering::Relaxed) {
                if let Ok((len, from)) = socket.recv_from(&mut [0; 100]) {
                    let _ = socket.send_to(&[7; 100][..len], from);
                }
            }
        });
        let flood = far.here(move || {
            let socket = KernelSocket::bind("10.77.0.1:0").unwrap();
            thread::spawn(move || {
                while !flood_ends.load(Ordering::Relaxed) {
                    let _ = socket.send_to(&[0; 100], "10.77.0.2:9");
                }
            })
        });
        let served = Self { net, far, ends, threads: vec![server, flood] };
        served.assert_all_answer("at first");
        served
    }

    /// Asserts that our socket answers, and the kernel at our end.
    fn assert_all_answer(&self, when: &'static str) {
        self.far.here(move || {
            let socket = KernelSocket::bind("10.77.0.1:0").unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            wait_for(&format!("our answer, {when}"), || {
                let _ = socket.send_to(b"hello", "10.77.0.2:7");
                socket.recv(&mut [0; 10]).is_ok_and(|len| len == 5)
            });
            wait_for(&format!("the kernel's answer, {when}"), kernel::answers);
        });
        self.net.check().unwrap();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| _ = thread.join());
    }
}

/// Runs `test` where there is AF_XDP and all that it needs.
fn beside_the_kernel(test: impl FnOnce() + Send + 'static) {
    in_namespace(&[&PROGRAMS], || {
        if has_xdp() {
            test();
        }
    });
}

#[test]
fn after_each_fault_of_the_device_we_and_the_kernel_answer() {
    beside_the_kernel(|| {
        let served = Served::start();
        let faults: [(&str, &[&str], &[&str]); 4] = [
            ("down and up", &["ip link set ek0 down", "ip link set ek0 up"], &[]),
            ("with the peer down and up", &[], &["ip link set kernel0 down", "ip link set kernel0 up"]),
            ("with a larger MTU", &["ip link set ek0 mtu 3000"], &["ip link set kernel0 mtu 3000"]),
            ("with a smaller MTU", &["ip link set ek0 mtu 1400"], &["ip link set kernel0 mtu 1400"]),
        ];
        for (when, here, there) in faults {
            here.iter().for_each(|command| _ = run(command));
            there.iter().for_each(|command| _ = served.far.run(command));
            served.assert_all_answer(when);
        }
        assert_eq!(served.net.failed_device(), None);
        served.far.run("ip link del kernel0");
        wait_for("the end of the device", || served.net.failed_device().is_some());
        let failed = served.net.failed_device().unwrap();
        assert!(failed.contains("ek0") && failed.contains("removed"), "{failed}");
    });
}

/// Returns the number of the program on our end; `None` if there is none.
pub(super) fn program() -> Option<u32> {
    let shown = run("ip -details link show ek0");
    let after = shown.split("prog/xdp id ").nth(1)?;
    Some(after.split_whitespace().next().unwrap().parse().unwrap())
}

/// Detaches the program, as only the number of its link allows.
pub(super) fn detach() {
    let ours = format!("prog {} ", program().unwrap());
    let links = run("bpftool link show");
    let link = links.lines().find(|line| format!("{line} ").contains(&ours)).unwrap();
    run(&format!("bpftool link detach id {}", link.split(':').next().unwrap()));
}

/// The link that holds the program is ours.
#[test]
fn nobody_replaces_the_program_by_accident() {
    beside_the_kernel(|| {
        let served = Served::start();
        for command in ["ip link set ek0 xdp off", "bpftool net detach xdp dev ek0"] {
            let (done, said) = attempt(command);
            assert!(!done, "{command}: {said}");
        }
        served.assert_all_answer("with the program as it was");
    });
}

#[test]
fn a_program_that_somebody_detaches_is_attached_again() {
    beside_the_kernel(|| {
        let served = Served::start();
        for _ in 0..2 {
            detach();
            wait_for("the program", || program().is_some());
            served.assert_all_answer("with the program attached again");
        }
        assert_eq!(served.net.failed_device(), None);
    });
}

#[test]
fn a_program_that_takes_the_place_of_ours_ends_the_device() {
    beside_the_kernel(|| {
        let served = Served::start();
        // No frame comes in between, so ours is not attached again.
        served.far.run("ip link set kernel0 down");
        detach();
        // With empty tables, it leaves the rest to the kernel.
        let object = concat!(env!("CARGO_MANIFEST_DIR"), "/../evenkeel-link/bpf/demux.o");
        run(&format!("ip link set ek0 xdp obj {object} sec xdp"));
        served.far.run("ip link set kernel0 up");
        wait_for("the end of the device", || served.net.failed_device().is_some());
        let failed = served.net.failed_device().unwrap();
        assert!(failed.contains("another XDP program"), "{failed}");
        // We hold nothing of the device.
        run("ip link set ek0 xdp off");
        served.far.here(|| wait_for("the kernel's answer", kernel::answers));
    });
}
