//! A host that a loop on mio drives, with sockets of the kernel next to it. As root:
//! `cargo run --example mio -- tap:keel0 10.77.0.2/24`. Echoes datagrams to port 7 of the host, and those to
//! port 7777 of the kernel at 127.0.0.1. Prints how many when one of the latter is empty.
#![allow(clippy::print_stdout, reason = "it shows what it did")]

use std::error::Error;
use std::io;
use std::os::fd::AsRawFd as _;

use evenkeel::raw::socket::{Kinds, UdpSocket};
use evenkeel::raw::time::Duration;
use evenkeel::{Engine, Next};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

const KERNEL: Token = Token(0);
const HOST: Token = Token(1);

/// Serves until an empty datagram comes to the kernel's socket. Returns how many datagrams were echoed by
/// the host and by the kernel.
pub(crate) fn serve(mut engine: Engine, mut near: mio::net::UdpSocket) -> Result<[u64; 2], Box<dyn Error>> {
    let (mut poll, mut events, mut echoed) = (Poll::new()?, Events::with_capacity(16), [0; 2]);
    poll.registry().register(&mut near, KERNEL, Interest::READABLE)?;
    for descriptor in engine.descriptors() {
        poll.registry().register(&mut SourceFd(&descriptor.as_raw_fd()), HOST, Interest::READABLE)?;
    }
    let (me, waker) = (engine.attach("mio"), engine.waker());
    let socket = engine.enter(me, |system| UdpSocket::bind(system, None, 7))??;
    loop {
        let is_ready = engine.enter(me, |system| {
            while let Ok(request) = socket.receive(system) {
                let _ = request.as_slice().map(|payload| socket.reply(system, &request, payload));
                system.recycle(request);
                echoed[0] += 1;
            }
            !system.wait(socket, Kinds::READABLE, &waker).is_empty()
        })?;
        // mio reports edges, and the host reads its devices until they are empty before it says `Wait`.
        let timeout = match engine.advance(64)? {
            Next::Wait(time) if !is_ready => time,
            Next::Wait(_) | Next::Again => Some(Duration::ZERO),
        };
        poll.poll(&mut events, timeout)?;
        if events.iter().any(|event| event.token() == KERNEL) && !echo(&near, &mut echoed[1])? {
            return Ok(echoed);
        }
    }
}

/// Sends back what the kernel has received. Returns false if a datagram was empty.
fn echo(near: &mio::net::UdpSocket, echoed: &mut u64) -> io::Result<bool> {
    let mut room = [0; 2048];
    loop {
        match near.recv_from(&mut room) {
            Ok((0, _)) => return Ok(false),
            Ok((bytes, from)) => {
                near.send_to(&room[..bytes], from)?;
                *echoed += 1;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) => return Err(error),
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let [device, address] = [1, 2].map(|n| std::env::args().nth(n).expect("DEVICE ADDRESS/PREFIX"));
    let near = mio::net::UdpSocket::bind(([127, 0, 0, 1], 7777).into())?;
    serve(Engine::open(&device, &address)?, near).map(|[host, kernel]| println!("{host} and {kernel} echoed"))
}
