//! Sends back what comes on connections to port 7. As root: `cargo run --example tcp_echo -- tap:keel0
//! 10.77.0.2/24`

use evenkeel::raw::error::StreamError;
use evenkeel::raw::process::System;
use evenkeel::raw::socket::{EventQueue, TcpListener, TcpStream};
use evenkeel::raw::time::Instant;
use evenkeel::{Ended, Engine, Error};

/// Serves in the calling thread, which is the host's core, until a certain time.
pub(crate) fn serve(mut engine: Engine, until: Instant) -> Result<(), Error> {
    let me = engine.attach("tcp-echo");
    let events = engine.enter(me, EventQueue::of_all)??;
    let listener = engine.enter(me, |system| TcpListener::listen(system, None, 7, &Default::default()))??;
    while engine.wait(me, events, until)? == Ended::Done {
        engine.enter(me, |system| {
            while let Ok(event) = events.next(system) {
                while let Ok((stream, _)) = listener.accept(system) {
                    echo(system, stream);
                }
                if TcpListener::of(&event) != listener {
                    echo(system, TcpStream::of(&event));
                }
            }
        })?;
    }
    Ok(())
}

fn echo(system: &mut System<'_>, stream: TcpStream) {
    let mut buffer = [0; 16_384];
    while let Ok(room @ 1..) = stream.room(system).map(|room| room.min(buffer.len())) {
        match stream.read(system, &mut buffer[..room]) {
            Ok(len @ 1..) if stream.write(system, &buffer[..len]) == Ok(len) => {}
            Err(StreamError::WouldBlock) => return,
            _ => return system.close(stream),
        }
    }
}

fn main() -> Result<(), Error> {
    let [device, address] = [1, 2].map(|n| std::env::args().nth(n).expect("DEVICE ADDRESS/PREFIX"));
    serve(Engine::open(&device, &address)?, Instant::NEVER)
}
