//! Our side of the comparison: this crate's calls.

use evenkeel_ready::{
    Allocation, CallerId, Event, FdSets, FileId, Interest, Kinds, PollEntry, ProcessId, Readiness, Trigger,
    Wait, classic,
};

use crate::Contender;

/// A host whose objects record whether something has arrived for each. Descriptors have the numbers of
/// their objects, from 0.
struct Host {
    readiness: Readiness<usize>,
    process: ProcessId,
    caller: CallerId,
    files: Vec<FileId>,
    arrived: Vec<bool>,
}

impl Host {
    fn new(all: usize) -> Self {
        let mut readiness = Readiness::new(Allocation::Bitmap);
        let process = readiness.spawn(u32::MAX);
        let caller = readiness.attach(process);
        let files = (0..all).map(|object| readiness.open(process, object).unwrap().file).collect();
        Self { readiness, process, caller, files, arrived: vec![false; all] }
    }

    fn arrive(&mut self, hot: &[usize]) {
        for object in hot {
            self.arrived[*object] = true;
            self.readiness.hint(self.files[*object], Kinds::READABLE);
        }
        while self.readiness.next_woken().is_some() {}
    }

    fn read(&mut self, hot: &[usize]) {
        hot.iter().for_each(|object| self.arrived[*object] = false);
    }
}

/// A host, and how its program finds out.
struct Program<C> {
    host: Host,
    call: C,
}

impl<C: FnMut(&mut Host, &mut Vec<usize>)> Contender for Program<C> {
    fn arrive(&mut self, hot: &[usize]) {
        self.host.arrive(hot);
    }

    fn call(&mut self, found: &mut Vec<usize>) {
        (self.call)(&mut self.host, found);
    }

    fn read(&mut self, hot: &[usize]) {
        self.host.read(hot);
    }
}

type Opened = Result<Box<dyn Contender>, String>;

pub(crate) fn event_queue(all: usize) -> Opened {
    let mut host = Host::new(all);
    let queue = host.readiness.open_queue(host.process).unwrap().fd;
    for fd in 0..all as u32 {
        let interest = Interest { events: Kinds::READABLE, trigger: Trigger::Level, token: fd.into() };
        host.readiness.add(host.process, queue, fd, interest, |_, _| Kinds::NONE).unwrap();
    }
    let mut events = vec![Event::default(); 256];
    let call = move |host: &mut Host, found: &mut Vec<usize>| {
        let Host { readiness, caller, arrived, .. } = host;
        let status = |object: usize, _| Kinds::READABLE.when(arrived[object]);
        let answer = readiness.wait(*caller, queue, &mut events, Wait::UntilReady, status).unwrap();
        found.extend(events[..answer.ready].iter().map(|event| event.token as usize));
    };
    Ok(Box::new(Program { host, call }))
}

fn everything(all: usize) -> FdSets {
    let mut selecting = FdSets::new();
    selecting.read.extend(0..all as u32);
    selecting
}

pub(crate) fn select(all: usize) -> Opened {
    let (host, selecting, mut ready) = (Host::new(all), everything(all), FdSets::new());
    let call = move |host: &mut Host, found: &mut Vec<usize>| {
        let Host { readiness, caller, arrived, .. } = host;
        let status = |object: usize, _| Kinds::READABLE.when(arrived[object]);
        readiness.select(*caller, &selecting, &mut ready, Wait::UntilReady, status).unwrap();
        found.extend(ready.read.iter().map(|fd| fd as usize));
    };
    Ok(Box::new(Program { host, call }))
}

pub(crate) fn classic_select(all: usize) -> Opened {
    let (host, selecting, mut ready) = (Host::new(all), everything(all), FdSets::new());
    let call = move |host: &mut Host, found: &mut Vec<usize>| {
        let Host { readiness, process, arrived, .. } = host;
        let status = |fd| {
            let file = readiness.behind(*process, fd)?;
            let evenkeel_ready::Object::Outside(object) = file else { return None };
            Some(Kinds::READABLE.when(arrived[object]))
        };
        classic::select(&selecting, &mut ready, |fd, _| status(fd)).unwrap();
        found.extend(ready.read.iter().map(|fd| fd as usize));
    };
    Ok(Box::new(Program { host, call }))
}

pub(crate) fn poll(all: usize) -> Opened {
    let host = Host::new(all);
    let mut entries: Vec<_> = (0..all as u32).map(|fd| PollEntry::new(fd, Kinds::READABLE)).collect();
    let call = move |host: &mut Host, found: &mut Vec<usize>| {
        let Host { readiness, caller, arrived, .. } = host;
        let status = |object: usize, _| Kinds::READABLE.when(arrived[object]);
        readiness.poll(*caller, &mut entries, Wait::UntilReady, status);
        let ready = entries.iter().filter(|entry| !entry.ready.is_empty());
        found.extend(ready.map(|entry| entry.fd as usize));
    };
    Ok(Box::new(Program { host, call }))
}
