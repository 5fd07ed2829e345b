//! Sends back what comes on connections to port 7. As root: `cargo run --example tcp_echo -- tap:keel0
//! 10.77.0.2/24`

use evenkeel::core::host::System;
use evenkeel::core::socket::{Fd, StreamError};
use evenkeel::core::time::Instant;
use evenkeel::{Ended, Engine, Error};

/// Serves in the calling thread, which is the host's core, until a certain time.
pub(crate) fn serve(mut engine: Engine, until: Instant) -> Result<(), Error> {
    let me = engine.attach("tcp-echo");
    let events = engine.enter(me, |system| system.events())??;
    let listener = engine.enter(me, |system| system.listen(None, 7, &Default::default()))??;
    while engine.wait(me, events, until)? == Ended::Done {
        engine.enter(me, |system| {
            while let Ok(event) = system.next_event(events) {
                while let Ok((stream, _)) = system.accept(listener) {
                    echo(system, stream);
                }
                let descriptor = Fd::of(&event);
                if descriptor != listener {
                    echo(system, descriptor);
                }
            }
        })?;
    }
    Ok(())
}

fn echo(system: &mut System<'_>, stream: Fd) {
    let mut buffer = [0; 16_384];
    while let Ok(room @ 1..) = system.room(stream).map(|room| room.min(buffer.len())) {
        match system.read(stream, &mut buffer[..room]) {
            Ok(len @ 1..) if system.write(stream, &buffer[..len]) == Ok(len) => {}
            Err(StreamError::WouldBlock) => return,
            _ => return system.close(stream),
        }
    }
}

fn main() -> Result<(), Error> {
    let [device, address] = [1, 2].map(|n| std::env::args().nth(n).expect("DEVICE ADDRESS/PREFIX"));
    serve(Engine::open(&device, &address)?, Instant::NEVER)
}
