//! ICMP and ICMPv6: messages to this host, and errors about packets of others.

pub(crate) mod control;
pub(crate) mod errors;
pub(crate) mod message;
pub(crate) mod offender;
pub(crate) mod problem;
pub(crate) mod quote;
pub(crate) mod redirect;
pub(crate) mod reset;
