//! A device whose descriptors come and go while the engine runs.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::VecDeque;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

use evenkeel::raw::device::{
    Burst, Descriptors, Device, DeviceInfo, Effort, Interface, Properties, RxCounters, RxQueue, TxQueue,
};
use evenkeel::raw::frame::{Frame, Pool};
use evenkeel::raw::host::{Config, Host};
use evenkeel::raw::time::{Clock, Duration};
use evenkeel::raw::wire::EthernetAddress;
use evenkeel::{Ended, Engine};

/// Opens its descriptors one after the other, each when the core is about to halt, and closes each when it
/// was reported as readable.
#[derive(Debug)]
struct Late {
    properties: Properties,
    descriptors: Descriptors,
    /// The number of the descriptor that is open, and the end that makes it readable.
    open: Option<(usize, UnixStream)>,
    left: Vec<usize>,
    readable: Arc<Mutex<Vec<usize>>>,
}

impl RxQueue for Late {
    fn pending(&self) -> usize {
        0
    }

    fn receive(&mut self, _limit: usize, _burst: &mut dyn Burst) -> usize {
        0
    }

    fn arm(&mut self) -> bool {
        if self.open.is_none()
            && let Some(number) = self.left.pop()
        {
            let (ours, mut other) = UnixStream::pair().unwrap();
            other.write_all(b"!").unwrap();
            self.descriptors.insert(number, Arc::new(OwnedFd::from(ours)));
            self.open = Some((number, other));
        }
        false
    }

    fn counters(&self, _effort: Effort) -> Option<RxCounters> {
        Some(RxCounters::default())
    }
}

impl TxQueue for Late {
    fn transmit(&mut self, frames: &mut VecDeque<Frame>, pool: &mut Pool) -> usize {
        let count = frames.len();
        frames.drain(..).for_each(|frame| pool.recycle(frame));
        count
    }
}

impl Interface for Late {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn queue(&self, _index: usize) -> &dyn RxQueue {
        self
    }

    fn queue_mut(&mut self, _index: usize) -> &mut dyn RxQueue {
        self
    }

    fn set_readable(&mut self, number: usize) {
        let (open, _other) = self.open.take().expect("what is closed is not readable");
        assert_eq!(number, open);
        self.descriptors.remove(number);
        self.readable.lock().unwrap().push(number);
    }
}

impl Device for Late {
    fn info(&self) -> DeviceInfo {
        DeviceInfo { descriptors: self.descriptors.clone(), rings_in_memory: true, ..DeviceInfo::default() }
    }
}

#[test]
fn descriptors_that_a_device_opens_later_wake_the_engine_and_closed_ones_do_not() {
    let clock = Clock::start();
    let mut engine = Engine::new(Host::new(Config::default()).unwrap(), clock).unwrap();
    let readable = Arc::<Mutex<Vec<usize>>>::default();
    let device = Late {
        properties: Properties::new("late", EthernetAddress([2, 0, 0, 0, 0, 2])),
        descriptors: Descriptors::default(),
        open: None,
        left: vec![9, 3, 7],
        readable: Arc::clone(&readable),
    };
    engine.add_device(Box::new(device), &[]).unwrap();
    let all = |_: &Host| readable.lock().unwrap().len() == 3;
    let ended = engine.run(clock.now() + Duration::from_secs(60), all).unwrap();
    assert_eq!((ended, &readable.lock().unwrap()[..]), (Ended::Done, &[7, 3, 9][..]));
}
