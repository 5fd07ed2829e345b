//! A thread that reports events of a router's devices, and opens a removed device again when it returns.
//!
//! Opening a device takes the kernel milliseconds, so a separate thread does it, and the cores continue with
//! the other links.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

use evenkeel::raw::ip::InterfaceId;
use evenkeel::raw::kernel::FollowedTables;
use evenkeel::raw::time::Clock;
use evenkeel::{Engine, Notice, Replacer};

use super::report::{SharedStatus, lock};
use super::router::{Router, Say};

/// The state of the thread that opens returned devices.
pub(super) struct Returning {
    router: Router,
    clock: Clock,
    /// The handles to the followers of the kernel's tables, which need the device's index.
    followed: Vec<FollowedTables>,
    /// The statuses of each host's links.
    statuses: Vec<Vec<SharedStatus>>,
    /// The last attempt for each interface: the kernel's index of the device, and the reason why it could not
    /// be opened.
    tried: Vec<Option<(u32, Option<String>)>>,
}

impl Returning {
    pub(super) fn new(
        router: &Router,
        clock: Clock,
        followed: Vec<FollowedTables>,
        statuses: Vec<Vec<SharedStatus>>,
    ) -> Self {
        Self { router: router.clone(), clock, followed, statuses, tried: vec![None; router.links.len()] }
    }

    /// Opens the device of an interface, which has returned, for all hosts. Returns a message to show, if
    /// any.
    fn take_up(&mut self, interface: InterfaceId, index: u32, hosts: &[Replacer]) -> Option<String> {
        let place = usize::from(interface.0);
        let tried = self.tried.get_mut(place)?;
        if *tried == Some((index, None)) {
            // The device is being opened.
            return None;
        }
        match self.router.open(place, self.clock) {
            Ok(devices) => {
                *tried = Some((index, None));
                self.followed.iter().for_each(|tables| tables.moved(index, interface));
                for ((host, statuses), device) in hosts.iter().zip(&self.statuses).zip(devices) {
                    if let Some(status) = statuses.get(place) {
                        *lock(status) = device.info().status;
                    }
                    host.replace(interface, device);
                }
                None
            }
            Err(error) => {
                let now = Some((index, Some(error.to_string())));
                let is_new = *tried != now;
                *tried = now;
                is_new.then(|| format!("cannot take it up again: {error}"))
            }
        }
    }
}

/// Makes engines follow their devices.
///
/// # Errors
/// If the machine provides no thread, or the kernel no socket.
pub(super) fn follow(engines: &mut [Engine], mut returning: Returning, say: &Say) -> io::Result<()> {
    let hosts: Vec<Replacer> = engines.iter_mut().map(Engine::replacer).collect();
    let (sender, receiver) = channel();
    for (place, engine) in engines.iter_mut().enumerate() {
        let sender = sender.clone();
        engine.follow_devices(move |notice| {
            // All hosts see the events of devices, and each sees its share of the frames.
            if place == 0 || matches!(notice, Notice::Conflict { .. }) {
                // The thread ends with the process.
                let _ = sender.send(notice);
            }
        })?;
    }
    let say = Arc::clone(say);
    thread::Builder::new().name("devices".to_owned()).spawn(move || {
        for notice in receiver {
            match notice {
                Notice::Returned { interface, ref name, index } => {
                    let said = returning.take_up(interface, index, &hosts);
                    said.into_iter().for_each(|what| say(&format!("{name}: {what}")));
                }
                notice => say(&notice.to_string()),
            }
        }
    })?;
    Ok(())
}
