//! The frames that interfaces may put into their rings for a channel that was full.
//!
//! While a channel overflows, the host allows its interfaces as many frames as the channel has room for
//! ([`crate::refuser`]). It allows others when half of the channel is empty and those have come. If none was
//! refused meanwhile, the flood is over: all frames pass again.
//!
//! Allowed frames can get lost in a ring that is full of other frames. So an empty channel is allowed others
//! although the earlier ones have not come. If all were lost, nothing is taken from the channel, and the next
//! frame is one that the interface lets pass by itself.

use crate::id::InterfaceId;
use crate::refuser::Allowance;

/// The allowances of a channel on interfaces that refuse frames.
#[derive(Debug, Default)]
pub(super) struct Allowances {
    of_interfaces: Vec<(InterfaceId, Box<dyn Allowance>)>,
    /// The frames allowed last. `None` while all pass.
    last: Option<Allowed>,
    /// The frames refused by devices that others have replaced.
    refused_before: u64,
}

/// The frames that were allowed at one time.
#[derive(Debug, Clone, Copy)]
struct Allowed {
    frames: u32,
    /// The frames that had come for the channel by then, and those that had been refused.
    arrived: u64,
    refused: u64,
}

/// The state of a channel on which its allowances depend.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fill {
    pub(super) queued: usize,
    pub(super) capacity_pkts: usize,
    /// The frames that have come so far, and were stored or discarded.
    pub(super) arrived: u64,
}

impl Allowances {
    /// Sets the allowance on an interface, in place of an earlier device's.
    pub(super) fn put(&mut self, interface: InterfaceId, allowance: Option<Box<dyn Allowance>>) {
        self.lift();
        let earlier = self.of_interfaces.iter().filter(|(other, _)| *other == interface);
        self.refused_before += earlier.map(|(_, allowance)| allowance.refused()).sum::<u64>();
        self.of_interfaces.retain(|(other, _)| *other != interface);
        self.of_interfaces.extend(allowance.map(|allowance| (interface, allowance)));
    }

    /// Allows no more frames, as the channel is full, if all have passed until now.
    pub(super) fn limit(&mut self, fill: Fill) {
        if !self.of_interfaces.is_empty() && self.last.is_none() {
            self.allow(0, fill);
        }
    }

    /// Lets all frames pass.
    pub(super) fn lift(&mut self) {
        if self.last.take().is_some() {
            self.of_interfaces.iter_mut().for_each(|(_, allowance)| allowance.set(None));
        }
    }

    /// Allows other frames, if the channel has room and those that were allowed have come.
    #[inline]
    pub(super) fn dequeued(&mut self, fill: Fill) {
        if let Some(last) = self.last {
            self.renew(last, fill);
        }
    }

    fn renew(&mut self, last: Allowed, fill: Fill) {
        let (room, left) = ((fill.capacity_pkts - fill.queued) as u32, self.left());
        let have_come = fill.arrived - last.arrived >= u64::from(last.frames.saturating_sub(left));
        let is_due = fill.queued == 0 || (fill.queued <= fill.capacity_pkts / 2 && have_come);
        if !is_due || left > room / 2 {
            return;
        }
        if last.frames > 0 && self.refused_by_now() == last.refused {
            return self.lift();
        }
        self.allow(room, fill);
    }

    fn allow(&mut self, frames: u32, fill: Fill) {
        self.last = Some(Allowed { frames, arrived: fill.arrived, refused: self.refused_by_now() });
        self.of_interfaces.iter_mut().for_each(|(_, allowance)| allowance.set(Some(frames)));
    }

    /// Returns the number of allowed frames that have not come, on the interface where these are fewest.
    fn left(&self) -> u32 {
        self.of_interfaces.iter().map(|(_, allowance)| allowance.left()).min().unwrap_or(0)
    }

    fn refused_by_now(&self) -> u64 {
        self.of_interfaces.iter().map(|(_, allowance)| allowance.refused()).sum()
    }

    /// Returns the number of frames refused so far.
    pub(super) fn refused(&self) -> u64 {
        self.refused_before + self.refused_by_now()
    }
}
