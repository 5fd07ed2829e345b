//! The veth pair that the architectures are measured on, in a network namespace of its own.
//!
//! The kernel's work for the host's interface runs on the generator's core, and our XDP program there, too.

use std::io;
use std::thread;

use evenkeel::raw::device::{Address, Device, LinkError, Packet, PacketOptions, Xdp, XdpOptions};

use super::options::Place;
use crate::measure::{enter_quiet_network, execute};

/// The generator's end of the pair, and the host's.
pub(super) const GENERATOR: &str = "ekflood";
const HOST: &str = "ekserve";

/// Opens the host's end, with this hardware address. It is no cable.
pub(super) fn open(place: Place, address: Address) -> Result<Box<dyn Device>, LinkError> {
    Ok(match place {
        Place::Xdp => Box::new(Xdp::open(HOST, &XdpOptions { address, ..XdpOptions::default() })?),
        Place::Packet | Place::Cable => {
            Box::new(Packet::open(HOST, &PacketOptions { address, ..PacketOptions::default() })?)
        }
    })
}

/// Runs `work` on a thread in a network namespace of its own, with the pair there. The namespace ends with
/// the thread.
pub(super) fn in_namespace<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    let isolated = || {
        enter_quiet_network()?;
        set_up().map_err(io::Error::other)?;
        work()
    };
    thread::scope(|scope| {
        scope.spawn(isolated).join().map_err(|_| io::Error::other("the measuring thread panicked"))?
    })
}

fn set_up() -> Result<(), String> {
    let commands: [&[&str]; 3] = [
        &["ip", "link", "add", GENERATOR, "type", "veth", "peer", "name", HOST],
        &["ip", "link", "set", GENERATOR, "up"],
        &["ip", "link", "set", HOST, "up"],
    ];
    commands.iter().try_for_each(|command| execute(command))
}

/// The interface for a demonstration that names none.
pub(super) struct Choice {
    pub(super) place: Place,
    /// The reason why it is not AF_XDP. A process that may make no network namespace has none.
    pub(super) no_xdp: Option<String>,
}

/// Chooses the best interface that this process can have.
pub(super) fn choose() -> Choice {
    let attempt =
        in_namespace(|| Ok(open(Place::Xdp, Address::Own).map(drop).map_err(|why| why.to_string())));
    match attempt {
        Ok(Ok(())) => Choice { place: Place::Xdp, no_xdp: None },
        Ok(Err(why)) => Choice { place: Place::Packet, no_xdp: Some(why) },
        Err(why) if why.kind() == io::ErrorKind::PermissionDenied => {
            Choice { place: Place::Cable, no_xdp: None }
        }
        Err(why) => Choice { place: Place::Cable, no_xdp: Some(why.to_string()) },
    }
}
