//! The parts of a host that a work item uses, whichever owner it calls.

use crate::frame::Pool;
use crate::id::QueueId;
use crate::ledger::Ledger;
use crate::poll::Poller;
use crate::time::Instant;
use crate::work::WorkLog;

/// The time, and the parts of a host that every work item uses. The owner of another part borrows them for
/// the length of a call.
#[derive(Debug)]
pub(crate) struct Cx<'a> {
    pub(crate) now: Instant,
    pub(crate) pool: &'a mut Pool,
    pub(crate) ledger: &'a mut Ledger,
    pub(crate) work: &'a mut WorkLog,
    pub(crate) poller: &'a mut Poller<QueueId>,
}
