//! Short messages of this host: neighbour discovery and membership reports.

use crate::stack::header::Header;
use crate::stack::route::path::Path;

/// The longest body: an address and an option of neighbour discovery.
const BODY_MAX: usize = 24;

/// A message of ICMPv6 or IGMP to be sent, without its checksum.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) header: Header,
    pub(crate) path: Path,
    /// Type, code, room for the checksum, and four bytes that depend on the type.
    pub(crate) head: [u8; 8],
    body: [u8; BODY_MAX],
    len: usize,
}

impl Message {
    /// Creates a message whose body are the bytes `body`, as many as a message has room for.
    pub(crate) fn new(header: Header, path: Path, head: [u8; 8], body: &[u8]) -> Self {
        debug_assert!(body.len() <= BODY_MAX, "no message here is longer");
        let mut message = Self { header, path, head, body: [0; BODY_MAX], len: body.len().min(BODY_MAX) };
        message.body.iter_mut().zip(body).for_each(|(to, from)| *to = *from);
        message
    }

    pub(crate) fn body(&self) -> &[u8] {
        self.body.get(..self.len).unwrap_or_default()
    }
}
