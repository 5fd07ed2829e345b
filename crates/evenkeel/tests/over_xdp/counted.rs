//! Every frame that came for us is counted, wherever it ended.

use evenkeel::metrics::Snapshot;
use evenkeel::net::{Net, UdpSocket};
use evenkeel_testing::{attempt, has_xdp, in_namespace, run, wait_for};

use super::{kernel, open, open_on};

/// Returns the number of frames that the interface knows of.
pub(crate) fn known(snapshot: &Snapshot) -> u64 {
    let [interface] = &snapshot.interfaces[..] else { panic!("{snapshot:?}") };
    interface.received + interface.missed + interface.discarded + interface.in_rings
}

/// Waits until all that the kernel has sent is counted; returns the counters.
pub(crate) fn all_counted(net: &Net) -> Snapshot {
    wait_for("the last frame", || known(&net.snapshot()) >= kernel::sent());
    let snapshot = net.snapshot();
    assert_eq!(known(&snapshot), kernel::sent(), "{snapshot:?}");
    snapshot.check().unwrap();
    snapshot
}

/// Makes the kernel's neighbour of our address: it drops some of a flood while it asks for it. Returns the
/// hardware address.
fn become_neighbour(net: &Net) -> [u8; 6] {
    let ours = net.raw(|host| host.interfaces().next().unwrap().properties().address);
    let address = ours.to_string().replace('-', ":");
    run(&format!("ip neigh replace 10.77.0.2 lladdr {address} dev kernel0"));
    ours.0
}

fn drops(snapshot: &Snapshot) -> Vec<(&str, &str, u64)> {
    snapshot.drops.iter().map(|drop| (&*drop.reason, &*drop.place, drop.frames)).collect()
}

/// Returns the discarded and the waiting frames of the socket on a port.
fn socket(snapshot: &Snapshot, port: u16) -> (u64, u64) {
    let socket = snapshot.sockets.iter().find(|socket| socket.port == port).unwrap();
    (socket.discarded, socket.waiting as u64)
}

#[test]
fn what_the_kernel_sends_is_counted_out_by_reason_and_place() {
    in_namespace(&[], || {
        if !has_xdp() {
            return;
        }
        let net = open();
        let ours = become_neighbour(&net);
        let flooded = UdpSocket::bind(&net, "0.0.0.0:9").unwrap();
        let served = UdpSocket::bind(&net, "0.0.0.0:7").unwrap();
        run("ip link set ek0 mtu 3000");
        run("ip link set kernel0 mtu 3000");
        // Longer than what the kernel has room for with a program on the device.
        assert!(!attempt("ip link set kernel0 mtu 9000").0);
        for _ in 0..50 {
            kernel::send(1, 7, 100);
            assert_eq!(served.recv(&mut [0; 200]).unwrap(), 100);
        }
        kernel::send(20_000, 9, 100);
        kernel::send(6, 7, 2000);
        // Nobody has that port.
        kernel::send(2, 81, 100);
        let mut raw = kernel::Raw::open();
        raw.send(3, &kernel::frame(ours, 0x88b5, 4, 2));
        raw.send(4, &kernel::frame(ours, 0x0800, 9, 2));
        raw.send(5, &kernel::frame(ours, 0x0800, 4, 3));
        let snapshot = all_counted(&net);
        let (discarded, waiting) = socket(&snapshot, 9);
        assert!(discarded > 10_000 && discarded + waiting == 20_000, "{discarded} {waiting}");
        assert_eq!(socket(&snapshot, 7), (0, 0));
        let on_interface = [
            ("unknown-ethertype", "adaptor", 3),
            ("too-long", "adaptor", 6),
            ("channel-full", "channel on the interface", discarded),
            ("ip-malformed", "demultiplexer on the interface", 4),
            ("ip-not-local", "demultiplexer on the interface", 5),
        ];
        let no_socket = ("udp-no-socket", "UDP input", 2);
        assert_eq!(drops(&snapshot), [&on_interface[..], &[no_socket]].concat());
        // A socket takes its counters along; those of the interface stay.
        drop(flooded);
        let snapshot = all_counted(&net);
        let closed = ("closed", "closed socket", waiting);
        assert_eq!(drops(&snapshot), [&on_interface[..], &[closed, no_socket]].concat());
        assert_eq!(snapshot.frames.delivered, 50);
    });
}

#[test]
fn frames_of_a_queue_that_is_not_used_are_counted() {
    in_namespace(&[], || {
        if !has_xdp() {
            return;
        }
        let net = open_on("xdp:ek0@0", "numtxqueues 2 numrxqueues 2");
        become_neighbour(&net);
        let _socket = UdpSocket::bind(&net, "0.0.0.0:9").unwrap();
        // Each call sends from a port of its own, so the kernel spreads them.
        (0..200).for_each(|_| kernel::send(1, 9, 100));
        let snapshot = all_counted(&net);
        let (_, waiting) = socket(&snapshot, 9);
        let unused = drops(&snapshot);
        let [("unused-queue", "adaptor", unused)] = unused[..] else { panic!("{unused:?}") };
        assert!(unused > 0 && waiting > 0, "{unused} {waiting}");
    });
}
