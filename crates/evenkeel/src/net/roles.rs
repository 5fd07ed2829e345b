//! The roles of threads that share a host: one drives, the others wait.
//!
//! At most one thread drives a host: it sleeps on the devices, takes their frames and finds out whose they
//! are. All other threads in calls are parked. Each is woken by what it waits for.
//!
//! ```text
//!                would block, nobody drives
//!    +-------+ ------------------------------> +--------+
//!    | calls |                                 | drives |
//!    +-------+ <------------------------------ +--------+
//!      |   ^         its call may go on          |    ^
//!      |   |                                     |    |
//!      |   | its call may go on      it has      |    | is
//!      |   |                         woken       |    | appointed
//!      v   |                         others      v    |
//!    +--------+ <--------------------------------+    |
//!    | parked | --------------------------------------+
//!    +--------+
//!     would block, another drives
//! ```
//!
//! The role goes to the thread that is busy. A driver whose call may go on leaves the role vacant, and so
//! does one that has just woken others: the next thread whose call would block takes it. So a thread that
//! makes one call after another, as a connection's thread does, drives for itself, and no other thread is
//! woken for it.
//!
//! Whoever computes for long does not take the role. The helper watches: after a whole period without a
//! driver, it hands the role to a parked thread, or drives itself if there is none. From then on the role is
//! handed over at once, for a number of times that doubles with each such fault. A thread whose call would
//! block takes the role from the helper.
//!
//! A task of an asynchronous runtime takes the role from a thread and from the helper, and keeps it until its
//! runtime ends. Then it hands the role over, first to the task of another runtime. A runtime may stop
//! without an end, such as one of a single thread between two calls of `block_on`. So the helper looks
//! every 750 ms. If there is work that the task has left alone, the helper takes the role until the task runs
//! again.

use std::sync::Arc;

use super::seat::{Seat, Succession};

/// The driver of a host.
#[derive(Debug)]
enum Driver {
    /// A thread in a call.
    Thread(Arc<Seat>),
    Helper,
    /// The task of an asynchronous runtime.
    #[cfg_attr(not(feature = "tokio"), expect(dead_code, reason = "only runtimes have tasks"))]
    Task(Arc<Seat>),
}

/// The sleep of the helper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Helper {
    /// It looks once a period, or drives.
    Watches,
    /// It sleeps until it is called.
    Sleeps,
}

/// The roles of the threads that share a host.
#[derive(Debug)]
pub(crate) struct Roles {
    driver: Option<Driver>,
    parked: Vec<Arc<Seat>>,
    /// The tasks that drive, or that would if no other did.
    tasks: Vec<Arc<Seat>>,
    eagerness: Eagerness,
    helper_seat: Arc<Seat>,
    pub(super) helper: Helper,
    /// The number of times that the role of the driver has been taken.
    taken: u64,
}

/// The role of a thread whose call would block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// It drives.
    Drives,
    /// It drives, in place of the helper, which is to be told.
    Replaces,
    /// Another drives.
    Parked,
}

/// The role of a task.
#[cfg(feature = "tokio")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskRole {
    /// It drives.
    Drives,
    /// It drives, in place of the helper, which is to be told.
    ReplacesHelper,
    /// It drives, in place of a thread, which is to be told.
    ReplacesThread,
    /// Another task drives.
    Waits,
}

/// Hands over the role of the driver at once, so many times after the helper had to.
#[derive(Debug, Default)]
struct Eagerness {
    left: u32,
    /// The number of times for which the next fault makes the role be handed over at once.
    next: u32,
}

impl Eagerness {
    const FEWEST: u32 = 256;
    const MOST: u32 = 1 << 16;

    /// Returns whether the role is handed over at once, which counts.
    fn take(&mut self) -> bool {
        let is_eager = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_eager
    }

    /// Records that the role was vacant for too long.
    fn increase(&mut self) {
        self.left = self.next.clamp(Self::FEWEST, Self::MOST);
        self.next = self.left * 2;
    }
}

impl Roles {
    pub(crate) fn new(helper_seat: Arc<Seat>) -> Self {
        Self {
            driver: None,
            parked: Vec::new(),
            tasks: Vec::new(),
            eagerness: Eagerness::default(),
            helper_seat,
            helper: Helper::Sleeps,
            taken: 0,
        }
    }

    /// Makes the thread of `seat` the driver, or parks it if another drives.
    pub(crate) fn take_or_park(&mut self, seat: &Arc<Seat>) -> Role {
        if self.is_driver(seat) {
            return Role::Drives;
        }
        let role = match self.driver {
            Some(Driver::Thread(_) | Driver::Task(_)) => {
                self.park(seat);
                return Role::Parked;
            }
            Some(Driver::Helper) => Role::Replaces,
            None => Role::Drives,
        };
        self.drive(Driver::Thread(Arc::clone(seat)));
        role
    }

    fn drive(&mut self, driver: Driver) {
        self.driver = Some(driver);
        self.taken += 1;
    }

    /// Ends the part of the thread of `seat`: its call goes on, or is over.
    pub(crate) fn leave(&mut self, seat: &Arc<Seat>) -> Succession {
        self.unpark(seat);
        if self.is_driver(seat) { self.hand_over() } else { Succession(None) }
    }

    /// Parks the driver, as it has just woken others that will soon drive. Returns whether it is parked.
    pub(crate) fn retire(&mut self, seat: &Arc<Seat>) -> (bool, Succession) {
        if self.eagerness.take() {
            return (false, Succession(None));
        }
        self.driver = None;
        self.park(seat);
        (true, self.call_helper())
    }

    /// Hands the role of the driver over, or leaves it vacant for the thread whose call would block next.
    fn hand_over(&mut self) -> Succession {
        self.driver = None;
        if self.eagerness.take()
            && let Some(seat) = self.appoint()
        {
            return Succession(Some(seat));
        }
        self.call_helper()
    }

    /// Makes a parked thread the driver. Returns it, if there is one.
    fn appoint(&mut self) -> Option<Arc<Seat>> {
        // One whose call may go on is about to leave.
        let at = self.parked.iter().rposition(|seat| !seat.is_called())?;
        let seat = Arc::clone(&self.parked[at]);
        self.unpark(&seat);
        self.drive(Driver::Thread(Arc::clone(&seat)));
        Some(seat)
    }

    /// Has the helper watch from now on.
    pub(crate) fn call_helper(&mut self) -> Succession {
        let slept = std::mem::replace(&mut self.helper, Helper::Watches) == Helper::Sleeps;
        Succession(slept.then(|| Arc::clone(&self.helper_seat)))
    }

    pub(crate) fn is_driver(&self, seat: &Arc<Seat>) -> bool {
        matches!(&self.driver, Some(Driver::Thread(driver)) if Arc::ptr_eq(driver, seat))
    }

    fn park(&mut self, seat: &Arc<Seat>) {
        if seat.place().is_none() {
            seat.set_place(Some(self.parked.len()));
            self.parked.push(Arc::clone(seat));
        }
    }

    fn unpark(&mut self, seat: &Arc<Seat>) {
        let Some(place) = seat.place() else { return };
        seat.set_place(None);
        self.parked.swap_remove(place);
        if let Some(moved) = self.parked.get(place) {
            moved.set_place(Some(place));
        }
    }

    /// Returns the thread that drives, if it is in a call.
    pub(crate) fn driving_seat(&self) -> Option<&Arc<Seat>> {
        match &self.driver {
            Some(Driver::Thread(seat)) => Some(seat),
            Some(Driver::Helper | Driver::Task(_)) | None => None,
        }
    }

    /// Returns the number of parked threads.
    #[cfg(test)]
    pub(super) fn parked(&self) -> usize {
        self.parked.len()
    }

    /// Returns whether nobody drives.
    pub(crate) const fn is_vacant(&self) -> bool {
        self.driver.is_none()
    }

    // --- Helper ---

    /// Returns the number of times that the role of the driver has been taken.
    pub(super) const fn times_taken(&self) -> u64 {
        self.taken
    }

    /// Fills the role of the driver, which has been vacant for a whole period: with a parked thread, or else
    /// with the helper.
    pub(super) fn fill_vacancy(&mut self) -> Succession {
        let appointed = self.appoint();
        match &appointed {
            Some(_) => self.eagerness.increase(),
            None => self.drive(Driver::Helper),
        }
        Succession(appointed)
    }

    /// Makes the helper the driver, if the role is vacant.
    pub(super) fn helper_takes(&mut self) {
        if self.is_vacant() {
            self.drive(Driver::Helper);
        }
    }

    pub(super) const fn helper_drives(&self) -> bool {
        matches!(self.driver, Some(Driver::Helper))
    }

    /// Ends the part of the helper as the driver, because the host closes.
    pub(super) fn helper_leaves(&mut self) {
        if self.helper_drives() {
            self.driver = None;
        }
    }

    // --- Tasks ---

    /// Returns whether a task drives.
    pub(crate) const fn task_drives(&self) -> bool {
        matches!(self.driver, Some(Driver::Task(_)))
    }

    /// Makes the helper the driver in place of a task that does not run.
    pub(super) fn helper_replaces_task(&mut self) {
        if self.task_drives() {
            self.drive(Driver::Helper);
        }
    }

    /// Returns the tasks that drive, or that would if no other did.
    pub(super) fn tasks(&self) -> &[Arc<Seat>] {
        &self.tasks
    }
}

#[cfg(feature = "tokio")]
impl Roles {
    /// Registers a task that is about to drive.
    pub(crate) fn add_task(&mut self, seat: &Arc<Seat>) {
        self.tasks.push(Arc::clone(seat));
    }

    /// Makes the task of `seat` the driver, unless another task drives.
    pub(crate) fn task_takes(&mut self, seat: &Arc<Seat>) -> TaskRole {
        let role = match &self.driver {
            Some(Driver::Task(driver)) if Arc::ptr_eq(driver, seat) => return TaskRole::Drives,
            Some(Driver::Task(_)) => return TaskRole::Waits,
            Some(Driver::Helper) => TaskRole::ReplacesHelper,
            Some(Driver::Thread(_)) => TaskRole::ReplacesThread,
            None => TaskRole::Drives,
        };
        self.drive(Driver::Task(Arc::clone(seat)));
        role
    }

    /// Returns the task that drives.
    pub(crate) fn driving_task(&self) -> Option<&Arc<Seat>> {
        match &self.driver {
            Some(Driver::Task(seat)) => Some(seat),
            _ => None,
        }
    }

    /// Ends the part of the task of `seat`: its runtime ends. Hands the role over to another task, or else to
    /// a parked thread.
    pub(crate) fn task_leaves(&mut self, seat: &Arc<Seat>) -> Succession {
        self.tasks.retain(|other| !Arc::ptr_eq(other, seat));
        if self.driving_task().is_none_or(|driver| !Arc::ptr_eq(driver, seat)) {
            return Succession(None);
        }
        self.driver = None;
        if let Some(task) = self.tasks.last().map(Arc::clone) {
            self.drive(Driver::Task(Arc::clone(&task)));
            return Succession(Some(task));
        }
        match self.appoint() {
            Some(thread) => Succession(Some(thread)),
            None => self.call_helper(),
        }
    }
}
