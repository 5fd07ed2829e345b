//! A minimal responder to queries of the domain name system (RFC 1035).

use evenkeel::raw::process::{Program, Step, System};
use evenkeel::raw::socket::UdpSocket;

/// The one address that every name has.
pub(crate) const ADDRESS: [u8; 4] = [192, 0, 2, 7];
pub(crate) const PORT: u16 = 53;

/// Answers each question for a type A record with [`ADDRESS`], and any other with no record.
#[derive(Debug, Default)]
pub(crate) struct Responder {
    socket: Option<UdpSocket>,
}

impl Program for Responder {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let Some(socket) = self.socket else {
            self.socket = Some(UdpSocket::bind(system, None, PORT).unwrap());
            return Step::Again;
        };
        let Ok(query) = socket.receive(system) else { return Step::Wait(socket.fd()) };
        let mut bytes = [0; 512];
        let len = query.copy_to(&mut bytes);
        if let Some(answer) = answer(&bytes[..len]) {
            socket.reply(system, &query, &answer).unwrap();
        }
        system.recycle(query);
        Step::Again
    }
}

/// Returns the answer to a query with one question; `None` for anything else.
fn answer(query: &[u8]) -> Option<Vec<u8>> {
    const HEADER: usize = 12;
    let (id, flags) = (query.get(..2)?, query.get(2..4)?);
    let is_response = flags[0] & 0x80 != 0;
    if is_response || query.get(4..6)? != [0, 1] {
        return None;
    }
    let mut end = HEADER;
    while *query.get(end)? != 0 {
        end += 1 + usize::from(query[end]);
    }
    let question = query.get(HEADER..end + 5)?;
    let is_a = question[question.len() - 4..] == [0, 1, 0, 1];
    // The header is that of an authoritative response, with the client's flag for recursion.
    let header = [id, &[0x84 | flags[0] & 1, 0, 0, 1, 0, u8::from(is_a), 0, 0, 0, 0]].concat();
    // The record has a pointer to the question's name, type A, class IN, for 60 s.
    let record = [&[0xc0, HEADER as u8, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4][..], &ADDRESS].concat();
    Some([&header[..], question, if is_a { &record } else { &[] }].concat())
}
