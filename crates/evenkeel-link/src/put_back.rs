//! Settings of the kernel that are put back: what they were, and a file below `/run` that says it. From that
//! the next start puts them back, if the process that changed them was killed, and with it the one that would
//! have put them back.
//!
//! The file is locked (flock(2)) while either process lives, which share its description. It has lines of
//! words: `net INODE`, the network namespace; `file DEVICE PATH CONTENT`, with the index of the device; and
//! `thread PID NICENESS`.

use core::ffi::CStr;
use std::ffi::CString;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::read;
use rustix::process::{Pid, setpriority_process};

/// A file of the kernel's settings of a device, and what is to be written to it at the end.
#[derive(Debug, Clone)]
pub(crate) struct KeptFile {
    /// The index of the device.
    pub(crate) device: u32,
    pub(crate) path: CString,
    pub(crate) content: String,
}

/// The directory of the files, which are named for their process.
const DIRECTORY: &str = "/run/evenkeel/settings";

/// A file that is there, and locked, while settings are changed.
#[derive(Debug)]
pub(crate) struct Record {
    file: File,
    path: CString,
}

impl Record {
    /// Writes the file of this process.
    pub(crate) fn write(settings: &[KeptFile]) -> io::Result<Self> {
        Self::write_in(Path::new(DIRECTORY), settings)
    }

    fn write_in(directory: &Path, settings: &[KeptFile]) -> io::Result<Self> {
        let mut text = format!("net {}\n", namespace()?);
        for KeptFile { device, path, content } in settings {
            let _ = writeln!(text, "file {device} {} {}", path.to_string_lossy(), content.trim());
        }
        fs::create_dir_all(directory)?;
        let name = std::process::id().to_string();
        let (path, unfinished) = (directory.join(&name), directory.join(format!(".{name}")));
        let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(&unfinished)?;
        file.set_len(0)?;
        // It is locked before anybody looks at it.
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        file.write_all(text.as_bytes())?;
        fs::rename(&unfinished, &path)?;
        Ok(Self { file, path: CString::new(path.into_os_string().into_encoded_bytes())? })
    }

    /// Adds the niceness that a thread had.
    pub(crate) fn add_niceness(&self, thread: Pid, niceness: i32) -> io::Result<()> {
        writeln!(&self.file, "thread {} {niceness}", thread.as_raw_nonzero())
    }

    /// Returns where the file is, to remove it when all is put back.
    pub(crate) fn path(&self) -> CString {
        self.path.clone()
    }
}

/// Puts back what killed processes have left in this network namespace. Returns the names of its devices.
pub(crate) fn put_back() -> Vec<String> {
    put_back_in(Path::new(DIRECTORY))
}

fn put_back_in(directory: &Path) -> Vec<String> {
    let mut devices = Vec::new();
    // Without the directory nothing is left, and who may not read it may put nothing back.
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            devices.extend(put_back_from(&entry.path()).unwrap_or_default());
        }
    }
    devices.sort();
    devices.dedup();
    devices
}

/// Puts back what is in a file, and removes it, unless a process has it or it is of another namespace.
fn put_back_from(path: &Path) -> io::Result<Vec<String>> {
    let mut file = File::open(path)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    let found = file.metadata()?;
    // Another process may have been first. Nobody else's word is taken for what was before.
    if found.nlink() == 0 || found.uid() != rustix::process::geteuid().as_raw() {
        return Ok(Vec::new());
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    let here = format!("net {}", namespace()?);
    if text.lines().next() != Some(&here) {
        return Ok(Vec::new());
    }
    let mut devices = Vec::new();
    for line in text.lines() {
        match *line.splitn(4, ' ').collect::<Vec<_>>() {
            ["file", device, path, content] if is_of(path, device) => {
                fs::write(path, content)?;
                devices.extend(device_in(path).map(str::to_owned));
            }
            ["thread", thread, niceness] => {
                let thread = thread.parse().ok().and_then(Pid::from_raw).filter(|thread| is_of_napi(*thread));
                if let (Some(thread), Ok(niceness)) = (thread, niceness.parse()) {
                    setpriority_process(Some(thread), niceness)?;
                }
            }
            _ => {}
        }
    }
    fs::remove_file(path)?;
    Ok(devices)
}

/// Returns the network namespace of this process.
fn namespace() -> io::Result<u64> {
    Ok(fs::metadata("/proc/thread-self/ns/net")?.ino())
}

/// Returns the name of the device that a file of `/sys` is of.
fn device_in(path: &str) -> Option<&str> {
    let mut parts = path.strip_prefix("/sys/class/net/")?.split('/');
    let name = parts.next()?;
    parts.all(|part| part != "..").then_some(name)
}

/// Returns whether a setting is of the device with this index still.
fn is_of(path: &str, device: &str) -> bool {
    device_in(path).is_some_and(|name| {
        let index = fs::read_to_string(format!("/sys/class/net/{name}/ifindex"));
        index.is_ok_and(|index| index.trim() == device)
    })
}

/// Returns whether a thread is one of the kernel's for a device.
pub(crate) fn is_of_napi(thread: Pid) -> bool {
    let mut path = [0; 32];
    if write!(&mut path[..], "/proc/{}/comm\0", thread.as_raw_nonzero()).is_err() {
        return false;
    }
    let Ok(path) = CStr::from_bytes_until_nul(&path) else { return false };
    let mut called = [0; 5];
    let file = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    file.and_then(|file| read(file, &mut called)) == Ok(called.len()) && called == *b"napi/"
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]

    use std::path::PathBuf;

    use super::*;

    fn directory(name: &str) -> PathBuf {
        let directory = std::env::temp_dir().join(format!("evenkeel-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        directory
    }

    fn files_in(directory: &Path) -> usize {
        fs::read_dir(directory).unwrap().count()
    }

    /// Nothing is put back while a process has the file, and then once.
    #[test]
    fn what_nobody_has_is_put_back_once() {
        let directory = directory("put-back");
        let record = Record::write_in(&directory, &[]).unwrap();
        put_back_in(&directory);
        assert_eq!(files_in(&directory), 1);
        drop(record);
        put_back_in(&directory);
        assert_eq!(files_in(&directory), 0);
        assert_eq!(put_back_in(&directory), Vec::<String>::new());
        fs::remove_dir_all(directory).unwrap();
    }

    /// Files of other namespaces stay, and lines that mean nothing here change nothing.
    #[test]
    fn what_is_of_others_stays() {
        let directory = directory("others");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("1"), "net 7\nfile 1 /sys/class/net/lo/mtu 100\n").unwrap();
        fs::write(directory.join(".2"), "unfinished").unwrap();
        assert_eq!(put_back_in(&directory), Vec::<String>::new());
        assert_eq!(files_in(&directory), 2);
        let elsewhere = directory.join("setting");
        fs::write(&elsewhere, "before").unwrap();
        let lines = [
            format!("net {}", namespace().unwrap()),
            format!("file 1 {} after", elsewhere.display()),
            "file 77777 /sys/class/net/lo/mtu 100".to_owned(),
            format!("file 1 /sys/class/net/lo/../../../../..{} after", elsewhere.display()),
            format!("thread {} 5", std::process::id()),
            "thread x y\nfile\n\nwhat is this".to_owned(),
        ];
        fs::write(directory.join("3"), lines.join("\n")).unwrap();
        let niceness = rustix::process::getpriority_process(None).unwrap();
        assert_eq!(put_back_in(&directory), Vec::<String>::new());
        assert_eq!(fs::read_to_string(elsewhere).unwrap(), "before");
        assert_eq!(rustix::process::getpriority_process(None).unwrap(), niceness);
        assert!(!directory.join("3").exists());
        fs::remove_dir_all(directory).unwrap();
    }
}
