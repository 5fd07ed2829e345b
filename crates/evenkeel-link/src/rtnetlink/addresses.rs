//! A list of the kernel's addresses.

use std::collections::BTreeSet;
use std::io;

use evenkeel_core::wire::IpAddress;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{RecvFlags, SendFlags, recv, sendto};

use super::entry::Entry;
use super::socket::open_socket;
use super::{BUFFER_BYTES, Table, by_library, error_of, message_len};

/// Returns all addresses of the kernel in this network namespace, tentative ones included.
///
/// # Errors
/// If the kernel provides no such socket, or refuses the list.
pub(crate) fn kernel_addresses() -> io::Result<BTreeSet<IpAddress>> {
    let socket = open_socket(0, BUFFER_BYTES)?;
    sendto(&socket, &Table::Addresses.request(1), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let (mut all, mut buffer, mut complete) = (BTreeSet::new(), vec![0; BUFFER_BYTES], false);
    while !complete {
        // The kernel has the next part ready when the one before is read.
        let (len, _) = recv(&socket, &mut buffer[..], RecvFlags::empty())?;
        let mut rest = buffer.get(..len).unwrap_or_default();
        while let Some(len) = message_len(rest) {
            let (message, more) = rest.split_at(len);
            complete |= read(message, &mut all)?;
            rest = more.get(len.next_multiple_of(4) - len..).unwrap_or_default();
        }
    }
    Ok(all)
}

/// Adds the address of a message. Returns whether it was the last message.
fn read(message: &[u8], all: &mut BTreeSet<IpAddress>) -> io::Result<bool> {
    let kind = message.get(4..6).map_or(0, |kind| i32::from(u16::from_ne_bytes([kind[0], kind[1]])));
    match kind {
        libc::NLMSG_DONE => return Ok(true),
        libc::NLMSG_ERROR => {
            return Err(io::Error::from_raw_os_error(error_of(message.get(16..).unwrap_or_default())));
        }
        _ => {}
    }
    if let Ok(Some(Entry::Address { address, .. })) = by_library(message) {
        all.insert(address.address());
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a new network namespace the loopback device is down, and has no address.
    #[test]
    fn the_loopback_address_is_the_kernels() {
        let up = std::fs::read_to_string("/sys/class/net/lo/flags").is_ok_and(|flags| flags.trim() == "0x9");
        let has = kernel_addresses().unwrap().contains(&IpAddress::v4(127, 0, 0, 1));
        assert!(has || !up);
    }
}
