//! Waits for a listener, its connections and a timer by one event queue: sends back what comes on connections
//! to port 7, and closes those from which nothing has come for a while. As root:
//! `cargo run --example event_queue -- tap:keel0 10.77.0.2/24`

use std::collections::BTreeMap;

use evenkeel::raw::process::System;
use evenkeel::raw::socket::{Event, EventQueue, Interest, Kinds, TcpListener, TcpStream, Timer, Trigger};
use evenkeel::raw::time::{Duration, Instant};
use evenkeel::{Ended, Engine, Error};

/// The open descriptors of the server, and the time when each connection last sent something.
struct Server {
    queue: EventQueue,
    listener: TcpListener,
    timer: Timer,
    heard: BTreeMap<TcpStream, Instant>,
    patience: Duration,
}

impl Server {
    fn start(system: &mut System<'_>, patience: Duration) -> Result<Self, Error> {
        let queue = EventQueue::open(system)?;
        let listener = TcpListener::listen(system, None, 7, &Default::default())?;
        let timer = Timer::open(system)?;
        timer.set(system, system.now() + patience, Some(patience))?;
        for fd in [listener.fd(), timer.fd()] {
            let interest = Interest { events: Kinds::READABLE, trigger: Trigger::Level, token: fd.token() };
            queue.add(system, fd, interest)?;
        }
        Ok(Self { queue, listener, timer, heard: BTreeMap::new(), patience })
    }

    /// Takes events until there is none.
    fn serve(&mut self, system: &mut System<'_>) -> Result<(), Error> {
        let mut events = [Event::default(); 64];
        loop {
            let ready = self.queue.take(system, &mut events)?;
            for event in &events[..ready] {
                if TcpListener::of(event) == self.listener {
                    self.accept(system)?;
                } else if Timer::of(event) == self.timer {
                    self.close_idle(system);
                } else {
                    self.echo(TcpStream::of(event), system);
                }
            }
            if ready == 0 {
                return Ok(());
            }
        }
    }

    fn accept(&mut self, system: &mut System<'_>) -> Result<(), Error> {
        while let Ok((stream, _)) = self.listener.accept(system) {
            let (events, token) = (Kinds::READABLE, stream.fd().token());
            self.queue.add(system, stream, Interest { events, trigger: Trigger::Level, token })?;
            self.heard.insert(stream, system.now());
        }
        Ok(())
    }

    fn echo(&mut self, stream: TcpStream, system: &mut System<'_>) {
        let mut buffer = [0; 4_096];
        match stream.read(system, &mut buffer) {
            Ok(len @ 1..) if stream.write(system, &buffer[..len]) == Ok(len) => {
                self.heard.insert(stream, system.now());
            }
            _ => self.close(stream, system),
        }
    }

    fn close(&mut self, stream: TcpStream, system: &mut System<'_>) {
        self.heard.remove(&stream);
        system.close(stream);
    }

    fn close_idle(&mut self, system: &mut System<'_>) {
        let _ = self.timer.expirations(system);
        let now = system.now();
        let idle = |heard: &Instant| now.since(*heard) >= self.patience;
        let idle: Vec<_> = self.heard.iter().filter(|(_, heard)| idle(heard)).map(|(fd, _)| *fd).collect();
        idle.into_iter().for_each(|stream| self.close(stream, system));
    }
}

/// Serves in the calling thread until a certain time.
pub(crate) fn serve(mut engine: Engine, until: Instant, patience: Duration) -> Result<(), Error> {
    let me = engine.attach("event-queue");
    let mut server = engine.enter(me, |system| Server::start(system, patience))??;
    while engine.wait(me, server.queue, until)? == Ended::Done {
        engine.enter(me, |system| server.serve(system))??;
    }
    Ok(())
}

fn main() -> Result<(), Error> {
    let [device, address] = [1, 2].map(|n| std::env::args().nth(n).expect("DEVICE ADDRESS/PREFIX"));
    serve(Engine::open(&device, &address)?, Instant::NEVER, Duration::from_secs(10))
}
