//! The kernel's TCP, over loopback.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Command, Stdio};

use crate::shared::{CHUNK, PORT, Progress, TOGETHER, Workload, on_two_processors};

/// The byte that announces the end of the connections.
const LAST: u8 = b'.';

fn succeeds(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap());
    command
        .args(words)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Brings loopback up and provides enough ports.
pub(crate) fn prepare() -> bool {
    // `/proc/sys/net` belongs to the network namespace of the process that opens it.
    let ports = std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", "1024 65535");
    ports.is_ok() && succeeds("ip link set lo up") && succeeds("ethtool -k lo")
}

/// Sets loopback to its defaults, or to the frames of an Ethernet adaptor without offload.
pub(crate) fn set_loopback(frames: bool) {
    let (mtu, offload) = if frames { (1500, "off") } else { (65_536, "on") };
    assert!(succeeds(&format!("ip link set lo mtu {mtu}")));
    assert!(succeeds(&format!("ethtool -K lo tso {offload} gso {offload} gro {offload}")));
}

pub(crate) fn run(workload: Workload, progress: &Progress) {
    let listener = TcpListener::bind(("0.0.0.0", PORT)).unwrap();
    progress.begin();
    match workload {
        Workload::Bulk => on_two_processors(|| send(progress), || receive(&listener, progress)),
        Workload::Requests => on_two_processors(|| ask(progress), || answer(&listener)),
        Workload::Connections => on_two_processors(|| call(progress), || serve(&listener)),
    }
}

/// Connects to the addresses of loopback in turn, so that ports in TIME-WAIT do not run out.
fn connect(number: usize) -> TcpStream {
    let stream =
        TcpStream::connect((Ipv4Addr::new(127, 0, 0, 1 + (number / 1_000 % 200) as u8), PORT)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

fn send(progress: &Progress) {
    let mut stream = connect(0);
    let data = vec![b'x'; CHUNK];
    while !progress.is_over() {
        stream.write_all(&data).unwrap();
    }
}

fn receive(listener: &TcpListener, progress: &Progress) {
    let (mut stream, _) = listener.accept().unwrap();
    let mut room = vec![0; CHUNK];
    loop {
        match stream.read(&mut room).unwrap() {
            0 => return,
            len => progress.add(len as u64),
        }
    }
}

fn ask(progress: &Progress) {
    let mut streams: Vec<_> = (0..TOGETHER).map(connect).collect();
    let mut response = [0];
    while !progress.is_over() {
        for stream in &mut streams {
            stream.write_all(b"?").unwrap();
        }
        for stream in &mut streams {
            stream.read_exact(&mut response).unwrap();
        }
        progress.add(TOGETHER as u64);
    }
}

/// Answers in the order of the requests, so that no call has to find the ready connections.
fn answer(listener: &TcpListener) {
    let mut streams: Vec<_> = (0..TOGETHER).map(|_| listener.accept().unwrap().0).collect();
    streams.iter().for_each(|stream| stream.set_nodelay(true).unwrap());
    let mut request = [0];
    loop {
        for stream in &mut streams {
            if stream.read(&mut request).unwrap() == 0 {
                return;
            }
            stream.write_all(b"!").unwrap();
        }
    }
}

fn call(progress: &Progress) {
    let mut number = 0;
    let mut response = [0];
    while !progress.is_over() {
        let mut streams = VecDeque::with_capacity(TOGETHER);
        for _ in 0..TOGETHER {
            number += 1;
            let mut stream = connect(number);
            stream.write_all(b"?").unwrap();
            streams.push_back(stream);
        }
        for mut stream in streams {
            stream.read_exact(&mut response).unwrap();
        }
        progress.add(TOGETHER as u64);
    }
    connect(0).write_all(&[LAST]).unwrap();
}

/// Answers each connection. Closes it some connections later, when the client has closed, so that it need not
/// wait.
fn serve(listener: &TcpListener) {
    let mut answered: VecDeque<TcpStream> = VecDeque::new();
    let mut request = [0];
    loop {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut request).unwrap();
        if request == [LAST] {
            return;
        }
        stream.write_all(b"!").unwrap();
        answered.push_back(stream);
        if answered.len() > 2 * TOGETHER
            && let Some(mut oldest) = answered.pop_front()
        {
            assert_eq!(oldest.read(&mut request).unwrap(), 0);
        }
    }
}
