//! The end of a host's run, the state that it leaves in the kernel, and its cost while nothing happens.

use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

use evenkeel::raw::cpu::thread_cpu_time;
use evenkeel::raw::host::{AddInterfaceError, Host};
use evenkeel::raw::receive::Architecture;
use evenkeel::raw::time::Clock;
use evenkeel::{Ended, Engine};
use evenkeel_testing::has_xdp;

use crate::conversation::echo;
use crate::stand::{KERNEL_V4, Link, Stand, US_V4, address_kernel, addresses, config, wait_for};
use crate::support::{attempt, in_namespace, pause, run};

/// Creates a host with an echo service on the test's own thread, which does not run yet.
fn engine(link: Link, architecture: Architecture) -> Engine {
    let clock = Clock::start();
    let device = link.open(clock);
    let mut engine = Engine::new(Host::new(config(architecture)).unwrap(), clock).unwrap();
    engine.add_device(device, &addresses()).unwrap();
    engine.host_mut().spawn("echo", 0, echo(None));
    address_kernel(link.kernel_device());
    engine
}

/// An idle host sleeps.
///
/// A spinning host would use a whole processor. The bound is generous for three reasons. A new device is not
/// quite silent (the kernel solicits routers and reports its groups). This is a debug build. A busy machine
/// makes every wake-up cost more.
pub(crate) fn idle_costs_nothing(link: Link, architecture: Architecture) {
    let mut engine = engine(link, architecture);
    let mut run_for = |time: Duration| {
        let (before, until) = (thread_cpu_time(), engine.clock().now() + time);
        assert_eq!(engine.run(until, |_| false).unwrap(), Ended::Time);
        thread_cpu_time() - before
    };
    run_for(Duration::from_millis(300));
    let used = run_for(Duration::from_secs(1));
    assert!(used < Duration::from_millis(50), "used {used:?} of a second");
    assert!(engine.halted() > Duration::from_millis(1000), "halted for {:?}", engine.halted());
}

fn nothing_is_left_behind(link: Link) {
    let mut engine = engine(link, Architecture::SoftLrp);
    let until = engine.clock().now() + Duration::from_millis(100);
    engine.run(until, |_| false).unwrap();
    drop(engine);
    // Programs that other tests start have copies of this process's descriptors until they execute, so this
    // waits for the last of them.
    wait_for("no packet socket to be left", || !run("cat /proc/thread-self/net/packet").contains("0003"));
    match link {
        Link::Tap => wait_for("the TAP to be gone", || !attempt("ip link show ek0").0),
        Link::Packet | Link::Xdp => {
            wait_for("promiscuity to end", || run("ip -d link show ek0").contains("promiscuity 0"));
        }
    }
}

#[test]
fn nothing_is_left_behind_on_tap() {
    in_namespace(|| nothing_is_left_behind(Link::Tap));
}

#[test]
fn nothing_is_left_behind_on_packet() {
    in_namespace(|| nothing_is_left_behind(Link::Packet));
}

#[test]
fn nothing_is_left_behind_on_xdp() {
    in_namespace(|| {
        if has_xdp() {
            nothing_is_left_behind(Link::Xdp);
        }
    });
}

/// `done` is called before every halt, hence after every frame.
#[test]
fn a_run_ends_with_the_frame_that_completes_it() {
    for link in [Link::Tap, Link::Packet, Link::Xdp] {
        in_namespace(move || {
            if link == Link::Xdp && !has_xdp() {
                return;
            }
            let mut engine = engine(link, Architecture::SoftLrp);
            let sender = thread::spawn(|| {
                pause(Duration::from_millis(300));
                UdpSocket::bind((KERNEL_V4, 0)).unwrap().send_to(b"enough", (US_V4, 7)).unwrap();
            });
            let begin = engine.clock().now();
            let ended = engine.run(begin + Duration::from_secs(60), |host| host.ledger().delivered > 0);
            assert_eq!(ended.unwrap(), Ended::Done);
            let taken = engine.clock().now().since(begin);
            assert!((Duration::from_millis(300)..Duration::from_secs(10)).contains(&taken), "{taken:?}");
            sender.join().unwrap();
        });
    }
}

#[test]
fn a_device_that_is_removed_ends_the_run() {
    for link in [Link::Tap, Link::Packet, Link::Xdp] {
        in_namespace(move || {
            if link == Link::Xdp && !has_xdp() {
                return;
            }
            let stand = Stand::start(link, config(Architecture::SoftLrp), vec![echo(None)], None);
            run(&format!("ping -c 1 -W 5 {US_V4}"));
            run(&format!("ip link del {}", stand.device));
            wait_for("the end of a run without a device", || stand.has_ended());
            stand.stop();
        });
    }
}

#[test]
fn under_ni_lrp_the_host_demultiplexes_for_devices_that_do_not() {
    for link in [Link::Tap, Link::Packet] {
        in_namespace(move || {
            let stand = Stand::start(link, config(Architecture::NiLrp), vec![echo(None)], None);
            run(&format!("ping -c 1 -W 5 {US_V4}"));
            stand.stop();
        });
    }
}

#[test]
fn ni_lrp_says_that_devices_do_not_demultiplex() {
    for link in [Link::Tap, Link::Packet] {
        in_namespace(move || {
            let clock = Clock::start();
            let device = link.open(clock);
            let mut engine = Engine::new(Host::new(config(Architecture::NiLrp)).unwrap(), clock).unwrap();
            let plan = engine.host().config().plan();
            let error = engine.add_device_with(device, &addresses(), plan).unwrap_err();
            assert_eq!(error, AddInterfaceError::CannotDemultiplex);
            assert!(error.to_string().contains("use soft-lrp"), "{error}");
            wait_for("the TAP to be gone", || link == Link::Packet || !attempt("ip link show ek0").0);
        });
    }
}
