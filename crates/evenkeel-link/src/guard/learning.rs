//! Programs of the guard that learn from tracepoints of the kernel.

use std::net::{Ipv4Addr, UdpSocket};
use std::{fs, thread};

use aya::Ebpf;
use aya::maps::{Array, MapData};
use aya::programs::RawTracePoint;
use aya::programs::links::FdLink;

use crate::bpf::{error_of, missing, take_map};
use crate::error::LinkError;
use crate::pin_to_cpu;

/// The operation in errors.
pub(super) const LOAD: &str = "load the guard";

/// Lets a program learn from a tracepoint of the kernel, until the link that is returned is dropped.
pub(super) fn learn(object: &mut Ebpf, [name, tracepoint]: [&str; 2]) -> Result<FdLink, LinkError> {
    const WHAT: &str = "attach the guard to a tracepoint";
    let program = object.program_mut(name).ok_or_else(|| missing(name))?;
    let program: &mut RawTracePoint = program.try_into().map_err(|error| error_of(LOAD, error))?;
    program.load().map_err(|error| error_of(LOAD, error))?;
    let id = program.attach(tracepoint).map_err(|error| error_of(WHAT, error))?;
    Ok(program.take_link(id).map_err(|error| error_of(WHAT, error))?.into())
}

/// The processors whose backlogs the program looks at: `PROCESSORS` in its source.
const PROCESSORS: usize = 64;

/// The program that learns where backlogs are. It runs whenever a processor has polled a device, so it is
/// detached once there is nothing left to learn.
pub(super) struct Backlogs {
    learning: Option<FdLink>,
    /// The address of each processor's backlog, or zero, and how many processors there are.
    known: Array<MapData, [u64; PROCESSORS + 1]>,
    /// The processors that run, if that is known.
    online: Option<Vec<usize>>,
}

impl Backlogs {
    /// Attaches the program, and has each processor work on its backlog.
    pub(super) fn learn(object: &mut Ebpf, program: [&str; 2]) -> Result<Self, LinkError> {
        let learning = Some(learn(object, program)?);
        let online = fs::read_to_string("/sys/devices/system/cpu/online").ok().and_then(|text| parse(&text));
        online.iter().for_each(|online| stir(online));
        Ok(Self { learning, known: take_map(object, "backlogs")?, online })
    }

    /// Detaches the program if it knows all backlogs.
    pub(super) fn follow(&mut self) {
        if self.learning.is_some() && self.are_known() {
            self.learning = None;
        }
    }

    /// Returns whether the program has been detached.
    #[cfg(test)]
    pub(super) fn is_over(&self) -> bool {
        self.learning.is_none()
    }

    fn are_known(&self) -> bool {
        let (Some(online), Ok(known)) = (&self.online, self.known.get(&0, 0)) else { return false };
        online.iter().all(|&processor| known.get(processor).is_some_and(|place| *place != 0))
    }
}

/// Parses a list of processors such as `0-3,8`. Returns those that the program looks at.
fn parse(list: &str) -> Option<Vec<usize>> {
    let mut processors = Vec::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let last: usize = last.parse().ok()?;
        processors.extend(first.parse().ok()?..=last.min(PROCESSORS - 1));
    }
    Some(processors)
}

/// Has each of these processors work on its backlog: by a datagram over the loopback device. Where that is
/// down, or a processor is not for this process, the first packet of somebody else does it.
fn stir(processors: &[usize]) {
    // The processor is that of the thread, and no longer than the thread.
    thread::scope(|scope| {
        let stirring = thread::Builder::new().spawn_scoped(scope, || {
            let Ok(socket) = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)) else { return };
            let Ok(own) = socket.local_addr() else { return };
            for &processor in processors {
                if pin_to_cpu(processor).is_ok() {
                    let _ = socket.send_to(&[], own);
                }
            }
        });
        drop(stirring);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_listed_up_to_those_that_the_program_looks_at() {
        assert_eq!(parse("0\n"), Some(vec![0]));
        assert_eq!(parse("0-2,5,7-8\n"), Some(vec![0, 1, 2, 5, 7, 8]));
        assert_eq!(parse("62-200\n"), Some(vec![62, 63]));
        assert_eq!(parse("100-200\n"), Some(vec![]));
        assert_eq!(parse("none\n"), None);
    }
}
