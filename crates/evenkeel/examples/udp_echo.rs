//! Answers each datagram to port 7 with its own payload. As root: `cargo run --example udp_echo -- tap:keel0
//! 10.77.0.2/24`

use evenkeel::raw::socket::UdpSocket;
use evenkeel::raw::time::Instant;
use evenkeel::{Ended, Engine, Error};

/// Serves in the calling thread, which is the host's core, until a certain time.
pub(crate) fn serve(mut engine: Engine, until: Instant) -> Result<(), Error> {
    let me = engine.attach("udp-echo");
    let socket = engine.enter(me, |system| UdpSocket::bind(system, None, 7))??;
    while engine.wait(me, socket, until)? == Ended::Done {
        engine.enter(me, |system| {
            while let Ok(request) = socket.receive(system) {
                // An answer that cannot be sent is lost, as in any network.
                let _ = request.as_slice().map(|payload| socket.reply(system, &request, payload));
                system.recycle(request);
            }
        })?;
    }
    Ok(())
}

fn main() -> Result<(), Error> {
    let [device, address] = [1, 2].map(|n| std::env::args().nth(n).expect("DEVICE ADDRESS/PREFIX"));
    serve(Engine::open(&device, &address)?, Instant::NEVER)
}
