//! The forms of the kernel's files: functions from text to figures. A line that is cut, empty or of another
//! form is left out.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Returns the first two numbers of a release, `6.18.44-fc`.
pub(super) fn release(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.trim().split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Returns the effective capabilities in `/proc/PID/status`, as bits (capabilities(7)).
pub(super) fn capabilities(status: &str) -> Option<u64> {
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

/// Returns the soft limit called `name` in `/proc/PID/limits`; `u64::MAX` if it is unlimited.
pub(super) fn limit(limits: &str, name: &str) -> Option<u64> {
    let row = limits.lines().find_map(|line| line.strip_prefix(name))?;
    match row.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

/// The receive work of a processor: a line of `/proc/net/softnet_stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Softnet {
    pub(super) cpu: u64,
    pub(super) dropped: u64,
    pub(super) squeezed: u64,
}

/// Reads `/proc/net/softnet_stat`. Newer kernels give the processor in the thirteenth field; in others it is
/// the number of the line.
pub(super) fn softnet(text: &str) -> Vec<Softnet> {
    let of_line = |(number, line): (usize, &str)| {
        let fields: Option<Vec<_>> =
            line.split_whitespace().map(|field| u64::from_str_radix(field, 16).ok()).collect();
        let fields = fields?;
        let cpu = fields.get(12).copied().unwrap_or(number as u64);
        Some(Softnet { cpu, dropped: *fields.get(1)?, squeezed: *fields.get(2)? })
    };
    text.lines().enumerate().filter_map(of_line).collect()
}

/// Returns a counter of `/proc/net/snmp` or `/proc/net/netstat`, where a line of names comes before a line of
/// numbers, and both begin with the name of the group.
pub(super) fn counter(text: &str, group: &str, name: &str) -> Option<u64> {
    let mut rows = text.lines().filter_map(|line| line.strip_prefix(group)?.strip_prefix(':'));
    let (names, numbers) = (rows.next()?, rows.next()?);
    let mut both = names.split_whitespace().zip(numbers.split_whitespace());
    both.find(|(found, _)| *found == name)?.1.parse().ok()
}

/// Returns a counter of `/proc/net/snmp6`, which has one in a line.
pub(super) fn counter6(text: &str, name: &str) -> Option<u64> {
    let mut rows = text.lines().filter_map(|line| line.split_once(char::is_whitespace));
    rows.find(|(found, _)| *found == name)?.1.trim().parse().ok()
}

/// A UDP socket: a line of `/proc/net/udp` or `udp6`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UdpSocket {
    pub(super) address: SocketAddr,
    pub(super) waiting_bytes: u64,
    pub(super) inode: u64,
    pub(super) drops: u64,
}

/// Reads `/proc/net/udp` or `udp6`.
pub(super) fn udp_sockets(text: &str) -> Vec<UdpSocket> {
    text.lines().skip(1).filter_map(udp_socket).collect()
}

fn udp_socket(line: &str) -> Option<UdpSocket> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (_, waiting) = fields.get(4)?.split_once(':')?;
    Some(UdpSocket {
        address: address(fields.get(1)?)?,
        waiting_bytes: u64::from_str_radix(waiting, 16).ok()?,
        inode: fields.get(9)?.parse().ok()?,
        drops: fields.get(12)?.parse().ok()?,
    })
}

/// Reads an address and a port in hexadecimal. The kernel prints an address as words in its own byte order.
fn address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let words = address.as_bytes().chunks(8).map(|word| {
        let word = std::str::from_utf8(word).ok()?;
        u32::from_str_radix(word, 16).ok().filter(|_| word.len() == 8).map(u32::to_ne_bytes)
    });
    let bytes = words.collect::<Option<Vec<_>>>()?.concat();
    let address = match bytes.len() {
        4 => IpAddr::from(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        _ => IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)),
    };
    Some(SocketAddr::new(address, u16::from_str_radix(port, 16).ok()?))
}

/// Returns the number of the socket that a descriptor refers to: `socket:[1234]`.
pub(super) fn socket_inode(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// Reads a list of processors, `0-3,8`. A list that names more than there can be is empty.
pub(super) fn cpu_list(text: &str) -> Vec<usize> {
    const CPUS_MAX: usize = 8192;
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (last < CPUS_MAX).then_some(first..=last)
    };
    text.split(',').filter_map(range).flatten().collect()
}

/// Reads a mask of processors, `00000001,00000003`: words in hexadecimal, the lowest processors last.
pub(super) fn cpu_mask(text: &str) -> Vec<usize> {
    let of_word = |(number, word): (usize, &str)| {
        let word = u32::from_str_radix(word.trim(), 16).unwrap_or(0);
        (0..32).filter(move |bit| word >> bit & 1 == 1).map(move |bit| number * 32 + bit)
    };
    text.trim().split(',').rev().enumerate().flat_map(of_word).collect()
}

/// An interrupt: a line of `/proc/interrupts`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Interrupt {
    pub(super) number: u32,
    /// The number of times that it came, on all processors together.
    pub(super) count: u64,
    pub(super) name: String,
}

/// Reads the numbered lines of `/proc/interrupts`.
pub(super) fn interrupts(text: &str) -> Vec<Interrupt> {
    let cpus = text.lines().next().unwrap_or_default().split_whitespace().count();
    let of_line = |line: &str| {
        let (number, rest) = line.split_once(':')?;
        let counts: Vec<u64> =
            rest.split_whitespace().take(cpus).map_while(|field| field.parse().ok()).collect();
        let name = rest.split_whitespace().skip(cpus).last()?.to_owned();
        let count = counts.iter().fold(0, |sum: u64, count| sum.saturating_add(*count));
        (counts.len() == cpus).then_some(Interrupt { number: number.trim().parse().ok()?, count, name })
    };
    text.lines().skip(1).filter_map(of_line).collect()
}

/// Returns the names of the devices in `/proc/net/dev`.
pub(super) fn device_names(text: &str) -> Vec<String> {
    text.lines().filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim().to_owned()).collect()
}

/// A control group for processors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CpuGroup {
    /// Of the unified hierarchy.
    Unified(String),
    /// Of the controller `cpu` of version 1.
    V1(String),
}

/// Returns the group that divides processors, of `/proc/PID/cgroup`: that of the controller `cpu` if it is in
/// a hierarchy of its own.
pub(super) fn cpu_group(text: &str) -> Option<CpuGroup> {
    let rows: BTreeMap<&str, &str> =
        text.lines().filter_map(|line| line.split_once(':')?.1.split_once(':')).collect();
    let v1 = rows.iter().find(|(controllers, _)| controllers.split(',').any(|name| name == "cpu"));
    let v1 = v1.map(|(_, path)| CpuGroup::V1((*path).to_owned()));
    v1.or_else(|| Some(CpuGroup::Unified((*rows.get("")?).to_owned())))
}

/// Returns the quota of `cpu.max` in processors; `Some(None)` if there is no limit.
pub(super) fn cpu_max(text: &str) -> Option<Option<f64>> {
    let (quota, period) = text.split_once(' ')?;
    match quota {
        "max" => Some(None),
        quota => share(quota.parse().ok()?, period.trim().parse().ok()?).map(Some),
    }
}

/// Returns a quota of so many microseconds in a period, in processors. The quota of version 1 is negative if
/// there is none.
pub(super) fn share(quota: i64, period: i64) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "times of at most seconds")]
    (quota >= 0 && period > 0).then(|| quota as f64 / period as f64)
}

#[cfg(test)]
mod tests;
