//! BPF programs: the parts of a loaded object, and the errors of using them.

use std::error::Error;
use std::io;

use aya::Ebpf;
use aya::maps::{Map, MapData, MapError};

use crate::error::LinkError;

/// The capabilities that loading and attaching takes.
pub(crate) const CAPABILITIES: &str = "CAP_BPF,CAP_NET_ADMIN,CAP_NET_RAW,CAP_PERFMON";

/// The operation that an object is loaded by, in errors.
pub(crate) const LOAD: &str = "load a BPF program";

/// Takes a map out of a loaded object.
pub(crate) fn take_map<M>(object: &mut Ebpf, name: &str) -> Result<M, LinkError>
where
    M: TryFrom<Map, Error = MapError>,
{
    let map = object.take_map(name).ok_or_else(|| missing(name))?;
    M::try_from(map).map_err(|error| error_of(LOAD, error))
}

/// Takes an array out of a loaded object, whose memory is to be mapped.
pub(crate) fn take_array(object: &mut Ebpf, name: &str) -> Result<MapData, LinkError> {
    match object.take_map(name) {
        Some(Map::Array(data)) => Ok(data),
        _ => Err(missing(name)),
    }
}

/// Returns the error for an object that lacks a program or a map.
pub(crate) fn missing(name: &str) -> LinkError {
    error_of(LOAD, io::Error::other(format!("the object has no `{name}`")))
}

/// Returns the error of an operation that needs the capabilities of XDP. With EACCES, the kernel refuses a
/// program for what it does.
pub(crate) fn error_of(what: &str, error: impl Error + Send + Sync + 'static) -> LinkError {
    let what = what.to_owned();
    match os_error(&error) {
        Some(libc::EPERM) => LinkError::Privilege { what, capability: CAPABILITIES },
        Some(code) => LinkError::Os { what, source: io::Error::from_raw_os_error(code) },
        None => LinkError::Os { what, source: io::Error::other(error) },
    }
}

/// Returns the number of the system's error that caused this one.
pub(crate) fn os_error(error: &(dyn Error + 'static)) -> Option<i32> {
    let mut causes = std::iter::successors(Some(error), |&error| error.source());
    causes.find_map(|cause| cause.downcast_ref::<io::Error>()?.raw_os_error())
}
