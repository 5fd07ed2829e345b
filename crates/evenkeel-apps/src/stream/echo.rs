//! A service that sends back what it receives (RFC 862, TCP).

use evenkeel::raw::error::StreamError;
use evenkeel::raw::wire::IpEndpoint;

use super::session::{CHUNK, Progress, Service, Stream};

/// An echo service.
///
/// It reads no more than it can write. So the receive window stops a peer that sends and does not read, and
/// such a peer then costs nothing.
#[derive(Debug, Clone)]
pub struct Echo {
    buffer: Box<[u8]>,
}

impl Default for Echo {
    fn default() -> Self {
        Self { buffer: vec![0; CHUNK].into_boxed_slice() }
    }
}

/// The state of an echo connection.
#[derive(Debug, Default)]
pub struct Echoing {
    /// The bytes that were read and could not be written, because memory had become scarce in between.
    back: Vec<u8>,
}

impl Echo {
    /// Writes the bytes left over from before. Returns false if some are still left.
    fn give_back(session: &mut Echoing, stream: &mut Stream<'_, '_>) -> Result<bool, StreamError> {
        if !session.back.is_empty() {
            let taken = stream.write(&session.back)?;
            session.back.drain(..taken);
            if session.back.is_empty() {
                session.back = Vec::new();
            }
        }
        Ok(session.back.is_empty())
    }
}

impl Service for Echo {
    type Session = Echoing;

    fn open(&mut self, _peer: IpEndpoint) -> Echoing {
        Echoing::default()
    }

    fn go_on(&mut self, session: &mut Echoing, stream: &mut Stream<'_, '_>) -> Result<Progress, StreamError> {
        if !Self::give_back(session, stream)? {
            return Ok(Progress::Wait);
        }
        while !stream.is_over() {
            let room = stream.room()?.min(self.buffer.len());
            let Some(buffer) = self.buffer.get_mut(..room).filter(|buffer| !buffer.is_empty()) else {
                return Ok(Progress::Wait);
            };
            match stream.read(buffer)? {
                None => return Ok(Progress::Wait),
                Some(0) => return Ok(Progress::Over),
                Some(len) => {
                    let taken = stream.write(&buffer[..len])?;
                    if taken < len {
                        session.back.extend_from_slice(&buffer[taken..len]);
                        return Ok(Progress::Wait);
                    }
                }
            }
        }
        Ok(Progress::More)
    }
}
