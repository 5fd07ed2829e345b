//! Waits for two UDP sockets and a listener at once, in a thread of its own, and says what came.
//! As root: `cargo run --example three -- tap:keel0 10.77.0.2/24`, then for example `nc -u 10.77.0.2 1001`
#![allow(clippy::print_stdout, reason = "it shows what it did")]

use std::error::Error;
use std::thread;

use evenkeel::core::time::Instant;
use evenkeel::{Ended, Engine};

/// Serves in the calling thread until a certain time, and tells what came for which port.
pub(crate) fn serve(
    mut engine: Engine,
    until: Instant,
    mut say: impl FnMut(u16),
) -> Result<(), Box<dyn Error>> {
    let me = engine.attach("three");
    let events = engine.enter(me, |system| system.events())?;
    let one = engine.enter(me, |system| system.bind(None, 1001))??;
    let two = engine.enter(me, |system| system.bind(None, 1002))??;
    let three = engine.enter(me, |system| system.listen(None, 1003, &Default::default()))??;
    while engine.wait(me, events, until)? == Ended::Done {
        let Some(event) = engine.enter(me, |system| system.next_event(events))? else { continue };
        let sockets = [(one, 1001), (two, 1002), (three, 1003)];
        let Some(&(socket, port)) = sockets.iter().find(|(socket, _)| *socket == event.socket) else {
            continue;
        };
        engine.enter(me, |system| {
            while let Ok(datagram) = system.receive(socket) {
                system.recycle(datagram);
                say(port);
            }
            while let Ok((stream, _)) = system.accept(socket) {
                system.close(stream);
                say(port);
            }
        })?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [device, address] = &arguments[..] else { return Err("usage: three DEVICE ADDRESS/PREFIX".into()) };
    let engine = Engine::open(device, address)?;
    let thread = thread::spawn(move || {
        serve(engine, Instant::NEVER, |port| println!("{port}")).map_err(|error| error.to_string())
    });
    Ok(thread.join().map_err(|_| "the thread panicked")??)
}
