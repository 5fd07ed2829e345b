//! The destination of a capture: a file, a series of files, or standard output, written by its own thread.
//!
//! ```text
//!   host's thread                              writer's thread
//!   packet ──▶ buffer ──(full, or nothing to do)──▶ ◻ ◻ ◻ ──▶ write(2)
//!                 ▲                                      │
//!                 └───────────── empty buffers ──────────┘
//! ```
//!
//! The host's thread never waits for the disk or for the reader of a pipe. When all buffers are full,
//! [`Output::has_room`] returns false, and the host decides what to do. The writer's thread retries a full
//! disk until a write succeeds; in between, the file ends with a whole block. Buffers hold whole blocks
//! only.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use evenkeel_core::time::Duration;

use super::encode::{self, Described, PACKET_OVERHEAD, Packet};
use super::files::Row;
use crate::error::LinkError;

/// The destination of a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Standard output: for example a pipe to a program that shows the frames.
    Stdout,
    /// One file.
    File(PathBuf),
    /// A series of files. A new one begins when the current one is full or old; the oldest may be removed.
    Files(Row),
}

/// The number of buffers, which are filled and written in turn.
const BUFFERS: usize = 16;
/// A buffer with this many bytes goes to the writer's thread.
const BUFFER_BYTES: usize = 128 * 1024;
/// The pause after which a failed write is repeated.
const RETRY: Duration = Duration::from_millis(100);

/// A capture being written. If it is dropped without [`Output::finish`], bytes in its buffers may be lost.
#[derive(Debug)]
pub struct Output {
    target: Target,
    /// The first bytes of every file.
    header: Vec<u8>,
    /// The buffer being filled.
    current: Vec<u8>,
    packets: u64,
    /// Bytes of the current file, including those in buffers.
    file_bytes: u64,
    /// The time at which the current file was begun, in nanoseconds since 1970.
    begun: u64,
    /// Buffers that have not been used yet.
    unused: usize,
    jobs: Sender<Job>,
    empty: Receiver<Vec<u8>>,
    writing: Writing,
}

/// A handle to the progress of the writer's thread. All clones share one state.
#[derive(Debug, Clone, Default)]
pub struct Writing(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    written: AtomicU64,
    bytes: AtomicU64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The file being written.
    path: PathBuf,
    /// The file and the error of the last attempt; `None` once an attempt has succeeded.
    failure: Option<(PathBuf, String)>,
    /// The file and the error of the last failed attempt, even if a later one has succeeded.
    last_failure: Option<(PathBuf, String)>,
    /// Whether the reader of the pipe has gone.
    reader_gone: bool,
    /// Whether the capture is complete. Bytes that cannot be written now are then discarded.
    hurry: bool,
    ended: bool,
}

#[derive(Debug)]
enum Job {
    /// Whole blocks to write, and the number of packets in them.
    Write(Vec<u8>, u64),
    /// A new file in place of the current one.
    Begin { path: PathBuf, remove: Option<PathBuf> },
}

impl Output {
    /// Opens the (first) file and begins it with `header`, at `now` in nanoseconds since 1970.
    ///
    /// # Errors
    /// [`LinkError::Capture`] if the file cannot be created, and [`LinkError::Os`] if the thread cannot be
    /// started.
    pub fn open(mut target: Target, header: Vec<u8>, now: u64) -> Result<Self, LinkError> {
        let path = match &mut target {
            Target::Stdout => PathBuf::from("standard output"),
            Target::File(path) => path.clone(),
            Target::Files(row) => row.next(now).0,
        };
        let file = match target {
            Target::Stdout => io::stdout().as_fd().try_clone_to_owned().map(File::from),
            _ => File::create(&path),
        };
        let file = file.map_err(|error| LinkError::Capture {
            path: path.clone(),
            what: format!("cannot be created: {error}"),
        })?;
        let ((jobs, to_do), (back, empty)) = (mpsc::channel(), mpsc::channel());
        let writing = Writing::default();
        writing.0.change(|state| state.path.clone_from(&path));
        let may_cut = target != Target::Stdout;
        let mut writer =
            Writer { file: Some(file), path, may_cut, offset: 0, back, writing: writing.clone() };
        thread::Builder::new()
            .name("capture-writer".to_owned())
            .spawn(move || writer.run(&to_do))
            .map_err(|source| LinkError::Os { what: "start a thread".to_owned(), source })?;
        let mut output = Self {
            target,
            header,
            current: Vec::with_capacity(BUFFER_BYTES),
            packets: 0,
            file_bytes: 0,
            begun: now,
            unused: BUFFERS - 1,
            jobs,
            empty,
            writing,
        };
        output.begin(now);
        // The header is written at once, so that a reader of the pipe recognizes the format.
        output.flush();
        Ok(output)
    }

    /// Returns a handle to the progress of the writing.
    #[must_use]
    pub fn writing(&self) -> Writing {
        self.writing.clone()
    }

    /// Returns whether there is room for another packet of `bytes` bytes. There is no room while the disk, or
    /// the reader of the pipe, is too slow or takes nothing.
    pub fn has_room(&mut self, bytes: usize) -> bool {
        let fits = self.current.len() + bytes + PACKET_OVERHEAD <= BUFFER_BYTES;
        fits || self.current.is_empty() || self.hand_over()
    }

    /// Describes another interface, in this file and in all later ones.
    pub fn describe(&mut self, interface: &Described) {
        let before = self.current.len();
        encode::describe(&mut self.current, interface);
        self.file_bytes += (self.current.len() - before) as u64;
        encode::describe(&mut self.header, interface);
    }

    /// Adds a packet. The caller has checked that there is room.
    pub fn packet(&mut self, packet: &Packet<'_>) {
        let before = self.current.len();
        encode::packet(&mut self.current, packet);
        self.packets += 1;
        self.file_bytes += (self.current.len() - before) as u64;
    }

    /// Returns whether the current file should end before a packet of `bytes` bytes, at `now` in
    /// nanoseconds since 1970. Always false for a [`Target`] other than [`Target::Files`].
    #[must_use]
    pub fn is_due(&self, bytes: usize, now: u64) -> bool {
        let Target::Files(row) = &self.target else { return false };
        let begun_only = self.file_bytes <= self.header.len() as u64;
        let full = self.file_bytes + (bytes + PACKET_OVERHEAD) as u64 > row.limit_bytes() && !begun_only;
        full || now.saturating_sub(self.begun) >= row.limit_nanos()
    }

    /// Ends the current file with the bytes from `end`, and begins the next of the series. Returns false, and
    /// does nothing, if there is no room.
    pub fn turn_over(&mut self, now: u64, end: impl FnOnce(&mut Vec<u8>)) -> bool {
        let Target::Files(row) = &mut self.target else { return false };
        let Some(next) = take_empty(&self.empty, &mut self.unused) else { return false };
        let (path, remove) = row.next(now);
        end(&mut self.current);
        self.send_current(next);
        let _ = self.jobs.send(Job::Begin { path, remove });
        self.begin(now);
        true
    }

    /// Passes the buffered packets to the writer's thread. Returns true if nothing is left, and false if
    /// there is no empty buffer for the rest.
    pub fn flush(&mut self) -> bool {
        self.current.is_empty() || self.hand_over()
    }

    /// Returns whether no bytes wait for the writer's thread.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.current.is_empty()
    }

    /// Ends the file with the bytes from `end`, and waits until everything is written. For a disk it waits
    /// until that is done or the disk is full. For a pipe it waits until the reader has taken all, or has
    /// taken nothing for `patience`.
    ///
    /// # Errors
    /// [`LinkError::Capture`] if something was not written. [`Writing::packets`] returns the number of
    /// packets that were.
    pub fn finish(mut self, patience: Duration, end: impl FnOnce(&mut Vec<u8>)) -> Result<(), LinkError> {
        end(&mut self.current);
        self.send_current(Vec::new());
        let Self { jobs, writing, .. } = self;
        drop(jobs);
        let shared = writing.0;
        shared.change(|state| state.hurry = true);
        loop {
            let before = shared.bytes.load(Ordering::Relaxed);
            let state = shared.wait(patience, |state| state.ended);
            if !state.ended && shared.bytes.load(Ordering::Relaxed) > before {
                continue;
            }
            let stalled = || (state.path.clone(), "nobody takes what is written".to_owned());
            return match &state.failure {
                None if state.ended => Ok(()),
                failure => {
                    let (path, what) = failure.clone().unwrap_or_else(stalled);
                    Err(LinkError::Capture { path, what: format!("{what}; the capture is not complete") })
                }
            };
        }
    }

    fn begin(&mut self, now: u64) {
        self.current.extend_from_slice(&self.header);
        (self.file_bytes, self.begun) = (self.header.len() as u64, now);
    }

    /// Passes the current buffer to the writer's thread, if there is an empty one for the next packets.
    fn hand_over(&mut self) -> bool {
        let next = take_empty(&self.empty, &mut self.unused);
        next.map(|next| self.send_current(next)).is_some()
    }

    fn send_current(&mut self, next: Vec<u8>) {
        let full = core::mem::replace(&mut self.current, next);
        // The thread ends early only if the reader of the pipe has gone, which it has recorded.
        let _ = self.jobs.send(Job::Write(full, core::mem::take(&mut self.packets)));
    }
}

/// Returns a buffer to fill: a written one, or an unused one.
fn take_empty(empty: &Receiver<Vec<u8>>, unused: &mut usize) -> Option<Vec<u8>> {
    empty.try_recv().ok().or_else(|| {
        *unused = unused.checked_sub(1)?;
        Some(Vec::with_capacity(BUFFER_BYTES))
    })
}

fn said((path, what): &(PathBuf, String)) -> String {
    format!("{}: {what}", path.display())
}

impl Writing {
    /// Returns the number of packets written.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.0.written.load(Ordering::Relaxed)
    }

    /// Returns the reason why nothing can be written at the moment; `None` if writing works. The writer's
    /// thread retries.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.0.state().failure.as_ref().map(said)
    }

    /// Returns the last failure to write, even if later writes have succeeded; `None` if none ever failed.
    #[must_use]
    pub fn last_failure(&self) -> Option<String> {
        self.0.state().last_failure.as_ref().map(said)
    }

    /// Returns whether the reader of the pipe has gone, so that further output is useless.
    #[must_use]
    pub fn reader_gone(&self) -> bool {
        self.0.state().reader_gone
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // No holder of the lock panics.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changed.notify_all();
    }

    fn wait(&self, time: Duration, until: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let waited = self.changed.wait_timeout_while(self.state(), time, |state| !until(state));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// The state of the writer's thread.
#[derive(Debug)]
struct Writer {
    /// The open file; `None` if it could not be opened.
    file: Option<File>,
    path: PathBuf,
    may_cut: bool,
    /// The number of bytes in the file.
    offset: u64,
    back: Sender<Vec<u8>>,
    writing: Writing,
}

/// The error that nothing more can be written.
struct GaveUp;

impl Writer {
    fn run(&mut self, to_do: &Receiver<Job>) {
        let result = to_do.iter().try_for_each(|job| match job {
            Job::Write(bytes, packets) => {
                let result = self.write(&bytes, packets);
                self.give_back(bytes);
                result
            }
            Job::Begin { path, remove } => {
                self.begin(path, remove.as_deref());
                Ok(())
            }
        });
        let gave_up = result.is_err();
        self.writing.0.change(|state| {
            state.ended = true;
            state.failure = if gave_up { state.failure.take() } else { None };
        });
    }

    fn give_back(&self, mut bytes: Vec<u8>) {
        bytes.clear();
        // At the end no thread receives it any more.
        let _ = self.back.send(bytes);
    }

    fn begin(&mut self, path: PathBuf, remove: Option<&Path>) {
        // The old file is closed first, which frees the space of a removed file.
        self.file = None;
        if let Some(old) = remove {
            // Another process may have removed it.
            let _ = std::fs::remove_file(old);
        }
        self.writing.0.change(|state| state.path.clone_from(&path));
        (self.path, self.offset) = (path, 0);
    }

    /// Writes whole blocks. Returns when they are written, or will never be.
    fn write(&mut self, bytes: &[u8], packets: u64) -> Result<(), GaveUp> {
        let (start, mut done) = (self.offset, 0);
        while done < bytes.len() {
            match self.attempt(bytes.get(done..).unwrap_or_default()) {
                Ok(written) => {
                    done += written;
                    self.offset += written as u64;
                    self.writing.0.bytes.fetch_add(written as u64, Ordering::Relaxed);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    done = self.cut_back(bytes, start, done);
                    let result = self.wait_for_better(&error);
                    if result.is_err() {
                        let whole = encode::count_packets(bytes, done);
                        self.writing.0.written.fetch_add(whole, Ordering::Relaxed);
                        return result;
                    }
                }
            }
        }
        self.writing.0.written.fetch_add(packets, Ordering::Relaxed);
        if self.writing.failure().is_some() {
            self.writing.0.change(|state| state.failure = None);
        }
        Ok(())
    }

    fn attempt(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.file.is_none() {
            self.file = Some(File::create(&self.path)?);
        }
        let Some(file) = &mut self.file else { return Err(io::ErrorKind::NotFound.into()) };
        match file.write(bytes)? {
            0 => Err(io::ErrorKind::WriteZero.into()),
            written => Ok(written),
        }
    }

    /// Removes a partly written block from the file. Returns the number of bytes of `bytes` that remain in
    /// it.
    fn cut_back(&mut self, bytes: &[u8], start: u64, done: usize) -> usize {
        let whole = encode::whole_blocks(bytes, done);
        let Some(file) = &self.file else { return done };
        // A pipe cannot be cut, so writing continues in place. Standard output must not be cut either: it may
        // be a file that another program has written to.
        if !self.may_cut || whole == done || file.set_len(start + whole as u64).is_err() {
            return done;
        }
        let end = rustix::fs::seek(file, rustix::fs::SeekFrom::Start(start + whole as u64));
        self.offset = start + whole as u64;
        if end.is_ok() { whole } else { done }
    }

    /// Records the error and waits before another attempt. Returns an error instead if the capture has ended
    /// or the reader of the pipe has gone.
    fn wait_for_better(&self, error: &io::Error) -> Result<(), GaveUp> {
        let shared = &self.writing.0;
        let gone = error.kind() == io::ErrorKind::BrokenPipe;
        let mut give_up = gone;
        shared.change(|state| {
            state.failure = Some((self.path.clone(), error.to_string()));
            state.last_failure.clone_from(&state.failure);
            state.reader_gone |= gone;
            give_up |= state.hurry;
        });
        if give_up {
            return Err(GaveUp);
        }
        drop(shared.wait(RETRY, |state| state.hurry));
        Ok(())
    }
}

/// Returns whether a capture may be written to standard output, which must not be a terminal.
#[must_use]
pub fn stdout_takes_a_capture() -> bool {
    !io::IsTerminal::is_terminal(&io::stdout())
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;
    use crate::capture::Reader;
    use crate::capture::encode::{Described, Direction};

    /// A directory that is removed at the end of the test.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new() -> Self {
            let test = thread::current().name().unwrap_or("test").replace("::", "-");
            let path = std::env::temp_dir().join(format!("evenkeel-{}-{test}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn header() -> Vec<u8> {
        let mut header = Vec::new();
        encode::begin(&mut header, "", &[Described::default()]);
        header
    }

    fn open(target: Target) -> Output {
        Output::open(target, header(), 0).unwrap()
    }

    fn add(output: &mut Output, number: u64, bytes: &[u8]) -> bool {
        let packet = Packet {
            interface: 0,
            direction: Direction::Inbound,
            time: number,
            original_bytes: bytes.len() as u32,
            dropped_before: 0,
            bytes,
            comment: "",
        };
        let room = output.has_room(bytes.len());
        if room {
            output.packet(&packet);
        }
        room
    }

    fn numbers(bytes: &[u8]) -> Vec<u64> {
        let (mut reader, mut numbers) = (Reader::new(bytes).unwrap(), Vec::new());
        while reader.advance().unwrap() {
            numbers.push(reader.time());
        }
        numbers
    }

    const PATIENCE: Duration = Duration::from_secs(10);

    #[test]
    fn what_is_put_in_is_in_the_file() {
        let scratch = Scratch::new();
        let path = scratch.0.join("a.pcapng");
        let mut output = open(Target::File(path.clone()));
        let writing = output.writing();
        let mut number = 0;
        while number < 20_000 {
            // The writing thread is only by chance faster than a thread that never waits.
            if add(&mut output, number, &[7; 200]) {
                number += 1;
            } else {
                thread::yield_now();
            }
        }
        output.finish(PATIENCE, |_| {}).unwrap();
        assert_eq!(numbers(&std::fs::read(&path).unwrap()), (0..20_000).collect::<Vec<_>>());
        assert_eq!((writing.packets(), writing.failure()), (20_000, None));
    }

    #[test]
    fn files_of_a_row_are_whole_and_no_larger_than_allowed() {
        let scratch = Scratch::new();
        let row = Row::new(scratch.0.join("a.pcapng"), Some(5_000), None, Some(3));
        let mut output = open(Target::Files(row));
        for number in 0..200 {
            if output.is_due(100, number) {
                while !output.turn_over(number, |_| {}) {
                    thread::yield_now();
                }
            }
            assert!(add(&mut output, number, &[7; 100]));
        }
        output.finish(PATIENCE, |_| {}).unwrap();
        let mut files: Vec<_> = std::fs::read_dir(&scratch.0).unwrap().map(|f| f.unwrap().path()).collect();
        files.sort();
        assert_eq!(files.len(), 3);
        let files: Vec<_> = files.iter().map(|file| std::fs::read(file).unwrap()).collect();
        assert!(files.iter().all(|file| file.len() <= 5_000));
        let kept: Vec<_> = files.iter().flat_map(|file| numbers(file)).collect();
        assert_eq!(kept, (kept[0]..200).collect::<Vec<_>>());
        assert!(kept.len() > 70, "{}", kept.len());
    }

    #[test]
    fn files_of_a_row_get_old() {
        let scratch = Scratch::new();
        let row = Row::new(scratch.0.join("a.pcapng"), None, Some(Duration::from_secs(1)), None);
        let output = open(Target::Files(row));
        assert!(!output.is_due(60, 999_999_999) && output.is_due(60, 1_000_000_000));
    }

    /// `/dev/full` is a disk without room.
    #[test]
    fn a_full_disk_is_told_and_waits_in_bounded_memory() {
        let mut output = open(Target::File("/dev/full".into()));
        let writing = output.writing();
        let mut taken = 0;
        while add(&mut output, taken, &[7; 1500]) {
            taken += 1;
        }
        assert!(taken < (BUFFERS * BUFFER_BYTES / 1500) as u64);
        drop(writing.0.wait(PATIENCE, |state| state.failure.is_some()));
        let failure = writing.failure().unwrap();
        assert!(failure.starts_with("/dev/full: No space left on device"), "{failure}");
        let error = output.finish(PATIENCE, |_| {}).unwrap_err().to_string();
        assert!(error.contains("/dev/full: No space left") && error.contains("not complete"), "{error}");
        assert_eq!(writing.packets(), 0);
    }

    #[test]
    fn a_pipe_nobody_reads_does_not_block_and_one_that_is_closed_is_told() {
        let scratch = Scratch::new();
        let path = scratch.0.join("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        let mut reader = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let mut output = open(Target::File(path));
        let writing = output.writing();
        let mut taken = 0;
        while add(&mut output, taken, &[7; 1000]) {
            taken += 1;
        }
        assert!(taken > 1_000, "buffers were full at {taken}");
        // The reader takes some bytes, so there is room again.
        reader.read_exact(&mut vec![0; 2 * BUFFER_BYTES]).unwrap();
        while !add(&mut output, taken, &[7; 1000]) {
            thread::yield_now();
        }
        drop(reader);
        drop(writing.0.wait(PATIENCE, |state| state.reader_gone));
        assert!(writing.reader_gone());
        assert!(output.finish(PATIENCE, |_| {}).is_err());
    }

    #[test]
    fn a_reader_that_takes_nothing_is_not_waited_for_for_ever() {
        let scratch = Scratch::new();
        let path = scratch.0.join("fifo");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let _reader = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let mut output = open(Target::File(path));
        while add(&mut output, 0, &[7; 1000]) {}
        let error = output.finish(Duration::from_millis(20), |_| {}).unwrap_err();
        assert!(error.to_string().contains("nobody takes what is written"), "{error}");
    }
}
