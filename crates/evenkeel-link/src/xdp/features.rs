//! The features of a network device's XDP, as the kernel tells them (`netdev` of generic netlink, Linux 6.3).

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

use super::buffers::Buffers;

/// Messages of generic netlink (linux/genetlink.h): one that asks for the number of a family by its name.
const GENL_ID_CTRL: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
/// Messages of the family (linux/netdev.h).
const NETDEV_CMD_DEV_GET: u8 = 1;
const NETDEV_A_DEV_IFINDEX: u16 = 1;
const NETDEV_A_DEV_XDP_FEATURES: u16 = 3;
/// The driver runs XDP programs itself.
const NETDEV_XDP_ACT_BASIC: u64 = 1;
/// The device takes frames that XDP programs of others redirect to it.
const NETDEV_XDP_ACT_NDO_XMIT: u64 = 4;
/// The driver puts frames into the memory of an AF_XDP socket without a copy.
const NETDEV_XDP_ACT_XSK_ZEROCOPY: u64 = 8;
/// It also takes those in several buffers.
const NETDEV_XDP_ACT_NDO_XMIT_SG: u64 = 64;

/// Bytes of both headers of a message.
const HEADERS: usize = 16 + 4;
const NLM_F_REQUEST: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const ANSWER_BYTES: usize = 8192;

/// The features of a device, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Features(u64);

impl Features {
    /// Asks the kernel for the features of the device with this index. A kernel that cannot tell has an
    /// error.
    pub(crate) fn of(index: u32) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(netlink::GENERIC))?;
        let asked = (CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_NAME, &b"netdev\0"[..]);
        let family = ask(&socket, GENL_ID_CTRL, asked, CTRL_ATTR_FAMILY_ID)?;
        let family = u16::from_ne_bytes(first(&family)?);
        let asked = (NETDEV_CMD_DEV_GET, NETDEV_A_DEV_IFINDEX, &index.to_ne_bytes()[..]);
        let features = ask(&socket, family, asked, NETDEV_A_DEV_XDP_FEATURES)?;
        Ok(Self(u64::from_ne_bytes(first(&features)?)))
    }

    /// Returns whether the driver runs XDP programs, before the kernel makes a packet of the frame.
    pub(crate) const fn is_native(self) -> bool {
        self.has(NETDEV_XDP_ACT_BASIC)
    }

    /// Returns whether AF_XDP sockets get frames without a copy.
    pub(crate) const fn is_zero_copy(self) -> bool {
        self.has(NETDEV_XDP_ACT_XSK_ZEROCOPY)
    }

    const fn has(self, wanted: u64) -> bool {
        self.0 & wanted == wanted
    }
}

/// Returns whether XDP programs of other devices can send frames by this one that are in so many buffers. A
/// kernel that cannot tell has an error.
pub(super) fn takes_redirected(index: u32, buffers: Buffers) -> io::Result<bool> {
    let needed = match buffers {
        Buffers::One => NETDEV_XDP_ACT_NDO_XMIT,
        Buffers::Several => NETDEV_XDP_ACT_NDO_XMIT | NETDEV_XDP_ACT_NDO_XMIT_SG,
    };
    Ok(Features::of(index)?.has(needed))
}

fn first<const N: usize>(bytes: &[u8]) -> io::Result<[u8; N]> {
    bytes.first_chunk().copied().ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Sends a request with one attribute. Returns the value of an attribute of the answer.
fn ask(
    socket: &OwnedFd,
    family: u16,
    (command, attribute, value): (u8, u16, &[u8]),
    wanted: u16,
) -> io::Result<Vec<u8>> {
    let len = HEADERS + 4 + value.len();
    let mut request = Vec::with_capacity(len + 3);
    request.extend((len.next_multiple_of(4) as u32).to_ne_bytes());
    request.extend(family.to_ne_bytes());
    request.extend(NLM_F_REQUEST.to_ne_bytes());
    request.extend([0; 8]);
    request.extend([command, 1, 0, 0]);
    request.extend(((4 + value.len()) as u16).to_ne_bytes());
    request.extend(attribute.to_ne_bytes());
    request.extend(value);
    request.resize(len.next_multiple_of(4), 0);
    sendto(socket.as_fd(), &request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut answer = vec![0; ANSWER_BYTES];
    let (got, _) = recv(socket, &mut answer[..], RecvFlags::empty())?;
    let answer = answer.get(..got).unwrap_or_default();
    let kind = u16::from_ne_bytes(first(answer.get(4..).unwrap_or_default())?);
    if kind == NLMSG_ERROR {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let attributes = answer.get(HEADERS..).unwrap_or_default();
    attribute_of(attributes, wanted).map(<[u8]>::to_vec).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Returns the value of an attribute.
fn attribute_of(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let len = usize::from(u16::from_ne_bytes(*attributes.first_chunk()?));
        let kind = u16::from_ne_bytes(*attributes.get(2..)?.first_chunk()?);
        let value = attributes.get(4..len)?;
        if kind == wanted {
            return Some(value);
        }
        attributes = attributes.get(len.next_multiple_of(4)..)?;
    }
}
