//! A minimal web server and its clients: a connection for each document, as in HTTP/1.0.

use std::collections::{BTreeMap, VecDeque};

use evenkeel_core::host::System;
use evenkeel_core::process::{Program, Step};
use evenkeel_core::socket::StreamError;
use evenkeel_core::stack::IpEndpoint;
use evenkeel_core::system::{EventQueue, TcpListener, TcpStream};
use evenkeel_core::tcp::ListenerConfig;
use evenkeel_core::time::{Duration, Instant};

use crate::workload::Tally;

const REQUEST: &[u8] = b"GET / HTTP/1.0\r\n\r\n";
/// The end of a request.
const BLANK_LINE: &[u8] = b"\r\n\r\n";
/// The longest request that is accepted, in bytes.
const REQUEST_MAX: usize = 4 << 10;
const CHUNK: usize = 16 << 10;

/// A server with one process and many connections that answers each request with one document, and closes.
#[derive(Debug)]
pub struct WebServer {
    port: u16,
    config: ListenerConfig,
    /// CPU time that a request takes.
    compute: Duration,
    answer: Vec<u8>,
    listener: Option<TcpListener>,
    streams: BTreeMap<TcpStream, Conversation>,
    /// The connections whose requests have been handled.
    ready: VecDeque<TcpStream>,
    answered: Tally,
}

#[derive(Debug, Default)]
struct Conversation {
    request: Vec<u8>,
    /// Bytes of the answer that were written; `None` while there is no answer.
    written: Option<usize>,
}

impl WebServer {
    /// Creates a server on `port` of a document of `bytes`, with `compute` of CPU time for each request;
    /// and the counter of answered requests.
    #[must_use]
    pub fn new(port: u16, config: ListenerConfig, bytes: usize, compute: Duration) -> (Self, Tally) {
        let mut answer = format!("HTTP/1.0 200 OK\r\nContent-Length: {bytes}\r\n\r\n").into_bytes();
        answer.resize(answer.len() + bytes, b'.');
        let answered = Tally::default();
        let server = Self {
            port,
            config,
            compute,
            answer,
            listener: None,
            streams: BTreeMap::new(),
            ready: VecDeque::new(),
            answered: answered.clone(),
        };
        (server, answered)
    }

    /// Reads the bytes of a request, and does the work once it is complete.
    fn hear(&mut self, stream: TcpStream, system: &mut System<'_>) {
        let Some(conversation) = self.streams.get_mut(&stream) else { return };
        let mut chunk = [0; 1 << 10];
        loop {
            match stream.read(system, &mut chunk) {
                Ok(len) if len > 0 && conversation.request.len() <= REQUEST_MAX => {
                    conversation.request.extend(chunk.iter().take(len));
                    if conversation.written.is_none() && conversation.request.ends_with(BLANK_LINE) {
                        conversation.written = Some(0);
                        system.compute(self.compute);
                        self.ready.push_back(stream);
                        return;
                    }
                }
                Err(StreamError::WouldBlock) => return,
                // The connection ends without a request.
                _ => return self.end(stream, system),
            }
        }
    }

    /// Writes what there is room for; closes at the end.
    fn tell(&mut self, stream: TcpStream, system: &mut System<'_>) {
        let Some(Conversation { written: Some(written), .. }) = self.streams.get_mut(&stream) else { return };
        while let Some(rest @ [_, ..]) = self.answer.get(*written..) {
            match stream.write(system, rest) {
                Ok(taken) => *written += taken,
                Err(StreamError::WouldBlock) => return,
                Err(_) => return self.end(stream, system),
            }
        }
        self.answered.add_one();
        self.end(stream, system);
    }

    fn end(&mut self, stream: TcpStream, system: &mut System<'_>) {
        self.streams.remove(&stream);
        system.close(stream);
    }
}

impl Program for WebServer {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let events = EventQueue::of_all(system).expect("a process may have some descriptors");
        if self.listener.is_none() {
            let listener = TcpListener::listen(system, None, self.port, &self.config);
            self.listener = Some(listener.unwrap_or_else(|error| panic!("cannot listen: {error}")));
        }
        if let Some(stream) = self.ready.pop_front() {
            self.tell(stream, system);
            return Step::Again;
        }
        match events.next(system) {
            Err(_) => return Step::Wait(events.fd()),
            Ok(event) if Some(TcpListener::of(&event)) == self.listener => {
                while let Ok((stream, _)) = TcpListener::of(&event).accept(system) {
                    self.streams.insert(stream, Conversation::default());
                }
            }
            Ok(event) => {
                let stream = TcpStream::of(&event);
                match self.streams.get(&stream) {
                    Some(Conversation { written: Some(_), .. }) => self.tell(stream, system),
                    Some(_) => self.hear(stream, system),
                    None => {}
                }
            }
        }
        Step::Again
    }
}

/// A client that fetches documents, one after the other, each over its own connection.
#[derive(Debug)]
pub struct WebClient {
    to: IpEndpoint,
    /// Bytes of a document.
    bytes: usize,
    /// The time between a failure and the next try.
    pause: Duration,
    /// The time after which a missing answer is given up.
    patience: Duration,
    stream: Option<(TcpStream, Fetch)>,
    counts: WebCounts,
}

/// Counters of a client's fetches.
#[derive(Debug, Clone, Default)]
pub struct WebCounts {
    /// Documents that arrived completely.
    pub fetched: Tally,
    /// Connections that failed, or ended early.
    pub failed: Tally,
}

#[derive(Debug)]
struct Fetch {
    asked: bool,
    head: Vec<u8>,
    /// Bytes of the document so far, once the head is complete.
    body: Option<usize>,
    since: Instant,
}

impl WebClient {
    /// Creates a client of the server at `to`, which serves documents of `bytes`. Also returns the counters
    /// of its fetches.
    #[must_use]
    pub fn new(to: IpEndpoint, bytes: usize) -> (Self, WebCounts) {
        let counts = WebCounts::default();
        let (pause, patience) = (Duration::from_millis(1), Duration::from_secs(120));
        (Self { to, bytes, pause, patience, stream: None, counts: counts.clone() }, counts)
    }

    fn open(&mut self, system: &mut System<'_>) -> Step {
        let Ok(stream) = TcpStream::connect(system, self.to) else {
            self.counts.failed.add_one();
            return Step::Sleep(system.now() + self.pause);
        };
        let fetch = Fetch { asked: false, head: Vec::new(), body: None, since: system.now() };
        self.stream = Some((stream, fetch));
        Step::Again
    }

    /// Continues with a fetch. Once it is over, returns whether the document was complete.
    fn go_on(stream: TcpStream, fetch: &mut Fetch, bytes: usize, system: &mut System<'_>) -> Option<bool> {
        if !fetch.asked {
            match stream.write(system, REQUEST) {
                Ok(len) => fetch.asked = len == REQUEST.len(),
                Err(StreamError::WouldBlock) => return None,
                Err(_) => return Some(false),
            }
        }
        let mut chunk = [0; CHUNK];
        loop {
            match stream.read(system, &mut chunk) {
                Ok(0) => return Some(fetch.body == Some(bytes)),
                Ok(len) => fetch.take(chunk.get(..len).unwrap_or_default()),
                Err(StreamError::WouldBlock) => return None,
                Err(_) => return Some(false),
            }
        }
    }
}

impl Fetch {
    fn take(&mut self, bytes: &[u8]) {
        if let Some(body) = &mut self.body {
            *body += bytes.len();
            return;
        }
        self.head.extend(bytes);
        let end = self.head.windows(BLANK_LINE.len()).position(|at| at == BLANK_LINE);
        self.body = end.map(|at| self.head.len() - at - BLANK_LINE.len());
    }
}

impl Program for WebClient {
    fn step(&mut self, system: &mut System<'_>) -> Step {
        let Some((stream, mut fetch)) = self.stream.take() else { return self.open(system) };
        let over = Self::go_on(stream, &mut fetch, self.bytes, system);
        let until = fetch.since + self.patience;
        match over {
            None if system.now() < until => {
                self.stream = Some((stream, fetch));
                return Step::WaitUntil(stream.fd(), until);
            }
            Some(true) => self.counts.fetched.add_one(),
            _ => self.counts.failed.add_one(),
        }
        system.close(stream);
        if over == Some(true) { Step::Again } else { Step::Sleep(system.now() + self.pause) }
    }
}
