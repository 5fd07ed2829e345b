//! A host that another event loop drives: epoll waits both for evenkeel and for standard input. As root:
//! `cargo run --example epoll -- tap:keel0 10.77.0.2/24`. Echoes datagrams to port 7 until the input ends,
//! and prints how many.
#![allow(clippy::print_stdout, reason = "it shows what it did")]

use std::error::Error;
use std::os::fd::AsFd;

use evenkeel::raw::socket::{Kinds, UdpSocket};
use evenkeel::raw::time::Instant;
use evenkeel::{Engine, Next};
use rustix::event::{Timespec, epoll};

/// Serves until `other`, which only the loop knows, is readable and at its end. Returns how many datagrams
/// were echoed.
pub(crate) fn serve(mut engine: Engine, other: impl AsFd, until: Instant) -> Result<u64, Box<dyn Error>> {
    let me = engine.attach("epoll");
    let socket = engine.enter(me, |system| UdpSocket::bind(system, None, 7))??;
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for (number, fd) in (0..).zip(std::iter::once(other.as_fd()).chain(engine.descriptors())) {
        epoll::add(&poll, fd, epoll::EventData::new_u64(number), epoll::EventFlags::IN)?;
    }
    let (mut count, mut events, waker) = (0, Vec::with_capacity(16), engine.waker());
    while engine.clock().now() < until {
        let ready = engine.enter(me, |system| {
            while let Ok(request) = socket.receive(system) {
                let _ = request.as_slice().map(|payload| socket.reply(system, &request, payload));
                system.recycle(request);
                count += 1;
            }
            !system.wait(socket, Kinds::READABLE, &waker).is_empty()
        })?;
        let timeout = match engine.advance(64)? {
            Next::Wait(time) if !ready => time.map(Timespec::try_from).transpose()?,
            _ => Some(Timespec::default()),
        };
        events.clear();
        epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref())?;
        if events.iter().any(|event| event.data.u64() == 0) && rustix::io::read(&other, &mut [0; 512])? == 0 {
            break;
        }
    }
    Ok(count)
}

fn main() -> Result<(), Box<dyn Error>> {
    let [device, address] = [1, 2].map(|n| std::env::args().nth(n).expect("DEVICE ADDRESS/PREFIX"));
    serve(Engine::open(&device, &address)?, std::io::stdin(), Instant::NEVER).map(|n| println!("{n} echoed"))
}
