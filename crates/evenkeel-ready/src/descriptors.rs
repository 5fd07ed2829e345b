//! The descriptors of processes: from a number to an open file, and from a file to all numbers that refer to
//! it.

use alloc::vec::Vec;
use core::fmt;

use crate::numbers::{Allocation, AnyNumbers, Numbers, TooManyOpen};
use evenkeel_base::slab::{NONE, Slab};

/// The name of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub u32);

/// The name of an open file, to which descriptors refer: several to the same one after `dup` or `fork`.
/// When the last is closed, another file may get the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u32);

/// The error of a call on a descriptor that the process does not have: `EBADF`. A process that does not
/// exist has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadDescriptor(
    /// The number that the call named.
    pub u32,
);

impl fmt::Display for BadDescriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not an open descriptor", self.0)
    }
}

impl core::error::Error for BadDescriptor {}

/// An error of a call that duplicates a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DupError {
    /// The descriptor is not open: `EBADF`.
    BadDescriptor(u32),
    /// The number requested for the duplicate, or as its lower bound, is not below the limit: `EBADF` of
    /// `dup2`, `EINVAL` of `F_DUPFD`.
    AboveLimit(u32),
    /// The process has as many descriptors as it may have: `EMFILE`.
    TooManyOpen,
}

impl From<BadDescriptor> for DupError {
    fn from(error: BadDescriptor) -> Self {
        Self::BadDescriptor(error.0)
    }
}

impl From<TooManyOpen> for DupError {
    fn from(_: TooManyOpen) -> Self {
        Self::TooManyOpen
    }
}

impl fmt::Display for DupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadDescriptor(fd) => BadDescriptor(*fd).fmt(f),
            Self::AboveLimit(fd) => write!(f, "{fd} is above the limit of descriptors"),
            Self::TooManyOpen => TooManyOpen.fmt(f),
        }
    }
}

impl core::error::Error for DupError {}

/// A file that was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// The descriptor.
    pub fd: u32,
    /// The file to which the descriptor refers.
    pub file: FileId,
}

/// A descriptor that was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed<T> {
    /// Its number, which another descriptor may get from now on.
    pub fd: u32,
    /// The object behind the file.
    pub object: T,
    /// Whether it was the last descriptor of the file, which is then gone.
    pub is_last: bool,
    /// The file. Together with `reference`, the name of the reference to it, it finds the watches of the
    /// descriptor.
    pub(crate) file: FileId,
    pub(crate) reference: u32,
}

/// The descriptors of all processes, and the files that they refer to.
///
/// A process has numbers of its own, and a new descriptor gets the lowest free one. The caller names the
/// object behind a file by a value of type `T`. A file knows the descriptors that refer to it, so a change
/// of its state reaches all of them.
///
/// All calls take constant time, except for [`fork`](Self::fork) and [`exit`](Self::exit), and for the
/// search of numbers if that is [linear](Allocation::Linear).
///
/// ```
/// use evenkeel_ready::{Allocation, Descriptors};
///
/// let mut descriptors = Descriptors::new(Allocation::Bitmap);
/// let shell = descriptors.spawn(1024);
/// let terminal = descriptors.open(shell, "tty")?;
/// assert_eq!(descriptors.dup(shell, terminal.fd), Ok(1));
///
/// let child = descriptors.fork(shell, |_| true).unwrap();
/// let all: Vec<_> = descriptors.references(terminal.file).collect();
/// assert_eq!(all, [(child, 1), (child, 0), (shell, 1), (shell, 0)]);
///
/// assert!(!descriptors.close(shell, 0)?.is_last, "others refer to it");
/// descriptors.exit(shell, |_| {});
/// assert!(!descriptors.close(child, 0)?.is_last);
/// let closed = descriptors.close(child, 1)?;
/// assert!(closed.is_last && closed.object == "tty");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Descriptors<T> {
    allocation: Allocation,
    processes: Slab<Table<T>>,
    files: Slab<File<T>>,
    references: Slab<Reference>,
}

/// The descriptors of one process.
#[derive(Debug)]
struct Table<T> {
    numbers: AnyNumbers,
    /// The descriptors by number.
    descriptors: Vec<Option<Descriptor<T>>>,
}

/// The entry of a number that is open.
#[derive(Debug, Clone, Copy)]
struct Descriptor<T> {
    reference: u32,
    /// The object behind the file, which each call on the descriptor needs.
    object: T,
}

#[derive(Debug)]
struct File<T> {
    object: T,
    /// The first reference in the list of references to the file.
    first: u32,
}

/// A descriptor, in the list of those that refer to the same file.
#[derive(Debug)]
struct Reference {
    file: u32,
    process: u32,
    fd: u32,
    next: u32,
    previous: u32,
}

impl<T: Copy> Descriptors<T> {
    /// Creates a table without processes. `allocation` is the way in which numbers are found.
    #[must_use]
    pub const fn new(allocation: Allocation) -> Self {
        Self { allocation, processes: Slab::new(), files: Slab::new(), references: Slab::new() }
    }

    // --- Processes ---

    /// Creates a process without descriptors. It may have descriptors below `limit`.
    pub fn spawn(&mut self, limit: u32) -> ProcessId {
        let numbers = AnyNumbers::new(self.allocation, limit);
        ProcessId(self.processes.insert(Table { numbers, descriptors: Vec::new() }))
    }

    /// Creates a process with the descriptors of `parent`, if that exists: the same numbers refer to the
    /// same files. Descriptors of objects for which `inherits` returns false are left out.
    pub fn fork(&mut self, parent: ProcessId, mut inherits: impl FnMut(T) -> bool) -> Option<ProcessId> {
        let Table { numbers, descriptors } = self.processes.get(parent.0)?;
        let (limit, descriptors) = (numbers.limit(), descriptors.clone());
        let child = self.spawn(u32::MAX);
        for (fd, descriptor) in (0..).zip(descriptors) {
            let reference = descriptor.map_or(NONE, |descriptor| descriptor.reference);
            let Some(&Reference { file, .. }) = self.references.get(reference) else { continue };
            if self.object(FileId(file)).is_some_and(&mut inherits) && self.claim(child, fd) {
                self.refer(child, fd, FileId(file));
            }
        }
        self.set_limit(child, limit);
        Some(child)
    }

    /// Removes a process and closes all its descriptors. Calls `closed` with each.
    pub fn exit(&mut self, process: ProcessId, closed: impl FnMut(Closed<T>)) {
        let Some(table) = self.processes.remove(process.0) else { return };
        let descriptors = table.descriptors.into_iter().flatten();
        descriptors.filter_map(|descriptor| self.drop_reference(descriptor.reference)).for_each(closed);
    }

    /// Returns the numbers of a process: those that are open, their limit, and the cost of finding them.
    #[must_use]
    pub fn numbers(&self, process: ProcessId) -> Option<&AnyNumbers> {
        Some(&self.processes.get(process.0)?.numbers)
    }

    /// Sets the number of descriptors that a process may have. Open descriptors above it stay open.
    pub fn set_limit(&mut self, process: ProcessId, limit: u32) {
        if let Some(table) = self.processes.get_mut(process.0) {
            table.numbers.set_limit(limit);
        }
    }

    // --- Calls of a process ---

    /// Opens a file whose object is `object`.
    ///
    /// # Errors
    /// If the process has as many descriptors as it may have, or does not exist.
    pub fn open(&mut self, process: ProcessId, object: T) -> Result<Opened, TooManyOpen> {
        let fd = self.allocate(process, 0)?;
        let file = FileId(self.files.insert(File { object, first: NONE }));
        self.refer(process, fd, file);
        Ok(Opened { fd, file })
    }

    /// Closes a descriptor.
    ///
    /// # Errors
    /// The process has no such descriptor.
    pub fn close(&mut self, process: ProcessId, fd: u32) -> Result<Closed<T>, BadDescriptor> {
        let table = self.processes.get_mut(process.0).ok_or(BadDescriptor(fd))?;
        let descriptor = table.descriptors.get_mut(fd as usize).and_then(Option::take);
        let Descriptor { reference, .. } = descriptor.ok_or(BadDescriptor(fd))?;
        table.numbers.free(fd);
        self.drop_reference(reference).ok_or(BadDescriptor(fd))
    }

    /// Makes the lowest free number refer to the same file, too, and returns that number.
    ///
    /// # Errors
    /// The process has no such descriptor, or as many as it may have.
    pub fn dup(&mut self, process: ProcessId, fd: u32) -> Result<u32, DupError> {
        self.pass(process, fd, process)
    }

    /// Makes the lowest free number that is not below `lowest` refer to the same file, too (`F_DUPFD`), and
    /// returns that number.
    ///
    /// # Errors
    /// The process has no such descriptor, or all that it may have from `lowest` on, or may not have any
    /// there.
    pub fn dup_from(&mut self, process: ProcessId, fd: u32, lowest: u32) -> Result<u32, DupError> {
        let file = self.file(process, fd).ok_or(BadDescriptor(fd))?;
        if lowest >= self.numbers(process).map_or(0, Numbers::limit) {
            return Err(DupError::AboveLimit(lowest));
        }
        let new = self.allocate(process, lowest)?;
        self.refer(process, new, file);
        Ok(new)
    }

    /// Makes the number `new` refer to the same file, too, and closes what it referred to before. Does
    /// nothing if `fd` and `new` are the same number.
    ///
    /// # Errors
    /// The process has no descriptor `fd`, or may not have `new`.
    pub fn dup2(&mut self, process: ProcessId, fd: u32, new: u32) -> Result<Option<Closed<T>>, DupError> {
        let file = self.file(process, fd).ok_or(BadDescriptor(fd))?;
        if fd == new {
            return Ok(None);
        }
        let limit = self.numbers(process).map_or(0, Numbers::limit);
        if new >= limit || !self.claim(process, new) {
            return Err(DupError::AboveLimit(new));
        }
        let displaced = self.reference(process, new).map_or(NONE, |(_, reference)| reference);
        self.refer(process, new, file);
        Ok(self.drop_reference(displaced))
    }

    /// Makes the lowest free number of another process refer to the same file, too, as when a message
    /// carries a descriptor (`SCM_RIGHTS`). Returns that number.
    ///
    /// # Errors
    /// The process has no such descriptor, or the other one as many as it may have.
    pub fn pass(&mut self, process: ProcessId, fd: u32, to: ProcessId) -> Result<u32, DupError> {
        let file = self.file(process, fd).ok_or(BadDescriptor(fd))?;
        let new = self.allocate(to, 0)?;
        self.refer(to, new, file);
        Ok(new)
    }

    // --- Questions ---

    /// Returns the file to which a descriptor refers.
    #[must_use]
    #[inline]
    pub fn file(&self, process: ProcessId, fd: u32) -> Option<FileId> {
        Some(self.reference(process, fd)?.0)
    }

    /// Returns the object behind a file, or `None` if there is no such file.
    #[must_use]
    #[inline]
    pub fn object(&self, file: FileId) -> Option<T> {
        Some(self.files.get(file.0)?.object)
    }

    /// Returns the processes and numbers that refer to a file, the latest first.
    pub fn references(&self, file: FileId) -> impl Iterator<Item = (ProcessId, u32)> + '_ {
        let mut next = self.files.get(file.0).map_or(NONE, |file| file.first);
        core::iter::from_fn(move || {
            let reference = self.references.get(next)?;
            next = reference.next;
            Some((ProcessId(reference.process), reference.fd))
        })
    }

    /// Returns the object behind the file to which a descriptor refers.
    #[must_use]
    #[inline]
    pub fn behind(&self, process: ProcessId, fd: u32) -> Option<T> {
        Some(self.descriptor(process, fd)?.object)
    }

    #[inline]
    fn descriptor(&self, process: ProcessId, fd: u32) -> Option<&Descriptor<T>> {
        self.processes.get(process.0)?.descriptors.get(fd as usize)?.as_ref()
    }

    /// Returns the process to which the descriptor of a reference belongs.
    pub(crate) fn process_of(&self, reference: u32) -> Option<ProcessId> {
        Some(ProcessId(self.references.get(reference)?.process))
    }

    /// Returns the file to which a descriptor refers, and the name of the reference.
    #[inline]
    pub(crate) fn reference(&self, process: ProcessId, fd: u32) -> Option<(FileId, u32)> {
        let &Descriptor { reference, .. } = self.descriptor(process, fd)?;
        Some((FileId(self.references.get(reference)?.file), reference))
    }

    // --- References ---

    fn allocate(&mut self, process: ProcessId, lowest: u32) -> Result<u32, TooManyOpen> {
        self.processes.get_mut(process.0).ok_or(TooManyOpen)?.numbers.allocate_from(lowest)
    }

    /// Takes a certain number, if the process may have it. Returns whether it may.
    fn claim(&mut self, process: ProcessId, fd: u32) -> bool {
        self.processes.get_mut(process.0).is_some_and(|table| table.numbers.claim(fd).is_ok())
    }

    /// Makes a number, which is taken, refer to a file.
    fn refer(&mut self, process: ProcessId, fd: u32, file: FileId) {
        let (Some(table), Some(of)) = (self.processes.get_mut(process.0), self.files.get_mut(file.0)) else {
            return;
        };
        let next = of.first;
        let reference = Reference { file: file.0, process: process.0, fd, next, previous: NONE };
        let place = self.references.insert(reference);
        of.first = place;
        if let Some(next) = self.references.get_mut(next) {
            next.previous = place;
        }
        if table.descriptors.len() <= fd as usize {
            table.descriptors.resize(fd as usize + 1, None);
        }
        table.descriptors[fd as usize] = Some(Descriptor { reference: place, object: of.object });
    }

    /// Removes a reference from the list of its file. Removes the file with its last reference.
    fn drop_reference(&mut self, place: u32) -> Option<Closed<T>> {
        let Reference { file, fd, next, previous, .. } = self.references.remove(place)?;
        if let Some(next) = self.references.get_mut(next) {
            next.previous = previous;
        }
        if let Some(previous) = self.references.get_mut(previous) {
            previous.next = next;
        } else {
            self.files.get_mut(file)?.first = next;
        }
        let is_last = next == NONE && previous == NONE;
        let object = if is_last { self.files.remove(file)?.object } else { self.object(FileId(file))? };
        Some(Closed { fd, object, is_last, file: FileId(file), reference: place })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Open(usize),
        Close(usize, u32),
        Dup(usize, u32),
        DupFrom(usize, u32, u32),
        Dup2(usize, u32, u32),
        Pass(usize, u32, usize),
        Fork(usize),
        Exit(usize),
        SetLimit(usize, u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        let who = || 0..4_usize;
        let fd = || 0..12_u32;
        prop_oneof![
            6 => who().prop_map(Step::Open),
            4 => (who(), fd()).prop_map(|(who, fd)| Step::Close(who, fd)),
            2 => (who(), fd()).prop_map(|(who, fd)| Step::Dup(who, fd)),
            2 => (who(), fd(), fd()).prop_map(|(who, fd, lowest)| Step::DupFrom(who, fd, lowest)),
            3 => (who(), fd(), fd()).prop_map(|(who, fd, new)| Step::Dup2(who, fd, new)),
            2 => (who(), fd(), who()).prop_map(|(who, fd, to)| Step::Pass(who, fd, to)),
            1 => who().prop_map(Step::Fork),
            1 => who().prop_map(Step::Exit),
            1 => (who(), fd()).prop_map(|(who, limit)| Step::SetLimit(who, limit)),
        ]
    }

    /// A plain model of UNIX descriptors: a map from each number to an object. Each file has an object of
    /// its own.
    #[derive(Debug, Default)]
    struct Model {
        tables: BTreeMap<ProcessId, (u32, BTreeMap<u32, u32>)>,
    }

    impl Model {
        fn get(&self, process: ProcessId, fd: u32) -> Option<u32> {
            self.tables.get(&process)?.1.get(&fd).copied()
        }

        fn lowest(&self, process: ProcessId, from: u32) -> Option<u32> {
            let (limit, table) = self.tables.get(&process)?;
            (from..*limit).find(|fd| !table.contains_key(fd))
        }

        fn put(&mut self, process: ProcessId, fd: u32, object: u32) {
            self.tables.get_mut(&process).unwrap().1.insert(fd, object);
        }

        fn references(&self, object: u32) -> Vec<(ProcessId, u32)> {
            let of = |(process, (_, table)): (&ProcessId, &(u32, BTreeMap<u32, u32>))| {
                let fds = table.iter().filter(|(_, of)| **of == object);
                fds.map(|(fd, _)| (*process, *fd)).collect::<Vec<_>>()
            };
            self.tables.iter().flat_map(of).collect()
        }

        /// Removes a number. Returns its object and whether no other number has that object.
        fn take(&mut self, process: ProcessId, fd: u32) -> Option<(u32, bool)> {
            let object = self.tables.get_mut(&process)?.1.remove(&fd)?;
            Some((object, self.references(object).is_empty()))
        }
    }

    fn said_of(closed: Closed<u32>) -> (u32, bool) {
        (closed.object, closed.is_last)
    }

    fn dup(model: &mut Model, from: (ProcessId, u32), to: ProcessId, lowest: u32) -> Result<u32, DupError> {
        let object = model.get(from.0, from.1).ok_or(DupError::BadDescriptor(from.1))?;
        if lowest > 0 && lowest >= model.tables[&to].0 {
            return Err(DupError::AboveLimit(lowest));
        }
        let fd = model.lowest(to, lowest).ok_or(DupError::TooManyOpen)?;
        model.put(to, fd, object);
        Ok(fd)
    }

    /// And 12 for the number that refers to it, with what is behind.
    #[test]
    fn a_reference_takes_24_bytes_and_a_file_8_beside_what_it_is_called_by() {
        assert_eq!(Slab::<Reference>::BYTES, 24);
        assert_eq!(Slab::<File<u32>>::BYTES, 12);
        assert_eq!(Slab::<File<crate::Object<u32>>>::BYTES, 12);
        assert_eq!(size_of::<Option<Descriptor<crate::Object<u32>>>>(), 12);
    }

    proptest! {
        #[test]
        fn they_are_those_of_unix(
            linear in any::<bool>(),
            steps in prop::collection::vec(step(), 1..100),
        ) {
            let allocation = if linear { Allocation::Linear } else { Allocation::Bitmap };
            let mut descriptors = Descriptors::new(allocation);
            let mut model = Model::default();
            let mut processes: Vec<_> = (0..3).map(|_| descriptors.spawn(8)).collect();
            processes.iter().for_each(|process| _ = model.tables.insert(*process, (8, BTreeMap::new())));
            let mut files = BTreeMap::new();
            for (object, step) in (0..).zip(steps) {
                let who = |which: usize| processes[which % processes.len()];
                match step {
                    Step::Open(which) => {
                        let fd = model.lowest(who(which), 0);
                        let opened = descriptors.open(who(which), object);
                        prop_assert_eq!(opened.ok().map(|opened| opened.fd), fd);
                        if let (Some(fd), Ok(opened)) = (fd, opened) {
                            model.put(who(which), fd, object);
                            files.insert(object, opened.file);
                        }
                    }
                    Step::Close(which, fd) => {
                        let closed = descriptors.close(who(which), fd).map(said_of);
                        prop_assert_eq!(closed, model.take(who(which), fd).ok_or(BadDescriptor(fd)));
                    }
                    Step::Dup(which, fd) => {
                        let wanted = dup(&mut model, (who(which), fd), who(which), 0);
                        prop_assert_eq!(descriptors.dup(who(which), fd), wanted);
                    }
                    Step::DupFrom(which, fd, lowest) if lowest > 0 => {
                        let wanted = dup(&mut model, (who(which), fd), who(which), lowest);
                        prop_assert_eq!(descriptors.dup_from(who(which), fd, lowest), wanted);
                    }
                    Step::Dup2(which, fd, new) => {
                        let process = who(which);
                        let said = descriptors.dup2(process, fd, new).map(|closed| closed.map(said_of));
                        let wanted = match model.get(process, fd) {
                            None => Err(DupError::BadDescriptor(fd)),
                            Some(_) if fd == new => Ok(None),
                            Some(_) if new >= model.tables[&process].0 => Err(DupError::AboveLimit(new)),
                            Some(object) => {
                                let before = model.get(process, new);
                                model.put(process, new, object);
                                Ok(before.map(|b| (b, model.references(b).is_empty())))
                            }
                        };
                        prop_assert_eq!(said, wanted);
                    }
                    Step::Pass(which, fd, to) => {
                        let wanted = dup(&mut model, (who(which), fd), who(to), 0);
                        prop_assert_eq!(descriptors.pass(who(which), fd, who(to)), wanted);
                    }
                    Step::Fork(which) if processes.len() < 6 => {
                        let (parent, odd) = (who(which), |object: u32| !object.is_multiple_of(5));
                        let child = descriptors.fork(parent, odd).unwrap();
                        let (limit, mut table) = model.tables[&parent].clone();
                        table.retain(|_, object| odd(*object));
                        model.tables.insert(child, (limit, table));
                        processes.push(child);
                    }
                    Step::Exit(which) if processes.len() > 1 => {
                        let process = processes.swap_remove(which % processes.len());
                        let mut last = Vec::new();
                        descriptors.exit(process, |closed| last.push((closed.fd, said_of(closed))));
                        let fds: Vec<u32> = model.tables[&process].1.keys().copied().collect();
                        let wanted = fds.into_iter().map(|fd| (fd, model.take(process, fd).unwrap()));
                        prop_assert_eq!(last, wanted.collect::<Vec<_>>());
                        model.tables.remove(&process);
                        prop_assert_eq!(descriptors.open(process, object), Err(TooManyOpen));
                    }
                    Step::SetLimit(which, limit) => {
                        descriptors.set_limit(who(which), limit);
                        model.tables.get_mut(&who(which)).unwrap().0 = limit;
                    }
                    _ => {}
                }
                for process in &processes {
                    let open = descriptors.numbers(*process).unwrap().open().collect::<Vec<_>>();
                    prop_assert_eq!(open, model.tables[process].1.keys().copied().collect::<Vec<_>>());
                    for (fd, object) in &model.tables[process].1 {
                        let file = descriptors.file(*process, *fd);
                        prop_assert_eq!(file, files.get(object).copied());
                        prop_assert_eq!(descriptors.object(file.unwrap()), Some(*object));
                        let mut references: Vec<_> = descriptors.references(file.unwrap()).collect();
                        references.sort_unstable();
                        prop_assert_eq!(references, model.references(*object));
                    }
                }
                let open = model.tables.values().map(|(_, table)| table.len()).sum::<usize>();
                prop_assert_eq!(descriptors.references.iter().count(), open, "and none is left over");
            }
        }
    }
}
