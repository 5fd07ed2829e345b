//! The router between devices of the kernel, in a network namespace of its own.
//!
//! ```text
//!   packet, xdp:  generator - ekgen =veth= ekin - router - ekout =veth= eksink - counted and dropped by
//!                                                                                the kernel
//!   tap:          generator - ekin - router - ekout - counted and dropped by the kernel
//! ```
//!
//! Over a veth the kernel does the work of both of its ends on the sender's core. So the generator's core
//! takes a frame up to the router's ring, like an adaptor, but the router's core counts the frames that come
//! out. The generator sends through AF_XDP there, which is several times as fast as a packet socket. The
//! router's core reads and writes a TAP with one system call for each frame.

use std::fs;
use std::io;
use std::thread;

use evenkeel::raw::device::{
    Address, Descriptors, Device, Packet, PacketOptions, Tap, TapOptions, Xdp, XdpOptions,
};
use evenkeel::raw::wire::EthernetAddress;
use evenkeel_apps::far_ends::{FarEnds, Sender};
use evenkeel_apps::measure::{enter_quiet_network, execute};

use super::Place;
use super::router::{INSIDE, Inside};

/// The kernel's side of both links.
#[derive(Debug)]
pub(super) struct Devices {
    generator: Sender,
    /// The device whose received frames are those that the router has sent.
    sink: &'static str,
    counted_before: u64,
    /// A TAP goes away with the last holder of its descriptor, and its counters with it.
    _inside: [Descriptors; 2],
}

/// Runs `work` on a thread in a network namespace of its own, with the links there. The namespace ends with
/// the thread.
pub(super) fn in_namespace<T: Send>(
    place: Place,
    work: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    let isolated = || {
        enter_quiet_network()?;
        set_up(place).map_err(io::Error::other)?;
        work()
    };
    thread::scope(|scope| {
        scope.spawn(isolated).join().map_err(|_| io::Error::other("the measuring thread panicked"))?
    })
}

fn set_up(place: Place) -> Result<(), String> {
    if matches!(place, Place::Packet | Place::Xdp) {
        for (ours, theirs) in [("ekin", "ekgen"), ("ekout", "eksink")] {
            execute(&["ip", "link", "add", ours, "type", "veth", "peer", "name", theirs])?;
            execute(&["ip", "link", "set", ours, "up"])?;
            execute(&["ip", "link", "set", theirs, "up"])?;
        }
    }
    Ok(())
}

/// Opens the links of one measurement.
pub(super) fn open(place: Place) -> io::Result<(Devices, Inside)> {
    let [first, second] = INSIDE;
    let (first, second) = (open_inside(place, "ekin", first)?, open_inside(place, "ekout", second)?);
    let held = [first.info().descriptors, second.info().descriptors];
    let inside = Inside::Devices(first, second);
    let generator = open_outside(place)?;
    let sink = if place == Place::Tap { "ekout" } else { "eksink" };
    let counted_before = received(sink)?;
    Ok((Devices { generator, sink, counted_before, _inside: held }, inside))
}

/// Opens a device for the host under test, with this hardware address.
pub(super) fn open_inside(place: Place, name: &str, address: EthernetAddress) -> io::Result<Box<dyn Device>> {
    let address = Address::Fixed(address);
    Ok(match place {
        Place::Tap => {
            let options = TapOptions { address, ..TapOptions::default() };
            Box::new(Tap::open(name, &options).map_err(io::Error::other)?)
        }
        Place::Xdp => {
            let options = XdpOptions { address, ..XdpOptions::default() };
            Box::new(Xdp::open(name, &options).map_err(io::Error::other)?)
        }
        Place::Packet | Place::Cable => {
            let options = PacketOptions { address, ..PacketOptions::default() };
            Box::new(Packet::open(name, &options).map_err(io::Error::other)?)
        }
    })
}

/// Opens the generator's end of the first link.
pub(super) fn open_outside(place: Place) -> io::Result<Sender> {
    let opened = match place {
        Place::Tap => Sender::open_packet("ekin"),
        _ => Sender::open("ekgen"),
    };
    opened.map_err(io::Error::other)
}

impl Devices {
    /// Returns the number of frames that the router has sent, according to the kernel's counters.
    pub(super) fn came_out(&self) -> io::Result<u64> {
        Ok(received(self.sink)? - self.counted_before)
    }
}

impl FarEnds for Devices {
    fn offer(&mut self, frame: &[u8]) {
        self.generator.offer(frame);
    }

    fn flush(&mut self) {
        self.generator.flush();
    }

    /// Does nothing: the kernel drains the devices.
    fn drain(&mut self) {}

    fn forwarded(&mut self) -> u64 {
        self.came_out().unwrap_or(0)
    }
}

/// Returns the number of frames that a device of this thread's namespace has received.
fn received(device: &str) -> io::Result<u64> {
    let table = fs::read_to_string("/proc/thread-self/net/dev")?;
    received_in(&table, device).ok_or_else(|| io::Error::other(format!("no counters of {device}")))
}

fn received_in(table: &str, device: &str) -> Option<u64> {
    let line = table.lines().find_map(|line| line.trim_start().strip_prefix(device)?.strip_prefix(':'))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_table_is_read() {
        let table = "Inter-|   Receive\n face |bytes packets errs\n  ekin2:  9 8 7\n  ekin: 1340 21 0 0\n";
        assert_eq!(received_in(table, "ekin"), Some(21));
        assert_eq!(received_in(table, "ek"), None);
        assert!(received("lo").is_ok());
    }
}
