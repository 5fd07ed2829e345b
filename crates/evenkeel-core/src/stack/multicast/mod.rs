//! Multicast: the groups that this host is in, reported by IGMP (RFC 2236, RFC 3376) and MLD (RFC 2710, RFC
//! 3810).
//!
//! Reports are of version 3 (MLD: 2) unless an older querier was heard not long ago. Sources are not
//! filtered: a member wants a group from every source.

pub(crate) mod groups;
pub(crate) mod query;
pub(crate) mod report;
