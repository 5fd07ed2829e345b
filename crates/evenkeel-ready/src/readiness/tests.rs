use proptest::prelude::*;

use super::*;
use crate::call::Wait;
use crate::queue::{Interest, Trigger};
use crate::set::FdSets;

/// Descriptors, callers and event queues come and go; whoever is gone is watched for by nobody, and watches
/// nobody.
fn comes_and_goes(steps: &[(u8, u32, u32)]) {
    let mut host = Readiness::new(Allocation::Bitmap);
    let process = host.spawn(200);
    let mut callers = vec![host.attach(process)];
    let mut files = vec![];
    let status = |_: (), _| Kinds::NONE;
    for &(what, one, other) in steps {
        let caller = callers.get(one as usize % callers.len().max(1)).copied().unwrap_or(CallerId(9));
        let (fd, queue) = (other % 100, one % 100);
        let interest = Interest { events: Kinds::READABLE, trigger: Trigger::Level, token: 0 };
        match what % 16 {
            0..4 => files.extend(host.open(process, ()).map(|opened| opened.file)),
            4 => _ = host.open_queue(process),
            5 => _ = host.dup2(process, fd, queue),
            6 => _ = host.close(process, fd),
            7 => callers.push(host.attach(process)),
            8 if !callers.is_empty() => {
                let which = one as usize % callers.len();
                host.detach(callers.swap_remove(which));
            }
            9 => _ = host.delete(process, queue, fd),
            10..12 => _ = host.add(process, queue, fd, interest, status),
            12 => host.hint(FileId(other % 40), Kinds::ALL),
            _ => {
                let mut sets = FdSets::new();
                let set = if what % 2 == 0 { &mut sets.read } else { &mut sets.exception };
                set.extend((0..100).filter(|fd| host.behind(process, *fd).is_some() && fd % 3 != one % 3));
                let status = |(), _| Kinds::READABLE.when(one.is_multiple_of(2));
                _ = host.select(caller, &sets, &mut FdSets::new(), Wait::UntilReady, status);
            }
        }
        host.callers.iter().for_each(|(_, caller)| caller.memory.check());
    }
    for fd in (0..100).filter(|fd| fd % 2 == 0) {
        _ = host.close(process, fd);
    }
    callers.into_iter().for_each(|caller| host.detach(caller));
    let queues = host.watches.iter().filter(|watch| matches!(watch.watcher, Watcher::Queue(..))).count();
    assert_eq!(host.watches.iter().count(), queues, "no caller is left");
    host.exit(process, |()| {});
    assert_eq!(host.watches.iter().count(), 0);
    assert!(host.callers.iter().next().is_none() && host.queues.is_empty());
}

#[test]
fn an_event_queue_takes_104_bytes_and_a_caller_288() {
    assert_eq!((Queues::BYTES, Slab::<Caller>::BYTES), (104, 288));
}

proptest! {
    #[test]
    fn nothing_is_left_of_what_is_gone(steps in prop::collection::vec(any::<(u8, u32, u32)>(), 1..200)) {
        comes_and_goes(&steps);
    }
}
