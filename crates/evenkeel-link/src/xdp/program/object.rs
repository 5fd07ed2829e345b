//! The compiled object with the programs of AF_XDP links.

use aya::include_bytes_aligned;

pub(super) static OBJECT: &[u8] = include_bytes_aligned!("../../../bpf/demux.o");
