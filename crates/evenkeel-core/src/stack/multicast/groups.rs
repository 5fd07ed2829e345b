//! The groups that this host is in, and when each is reported.

use core::time::Duration;

use super::query::Query;
use super::report::{Record, Report};
use crate::id::InterfaceId;
use crate::stack::config::Config;
use crate::stack::error::GroupError;
use crate::stack::random::Random;
use crate::time::Instant;
use crate::wire::{IpAddress, Ipv4Address, Ipv6Address};

/// The number of times that an unsolicited report is repeated: the robustness variable of 2, less the first
/// report (RFC 3376 8.1).
const REPEATS: u8 = 1;
/// Unsolicited reports are repeated within this time (RFC 3376 8.11, RFC 3810 9.11).
const UNSOLICITED: Duration = Duration::from_secs(1);
/// The time for which the host defers to a querier of the old version (RFC 3376 8.12: 2 x 125 s + 10 s).
const OLD_QUERIER: Duration = Duration::from_secs(260);

const ALL_SYSTEMS: Ipv4Address = Ipv4Address::new(224, 0, 0, 1);
const ALL_NODES_V6: Ipv6Address = Ipv6Address::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// The membership in a group on an interface.
#[derive(Debug)]
struct Member {
    group: IpAddress,
    interface: InterfaceId,
    /// Joins not undone.
    users: u32,
    /// Needed for an address of ours, so never left.
    pinned: bool,
    /// The time of the next report; [`Instant::NEVER`] if none is needed.
    due: Instant,
    /// Unsolicited reports still to be sent. Zero: `due` is for an answer.
    unsolicited: u8,
}

impl Member {
    /// Returns whether a query asks for this membership to be reported.
    fn is_asked(&self, interface: InterfaceId, query: &Query) -> bool {
        self.interface == interface
            && matches!(self.group, IpAddress::Ipv4(_)) == query.is_v4
            && is_reported(&self.group)
            && query.group.is_none_or(|group| group == self.group)
    }
}

/// The groups joined, on all interfaces, and their reports.
#[derive(Debug)]
pub(crate) struct Groups {
    members: Vec<Member>,
    next_due: Option<Instant>,
    /// Until when queriers of the old version are deferred to, by interface: IGMP, MLD.
    old_querier: Vec<(Instant, Instant)>,
    /// Groups joined at most.
    limit: usize,
    /// Whether membership is reported.
    reports: bool,
    /// Delays of reports.
    random: Random,
}

/// Returns whether a group is one that all nodes are in, always and without a report (RFC 3376 5, RFC 3810
/// 6).
fn is_all_nodes(group: &IpAddress) -> bool {
    match *group {
        IpAddress::Ipv4(group) => group == ALL_SYSTEMS,
        IpAddress::Ipv6(group) => group == ALL_NODES_V6,
    }
}

/// Returns whether membership of the group is reported to other nodes. It is not for the groups of all
/// nodes, nor for IPv6 scopes 0 and 1, which do not leave the host (RFC 3810 6).
fn is_reported(group: &IpAddress) -> bool {
    match *group {
        IpAddress::Ipv4(_) => !is_all_nodes(group),
        IpAddress::Ipv6(address) => !is_all_nodes(group) && address.octets()[1] & 0xf > 1,
    }
}

impl Groups {
    /// Creates an empty table. Delays of reports are derived from `seed`.
    pub(crate) const fn new(config: &Config, seed: u64) -> Self {
        let (limit, reports) = (config.groups, config.report_groups && !config.shared);
        let random = Random::new(seed);
        Self { members: Vec::new(), next_due: None, old_querier: Vec::new(), limit, reports, random }
    }

    /// Derives delays of reports from another seed.
    pub(crate) const fn reseed(&mut self, seed: u64) {
        self.random = Random::new(seed);
    }

    /// Returns whether the group is joined on `interface`.
    pub(crate) fn is_member(&self, group: IpAddress, interface: InterfaceId) -> bool {
        is_all_nodes(&group) || self.members.iter().any(|m| m.group == group && m.interface == interface)
    }

    /// Returns whether the group is joined on any interface.
    pub(crate) fn is_member_anywhere(&self, group: &IpAddress) -> bool {
        is_all_nodes(group) || self.members.iter().any(|member| member.group == *group)
    }

    /// Returns every group that a packet may be addressed to.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = IpAddress> {
        let all_nodes = [IpAddress::Ipv4(ALL_SYSTEMS), IpAddress::Ipv6(ALL_NODES_V6)];
        all_nodes.into_iter().chain(self.members.iter().map(|member| member.group))
    }

    /// Returns the number of groups that programs have joined.
    fn count(&self) -> usize {
        self.members.iter().filter(|member| member.users > 0).count()
    }

    /// Returns when the next report is due.
    pub(crate) fn next_deadline(&self) -> Instant {
        self.next_due.unwrap_or(Instant::NEVER)
    }

    /// Joins once more. A group that is new is reported at `now`, by the next poll. Returns false for the
    /// groups of all nodes, which need no joining.
    ///
    /// # Errors
    /// [`GroupError::Full`]; nothing is changed then.
    pub(crate) fn join(
        &mut self,
        group: IpAddress,
        interface: InterfaceId,
        now: Instant,
    ) -> Result<bool, GroupError> {
        if !self.is_member(group, interface) && self.count() >= self.limit {
            return Err(GroupError::Full);
        }
        if is_all_nodes(&group) {
            return Ok(false);
        }
        if let Some(member) = self.member(group, interface, now) {
            member.users = member.users.saturating_add(1);
        }
        Ok(true)
    }

    /// Joins for good, because an address of this host needs the group.
    pub(crate) fn pin(&mut self, group: IpAddress, interface: InterfaceId, now: Instant) {
        if let Some(member) = self.member(group, interface, now) {
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

    fn member(&mut self, group: IpAddress, interface: InterfaceId, now: Instant) -> Option<&mut Member> {
        if !self.is_member(group, interface) {
            let report = self.reports && is_reported(&group);
            let (due, unsolicited) = if report { (now, REPEATS + 1) } else { (Instant::NEVER, 0) };
            self.members.push(Member { group, interface, users: 0, pinned: false, due, unsolicited });
            self.reschedule();
        }
        self.members.iter_mut().find(|m| m.group == group && m.interface == interface)
    }

    /// Leaves a group once. Returns the report to send, if that was the last membership.
    ///
    /// # Errors
    /// [`GroupError::NotJoined`].
    pub(crate) fn leave(
        &mut self,
        group: IpAddress,
        interface: InterfaceId,
        now: Instant,
    ) -> Result<Option<Report>, GroupError> {
        if is_all_nodes(&group) {
            return Ok(None);
        }
        let found = self.members.iter().position(|m| m.group == group && m.interface == interface);
        let place = found.ok_or(GroupError::NotJoined)?;
        let member = self.members.get_mut(place).ok_or(GroupError::NotJoined)?;
        member.users = member.users.checked_sub(1).ok_or(GroupError::NotJoined)?;
        if member.users > 0 || member.pinned {
            return Ok(None);
        }
        self.members.swap_remove(place);
        self.reschedule();
        let is_reported = self.reports && is_reported(&group);
        Ok(is_reported.then(|| self.report(group, interface, Record::Left, now)))
    }

    fn reschedule(&mut self) {
        self.next_due =
            self.members.iter().map(|member| member.due).filter(|due| *due != Instant::NEVER).min();
    }

    /// Returns until when queriers of the old version are deferred to on `interface`: IGMP, MLD.
    fn old_querier(&self, interface: InterfaceId) -> (Instant, Instant) {
        self.old_querier.get(usize::from(interface.0)).copied().unwrap_or((Instant::ZERO, Instant::ZERO))
    }

    /// Records a querier of the old version.
    fn record_old_querier(&mut self, interface: InterfaceId, is_v4: bool, until: Instant) {
        let place = usize::from(interface.0);
        if self.old_querier.len() <= place {
            self.old_querier.resize(place + 1, (Instant::ZERO, Instant::ZERO));
        }
        if let Some((igmp, mld)) = self.old_querier.get_mut(place) {
            *(if is_v4 { igmp } else { mld }) = until;
        }
    }

    /// Schedules the answers to a query, each at a time of its own (RFC 3376 5.2). Otherwise many members
    /// would answer at once.
    pub(crate) fn on_query(&mut self, interface: InterfaceId, query: &Query, now: Instant) {
        if query.old {
            self.record_old_querier(interface, query.is_v4, now + OLD_QUERIER);
        }
        if !self.reports {
            return;
        }
        for member in &mut self.members {
            if member.is_asked(interface, query) {
                member.due = member.due.min(now + self.random.up_to(query.max_delay));
            }
        }
        self.reschedule();
    }

    /// Returns a report that is due at `now`, and schedules the next one of the same group.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Report> {
        let jitter = self.random.up_to(UNSOLICITED);
        self.next_due.filter(|due| *due <= now)?;
        let member = self.members.iter_mut().find(|member| member.due <= now)?;
        let record = if member.unsolicited > 0 { Record::Joined } else { Record::IsMember };
        member.unsolicited = member.unsolicited.saturating_sub(1);
        member.due = if member.unsolicited > 0 { now + jitter } else { Instant::NEVER };
        let (group, interface) = (member.group, member.interface);
        self.reschedule();
        Some(self.report(group, interface, record, now))
    }

    fn report(&self, group: IpAddress, interface: InterfaceId, record: Record, now: Instant) -> Report {
        let (igmp, mld) = self.old_querier(interface);
        let until = if matches!(group, IpAddress::Ipv4(_)) { igmp } else { mld };
        Report { group, interface, record, old: until > now }
    }
}
