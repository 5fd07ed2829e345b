//! The kernel's side of the comparison: its calls on eventfds.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use io_uring::{IoUring, opcode, squeue, types};
use rustix::event::{EventfdFlags, FdSetElement, FdSetIter, PollFd, PollFlags, Timespec, epoll, eventfd};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::Contender;

type Opened = Result<Box<dyn Contender>, String>;

const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
/// Opens so many eventfds.
pub(crate) fn open(all: usize) -> Result<Vec<OwnedFd>, String> {
    raise_limit();
    (0..all)
        .map(|_| eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC))
        .collect::<Result<_, _>>()
        .map_err(|_| {
            let most = getrlimit(Resource::Nofile).maximum;
            format!(
                "a process may have {} descriptors here",
                most.map_or("no more".into(), |n| n.to_string())
            )
        })
}

/// Raises the limit of descriptors to what the machine allows, or else to what is possible without privilege.
fn raise_limit() {
    let most = std::fs::read_to_string("/proc/sys/fs/nr_open").ok().and_then(|most| most.trim().parse().ok());
    let all = Rlimit { current: most, maximum: most };
    if setrlimit(Resource::Nofile, all).is_err() {
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
}

/// Eventfds, and how the program finds out.
struct Program<C> {
    eventfds: Vec<OwnedFd>,
    call: C,
}

impl<C: FnMut(&[OwnedFd], &mut Vec<usize>)> Contender for Program<C> {
    fn arrive(&mut self, hot: &[usize]) {
        for index in hot {
            rustix::io::write(&self.eventfds[*index], &1_u64.to_ne_bytes()).unwrap();
        }
    }

    fn call(&mut self, found: &mut Vec<usize>) {
        (self.call)(&self.eventfds, found);
    }

    fn read(&mut self, hot: &[usize]) {
        for index in hot {
            rustix::io::read(&self.eventfds[*index], &mut [0; 8]).unwrap();
        }
    }
}

pub(crate) fn epoll(all: usize) -> Opened {
    epoll_with(all, epoll::EventFlags::IN)
}

pub(crate) fn epoll_edge(all: usize) -> Opened {
    epoll_with(all, epoll::EventFlags::IN | epoll::EventFlags::ET)
}

fn epoll_with(all: usize, flags: epoll::EventFlags) -> Opened {
    let eventfds = open(all)?;
    let queue = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|error| error.to_string())?;
    for (index, eventfd) in (0..).zip(&eventfds) {
        epoll::add(&queue, eventfd, epoll::EventData::new_u64(index), flags)
            .map_err(|error| error.to_string())?;
    }
    let mut events = Vec::with_capacity(256);
    let call = move |_: &[OwnedFd], found: &mut Vec<usize>| {
        events.clear();
        epoll::wait(&queue, rustix::buffer::spare_capacity(&mut events), Some(&NOW)).unwrap();
        found.extend(events.iter().map(|event| event.data.u64() as usize));
    };
    Ok(Box::new(Program { eventfds, call }))
}

pub(crate) fn poll(all: usize) -> Opened {
    let eventfds = open(all)?;
    let entry = |eventfd: &OwnedFd| {
        // SAFETY: `Program` keeps the eventfds as long as the entries, which are in its `call`.
        let eventfd = unsafe { BorrowedFd::borrow_raw(eventfd.as_raw_fd()) };
        PollFd::from_borrowed_fd(eventfd, PollFlags::IN)
    };
    let mut entries: Vec<_> = eventfds.iter().map(entry).collect();
    let call = move |_: &[OwnedFd], found: &mut Vec<usize>| {
        rustix::event::poll(&mut entries, Some(&NOW)).unwrap();
        let ready = entries.iter().enumerate().filter(|(_, entry)| !entry.revents().is_empty());
        found.extend(ready.map(|(index, _)| index));
    };
    Ok(Box::new(Program { eventfds, call }))
}

pub(crate) fn select(all: usize) -> Opened {
    let eventfds = open(all)?;
    let numbers: Vec<_> = eventfds.iter().map(AsRawFd::as_raw_fd).collect();
    let end = numbers.iter().max().map_or(0, |last| last + 1);
    let mut index_of = vec![usize::MAX; end as usize];
    let mut selecting = vec![FdSetElement::default(); rustix::event::fd_set_num_elements(all, end)];
    for (index, fd) in numbers.into_iter().enumerate() {
        index_of[fd as usize] = index;
        rustix::event::fd_set_insert(&mut selecting, fd);
    }
    let mut ready = selecting.clone();
    let call = move |_: &[OwnedFd], found: &mut Vec<usize>| {
        ready.clone_from(&selecting);
        // SAFETY: all in the set are eventfds that `Program` keeps open.
        unsafe { rustix::event::select(end, Some(&mut ready), None, None, Some(&NOW)) }.unwrap();
        found.extend(FdSetIter::new(&ready).map(|fd| index_of[fd as usize]));
    };
    Ok(Box::new(Program { eventfds, call }))
}

/// Opens descriptors that io_uring polls: each is armed once, and reports repeatedly.
pub(crate) fn io_uring(all: usize) -> Opened {
    let eventfds = open(all)?;
    let mut ring = IoUring::builder().setup_cqsize(8192).build(4096).map_err(|error| error.to_string())?;
    let arm = |ring: &mut IoUring, fd: i32, index: u64| {
        let entry: squeue::Entry =
            opcode::PollAdd::new(types::Fd(fd), libc::POLLIN as u32).multi(true).build().user_data(index);
        // SAFETY: the entry points to no memory; `Program` keeps the descriptor open.
        while unsafe { ring.submission().push(&entry) }.is_err() {
            ring.submit().unwrap();
        }
    };
    for (index, eventfd) in (0..).zip(&eventfds) {
        arm(&mut ring, eventfd.as_raw_fd(), index);
    }
    ring.submit().map_err(|error| error.to_string())?;
    let call = move |eventfds: &[OwnedFd], found: &mut Vec<usize>| {
        // What has arrived before the call is reported in it, as by the others: one call is enough.
        ring.submit_and_wait(1).unwrap();
        let mut over = Vec::new();
        for event in ring.completion() {
            found.push(event.user_data() as usize);
            if !io_uring::cqueue::more(event.flags()) {
                over.push(event.user_data());
            }
        }
        over.into_iter().for_each(|index| arm(&mut ring, eventfds[index as usize].as_raw_fd(), index));
    };
    Ok(Box::new(Program { eventfds, call }))
}
