//! XDP programs: loading one of an object, and attaching it to a device.

use aya::Ebpf;
use aya::programs::links::FdLink;
use aya::programs::{ProgramError, Xdp, XdpMode};

use crate::bpf::{CAPABILITIES, error_of, missing, os_error};
use crate::error::LinkError;
use crate::netdev::device_index;

/// The place where the program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// In the driver, before the kernel has made a packet of the frame.
    Native,
    /// Behind the driver, which has no XDP or refuses it: the kernel allocates a packet for each frame first.
    Generic,
}

/// A program's link to a device. The program is detached when it is dropped.
#[derive(Debug)]
pub(crate) struct Attached {
    _link: FdLink,
}

/// Loads a program. A signal ends the kernel's check of it, which takes a fraction of a second: then there is
/// another attempt.
pub(crate) fn load(program: &mut Xdp) -> Result<(), ProgramError> {
    const ATTEMPTS: usize = 10;
    let mut loaded = program.load();
    for _ in 1..ATTEMPTS {
        match &loaded {
            Err(error) if os_error(error) == Some(libc::EAGAIN) => loaded = program.load(),
            _ => break,
        }
    }
    loaded
}

/// Returns the program of this name in a loaded object.
pub(crate) fn xdp<'a>(object: &'a mut Ebpf, name: &str) -> Result<&'a mut Xdp, LinkError> {
    let program = object.program_mut(name).ok_or_else(|| missing(name))?;
    program.try_into().map_err(|error| error_of("load the XDP program", error))
}

/// Returns the kernel's number for a loaded program.
pub(crate) fn number_of(object: &mut Ebpf, name: &str) -> Option<u32> {
    xdp(object, name).ok()?.info().ok().map(|info| info.id())
}

/// Attaches a loaded program to a device: in its driver, or behind it if the driver refuses.
pub(crate) fn attach(object: &mut Ebpf, program: &str, device: &str) -> Result<(Mode, Attached), LinkError> {
    if let Ok(attached) = attach_in(object, program, device, XdpMode::Driver) {
        return Ok((Mode::Native, attached));
    }
    match attach_in(object, program, device, XdpMode::Skb) {
        Ok(attached) => Ok((Mode::Generic, attached)),
        // The kernel has another program there, in the other mode.
        Err(LinkError::Os { source, .. }) if source.raw_os_error() == Some(libc::EEXIST) => {
            Err(LinkError::Busy { name: device.to_owned() })
        }
        Err(LinkError::Os { source, .. }) => {
            Err(LinkError::of_device(device, "attach an XDP program to", CAPABILITIES, source))
        }
        Err(other) => Err(other),
    }
}

fn attach_in(object: &mut Ebpf, program: &str, device: &str, mode: XdpMode) -> Result<Attached, LinkError> {
    const WHAT: &str = "attach an XDP program";
    let index = device_index(device)?;
    let program = xdp(object, program)?;
    let id = program.attach_to_if_index(index, mode).map_err(|error| error_of(WHAT, error))?;
    let link = program.take_link(id).map_err(|error| error_of(WHAT, error))?;
    // Kernels before 5.9 have no such links. A program that is attached otherwise stays if the process is
    // killed.
    Ok(Attached { _link: FdLink::try_from(link).map_err(|error| error_of(WHAT, error))? })
}
