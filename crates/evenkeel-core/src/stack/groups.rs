//! The multicast groups that we are in, and which of them is to be reported when.

use core::time::Duration;

use super::error::GroupError;
use crate::id::InterfaceId;
use crate::time::Instant;
use crate::wire::{IpAddress, Ipv4Address, Ipv6Address};

/// The number of times that an unsolicited report is repeated: the robustness variable of 2, less the first
/// report (RFC 3376 8.1).
const REPEATS: u8 = 1;

const ALL_SYSTEMS: Ipv4Address = Ipv4Address::new(224, 0, 0, 1);
const ALL_NODES_V6: Ipv6Address = Ipv6Address::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// The content of a report. The numbers are the record types of RFC 3376 4.2.12 and RFC 3810 5.2.12.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Report {
    /// An answer: member, of every source.
    IsMember = 2,
    /// Left: now of no source.
    Left = 3,
    /// Joined: now of every source.
    Joined = 4,
}

#[derive(Debug)]
pub(super) struct Member {
    pub(super) group: IpAddress,
    pub(super) interface: InterfaceId,
    /// Joins not undone.
    users: u32,
    /// Needed for an address of ours, so never left.
    pinned: bool,
    /// The time of the next report; [`Instant::NEVER`] if none is needed.
    pub(super) due: Instant,
    /// Unsolicited reports still to be sent. Zero: `due` is for an answer.
    unsolicited: u8,
}

/// The groups joined, on all interfaces.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    pub(super) members: Vec<Member>,
    next_due: Option<Instant>,
    /// Until when queriers of the old version are deferred to, by interface: IGMP, MLD.
    old_querier: Vec<(Instant, Instant)>,
}

/// Returns whether a group is one that all nodes are in, always and without a report (RFC 3376 5, RFC 3810
/// 6).
pub(super) fn is_everybody(group: &IpAddress) -> bool {
    match *group {
        IpAddress::Ipv4(group) => group == ALL_SYSTEMS,
        IpAddress::Ipv6(group) => group == ALL_NODES_V6,
    }
}

/// Returns whether membership of the group is reported to other nodes. It is not for the groups of all
/// nodes, nor for IPv6 scopes 0 and 1, which do not leave the host (RFC 3810 6).
pub(super) fn is_reported(group: &IpAddress) -> bool {
    match *group {
        IpAddress::Ipv4(_) => !is_everybody(group),
        IpAddress::Ipv6(address) => !is_everybody(group) && address.octets()[1] & 0xf > 1,
    }
}

impl Groups {
    pub(crate) fn is_member(&self, group: IpAddress, interface: InterfaceId) -> bool {
        is_everybody(&group) || self.members.iter().any(|m| m.group == group && m.interface == interface)
    }

    /// Returns whether the group is joined on any interface.
    pub(crate) fn is_member_anywhere(&self, group: &IpAddress) -> bool {
        is_everybody(group) || self.members.iter().any(|member| member.group == *group)
    }

    /// Returns every group that a packet may be addressed to.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = IpAddress> {
        let everybody = [IpAddress::Ipv4(ALL_SYSTEMS), IpAddress::Ipv6(ALL_NODES_V6)];
        everybody.into_iter().chain(self.members.iter().map(|member| member.group))
    }

    /// Groups that were asked for.
    pub(super) fn count(&self) -> usize {
        self.members.iter().filter(|member| member.users > 0).count()
    }

    pub(crate) fn next_deadline(&self) -> Instant {
        self.next_due.unwrap_or(Instant::NEVER)
    }

    /// Joins once more. A group that is new is reported at `now`, by the next tick.
    pub(super) fn join(&mut self, group: IpAddress, interface: InterfaceId, now: Instant, report: bool) {
        if let Some(member) = self.member(group, interface, now, report) {
            member.users = member.users.saturating_add(1);
        }
    }

    /// Joins for good, for the sake of an address of ours.
    pub(crate) fn pin(&mut self, group: IpAddress, interface: InterfaceId, now: Instant, report: bool) {
        if let Some(member) = self.member(group, interface, now, report) {
            member.pinned = true;
        }
    }

    /// Undoes [`Groups::pin`]. No report is sent: reports of a solicited-node group only teach switches,
    /// whose memory fades.
    pub(crate) fn unpin(&mut self, group: IpAddress, interface: InterfaceId) {
        if let Some(place) = self.members.iter().position(|m| m.group == group && m.interface == interface) {
            let Some(member) = self.members.get_mut(place) else { return };
            member.pinned = false;
            if member.users == 0 {
                self.members.swap_remove(place);
                self.reschedule();
            }
        }
    }

    fn member(
        &mut self,
        group: IpAddress,
        interface: InterfaceId,
        now: Instant,
        report: bool,
    ) -> Option<&mut Member> {
        if !self.is_member(group, interface) {
            let report = report && is_reported(&group);
            let (due, unsolicited) = if report { (now, REPEATS + 1) } else { (Instant::NEVER, 0) };
            self.members.push(Member { group, interface, users: 0, pinned: false, due, unsolicited });
            self.reschedule();
        }
        self.members.iter_mut().find(|m| m.group == group && m.interface == interface)
    }

    /// Leaves a group once. Returns whether that was the last membership.
    pub(super) fn leave(&mut self, group: IpAddress, interface: InterfaceId) -> Result<bool, GroupError> {
        let found = self.members.iter().position(|m| m.group == group && m.interface == interface);
        let (Some(place), false) = (found, is_everybody(&group)) else { return Err(GroupError::NotJoined) };
        let member = self.members.get_mut(place).ok_or(GroupError::NotJoined)?;
        member.users = member.users.checked_sub(1).ok_or(GroupError::NotJoined)?;
        let last = member.users == 0 && !member.pinned;
        if last {
            self.members.swap_remove(place);
            self.reschedule();
        }
        Ok(last)
    }

    pub(super) fn reschedule(&mut self) {
        self.next_due =
            self.members.iter().map(|member| member.due).filter(|due| *due != Instant::NEVER).min();
    }

    pub(super) fn querier(&mut self, interface: InterfaceId) -> &mut (Instant, Instant) {
        let place = usize::from(interface.0);
        if self.old_querier.len() <= place {
            self.old_querier.resize(place + 1, (Instant::ZERO, Instant::ZERO));
        }
        &mut self.old_querier[place]
    }

    /// Returns a report that is due at `now`, and schedules the next one after `jitter`.
    pub(super) fn poll(
        &mut self,
        now: Instant,
        jitter: Duration,
    ) -> Option<(IpAddress, InterfaceId, Report)> {
        self.next_due.filter(|due| *due <= now)?;
        let member = self.members.iter_mut().find(|member| member.due <= now)?;
        let report = if member.unsolicited > 0 { Report::Joined } else { Report::IsMember };
        member.unsolicited = member.unsolicited.saturating_sub(1);
        member.due = if member.unsolicited > 0 { now + jitter } else { Instant::NEVER };
        let due = (member.group, member.interface, report);
        self.reschedule();
        Some(due)
    }
}
