//! The figures of a host's TCP.

use std::borrow::Cow;

use evenkeel_core::host::Host;
use evenkeel_core::tcp::counters::Counter;
use evenkeel_core::tcp::endpoint::ListenerInfo;

/// A report of a host's TCP.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "json", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "TcpReport"))]
pub struct Tcp {
    /// The number of connections, without half-open ones and those in TIME-WAIT.
    pub connections: usize,
    /// The number of connections in TIME-WAIT.
    pub time_wait: usize,
    /// The host's listeners.
    pub listeners: Vec<Listener>,
    /// The counters that are not zero.
    #[cfg_attr(feature = "json", serde(with = "super::json::by_name"))]
    #[cfg_attr(feature = "schema", schemars(with = "std::collections::BTreeMap<String, u64>"))]
    pub counters: Vec<(Cow<'static, str>, u64)>,
}

/// A report of one listener and its queues.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "json", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "ListenerReport"))]
pub struct Listener {
    /// The port that the listener is on.
    pub port: u16,
    /// The address that the listener is on; `None` for all addresses of the host.
    pub address: Option<String>,
    /// The number of half-open connections.
    pub half_open: usize,
    /// The number of connections that wait to be accepted.
    pub to_accept: usize,
    /// The maximum number of connections that may wait to be accepted.
    pub backlog: usize,
}

impl From<ListenerInfo> for Listener {
    fn from(info: ListenerInfo) -> Self {
        let ListenerInfo { at, half_open, to_accept, backlog, .. } = info;
        let address = at.address.map(|address| address.to_string());
        Self { port: at.port, address, half_open, to_accept, backlog }
    }
}

impl Tcp {
    pub(super) fn read(&mut self, host: &Host) {
        let tcp = host.tcp();
        self.connections = tcp.len();
        self.time_wait = tcp.waiting();
        self.listeners.clear();
        self.listeners.extend(tcp.listeners().map(Listener::from));
        let counted = tcp.counters().iter().filter(|(_, count)| *count > 0);
        self.counters.clear();
        self.counters.extend(counted.map(|(counter, count)| (counter.name().into(), count)));
    }

    /// Returns the value of `counter`, 0 if it is not in the report.
    #[must_use]
    pub fn count(&self, counter: Counter) -> u64 {
        self.named(counter.name())
    }

    fn named(&self, counter: &str) -> u64 {
        self.counters.iter().find(|(name, _)| name == counter).map_or(0, |(_, count)| *count)
    }

    pub(super) fn since(&self, earlier: &Self) -> Self {
        let counters = self.counters.iter().map(|(name, count)| {
            let is_level = name == Counter::CurrEstab.name();
            let before = if is_level { 0 } else { earlier.named(name) };
            (name.clone(), count.saturating_sub(before))
        });
        Self { counters: counters.filter(|(_, count)| *count > 0).collect(), ..self.clone() }
    }
}
