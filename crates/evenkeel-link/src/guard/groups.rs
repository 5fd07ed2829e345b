//! Devices at which datagrams for groups (multicast) are for this machine's sockets alone.

use std::fs;

/// The settings of the kernel's routers of groups, which are on while a routing program runs (`ip_mroute`).
const ROUTERS: [&str; 2] =
    ["/proc/sys/net/ipv4/conf/all/mc_forwarding", "/proc/sys/net/ipv6/conf/all/mc_forwarding"];

/// Returns whether what comes by a device for groups ends at this machine's sockets, as far as the kernel
/// shows: there is no other device on top of it, such as a bridge, and no router of groups.
pub(super) fn end_at(device: &str) -> bool {
    // Where the kernel has no router there is no file.
    let routes = ROUTERS.iter().any(|file| fs::read_to_string(file).is_ok_and(|is_on| is_on.trim() != "0"));
    let Ok(entries) = fs::read_dir(format!("/sys/class/net/{device}")) else { return false };
    let is_upper = |name: &str| name.starts_with("upper_");
    !routes && !entries.flatten().any(|entry| entry.file_name().to_str().is_none_or(is_upper))
}
