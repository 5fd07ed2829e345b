//! A network device that is only listened to, as by a packet monitor.
//!
//! The receive ring is one of blocks, `TPACKET_V3`: many frames are handed over at once, and they can be
//! looked at where they lie. What is left of a block when nothing more comes is handed over after
//! [`RETIRE_MS`]: a program that writes files can wait for that time, and one wake-up serves many frames. The
//! socket sees copies of all frames, also of those that the operating system sends there.
//!
//! Every frame is accounted for: the kernel counts those it put into the ring, those still in a block that it
//! has not handed over among them ([`RxCounters::buffered`]), and those that found no room.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use evenkeel_core::bpf::Program;
use evenkeel_core::frame::{BUFFER_BYTES, Frame, HEADROOM, LinkType, Metadata, Pool};
use evenkeel_core::interface::{Burst, Effort, Interface, Properties, RxCounters, RxQueue, Seen, TxQueue};

use crate::blocks::Blocks;
use crate::buffer::MTU_MAX;
use crate::capture::frames::Frames;
use crate::device::{Descriptors, Device, DeviceInfo, IN_TRANSIT_PKTS, Status};
use crate::error::LinkError;
use crate::netdev::{Framing, KernelCounters, NetDevice};
use crate::received::{Received, Slot};
use crate::socket::{Counters, Presence, be_promiscuous, packet_socket};
use crate::sys::{self, Mapping};

/// Options for opening a device for a packet monitor. A monitor also sees frames that the operating system
/// sends there, and frames of any size, such as those that an adaptor is to split or has joined. The
/// [`Metadata`] of each frame says when it passed and how much was cut off. A monitor sends nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// Run by the kernel: what it does not want costs nothing more, and of what it wants only as much is
    /// copied as it says. It is run on frames without their outer VLAN tag.
    pub filter: Option<Program>,
    /// Whether frames to other stations are received, too.
    pub promiscuous: bool,
}

/// A network device of the kernel that is only listened to.
#[derive(Debug)]
pub struct Listener {
    device: Arc<NetDevice>,
    /// The kernel's number for the device.
    index: u32,
    presence: Presence,
    properties: Properties,
    link_type: LinkType,
    status: Status,
    blocks: Blocks<Mapping>,
    socket: Arc<OwnedFd>,
    counters: Counters,
    counters_of_device: KernelCounters,
    /// Frames taken out of the ring, including unusable ones.
    passed: u64,
    /// Malformed frames, which are shed here.
    unusable: u64,
    /// Room for a frame that cannot be shown in place.
    mended: Box<[u8]>,
}

/// The timeout after which the kernel hands over a block that is not full, in milliseconds.
const RETIRE_MS: libc::c_uint = 10;
/// The largest frame, in bytes, that fits a frame buffer.
pub const FRAME_BYTES: usize = BUFFER_BYTES - HEADROOM;
/// The size of a block: a multiple of a page, and larger than any frame except those of BIG TCP, as a frame
/// lies in one block.
const BLOCK_BYTES: usize = 128 << 10;
/// The most bytes of a frame that a monitor keeps. A block holds them behind the headers of block and
/// frame, with a VLAN tag put back in its place.
pub const LISTEN_BYTES: usize = BLOCK_BYTES - 1024;
/// The least number of blocks: one being filled, one being read, and two others.
const BLOCKS_MIN: usize = 4;
const RING_BYTES_MAX: usize = 128 << 20;

impl Listener {
    /// Opens the device called `name`, which must be up, to listen to it. The ring has `ring_pkts` times 2
    /// KiB; from 512 KiB to 128 MiB.
    ///
    /// # Errors
    /// [`LinkError`] says what to do; nothing is left behind.
    pub fn open(name: &str, listen: &Listen, ring_pkts: usize) -> Result<Self, LinkError> {
        let device = Arc::new(NetDevice::open(name)?);
        let (index, (framing, address)) = (device.index()?, device.framing()?);
        if !device.is_up()? {
            return Err(LinkError::Down { name: name.to_owned() });
        }
        let fail = |error| LinkError::of_device(name, "open a packet socket on", "CAP_NET_RAW", error);
        let (socket, blocks) = open_ring(index, framing, listen, ring_pkts).map_err(fail)?;
        let properties = Properties {
            mtu: device.mtu()?.min(MTU_MAX),
            buffers: IN_TRANSIT_PKTS,
            ..Properties::new(name, address)
        };
        Ok(Self {
            counters_of_device: KernelCounters::open(&device),
            device,
            index: index.unsigned_abs(),
            presence: Presence::of(index),
            properties,
            link_type: framing.link_type(),
            status: Status::default(),
            blocks,
            socket: Arc::new(socket),
            counters: Counters::default(),
            passed: 0,
            unusable: 0,
            mended: vec![0; LISTEN_BYTES].into(),
        })
    }
}

fn open_ring(
    index: i32,
    framing: Framing,
    listen: &Listen,
    ring_pkts: usize,
) -> io::Result<(OwnedFd, Blocks<Mapping>)> {
    // The protocol is zero until everything is set, so that no frame of another device enters.
    let socket = packet_socket()?;
    let fd = socket.as_fd();
    sys::set_packet_option(fd, libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V3 as libc::c_int)?;
    sys::set_packet_option(fd, libc::PACKET_VNET_HDR, 1)?;
    if framing == Framing::Loopback {
        // Frames sent on this device come back at once, so they are ignored on their way out.
        sys::set_packet_option(fd, libc::PACKET_IGNORE_OUTGOING, 1)?;
    }
    let bytes = LISTEN_BYTES as u32;
    let filter = listen.filter.as_ref().map_or_else(|| Program::everything(bytes), |f| f.cut_to(bytes));
    sys::attach_filter(fd, &filter)?;
    let wanted = ring_pkts.saturating_mul(BUFFER_BYTES);
    let blocks = (wanted.min(RING_BYTES_MAX) / BLOCK_BYTES).max(BLOCKS_MIN);
    let request = libc::tpacket_req3 {
        tp_block_size: BLOCK_BYTES as libc::c_uint,
        tp_block_nr: blocks as libc::c_uint,
        // This value has no meaning for frames in blocks, but the kernel checks it.
        tp_frame_size: BUFFER_BYTES as libc::c_uint,
        tp_frame_nr: (blocks * (BLOCK_BYTES / BUFFER_BYTES)) as libc::c_uint,
        tp_retire_blk_tov: RETIRE_MS,
        tp_sizeof_priv: 0,
        tp_feature_req_word: 0,
    };
    sys::set_packet_option(fd, libc::PACKET_RX_RING, request)?;
    let mapping = Mapping::new(fd, blocks * BLOCK_BYTES)?;
    let ring = Blocks::new(mapping, BLOCK_BYTES).ok_or(io::ErrorKind::InvalidInput)?;
    sys::bind_packet(fd, index, libc::ETH_P_ALL as u16)?;
    if listen.promiscuous {
        be_promiscuous(fd, index)?;
    }
    Ok((socket, ring))
}

impl TxQueue for Listener {
    fn transmit(&mut self, frames: &mut VecDeque<Frame>, pool: &mut Pool) -> usize {
        let count = frames.len();
        self.status.count_refused_uncalled(count as u64);
        frames.drain(..).for_each(|frame| pool.recycle(frame));
        count
    }
}

impl Interface for Listener {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn queue(&self, _index: usize) -> &dyn RxQueue {
        self
    }

    fn queue_mut(&mut self, _index: usize) -> &mut dyn RxQueue {
        self
    }

    fn set_readable(&mut self, _number: usize) {
        self.presence.set_readable(self.blocks.ready(), &self.socket);
    }
}

impl Device for Listener {
    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            descriptors: Descriptors::new([Arc::clone(&self.socket)]),
            rings_in_memory: true,
            status: self.status.clone(),
            kernel_counters: Some(self.counters_of_device.clone()),
            index: Some(self.index),
            frames: Frames::of_device(self.device.name(), self.index, self.link_type),
            ..DeviceInfo::default()
        }
    }
}

impl RxQueue for Listener {
    fn pending(&self) -> usize {
        self.blocks.waiting()
    }

    fn receive(&mut self, limit: usize, burst: &mut dyn Burst) -> usize {
        let (mut shown, mut goes_on) = (0, true);
        // One that is of no use counts, too: or a flood of them would have no end.
        for _ in 0..limit {
            if !goes_on {
                break;
            }
            let usable = match self.blocks.front() {
                None => break,
                Some(Slot::Malformed) => 0,
                Some(Slot::Frame(received)) => {
                    let (bytes, metadata) = show(&received, &mut self.mended, self.link_type);
                    let seen = burst.see(bytes, &metadata);
                    let taken = if seen == Seen::Take { burst.pool().take_copy(bytes) } else { None };
                    let lost = seen == Seen::Take && taken.is_none();
                    goes_on = taken.map_or(seen == Seen::Discard, |frame| burst.take(frame));
                    usize::from(!lost)
                }
            };
            let gone = self.blocks.release();
            shown += usable;
            self.passed += gone;
            self.unusable += gone.saturating_sub(usable as u64);
        }
        shown
    }

    fn arm(&mut self) -> bool {
        self.presence.check(&self.device, &self.status);
        self.blocks.ready()
    }

    /// Asks the kernel: a system call for each of the two counters.
    fn counters(&self, effort: Effort) -> Option<RxCounters> {
        (effort == Effort::SystemCall).then(|| RxCounters {
            missed: self.counters.lost(&self.socket) + self.unusable,
            no_buffer: 0,
            buffered: self.counters.put(&self.socket).saturating_sub(self.passed),
        })
    }
}

/// Returns a frame as far as `room` holds it: in place if nothing is to be done about it, else in `room`.
#[inline]
fn show<'a>(received: &Received<'a>, room: &'a mut [u8], link_type: LinkType) -> (&'a [u8], Metadata) {
    let fits = received.bytes.len().min(room.len() - received.vlan.map_or(0, |tag| tag.len()));
    let metadata = Metadata {
        stamp_nanos: received.stamp_nanos,
        cut_bytes: received.whole.saturating_sub(fits) as u32,
        sent: received.sent,
        link_type,
    };
    let bytes = received.bytes.get(..fits).unwrap_or_default();
    // A truncated frame has no checksum that we could complete, and a frame to be segmented gets its
    // checksums then.
    let whole = fits == received.whole && received.to_be_segmented.is_none();
    let unfinished = received.unfinished.filter(|_| whole);
    if unfinished.is_none() && received.vlan.is_none() {
        return (bytes, metadata);
    }
    let received = Received { bytes, unfinished, ..*received };
    let mended = room.get_mut(..received.len()).unwrap_or_default();
    // A checksum that would lie outside the frame is left alone.
    received.write(mended);
    (mended, metadata)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::received::Unfinished;
    use evenkeel_core::segmentation::Offload;

    const TAG: [u8; 4] = [0x81, 0, 0x20, 7];

    fn received(bytes: &[u8], vlan: Option<[u8; 4]>, unfinished: Option<Unfinished>) -> Received<'_> {
        Received {
            bytes,
            whole: bytes.len(),
            to_be_segmented: None,
            is_queued: false,
            stamp_nanos: 7,
            sent: false,
            vlan,
            unfinished,
        }
    }

    #[test]
    fn a_monitor_gets_what_fits_and_knows_what_does_not() {
        let mut room = [0; FRAME_BYTES];
        let large = vec![9; 60_000];
        let offload = Some(Offload { kind: 1, size: 1448, transport: 34 });
        let tagged = Received { to_be_segmented: offload, sent: true, ..received(&large, Some(TAG), None) };
        let (bytes, metadata) = show(&tagged, &mut room, LinkType::ETHERNET);
        assert_eq!((bytes.len(), &bytes[12..16]), (FRAME_BYTES, &TAG[..]));
        let cut_bytes = (60_000 + 4 - FRAME_BYTES) as u32;
        assert_eq!(metadata, Metadata { stamp_nanos: 7, cut_bytes, sent: true, ..Metadata::NONE });
        // A sum over what is not there is left alone.
        let unfinished = Some(Unfinished { start: 34, offset: 6 });
        let (bytes, metadata) =
            show(&Received { whole: 100, ..received(&[0; 60], None, unfinished) }, &mut room, LinkType::RAW);
        assert_eq!((bytes, metadata.cut_bytes, metadata.link_type), (&[0; 60][..], 40, LinkType::RAW));
    }

    #[test]
    fn what_needs_no_mending_is_shown_where_it_lies() {
        let (mut room, bytes) = ([0; FRAME_BYTES], [5; 60]);
        assert!(core::ptr::eq(
            show(&received(&bytes, None, None), &mut room, LinkType::ETHERNET).0,
            &bytes[..]
        ));
        let mut mend = |start, offset| {
            let unfinished = Some(Unfinished { start, offset });
            show(&received(&bytes, None, unfinished), &mut room, LinkType::ETHERNET).0.to_vec()
        };
        let mended = mend(34, 6);
        assert!(
            mended[..40] == bytes[..40] && mended[40..42] != bytes[40..42] && mended[42..] == bytes[42..]
        );
        // An invalid offload changes nothing.
        assert_eq!(mend(60, 9), bytes);
    }
}
