//! Programs that are killed by SIGKILL, with open connections over devices of the kernel.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use evenkeel::net::Net;
use evenkeel::net::tokio::TcpListener;
use evenkeel_testing::{Program, Running, Scratch, attempt, in_namespace, run, wait_for};

use super::{PATIENCE, current_thread, echo};

/// The variable that names the link of the program that is killed.
const LINK: &str = "EVENKEEL_TEST_LINK";
const PROGRAMS: [Program; 1] = [("ip", "iproute2")];

/// Serves until it is killed, if this process is the program that the tests kill.
fn be_killed() {
    let Ok(link) = std::env::var(LINK) else { return };
    let net = Net::builder().link(&link);
    let net = net.address("10.77.0.2/24").kernel_address("10.77.0.1/24").open().unwrap();
    current_thread().block_on(async {
        echo(TcpListener::bind(&net, "0.0.0.0:7").await.unwrap());
        std::future::pending::<()>().await;
    });
}

/// Starts the program, the test of a TAP once more, in the network namespace of the caller. What it may leave
/// as files is below `home`.
fn start(link: &str, home: &Path) -> Running {
    let mut program = Command::new(std::env::current_exe().unwrap());
    let test = "killed::a_tap_goes_with_its_program_and_the_next_one_has_it_again";
    program.args(["--exact", test]).env(LINK, link);
    program.env("XDG_RUNTIME_DIR", home).env("TMPDIR", home).env("HOME", home).current_dir(home);
    Running(program.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
}

/// Opens a connection over the kernel, and has it echo something.
fn open() -> TcpStream {
    let mut opened = None;
    wait_for("the program", || {
        opened = TcpStream::connect("10.77.0.2:7").ok();
        opened.is_some()
    });
    let mut stream = opened.unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"here").unwrap();
    stream.read_exact(&mut [0; 4]).unwrap();
    stream
}

/// Kills a program with open connections, three times; each next one serves. Then nothing is left of them.
fn kill_and_start_again(link: &str, is_gone: impl Fn() -> bool) {
    let home = Scratch::new();
    for _ in 0..3 {
        let mut program = start(link, &home.file(""));
        let open: Vec<_> = (0..5).map(|_| open()).collect();
        assert!(!is_gone());
        program.0.kill().unwrap();
        program.0.wait().unwrap();
        wait_for("the end of its device", &is_gone);
        assert_eq!(fs::read_dir(home.file("")).unwrap().count(), 0, "files of a program that was killed");
        drop(open);
    }
}

#[test]
fn a_tap_goes_with_its_program_and_the_next_one_has_it_again() {
    be_killed();
    in_namespace(&[&PROGRAMS], || {
        kill_and_start_again("tap:keel0", || !attempt("ip link show keel0").0);
    });
}

#[test]
fn a_packet_socket_goes_with_its_program_and_the_next_one_has_the_device() {
    in_namespace(&[&PROGRAMS], || {
        run("ip link add ek0 type veth peer name kernel0");
        run("ip addr add 10.77.0.1/24 dev kernel0");
        run("ip link set kernel0 up");
        run("ip link set ek0 up");
        // A line of titles, and one for each packet socket of the namespace.
        let sockets = || fs::read_to_string("/proc/thread-self/net/packet").unwrap().lines().count() - 1;
        kill_and_start_again("packet:ek0", || {
            sockets() == 0 && run("ip -details link show ek0").contains("promiscuity 0 ")
        });
    });
}
