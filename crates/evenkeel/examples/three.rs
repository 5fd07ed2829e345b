//! Waits for two UDP sockets and a listener at once, in a thread of its own, and prints where something came.
//! As root: `cargo run --example three -- tap:keel0 10.77.0.2/24`, then for example `nc -u 10.77.0.2 1001`
#![allow(clippy::print_stdout, reason = "it shows what it did")]

use evenkeel::raw::socket::{EventQueue, TcpListener, UdpSocket};
use evenkeel::raw::time::Instant;
use evenkeel::{Ended, Engine, Error};

/// Serves in the calling thread until a certain time, and calls `say` with the port of each arrival.
pub(crate) fn serve(mut engine: Engine, until: Instant, mut say: impl FnMut(u16)) -> Result<(), Error> {
    let me = engine.attach("three");
    let events = engine.enter(me, EventQueue::of_all)??;
    let one = engine.enter(me, |system| UdpSocket::bind(system, None, 1001))??;
    let two = engine.enter(me, |system| UdpSocket::bind(system, None, 1002))??;
    let three = engine.enter(me, |system| TcpListener::listen(system, None, 1003, &Default::default()))??;
    while engine.wait(me, events, until)? == Ended::Done {
        engine.enter(me, |system| {
            while events.next(system).is_ok() {}
            for (socket, port) in [(one, 1001), (two, 1002)] {
                while let Ok(datagram) = socket.receive(system) {
                    system.recycle(datagram);
                    say(port);
                }
            }
            while let Ok((stream, _)) = three.accept(system) {
                system.close(stream);
                say(1003);
            }
        })?;
    }
    Ok(())
}

fn main() -> Result<(), Error> {
    let [device, address] = [1, 2].map(|n| std::env::args().nth(n).expect("DEVICE ADDRESS/PREFIX"));
    let serve = move || serve(Engine::open(&device, &address)?, Instant::NEVER, |port| println!("{port}"));
    std::thread::spawn(serve).join().expect("it does not panic")
}
