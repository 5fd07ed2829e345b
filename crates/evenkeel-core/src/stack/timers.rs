//! Timer work of the stack, and its shutdown.

use super::io::Io;
use super::problem::Problem;
use super::state::Stack;
use crate::time::Instant;

impl Stack {
    /// Does what is due at `io.now`: reassembly timeouts, neighbour retransmissions, membership reports.
    pub fn tick(&mut self, io: &mut Io<'_>) {
        while let Some(expired) = self.reassembly.expire(io.now) {
            let first = expired.first().map(|piece| &piece.frame);
            self.report(expired.interface, first, Problem::ReassemblyTime, io);
            expired.discard(io);
        }
        self.tick_neighbors(io);
        self.tick_groups(io);
        self.tick_claims(io);
    }

    /// Gives up everything held, for shutdown: fragments end as timed out, waiting frames as unresolved.
    pub fn drain(&mut self, io: &mut Io<'_>) {
        while let Some(expired) = self.reassembly.expire(Instant::NEVER) {
            expired.discard(io);
        }
        self.neighbors.drain(io);
    }
}
