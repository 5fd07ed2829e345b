//! Losses of the kernel: how many since the machine began, and how many while it was watched.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::Serialize;

use super::files::{Files, Unread};
use super::finding::{Check, Finding, Verdict};
use super::parse::{self, UdpSocket};
use crate::quantity::{count, per_s};

const SOFTNET: &str = "/proc/net/softnet_stat";
const SNMP: &str = "/proc/self/net/snmp";
const SNMP6: &str = "/proc/self/net/snmp6";
const NETSTAT: &str = "/proc/self/net/netstat";
const SOCKETS: [&str; 2] = ["/proc/self/net/udp", "/proc/self/net/udp6"];

/// The most sockets that have a finding of their own.
const LISTED: usize = 20;

/// A UDP socket of the kernel that lost datagrams because its queue was full.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LosingSocket {
    /// The local address and port.
    pub address: SocketAddr,
    /// Datagrams lost since the socket was opened.
    pub dropped: u64,
    /// Datagrams lost while the machine was watched, a second.
    pub dropped_per_s: f64,
    /// Bytes in its queue at the end.
    pub waiting_bytes: u64,
    /// The process that has it; `None` if this user may not see that.
    pub pid: Option<u32>,
    /// The name of that process.
    pub program: Option<String>,
}

/// The kernel's counters of losses at one moment.
#[derive(Debug)]
pub(super) struct Losses {
    softnet_dropped: Result<u64, Unread>,
    squeezed: Result<u64, Unread>,
    udp: Result<u64, Unread>,
    listeners: Result<u64, Unread>,
    sockets: Result<Vec<UdpSocket>, Unread>,
}

impl Losses {
    /// Reads the counters of losses.
    pub(super) fn read(files: &Files) -> Self {
        let softnet = files.text(SOFTNET).map(|text| parse::softnet(&text));
        let sum = |of: fn(&parse::Softnet) -> u64| {
            let all = softnet.as_ref().map_err(Clone::clone)?;
            if all.is_empty() { Err(Unread::Unclear) } else { Ok(all.iter().map(of).sum()) }
        };
        Self {
            softnet_dropped: sum(|cpu| cpu.dropped),
            squeezed: sum(|cpu| cpu.squeezed),
            udp: udp_errors(files),
            listeners: files.parsed(NETSTAT, |text| parse::counter(text, "TcpExt", "ListenDrops")),
            sockets: sockets(files),
        }
    }
}

fn udp_errors(files: &Files) -> Result<u64, Unread> {
    let v4 = files.parsed(SNMP, |text| parse::counter(text, "Udp", "RcvbufErrors"))?;
    // A kernel without IPv6 has no such file.
    let v6 = files.parsed(SNMP6, |text| parse::counter6(text, "Udp6RcvbufErrors")).unwrap_or(0);
    Ok(v4.saturating_add(v6))
}

fn sockets(files: &Files) -> Result<Vec<UdpSocket>, Unread> {
    let [v4, v6] = SOCKETS.map(|file| files.text(file).map(|text| parse::udp_sockets(&text)));
    Ok([v4?, v6.unwrap_or_default()].concat())
}

/// Returns the findings about two moments, `seconds` apart. `interface` is where a guard would help.
pub(super) fn findings(
    before: &Losses,
    after: &Losses,
    seconds: f64,
    losing: &[LosingSocket],
    interface: Option<&str>,
) -> Vec<Finding> {
    let interface = interface.unwrap_or("IFACE");
    let guard = format!("evenkeel guard {interface}");
    let rate = |of: fn(&Losses) -> &Result<u64, Unread>| Counted::between(of(before), of(after), seconds);
    let mut found = vec![
        rate(|losses| &losses.softnet_dropped)
            .judged(Check::SOFTNET_DROPS, "frames dropped", SOFTNET)
            .mended_by("sysctl -w net.core.netdev_max_backlog=10000"),
        rate(|losses| &losses.squeezed)
            .judged(Check::SQUEEZES, "time squeezes", SOFTNET)
            .mended_by("sysctl -w net.core.netdev_budget=600"),
        rate(|losses| &losses.udp)
            .judged(Check::UDP_BUFFERS, "datagrams dropped", format!("{SNMP}, {SNMP6}"))
            .mended_by(&guard),
        rate(|losses| &losses.listeners)
            .judged(Check::LISTENERS, "connection requests dropped", NETSTAT)
            .mended_by("sysctl -w net.core.somaxconn=4096 net.ipv4.tcp_syncookies=1"),
    ];
    match &after.sockets {
        Ok(_) if losing.is_empty() => {
            let seen = "no open UDP socket has lost a datagram";
            found.push(Check::SOCKET.finds(Verdict::Good, seen, SOCKETS.join(", ")));
        }
        Ok(_) => found.extend(losing.iter().take(LISTED).map(|socket| of_socket(socket, &guard))),
        Err(why) => found.push(Check::SOCKET.unseen(why, SOCKETS.join(", "))),
    }
    found
}

fn of_socket(socket: &LosingSocket, guard: &str) -> Finding {
    let LosingSocket { address, dropped, dropped_per_s, waiting_bytes, .. } = socket;
    let program = match (&socket.program, socket.pid) {
        (Some(name), Some(pid)) => format!("{name} (process {pid})"),
        _ => "a process that this user may not see".to_owned(),
    };
    let seen = format!(
        "UDP {address} of {program}: {} lost now, {} since it was opened; {} bytes wait",
        per_s(*dropped_per_s),
        count(*dropped),
        count(*waiting_bytes)
    );
    let verdict = if *dropped_per_s > 0.0 { Verdict::Bad } else { Verdict::CouldBeBetter };
    let command = format!("{guard} --port {}", address.port());
    Check::SOCKET.finds(verdict, seen, SOCKETS[usize::from(address.is_ipv6())]).mended_by(command)
}

/// A counter, and how fast it rose.
struct Counted(Result<(u64, f64), Unread>);

impl Counted {
    fn between(before: &Result<u64, Unread>, after: &Result<u64, Unread>, seconds: f64) -> Self {
        let both = before.clone().and_then(|before| Ok((before, after.clone()?)));
        Self(both.map(|(before, after)| (after, rate(before, after, seconds))))
    }

    fn judged(self, check: Check, what: &str, source: impl Into<String>) -> Finding {
        let (total, rate) = match self.0 {
            Ok(counted) => counted,
            Err(why) => return check.unseen(why, source),
        };
        let verdict = match () {
            () if rate > 0.0 => Verdict::Bad,
            () if total > 0 => Verdict::CouldBeBetter,
            () => Verdict::Good,
        };
        check.finds(verdict, format!("{what}: {} now, {} in all", per_s(rate), count(total)), source)
    }
}

#[expect(clippy::cast_precision_loss, reason = "rates for reports")]
fn rate(before: u64, after: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { after.saturating_sub(before) as f64 / seconds } else { 0.0 }
}

/// Returns the sockets that have lost datagrams, those that lose most now first, with their programs.
pub(super) fn losing(files: &Files, before: &Losses, after: &Losses, seconds: f64) -> Vec<LosingSocket> {
    let (Ok(before), Ok(after)) = (&before.sockets, &after.sockets) else { return Vec::new() };
    // A socket that was opened meanwhile has lost all of its datagrams now.
    let earlier: BTreeMap<_, _> = before.iter().map(|socket| (socket.inode, socket.drops)).collect();
    let has_lost: Vec<&UdpSocket> = after.iter().filter(|socket| socket.drops > 0).collect();
    let owners = owners(files, &has_lost.iter().map(|socket| socket.inode).collect());
    let of_socket = |socket: &&UdpSocket| {
        let owner = owners.get(&socket.inode);
        LosingSocket {
            address: socket.address,
            dropped: socket.drops,
            dropped_per_s: rate(earlier.get(&socket.inode).copied().unwrap_or(0), socket.drops, seconds),
            waiting_bytes: socket.waiting_bytes,
            pid: owner.map(|(pid, _)| *pid),
            program: owner.map(|(_, name)| name.clone()),
        }
    };
    let mut losing: Vec<_> = has_lost.iter().map(of_socket).collect();
    losing.sort_by(|a, b| b.dropped_per_s.total_cmp(&a.dropped_per_s).then(b.dropped.cmp(&a.dropped)));
    losing
}

/// Returns the processes that have sockets open, as far as this user may see their descriptors. Of several
/// that share one, the first.
fn owners(files: &Files, inodes: &BTreeSet<u64>) -> BTreeMap<u64, (u32, String)> {
    let mut owners = BTreeMap::new();
    if inodes.is_empty() {
        return owners;
    }
    let processes = files.names("/proc").unwrap_or_default();
    for pid in processes.iter().filter_map(|name| name.parse::<u32>().ok()) {
        let folder = format!("/proc/{pid}/fd");
        let links = files.names(&folder).unwrap_or_default();
        let links = links.iter().filter_map(|fd| files.link(&format!("{folder}/{fd}")).ok());
        for inode in links.filter_map(|link| parse::socket_inode(&link)) {
            if inodes.contains(&inode) && !owners.contains_key(&inode) {
                let name = files.text(&format!("/proc/{pid}/comm")).unwrap_or_default();
                owners.insert(inode, (pid, printable(&name)));
            }
        }
    }
    owners
}

/// Returns a name that a process chose, without characters that would change a terminal.
fn printable(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests;
