//! `evenkeel echo` on a device whose hardware address it shares with the kernel, in a network namespace with
//! the peer in another one. Needs root; reports if it is skipped.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{command, in_namespace, run, signal, skip, succeeds};
use evenkeel_testing::{Place, attempt, uninterrupted};

/// The kernel's address on our device, and those of the commands.
const KERNEL: &str = "10.77.0.2";
const OURS: &str = "10.77.0.3";
const SECOND: &str = "10.77.0.4";

const PATIENCE: Duration = Duration::from_secs(20);

/// Runs a test in a namespace with `ek0`, which has the kernel's address. The peer is in the other one.
fn at_veth(name: &str, test: impl FnOnce(&Place) + Send) {
    in_namespace(name, || {
        let far = Place::new();
        let there =
            far.here(|| format!("/proc/{}/ns/net", fs::read_link("/proc/thread-self").unwrap().display()));
        run("ip link add kernel0 type veth peer name ek0");
        run(&format!("ip link set kernel0 netns {there}"));
        run(&format!("ip addr add {KERNEL}/24 dev ek0"));
        run("ip link set ek0 up");
        far.run("ip addr add 10.77.0.1/24 dev kernel0");
        far.run("ip link set kernel0 up");
        test(&far);
    });
}

fn echo(mac: &str, address: &str) -> Child {
    let address = format!("{address}/24");
    let arguments = ["echo", "packet:ek0", "--mac", mac, "--address", &address, "--json"];
    command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Connects to a port and sends a request. Returns the error if that is refused.
fn converse(to: &str) -> std::io::Result<()> {
    let mut heard = [0; 5];
    let mut stream = uninterrupted(|| TcpStream::connect((to, 7)))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"hello")?;
    stream.read_exact(&mut heard)?;
    let socket = UdpSocket::bind("10.77.0.1:0")?;
    socket.connect((to, 7))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.send(b"again")?;
    uninterrupted(|| socket.recv(&mut heard))?;
    assert_eq!(heard, *b"again");
    Ok(())
}

/// Returns the report of a command that is interrupted, and what it wrote for its user.
fn interrupt(child: Child) -> (serde_json::Value, String) {
    signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    (common::report(&["echo"], output.stdout), said)
}

/// The kernel gets the address of the command, too, and would reset each connection to it.
#[test]
fn the_kernel_keeps_to_its_own_address_until_the_command_is_killed() {
    const NAME: &str = "the_kernel_keeps_to_its_own_address_until_the_command_is_killed";
    at_veth(NAME, |far| {
        let answers = |address: &'static str| {
            far.here(move || (0..600).any(|_| attempt(&format!("ping -c 1 -W 1 {address}")).0))
        };
        let mut killed = echo("device", OURS);
        assert!(answers(OURS));
        run(&format!("ip addr add {OURS}/32 dev ek0"));
        far.here(|| converse(OURS)).unwrap();
        let refused = far.here(|| converse(KERNEL)).unwrap_err();
        assert_eq!((refused.kind(), answers(KERNEL)), (ErrorKind::ConnectionRefused, true));
        // Another one, which has a hardware address of its own.
        let second = echo("own", SECOND);
        assert!(answers(SECOND));
        far.here(|| converse(SECOND)).unwrap();
        far.here(|| converse(OURS)).unwrap();
        killed.kill().unwrap();
        killed.wait().unwrap();
        let refused = far.here(|| converse(OURS)).unwrap_err();
        assert_eq!((refused.kind(), answers(OURS)), (ErrorKind::ConnectionRefused, true), "nothing is left");
        far.here(|| converse(SECOND)).unwrap();
        let (report, _) = interrupt(second);
        assert_eq!(report["counters"]["interfaces"][0]["kept_from_kernel"], serde_json::Value::Null);
        // A new one leaves the address to the kernel, which has it by now.
        let again = echo("device", OURS);
        let (_, said) = interrupt(again);
        assert!(said.contains(&format!("the kernel has our address {OURS}, too")), "{said}");
        run(&format!("ip addr del {OURS}/32 dev ek0"));
        let again = echo("device", OURS);
        assert!(answers(OURS));
        far.here(|| converse(OURS)).unwrap();
        let (report, said) = interrupt(again);
        let kept = report["counters"]["interfaces"][0]["kept_from_kernel"].as_u64();
        assert!(kept.is_some_and(|kept| kept > 0), "{report} {said}");
        // The kernel may have our link-local address, which follows from the hardware address.
        assert!(!said.contains(&format!("our address {OURS}")) && !said.contains("works on each"), "{said}");
    });
}

#[test]
fn without_the_privilege_the_command_says_what_the_kernel_does() {
    const NAME: &str = "without_the_privilege_the_command_says_what_the_kernel_does";
    if !succeeds("setpriv --bounding-set=-all,+net_raw true") {
        return skip(NAME, "no setpriv");
    }
    at_veth(NAME, |far| {
        let mut unprivileged = Command::new("setpriv");
        unprivileged.args(["--bounding-set=-all,+net_raw", "--inh-caps=-all,+net_raw"]);
        unprivileged.arg(command(&[]).get_program());
        unprivileged.args(["echo", "packet:ek0", "--mac", "device", "--address", "10.77.0.3/24", "--json"]);
        let child = unprivileged.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        assert!(far.here(|| (0..600).any(|_| attempt("ping -c 1 -W 1 10.77.0.3").0)));
        far.here(|| converse(OURS)).unwrap();
        let (report, said) = interrupt(child);
        assert_eq!(said.matches("the kernel's stack works on each frame of ours, too").count(), 1, "{said}");
        assert_eq!(report["counters"]["interfaces"][0]["kept_from_kernel"], serde_json::Value::Null);
    });
}
