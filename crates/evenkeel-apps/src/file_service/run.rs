//! The run of a file server: the server, and the events of its process.

use std::future::{Future as _, poll_fn};
use std::io;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use evenkeel::raw::cpu::ThreadMeter;
use evenkeel::raw::time::{Clock, Duration, Instant};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::runtime::{Builder, Runtime};

use super::events::{Event, Process};
use super::host::Hosting;
use super::listeners::{Listener, in_turn};
use super::report::{FilesServed, News};
use super::serving::{ServeError, Serving};
use crate::host_setup::Limits;
use crate::http::files::{Counters, Server, Settings, Stopped};

/// Creates a runtime of the calling thread alone.
pub(super) fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Creates a server for the files below `root`, on tokio.
pub(super) fn server(root: &Path, settings: &Settings) -> io::Result<Server> {
    Server::open(root, settings.clone(), TokioTimer::new(), TokioExecutor::new())
}

/// A file server that is to run.
pub(super) struct Run<'a, F> {
    pub(super) serving: Serving,
    pub(super) server: Server,
    pub(super) process: Process,
    pub(super) limits: Limits,
    /// The host with the sockets, if they are not the kernel's.
    pub(super) hosting: Option<&'a mut Hosting>,
    pub(super) news: F,
}

impl<F: FnMut(News<'_>)> Run<'_, F> {
    /// Accepts from `listeners` and serves until the end. The host is left with its last report made.
    pub(super) async fn run<L: Listener>(mut self, listeners: Vec<L>) -> Result<FilesServed, ServeError> {
        let mut events = self.process.events(self.limits, self.hosting.as_deref())?;
        self.limits.leave_root()?;
        self.hosting.iter().try_for_each(|hosting| hosting.publish(self.limits))?;
        let addresses = listeners.iter().map(Listener::local_addr).collect::<io::Result<Vec<_>>>()?;
        (self.news)(News::Started(&addresses));
        let manager = self.limits.manager();
        manager.iter().for_each(|manager| manager.ready());
        let (tls, grace) = (self.serving.tls.clone(), self.serving.settings.grace);
        let mut server = self.server;
        if let Some(log) = self.serving.log.take() {
            server = server.with_log(log);
        }
        if let Some(tls) = &tls {
            server = server.with_tls(Arc::clone(tls));
        }
        let (stopper, meter) = (server.stopper(), Meter::start(server.counters()));
        let mut last = None;
        let mut serves = pin!(server.run(in_turn(listeners)));
        let (hosting, news) = (&mut self.hosting, &mut self.news);
        let ended = poll_fn(|context| {
            loop {
                if let Poll::Ready(ended) = serves.as_mut().poll(context) {
                    return Poll::Ready(ended);
                }
                let Poll::Ready(event) = events.poll_next(context) else { return Poll::Pending };
                match event {
                    Event::Stop => {
                        // Connections are reported as they were before they were closed.
                        last = Some(meter.report(hosting.as_deref()));
                        stopper.stop();
                        manager.iter().for_each(|manager| manager.stopping());
                    }
                    Event::Reload => {
                        manager.iter().for_each(|manager| manager.reloading());
                        tls.iter().for_each(|tls| news(News::Reloaded(tls.reload())));
                        manager.iter().for_each(|manager| manager.ready());
                    }
                    Event::Alive => manager.iter().for_each(|manager| manager.alive()),
                    Event::Report(occasion) => {
                        news(News::Glance(occasion, &meter.report(hosting.as_deref())));
                    }
                    Event::Attend => hosting.iter_mut().for_each(|hosting| hosting.attend()),
                }
            }
        })
        .await;
        let unfinished = ended.as_ref().map_or(0, |Stopped { unfinished, .. }| *unfinished);
        if let Some(hosting) = &self.hosting {
            hosting.farewell(if unfinished == 0 { grace } else { Duration::ZERO }).await;
        }
        let served = meter.report(self.hosting.as_deref());
        // A device that fails ends the server, and the report says so.
        if served.host.as_ref().is_none_or(|host| host.device_failed.is_none()) {
            ended?;
        }
        Ok(served.ended(last, unfinished))
    }
}

/// The measures of a running server.
struct Meter {
    clock: Clock,
    start: Instant,
    counters: Arc<Counters>,
    thread: ThreadMeter,
    before: evenkeel::raw::cpu::ThreadTime,
}

impl Meter {
    /// Measures from now on. The calling thread serves.
    fn start(counters: Arc<Counters>) -> Self {
        let (clock, thread) = (Clock::start(), ThreadMeter::of_this_thread());
        let before = thread.read().unwrap_or_default();
        Self { start: clock.now(), clock, counters, thread, before }
    }

    /// Returns the results so far.
    fn report(&self, hosting: Option<&Hosting>) -> FilesServed {
        let elapsed = self.clock.now().since(self.start);
        let used = self.thread.read().unwrap_or_default() - self.before;
        FilesServed {
            seconds: elapsed.as_secs_f64(),
            cpu_seconds: used.ran.as_secs_f64(),
            report: self.counters.report(),
            unfinished: 0,
            host: hosting.map(|hosting| hosting.report(elapsed, used)),
        }
    }
}

impl FilesServed {
    /// Returns this last report with the times and connections of `before`, the report when the server was
    /// stopped, if it was.
    fn ended(mut self, before: Option<Self>, unfinished: usize) -> Self {
        self.unfinished = unfinished as u64;
        let Some(before) = before else { return self };
        self.report.open = before.report.open;
        if let (Some(host), Some(before)) = (&mut self.host, before.host) {
            host.connections = before.connections;
        }
        self
    }
}
