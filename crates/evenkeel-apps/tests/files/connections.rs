//! Connections that are served, limited and ended, in virtual time.

use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_apps::http::files::{AccessLog, Settings};

use crate::tree::{Tree, bytes};
use crate::world::World;

const SECOND: Duration = Duration::from_secs(1);
const GET: &str = "GET /file HTTP/1.1\r\nHost: x\r\n\r\n";

fn tree() -> Tree {
    Tree::new(&[("file", b"content"), ("large", &bytes(2 << 20))])
}

fn settings() -> Settings {
    Settings {
        head_timeout: 10 * SECOND,
        idle_timeout: 60 * SECOND,
        stall_timeout: 30 * SECOND,
        grace: 5 * SECOND,
        connections_max: 3,
        ..Settings::default()
    }
}

/// The lines of a log.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn count(text: &str, part: &str) -> usize {
    text.matches(part).count()
}

#[test]
fn requests_are_answered_one_after_another_and_pipelined() {
    let tree = tree();
    let world = World::new(&tree, settings());
    let client = world.connect();
    client.send(GET);
    let first = client.text();
    assert!(first.starts_with("HTTP/1.1 200 OK\r\n") && first.ends_with("\r\n\r\ncontent"), "{first}");
    client.send(GET.repeat(20));
    assert_eq!(count(&client.text(), "\r\n\r\ncontent"), 20);
    assert!(!client.is_closed());
}

#[test]
fn a_request_whose_client_has_finished_sending_is_answered() {
    let tree = tree();
    let world = World::new(&tree, settings());
    for path in ["file", "large"] {
        let client = world.connect_with(5000);
        client.send_last(format!("GET /{path} HTTP/1.1\r\nHost: x\r\n\r\n"));
        let answer = client.take();
        let content = std::fs::read(tree.root().join(path)).unwrap();
        assert!(answer.ends_with(&content), "{path}: {} bytes", answer.len());
        assert!(client.is_gone());
    }
}

#[test]
fn a_head_has_its_time_however_slowly_it_comes() {
    let tree = tree();
    let world = World::new(&tree, settings());
    let kept = world.connect();
    kept.send(GET);
    kept.take();
    world.pass(20 * SECOND);
    let silent = world.connect();
    let slow = world.connect();
    for _ in 0..9 {
        slow.send("G");
        world.pass(SECOND);
    }
    assert!(!silent.is_gone() && !slow.is_gone());
    kept.send("GET /");
    world.pass(SECOND);
    assert!(silent.is_gone() && slow.is_gone(), "ten seconds for the first head");
    world.pass(8 * SECOND);
    kept.send("fi");
    assert!(!kept.is_gone());
    world.pass(SECOND);
    assert!(kept.is_gone(), "ten seconds for a later head, from its first byte");
}

#[test]
fn a_connection_without_requests_ends_after_its_time() {
    let tree = tree();
    let world = World::new(&tree, settings());
    let client = world.connect();
    for _ in 0..3 {
        world.pass(9 * SECOND);
        client.send(GET);
        assert!(client.text().ends_with("content"));
        world.pass(50 * SECOND);
        client.send(GET);
        assert!(client.text().ends_with("content"));
    }
    world.pass(59 * SECOND);
    assert!(!client.is_gone());
    world.pass(SECOND);
    assert!(client.is_gone());
}

#[test]
fn an_answer_without_progress_ends_its_connection() {
    let tree = tree();
    let world = World::new(&tree, settings());
    let client = world.connect_with(1000);
    client.send("GET /large HTTP/1.1\r\nHost: x\r\n\r\n");
    for _ in 0..10 {
        world.pass(29 * SECOND);
        assert_eq!(client.take_some(100).len(), 100, "a slow reader is served");
    }
    world.pass(29 * SECOND);
    assert!(!client.is_gone());
    world.pass(SECOND);
    assert!(client.is_gone(), "thirty seconds without a byte");
}

#[test]
fn requests_set_no_timers() {
    let tree = tree();
    let world = World::new(&tree, settings());
    let client = world.connect();
    client.send(GET);
    let before = world.timers();
    for _ in 0..100 {
        client.send(GET);
        client.take();
    }
    assert_eq!(world.timers(), before);
}

#[test]
fn clients_beyond_the_limit_wait_for_a_place() {
    let tree = tree();
    let world = World::new(&tree, settings());
    let mut clients: Vec<_> = (0..5).map(|_| world.connect()).collect();
    assert_eq!(world.waiting(), 2);
    for _ in 0..2 {
        clients.remove(0).close();
    }
    assert_eq!(world.waiting(), 0);
    for client in clients {
        client.send(GET);
        assert!(client.text().ends_with("content"));
    }
}

#[test]
fn a_stopped_server_finishes_answers_in_flight() {
    let tree = tree();
    let world = World::new(&tree, settings());
    let idle = world.connect();
    idle.send(GET);
    idle.take();
    let busy = world.connect_with(1000);
    busy.send("GET /large HTTP/1.1\r\nHost: x\r\n\r\n");
    world.stopper.stop();
    world.run();
    assert!(idle.is_gone(), "a connection without a request ends at once");
    let late = world.connect();
    assert_eq!(world.stopped(), None);
    world.pass(4 * SECOND);
    let answer = busy.take();
    assert!(answer.ends_with(&bytes(2 << 20)), "{} bytes", answer.len());
    assert!(busy.is_gone() && world.stopped().is_some_and(|stopped| stopped.unwrap().unfinished == 0));
    assert!(late.text().is_empty(), "no connection is accepted any more");
}

#[test]
fn a_stopped_server_waits_no_longer_than_its_grace() {
    let tree = tree();
    let world = World::new(&tree, settings());
    let stuck = world.connect_with(1000);
    stuck.send("GET /large HTTP/1.1\r\nHost: x\r\n\r\n");
    world.stopper.stop();
    world.pass(4 * SECOND);
    assert!(!stuck.is_gone() && world.stopped().is_none());
    world.pass(SECOND);
    assert!(stuck.is_gone());
    assert_eq!(world.stopped().map(|stopped| stopped.unwrap().unfinished), Some(1));
}

#[test]
fn a_server_goes_on_after_errors_that_pass() {
    const EMFILE: i32 = 24;
    let tree = tree();
    let world = World::new(&tree, settings());
    world.fail(ErrorKind::ConnectionAborted);
    let client = world.connect();
    assert_eq!(world.waiting(), 0, "an error of one connection is none of the next");
    world.fail(io::Error::from_raw_os_error(EMFILE));
    let next = world.connect();
    world.pass(Duration::from_millis(99));
    assert_eq!(world.waiting(), 1, "where nothing is left, accepting at once would only fail again");
    world.pass(Duration::from_millis(1));
    for client in [client, next] {
        client.send(GET);
        assert!(client.text().ends_with("content"));
    }
}

#[test]
fn a_server_whose_listener_fails_finishes_its_answers() {
    let tree = tree();
    let world = World::new(&tree, settings());
    let busy = world.connect_with(1000);
    busy.send("GET /large HTTP/1.1\r\nHost: x\r\n\r\n");
    world.fail(ErrorKind::InvalidInput);
    assert_eq!(world.stopped(), None);
    assert!(busy.take().ends_with(&bytes(2 << 20)));
    assert_eq!(world.stopped(), Some(Err(ErrorKind::InvalidInput)));
}

#[test]
fn a_file_that_becomes_shorter_ends_its_connection_before_the_announced_length() {
    let tree = tree();
    let world = World::new(&tree, settings());
    let client = world.connect_with(1000);
    client.send("GET /large HTTP/1.1\r\nHost: x\r\n\r\n");
    std::fs::File::options().write(true).open(tree.root().join("large")).unwrap().set_len(300_000).unwrap();
    let answer = client.take();
    assert!(answer.len() < 400_000, "{} bytes", answer.len());
    assert!(client.is_gone());
    let next = world.connect();
    next.send(GET);
    assert!(next.text().ends_with("content"), "the server goes on");
}

#[test]
fn heads_are_bounded() {
    let tree = tree();
    let world = World::new(&tree, settings());
    let long = format!("GET /file HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "x".repeat(20_000));
    let many = format!("GET /file HTTP/1.1\r\nHost: x\r\n{}\r\n", "X: y\r\n".repeat(200));
    for head in [long, many] {
        let client = world.connect();
        client.send(head);
        let answer = client.text();
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
        assert!(client.is_gone());
    }
}

#[test]
fn malformed_requests_are_refused_and_their_connection_closed() {
    let tree = tree();
    let world = World::new(&tree, settings());
    for request in
        ["nonsense\r\n\r\n", "GET /\r\n\r\n", "GET / HTTP/1.1\r\nHost : x\r\n\r\n", "\0\0\0\0\r\n\r\n"]
    {
        let client = world.connect();
        client.send(request);
        let answer = client.text();
        assert!(answer.starts_with("HTTP/1.1 400 "), "{request:?}: {answer}");
        assert!(client.is_gone(), "{request:?}");
    }
}

#[test]
fn an_answer_is_not_lost_with_a_content_that_nobody_reads() {
    let tree = tree();
    let world = World::new(&tree, settings());
    let client = world.connect();
    client.send("POST /file HTTP/1.1\r\nHost: x\r\nContent-Length: 500000\r\n\r\nsome");
    let answer = client.text();
    assert!(answer.starts_with("HTTP/1.1 405 ") && answer.contains("\r\nallow: GET, HEAD\r\n"), "{answer}");
    assert!(client.is_closed() && !client.is_gone(), "the rest is read, so that the connection is not reset");
    client.send(bytes(400_000));
    assert!(!client.is_gone());
    client.close();
    assert!(client.is_gone());

    let endless = world.connect();
    endless.send("POST /file HTTP/1.1\r\nHost: x\r\nContent-Length: 50000000\r\n\r\nsome");
    world.pass(9 * SECOND);
    assert!(!endless.is_gone());
    world.pass(SECOND);
    assert!(endless.is_gone(), "but not for long");
}

#[test]
fn requests_are_logged_with_the_bytes_that_were_sent() {
    let tree = tree();
    let lines = Lines::default();
    let log = AccessLog::new(lines.clone());
    let world = World::with(&tree, settings(), |server| server.with_log(log));
    let client = world.connect();
    client.send("GET /file?a=b HTTP/1.1\r\nHost: x\r\nUser-Agent: test\r\n\r\n");
    client.send("HEAD /file HTTP/1.1\r\nHost: x\r\n\r\n");
    client.send("GET /none HTTP/1.0\r\n\r\n");
    let cut = world.connect_with(1000);
    cut.send("GET /large HTTP/1.1\r\nHost: x\r\n\r\n");
    world.pass(30 * SECOND);
    let text = lines.text();
    let lines: Vec<_> = text.lines().collect();
    for (line, end) in lines.iter().zip([
        "\"GET /file?a=b HTTP/1.1\" 200 7 \"-\" \"test\"",
        "\"HEAD /file HTTP/1.1\" 200 0 \"-\" \"-\"",
        "\"GET /none HTTP/1.0\" 404 14 \"-\" \"-\"",
    ]) {
        assert!(line.starts_with("10.0.0.1 - - [") && line.ends_with(end), "{line}");
    }
    assert_eq!(lines.len(), 4, "{text}");
    let sent: u64 = lines[3].split(' ').nth(9).unwrap().parse().unwrap();
    assert!((1..=2 * 65_536).contains(&sent), "a connection buffers few pieces: {sent}");
}

/// A connection of HTTP/2, frame by frame (RFC 9113, 4.1; RFC 7541, 6).
mod http2 {
    use super::{AccessLog, Lines, SECOND, Tree, World, bytes, settings, tree};

    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    const DATA: u8 = 0;
    const HEADERS: u8 = 1;
    const SETTINGS: u8 = 4;
    const PING: u8 = 6;
    const GOAWAY: u8 = 7;
    const WINDOW_UPDATE: u8 = 8;

    /// The window that a stream and a connection have at first.
    const WINDOW: usize = 65_535;

    fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
        let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&len[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
    }

    /// Returns the frame of a `GET`, with the end of its headers and of its stream.
    fn get(stream: u8, path: &str) -> Vec<u8> {
        let len = u8::try_from(path.len()).unwrap();
        frame(HEADERS, 5, stream, &[&[0x82, 0x86, 0x01, 1, b'x', 0x04, len], path.as_bytes()].concat())
    }

    /// Returns the kinds of frames, and the content of all data.
    fn parse(mut bytes: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let (mut kinds, mut content) = (Vec::new(), Vec::new());
        while let [a, b, c, kind, _, _, _, _, _, rest @ ..] = bytes {
            let len = u32::from_be_bytes([0, *a, *b, *c]) as usize;
            kinds.push(*kind);
            if *kind == DATA {
                content.extend(&rest[..len]);
            }
            bytes = &rest[len..];
        }
        (kinds, content)
    }

    fn start() -> Vec<u8> {
        [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()
    }

    #[test]
    fn streams_share_a_connection_and_wait_for_its_window() {
        let tree = tree();
        let world = World::new(&tree, settings());
        let client = world.connect();
        client.send([start(), get(1, "/large"), get(3, "/file")].concat());
        let (kinds, mut content) = parse(&client.take());
        assert_eq!(kinds.iter().filter(|&&kind| kind == HEADERS).count(), 2);
        assert_eq!(content.len(), WINDOW);
        while content.len() < (2 << 20) + 7 {
            world.pass(29 * SECOND);
            let window = u32::try_from(WINDOW).unwrap().to_be_bytes();
            client.send([0, 1].map(|stream| frame(WINDOW_UPDATE, 0, stream, &window)).concat());
            let (_, more) = parse(&client.take());
            assert!(!more.is_empty(), "{} bytes", content.len());
            content.extend(more);
        }
        let at = content.windows(7).position(|bytes| bytes == b"content").unwrap();
        content.drain(at..at + 7);
        assert!(content == bytes(2 << 20));
    }

    #[test]
    fn streams_buffer_a_bounded_part_of_their_files() {
        let tree = tree();
        let lines = Lines::default();
        let log = AccessLog::new(lines.clone());
        let world = World::with(&tree, settings(), |server| server.with_log(log));
        let client = world.connect_with(1000);
        // Initial windows of 2^31 - 1 bytes.
        let settings = frame(SETTINGS, 0, 0, &[0, 4, 0x7f, 0xff, 0xff, 0xff]);
        let window = frame(WINDOW_UPDATE, 0, 0, &0x7fff_0000_u32.to_be_bytes());
        let requests = (0..20).flat_map(|request| get(2 * request + 1, "/large")).collect::<Vec<_>>();
        client.send([PREFACE, &settings, &window, &requests].concat());
        // The streams' last progress is seen with the alarm for the first request.
        world.pass(40 * SECOND);
        assert!(client.is_gone());
        let text = lines.text();
        assert_eq!(text.lines().count(), 20, "{text}");
        for line in text.lines() {
            let sent: u64 = line.split(' ').nth(9).unwrap().parse().unwrap();
            assert!(sent <= 3 * 16_384, "{line}");
        }
    }

    #[test]
    fn a_window_that_stays_closed_ends_the_connection() {
        let tree = tree();
        let world = World::new(&tree, settings());
        let client = world.connect();
        client.send([start(), get(1, "/large")].concat());
        client.take();
        world.pass(29 * SECOND);
        assert!(!client.is_gone());
        world.pass(SECOND);
        assert!(client.is_gone());
    }

    #[test]
    fn a_connection_without_requests_ends_after_its_time() {
        let tree = tree();
        let world = World::new(&tree, settings());
        let silent = world.connect();
        silent.send(start());
        let client = world.connect();
        client.send([start(), get(1, "/file")].concat());
        assert_eq!(parse(&client.take()).1, b"content");
        world.pass(10 * SECOND);
        assert!(silent.is_gone(), "ten seconds for the first request");
        world.pass(10 * SECOND);
        client.send(frame(WINDOW_UPDATE, 0, 0, &1u32.to_be_bytes()));
        world.pass(39 * SECOND);
        assert!(!client.is_gone(), "a frame that is no request is no head");
        world.pass(SECOND);
        assert!(client.is_gone(), "and no progress");
    }

    #[test]
    fn a_stopped_server_finishes_streams_and_says_so() {
        let tree = Tree::new(&[("large", &bytes(WINDOW + 5))]);
        let world = World::new(&tree, settings());
        let client = world.connect();
        client.send([start(), get(1, "/large")].concat());
        let (_, mut content) = parse(&client.take());
        world.stopper.stop();
        world.run();
        let (kinds, _) = parse(&client.take());
        assert!(kinds.contains(&GOAWAY), "{kinds:?}");
        let ping = frame(PING, 1, 0, &[0; 8]);
        let windows = [0, 1].map(|stream| frame(WINDOW_UPDATE, 0, stream, &5u32.to_be_bytes())).concat();
        client.send([ping, windows].concat());
        content.extend(parse(&client.take()).1);
        assert!(content == bytes(WINDOW + 5), "{} bytes", content.len());
        world.pass(5 * SECOND);
        assert!(client.is_gone() && world.stopped().is_some());
    }
}
