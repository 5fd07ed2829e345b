//! A service that reads everything and sends nothing (RFC 863, TCP).

use evenkeel::raw::error::StreamError;
use evenkeel::raw::wire::IpEndpoint;

use super::session::{CHUNK, Progress, Service, Stream};

/// A service that discards what it receives.
#[derive(Debug, Clone)]
pub struct Sink {
    buffer: Box<[u8]>,
}

impl Default for Sink {
    fn default() -> Self {
        Self { buffer: vec![0; CHUNK].into_boxed_slice() }
    }
}

impl Service for Sink {
    type Session = ();

    fn open(&mut self, _peer: IpEndpoint) {}

    fn go_on(&mut self, _session: &mut (), stream: &mut Stream<'_, '_>) -> Result<Progress, StreamError> {
        while !stream.is_over() {
            match stream.read(&mut self.buffer)? {
                None => return Ok(Progress::Wait),
                Some(0) => return Ok(Progress::Over),
                Some(_) => {}
            }
        }
        Ok(Progress::More)
    }
}
