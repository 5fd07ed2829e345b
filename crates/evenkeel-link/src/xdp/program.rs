//! The XDP program of a device: it puts each frame into the ring of its channel.
//!
//! The program is `bpf/demux.c`. Frames for the kernel pass. The program stays attached to its device as long
//! as the value lives. The kernel detaches it when the process ends, even by SIGKILL.

use core::fmt;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;

use aya::maps::{DevMap, MapData, PerCpuArray, XskMap};
use aya::{Ebpf, EbpfLoader};
use evenkeel_core::demux::Change;
use evenkeel_core::drop::{IpDrop, LinkDrop, Reason, TcpDrop};
use evenkeel_core::id::ChannelId;

use self::object::OBJECT;
pub(super) use self::spread::Spread;
pub(crate) use self::table::Sharing;
use self::table::Table;
pub(super) use self::table::{End, end, octets};
use super::buffers::Buffers;
use super::known::Known;
use super::marks::{Mark, Marks, SLOTS};
pub(crate) use crate::attached::Mode;
use crate::attached::{Attached, attach, load, number_of, xdp};
use crate::bpf::{error_of, missing, take_array, take_map};
use crate::error::LinkError;

mod object;
mod spread;
mod table;

/// The frames that the program takes from the kernel, by its name in the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Those that the host can use.
    Ours,
    /// All frames of the device, also those to other stations.
    Everything,
    /// Those that the host can use, but for packets that the program forwards as the maps of
    /// [`Program::object`] say that are left.
    NotForwarded,
}

impl Taken {
    const fn program(self, buffers: Buffers) -> &'static str {
        match (self, buffers) {
            (Self::Ours, Buffers::One) => "demux",
            (Self::Ours, Buffers::Several) => "demux_several",
            (Self::Everything, Buffers::One) => "monitor",
            (Self::Everything, Buffers::Several) => "monitor_several",
            (Self::NotForwarded, Buffers::One) => "router",
            (Self::NotForwarded, Buffers::Several) => "router_several",
        }
    }
}

/// The reasons for which the program drops a frame, by their numbers.
const REASONS: [Reason; 7] = [
    Reason::Link(LinkDrop::UnknownEtherType),
    Reason::Ip(IpDrop::Malformed),
    Reason::Ip(IpDrop::NotLocal),
    Reason::Link(LinkDrop::UnusedQueue),
    Reason::Link(LinkDrop::TooLong),
    Reason::Tcp(TcpDrop::Cookie),
    Reason::Tcp(TcpDrop::WrongCookie),
];

/// The operation that maps of the program become memory of this process by, in errors.
const MAP_MEMORY: &str = "map the memory of the XDP program";

/// The place where a program gets its frames.
#[derive(Debug)]
enum Place {
    /// At the device itself, once it is attached there.
    Device(Option<Attached>),
    /// At these queues of a device that several hosts share.
    Queues(Spread, Vec<u32>),
}

/// A loaded XDP program with its maps.
pub(crate) struct Program {
    object: Ebpf,
    name: &'static str,
    place: Place,
    sockets: XskMap<MapData>,
    counters: PerCpuArray<MapData, u64>,
    marks: Arc<Marks>,
    known: Arc<Known>,
    table: Table,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Program {
    /// Answers SYNs with cookies by redirecting them to this device, whose frames the program gets; or not at
    /// all, as the device sends no frames of XDP programs.
    pub(super) fn answer_by(&mut self, device: Option<u32>) -> Result<(), LinkError> {
        const WHAT: &str = "set the device of the XDP program";
        let Some(index) = device else {
            self.table.leave_syns();
            return Ok(());
        };
        let own = self.object.map_mut("own").ok_or_else(|| missing("own"))?;
        let mut own = DevMap::try_from(own).map_err(|error| error_of(WHAT, error))?;
        own.set(0, index, None, 0).map_err(|error| error_of(WHAT, error))
    }

    /// Returns the loaded object, with the maps that this value does not keep itself.
    pub(super) fn object(&mut self) -> &mut Ebpf {
        &mut self.object
    }

    /// Loads the program, with empty tables. Until the host has bound channels, all frames for it go to slot
    /// 0, or to the kernel if that shares its addresses.
    pub(crate) fn load(taken: Taken, sharing: Sharing, buffers: Buffers) -> Result<Self, LinkError> {
        let name = taken.program(buffers);
        let mut object =
            EbpfLoader::new().load(OBJECT).map_err(|error| error_of("load the XDP program", error))?;
        let program = xdp(&mut object, name)?;
        load(program).map_err(|error| error_of("load the XDP program", error))?;
        Ok(Self {
            sockets: take_map(&mut object, "sockets")?,
            counters: take_map(&mut object, "counters")?,
            marks: Self::marks(&mut object)?,
            known: Self::known(&mut object)?,
            table: Table::new(&mut object, sharing)?,
            place: Place::Device(None),
            object,
            name,
        })
    }

    fn marks(object: &mut Ebpf) -> Result<Arc<Marks>, LinkError> {
        let (arrivals, limits) = (take_array(object, "arrivals")?, take_array(object, "marks")?);
        let marks = Marks::map(arrivals.fd().as_fd(), limits.fd().as_fd());
        marks.map_err(|error| error_of(MAP_MEMORY, error))
    }

    fn known(object: &mut Ebpf) -> Result<Arc<Known>, LinkError> {
        let known = take_array(object, "known")?;
        Known::map(known.fd().as_fd()).map_err(|error| error_of(MAP_MEMORY, error))
    }

    /// Returns the record of the ends between which the host has connections.
    pub(super) fn known_ends(&self) -> Arc<Known> {
        Arc::clone(&self.known)
    }

    /// Makes the program the one of a host that shares its device with others, for the frames of these
    /// queues.
    pub(super) fn share(&mut self, spread: Spread, queues: Vec<u32>) -> Result<(), LinkError> {
        spread.join(&queues, xdp(&mut self.object, self.name)?)?;
        self.place = Place::Queues(spread, queues);
        Ok(())
    }

    /// Attaches the program to a device: in its driver, or behind it if the driver refuses. With the hosts
    /// that share the device, it attaches the program of all.
    pub(crate) fn attach(&mut self, device: &str) -> Result<Mode, LinkError> {
        match &mut self.place {
            Place::Queues(spread, _) => spread.attach(device),
            Place::Device(attached) => {
                let (mode, link) = attach(&mut self.object, self.name, device)?;
                *attached = Some(link);
                Ok(mode)
            }
        }
    }

    /// Returns whether the program is attached as far as this process knows, while the device in fact has the
    /// program with the number `at_device`, or none.
    pub(super) fn is_detached(&mut self, at_device: Option<u32>) -> bool {
        let number = match &self.place {
            Place::Queues(spread, _) => spread.attached_number(),
            Place::Device(None) => None,
            Place::Device(Some(_)) => number_of(&mut self.object, self.name),
        };
        number.is_some() && number != at_device
    }

    /// Detaches the program: the kernel gets all frames again. Frames in rings stay there.
    pub(crate) fn detach(&mut self) {
        match &mut self.place {
            Place::Device(attached) => *attached = None,
            Place::Queues(spread, _) => spread.detach(),
        }
    }

    /// Sets the AF_XDP socket that gets the frames of a queue for a slot. Its ring, of `ring_pkts`, is empty.
    pub(crate) fn set_socket(
        &mut self,
        queue: u32,
        slot: u32,
        socket: BorrowedFd<'_>,
        ring_pkts: usize,
    ) -> Result<Mark, LinkError> {
        let set = self.sockets.set(queue * SLOTS + slot, socket, 0);
        set.map_err(|error| error_of("register an AF_XDP socket", error))?;
        Ok(Mark::open(&self.marks, queue, slot, ring_pkts))
    }

    /// Removes the socket of a slot, whose frames go to the shared ring from now on.
    pub(crate) fn remove_socket(&mut self, queue: u32, slot: u32) {
        self.marks.close(queue, slot);
        // A slot without a socket is as it should be.
        let _ = self.sockets.unset(queue * SLOTS + slot);
    }

    /// Makes the program demultiplex for the host. Before, it puts all frames to our hardware address, to
    /// groups and to everybody into the shared ring.
    pub(crate) fn demultiplex(&mut self) -> Result<(), LinkError> {
        self.table.demultiplex()
    }

    /// Makes frames for `channel` go to `slot`. Before, they go to slot 0.
    pub(crate) fn open(&mut self, channel: ChannelId, slot: u32) {
        self.table.open(channel, slot);
    }

    /// Makes frames for `channel` go to slot 0 again.
    pub(crate) fn close(&mut self, channel: ChannelId) {
        self.table.close(channel);
    }

    /// Sets the size of the largest packet, from which the MSS of SYN-ACKs with cookies follows, and the
    /// longest frame if one may be in several chunks.
    pub(crate) fn set_mtu(&mut self, mtu: usize) -> Result<(), LinkError> {
        self.table.set_mtu(mtu)
    }

    /// Applies a change of the host's demultiplexing table.
    pub(crate) fn apply(&mut self, change: Change) -> Result<(), LinkError> {
        self.table.apply(change)
    }

    /// Returns the numbers of frames that the program has dropped, by reason.
    pub(crate) fn dropped(&self) -> Vec<(Reason, u64)> {
        let sum = |number: u32| {
            let of_cpus = self.counters.get(&number, 0);
            of_cpus.map_or(0, |of_cpus| of_cpus.iter().sum())
        };
        (0..).zip(REASONS).map(|(number, reason)| (reason, sum(number))).collect()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Place::Queues(spread, queues) = &self.place {
            spread.leave(queues);
        }
    }
}

#[cfg(test)]
mod tests;
