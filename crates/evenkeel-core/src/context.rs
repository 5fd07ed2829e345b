//! What a unit of work has at hand, whichever owner it asks.

use crate::frame::Pool;
use crate::id::QueueId;
use crate::ledger::Ledger;
use crate::poll::Poller;
use crate::time::Instant;
use crate::work::WorkLog;

/// The time, and those parts of a host that every unit of work uses: lent to the owner of another part for
/// the length of a call.
#[derive(Debug)]
pub(crate) struct Cx<'a> {
    pub(crate) now: Instant,
    pub(crate) pool: &'a mut Pool,
    pub(crate) ledger: &'a mut Ledger,
    pub(crate) work: &'a mut WorkLog,
    pub(crate) poller: &'a mut Poller<QueueId>,
}
