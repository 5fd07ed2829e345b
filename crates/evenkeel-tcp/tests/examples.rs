//! Tests that the examples work as described.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::Command;
use std::{io, thread};

use evenkeel_skip::{Lack, skip};

#[path = "../examples/lossy_pipe.rs"]
#[expect(dead_code, reason = "its `main` is for people")]
mod lossy_pipe;

#[test]
fn everything_comes_back_over_a_lossy_pipe() {
    let text: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
    let (back, lost, time) = lossy_pipe::echo(&text);
    assert_eq!(back.len(), text.len());
    assert!(back == text, "what came back is not what was sent");
    assert!(lost > 50, "{lost} of several hundred segments");
    assert!(time.as_secs() < 60, "{time:?}");
}

#[path = "../examples/many_connections.rs"]
#[expect(dead_code, reason = "its `main` is for people")]
mod many_connections;

#[test]
fn every_one_of_many_connections_is_served_and_keeps_no_buffer() {
    let report = many_connections::serve(2_000);
    assert_eq!((report.open, report.echoed, report.buffered), (2_000, 2_000, 0), "{report:?}");
}

#[path = "../examples/tun_echo.rs"]
#[expect(dead_code, reason = "its `main` is for people")]
mod tun_echo;

/// The thread has a network namespace of its own, which ends with it.
#[test]
fn the_kernel_has_its_echo_over_a_tun_device() {
    let name = "the_kernel_has_its_echo_over_a_tun_device";
    let isolated = thread::spawn(move || {
        // SAFETY: only the network namespace of this thread changes.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            return skip(name, &Lack::Root(&io::Error::last_os_error().to_string()));
        }
        let tun = match tun_echo::open(tun_echo::DEVICE) {
            Ok(tun) => tun,
            Err(error) => return skip(name, &Lack::Other(&format!("/dev/net/tun: {error}"))),
        };
        for arguments in ["address add 10.77.0.1/24 dev keel0", "link set keel0 up"] {
            let Ok(status) = Command::new("ip").args(arguments.split(' ')).status() else {
                return skip(name, &Lack::Program { program: "ip", package: "iproute2" });
            };
            assert!(status.success(), "ip {arguments}");
        }
        let client = thread::spawn(echo_of_the_kernel);
        // Until the connection that there was is over.
        let mut was_open = false;
        let goes_on = |tcp: &evenkeel_tcp::Endpoint| {
            was_open |= !tcp.is_empty();
            !was_open || !tcp.is_empty()
        };
        tun_echo::serve(tun, goes_on).unwrap();
        client.join().unwrap().unwrap();
    });
    isolated.join().unwrap();
}

/// Sends a megabyte with the kernel's TCP, and compares the echo.
fn echo_of_the_kernel() -> io::Result<()> {
    let text: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
    let mut stream = TcpStream::connect("10.77.0.2:7")?;
    let (mut writer, sent) = (stream.try_clone()?, text.clone());
    let writing = thread::spawn(move || {
        writer.write_all(&sent)?;
        writer.shutdown(Shutdown::Write)
    });
    let mut echo = Vec::new();
    stream.read_to_end(&mut echo)?;
    writing.join().unwrap()?;
    assert!(echo == text, "{} bytes came back, or others", echo.len());
    Ok(())
}
