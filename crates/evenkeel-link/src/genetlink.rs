//! Generic netlink: the threads that the kernel has for a device (`Documentation/netlink/specs/netdev.yaml`
//! of Linux).

use std::io;

use netlink_packet_core::{NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NlasIterator};
use rustix::net::netlink::{GENERIC, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};
use rustix::process::Pid;

use crate::rtnetlink::message_len;

/// The family that knows the others, its request for one of them, and its attributes (linux/genetlink.h).
const CONTROL: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// The request for NAPI instances, and its attributes (linux/netdev.h, from Linux 6.8 on).
const GET_NAPI: u8 = 11;
const NAPI_DEVICE: u16 = 1;
const NAPI_PID: u16 = 4;

/// The sizes of netlink's header, and of that of generic netlink behind it, in bytes.
const HEADER: usize = 16;
const GENERIC_HEADER: usize = 4;
/// The largest piece that the kernel returns at a time.
const BUFFER_BYTES: usize = 32 * 1024;

/// Returns the threads of a device that are in this namespace of processes.
///
/// # Errors
/// The kernel has no such list, which is so before Linux 6.8, or there is no such device.
pub(crate) fn napi_threads(device: u32) -> io::Result<Vec<Pid>> {
    let mut family = None;
    ask(CONTROL, NLM_F_ACK, GET_FAMILY, (FAMILY_NAME, b"netdev\0"), |kind, value| {
        if kind == FAMILY_ID {
            family = value.first_chunk().map(|id| u16::from_ne_bytes(*id));
        }
    })?;
    let family = family.ok_or(io::ErrorKind::Unsupported)?;
    let mut threads = Vec::new();
    ask(family, NLM_F_DUMP, GET_NAPI, (NAPI_DEVICE, &device.to_ne_bytes()), |kind, value| {
        if kind == NAPI_PID {
            let number = value.first_chunk().map(|number| i32::from_ne_bytes(*number));
            threads.extend(number.and_then(Pid::from_raw));
        }
    })?;
    Ok(threads)
}

/// Sends a request with one attribute, and reads the attributes of all answers.
fn ask(
    family: u16,
    flags: u16,
    command: u8,
    (kind, value): (u16, &[u8]),
    mut read: impl FnMut(u16, &[u8]),
) -> io::Result<()> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(GENERIC))?;
    let attribute = 4 + value.len();
    let len = HEADER + GENERIC_HEADER + attribute.next_multiple_of(4);
    let mut request = Vec::with_capacity(len);
    request.extend((len as u32).to_ne_bytes());
    request.extend(family.to_ne_bytes());
    request.extend((NLM_F_REQUEST | flags).to_ne_bytes());
    // Sequence and port, of which the socket needs none; then the command and its version.
    request.extend([0; 8]);
    request.extend([command, 1, 0, 0]);
    request.extend((attribute as u16).to_ne_bytes());
    request.extend(kind.to_ne_bytes());
    request.extend(value);
    request.resize(len, 0);
    sendto(&socket, &request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let (len, _) = recv(&socket, &mut buffer[..], RecvFlags::empty())?;
        let mut rest = buffer.get(..len).unwrap_or_default();
        while let Some(len) = message_len(rest) {
            let (message, more) = rest.split_at(len);
            if is_last(message)? {
                return Ok(());
            }
            let attributes = message.get(HEADER + GENERIC_HEADER..).unwrap_or_default();
            for attribute in NlasIterator::new(attributes).map_while(Result::ok) {
                read(attribute.kind(), attribute.value());
            }
            rest = more.get(len.next_multiple_of(4) - len..).unwrap_or_default();
        }
    }
}

/// Returns whether a message ends the answers.
fn is_last(message: &[u8]) -> io::Result<bool> {
    let kind = message.get(4..6).map_or(0, |kind| i32::from(u16::from_ne_bytes([kind[0], kind[1]])));
    if kind != libc::NLMSG_DONE && kind != libc::NLMSG_ERROR {
        return Ok(false);
    }
    let code =
        message.get(HEADER..).and_then(|body| body.first_chunk()).map_or(0, |code| i32::from_ne_bytes(*code));
    if code == 0 { Ok(true) } else { Err(io::Error::from_raw_os_error(code.saturating_neg())) }
}
