//! Threads of the kernel for the work of network devices (threaded NAPI), and the weight that they have next
//! to programs on the same core.

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::process::{Pid, getpriority_process, setpriority_process};

use crate::error::LinkError;
use crate::genetlink::napi_threads;
use crate::netdev::device_index;
use crate::put_back::{self, KeptFile};
use crate::restorer::Restorer;

/// The weights of a thread by its niceness, from 0 on (`sched_prio_to_weight` of kernel/sched/core.c).
const WEIGHTS: [u32; 20] =
    [1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15];

/// Returns the niceness at which a thread gets at most `percent` of a core that one program wants all of; 19
/// if there is none.
fn niceness_for(percent: u8) -> i32 {
    let is_enough = |weight: &u32| 100 * weight <= u32::from(percent) * (weight + WEIGHTS[0]);
    WEIGHTS.iter().position(is_enough).unwrap_or(WEIGHTS.len() - 1) as i32
}

/// Network devices whose work is done by threads of the kernel. When this value is dropped, or its process
/// ends, even by SIGKILL, the devices are as they were before. A second process sees to that; if that is
/// killed, too, [`NapiThreads::put_back`] is for the next start.
#[derive(Debug)]
pub struct NapiThreads {
    devices: Vec<String>,
    niceness: i32,
    restorer: Restorer,
    /// The niceness of threads before it was changed.
    known: Vec<(Pid, i32)>,
    is_lowered: bool,
}

impl NapiThreads {
    /// Has threads do the work of `devices`, which also do what other processors did for them (RPS). While
    /// their weight is lowered, each gets at most `percent` of a core that one program wants all of.
    ///
    /// # Errors
    /// `/sys` shows another network namespace or may not be written, a device has no NAPI, or its threads are
    /// not in this process' namespace.
    pub fn start(devices: &[String], percent: u8) -> Result<Self, LinkError> {
        let mut settings = Vec::new();
        for name in devices {
            settings.extend(settings_of(name)?);
        }
        let kept: Vec<KeptFile> = settings.iter().map(|setting| setting.kept.clone()).collect();
        let restorer = Restorer::start(kept).map_err(|source| os("watch over settings", source))?;
        for Setting { path, value, .. } in settings {
            let what = format!("write {value} to {}", path.display());
            fs::write(&path, value).map_err(|source| refused(&what, "CAP_DAC_OVERRIDE", source))?;
        }
        let threads = Self {
            devices: devices.to_vec(),
            niceness: niceness_for(percent),
            restorer,
            known: Vec::new(),
            is_lowered: false,
        };
        for name in devices {
            let what = format!("find the threads of `{name}`");
            let found = threads_of(name).map_err(|source| os(&what, source))?;
            if found.is_empty() {
                let none = io::Error::other(format!("/proc has none that is called napi/{name}-NUMBER"));
                return Err(os(&what, none));
            }
            // Better now than under the first flood.
            found.into_iter().try_for_each(keep_weight).map_err(unchangeable)?;
        }
        Ok(threads)
    }

    /// Puts back the settings of this network namespace that another process has left: one that was killed
    /// with SIGKILL, and with it the process that it has for this purpose. Returns the names of the devices.
    #[must_use]
    pub fn put_back() -> Vec<String> {
        put_back::put_back()
    }

    /// Gives the threads the lower weight, or that which they had before.
    ///
    /// # Errors
    /// The process lacks CAP_SYS_NICE.
    pub fn lower(&mut self, is_lowered: bool) -> Result<(), LinkError> {
        if self.is_lowered == is_lowered {
            return Ok(());
        }
        // A device that has gone has no threads.
        let threads: Vec<_> =
            self.devices.iter().flat_map(|name| threads_of(name).unwrap_or_default()).collect();
        for thread in threads {
            match self.set(thread, is_lowered) {
                // It has ended meanwhile.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                result => result.map_err(unchangeable)?,
            }
        }
        self.is_lowered = is_lowered;
        Ok(())
    }

    fn set(&mut self, thread: Pid, is_lowered: bool) -> io::Result<()> {
        let before = match self.known.iter().find(|(known, _)| *known == thread) {
            Some((_, before)) => *before,
            None => {
                let before = getpriority_process(Some(thread))?;
                self.restorer.keep_niceness(thread, before)?;
                self.known.push((thread, before));
                before
            }
        };
        let niceness = if is_lowered { before.max(self.niceness) } else { before };
        Ok(setpriority_process(Some(thread), niceness)?)
    }
}

fn os(what: &str, source: io::Error) -> LinkError {
    LinkError::Os { what: what.to_owned(), source }
}

fn refused(what: &str, capability: &'static str, source: io::Error) -> LinkError {
    match source.kind() {
        io::ErrorKind::PermissionDenied => LinkError::Privilege { what: what.to_owned(), capability },
        _ => os(what, source),
    }
}

fn unchangeable(source: io::Error) -> LinkError {
    refused("set the weight of the interface's threads", "CAP_SYS_NICE", source)
}

/// Gives a thread the weight that it has.
fn keep_weight(thread: Pid) -> io::Result<()> {
    Ok(setpriority_process(Some(thread), getpriority_process(Some(thread))?)?)
}

/// A setting that is to be changed, and what it is before.
struct Setting {
    path: PathBuf,
    value: &'static str,
    kept: KeptFile,
}

/// Returns the settings of a device that are other than they have to be.
fn settings_of(name: &str) -> Result<Vec<Setting>, LinkError> {
    let index = device_index(name)?;
    let directory = Path::new("/sys/class/net").join(name);
    let shown = fs::read_to_string(directory.join("ifindex")).ok();
    if shown.is_none_or(|shown| shown.trim().parse() != Ok(index)) {
        let other =
            io::Error::other("/sys shows another network namespace: ip netns exec mounts the right one");
        return Err(os(&format!("have threads do the work of `{name}`"), other));
    }
    let found = || -> io::Result<Vec<Setting>> {
        let mut wanted = vec![(directory.join("threaded"), "1")];
        for queue in fs::read_dir(directory.join("queues"))? {
            let path = queue?.path();
            if path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"rx-")) {
                wanted.push((path.join("rps_cpus"), "0"));
            }
        }
        let mut settings = Vec::new();
        for (path, value) in wanted {
            let before = fs::read_to_string(&path)?;
            // Masks of processors are groups of zeros.
            let is_zero = |text: &str| text.trim().chars().all(|digit| matches!(digit, '0' | ','));
            if before.trim() == value || is_zero(&before) && is_zero(value) {
                continue;
            }
            let name = CString::new(path.as_os_str().as_encoded_bytes())?;
            settings.push(Setting {
                path,
                value,
                kept: KeptFile { device: index, path: name, content: before },
            });
        }
        Ok(settings)
    };
    found().map_err(|source| os(&format!("read the settings of `{name}`"), source))
}

/// Returns the kernel's threads for a device. Where the kernel does not list them, those that are named after
/// it, which may be of a device of that name in another network namespace.
fn threads_of(name: &str) -> io::Result<Vec<Pid>> {
    let threads = match napi_threads(device_index(name).map_err(io::Error::other)?) {
        Ok(threads) => threads,
        Err(_) => processes()?,
    };
    let is_named = |thread: &Pid| {
        // It may be gone, or its number be that of another namespace of processes.
        let called =
            fs::read_to_string(format!("/proc/{}/comm", thread.as_raw_nonzero())).unwrap_or_default();
        let number = called.trim_end().strip_prefix("napi/").and_then(|rest| rest.strip_prefix(name));
        number.is_some_and(|number| number.starts_with('-'))
    };
    Ok(threads.into_iter().filter(is_named).collect())
}

/// Returns all processes, of which threads of the kernel are some.
fn processes() -> io::Result<Vec<Pid>> {
    let mut processes = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        processes.extend(name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw));
    }
    Ok(processes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_the_weight_next_to_one_program() {
        assert_eq!([100, 50, 49, 25, 10, 5, 2, 1].map(niceness_for), [0, 0, 1, 5, 10, 14, 18, 19]);
    }
}
