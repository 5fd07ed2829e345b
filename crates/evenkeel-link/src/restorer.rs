//! A process that puts settings of the kernel back when the one that changed them ends, however that happens.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags, open, unlink};
use rustix::io::{Errno, read, write};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitOptions, setpriority_process, waitpid};

use crate::put_back::{KeptFile, Record, is_of_napi};
use crate::sys;

/// The most threads whose niceness is put back.
const THREADS: usize = 1024;
/// A thread and its niceness, as they go to the other process.
const RECORD: usize = 8;

/// A process that waits for the end of this one, or of this value, and then puts settings back. It cannot be
/// reached by any signal but SIGKILL, and has a session of its own.
#[derive(Debug)]
pub(crate) struct Restorer {
    /// Until it is dropped.
    pipe: Option<OwnedFd>,
    process: Pid,
    /// For the next start, if both processes are killed; `None` where it cannot be written.
    record: Option<Record>,
}

impl Restorer {
    /// Starts the process. It keeps all descriptors that are open now until it ends.
    pub(crate) fn start(files: Vec<KeptFile>) -> io::Result<Self> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        let record = Record::write(&files).ok();
        let path = record.as_ref().map(Record::path);
        let child = || {
            outlive(&reader, &writer, &files);
            if let Some(path) = &path {
                let _ = unlink(path.as_c_str());
            }
        };
        // SAFETY: what runs in the other process only makes system calls and changes its own stack.
        let process = unsafe { sys::fork_apart(child) }?;
        Ok(Self { pipe: Some(writer), process, record })
    }

    /// Has a thread's niceness put back at the end.
    pub(crate) fn keep_niceness(&self, thread: Pid, niceness: i32) -> io::Result<()> {
        let Some(pipe) = &self.pipe else { return Ok(()) };
        let [a, b, c, d] = thread.as_raw_nonzero().get().to_ne_bytes();
        let [e, f, g, h] = niceness.to_ne_bytes();
        write(pipe, &[a, b, c, d, e, f, g, h])?;
        self.record.as_ref().map_or(Ok(()), |record| record.add_niceness(thread, niceness))
    }
}

impl Drop for Restorer {
    fn drop(&mut self) {
        self.pipe = None;
        while let Err(Errno::INTR) = waitpid(Some(self.process), WaitOptions::empty()) {}
    }
}

/// Waits in the other process until all writers of the pipe are closed, and then puts everything back.
fn outlive(reader: &OwnedFd, writer: &OwnedFd, files: &[KeptFile]) {
    // This process' own, which would keep the pipe open.
    sys::close_in_child(writer.as_raw_fd());
    let mut threads = [None; THREADS];
    let mut free = threads.iter_mut();
    let mut record = [0; RECORD];
    loop {
        match read(reader, &mut record) {
            Ok(RECORD) => {
                let [a, b, c, d, e, f, g, h] = record;
                let thread = Pid::from_raw(i32::from_ne_bytes([a, b, c, d]));
                let niceness = i32::from_ne_bytes([e, f, g, h]);
                if let (Some(thread), Some(place)) = (thread, free.next()) {
                    *place = Some((thread, niceness));
                }
            }
            Err(Errno::INTR) => {}
            _ => break,
        }
    }
    for &(thread, niceness) in threads.iter().flatten() {
        // Its number may be another's by now.
        if is_of_napi(thread) {
            let _ = setpriority_process(Some(thread), niceness);
        }
    }
    for KeptFile { path, content, .. } in files {
        // A device that has gone has no settings.
        let file = open(path.as_c_str(), OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
        let _ = file.and_then(|file| write(file, content.as_bytes()));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]

    use std::ffi::CString;
    use std::fs;

    use super::*;

    #[test]
    fn what_was_kept_is_written_when_the_value_is_dropped() {
        let path = std::env::temp_dir().join(format!("evenkeel-restorer-{}", std::process::id()));
        fs::write(&path, "before").unwrap();
        let name = CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
        let gone = KeptFile { device: 0, path: c"/nowhere/at/all".to_owned(), content: String::new() };
        let kept = KeptFile { device: 0, path: name, content: "before".to_owned() };
        let restorer = Restorer::start(vec![gone, kept]).unwrap();
        fs::write(&path, "during").unwrap();
        // This process is no thread of a device: its niceness stays.
        let (this, niceness) =
            (rustix::process::getpid(), rustix::process::getpriority_process(None).unwrap());
        restorer.keep_niceness(this, niceness + 1).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"during");
        drop(restorer);
        assert_eq!(fs::read(&path).unwrap(), b"before");
        assert_eq!(rustix::process::getpriority_process(None).unwrap(), niceness);
        fs::remove_file(path).unwrap();
    }
}
