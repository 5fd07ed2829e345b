//! Answers every DNS question for an IPv4 address with 192.0.2.1. As root: `cargo run --example dns --
//! tap:keel0 10.77.0.2/24`

use evenkeel::raw::socket::UdpSocket;
use evenkeel::raw::time::Instant;
use evenkeel::{Ended, Engine, Error};

/// Returns the answer to a query, in the layout of RFC 1035, section 4.1; `None` for anything but a query
/// with one question.
fn answer(query: &[u8]) -> Option<Vec<u8>> {
    let (header, question) = query.split_first_chunk::<12>()?;
    let name_len = question.iter().position(|&byte| byte == 0)? + 1;
    let question = question.get(..name_len + 4)?;
    let [id0, id1, flags, _, 0, 1, ..] = *header else { return None };
    if flags & 0xf8 != 0 {
        return None;
    }
    let is_address = question.ends_with(&[0, 1, 0, 1]);
    let mut answer = vec![id0, id1, 0x84 | flags & 1, 0, 0, 1, 0, u8::from(is_address), 0, 0, 0, 0];
    answer.extend_from_slice(question);
    if is_address {
        answer.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1]);
    }
    Some(answer)
}

/// Serves in the calling thread, which is the host's core, until a certain time.
pub(crate) fn serve(mut engine: Engine, until: Instant) -> Result<(), Error> {
    let me = engine.attach("dns");
    let socket = engine.enter(me, |system| UdpSocket::bind(system, None, 53))??;
    while engine.wait(me, socket, until)? == Ended::Done {
        engine.enter(me, |system| {
            while let Ok(query) = socket.receive(system) {
                let answer = query.as_slice().and_then(answer);
                let _ = answer.map(|answer| socket.reply(system, &query, &answer));
                system.recycle(query);
            }
        })?;
    }
    Ok(())
}

fn main() -> Result<(), Error> {
    let [device, address] = [1, 2].map(|n| std::env::args().nth(n).expect("DEVICE ADDRESS/PREFIX"));
    serve(Engine::open(&device, &address)?, Instant::NEVER)
}
