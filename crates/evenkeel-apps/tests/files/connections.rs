//! Connections that are served, limited and ended, in virtual time.

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
    let silent = world.connect();
    let slow = world.connect();
    let kept = world.connect();
    kept.send(GET);
    kept.take();
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
    assert!(busy.is_gone() && world.stopped().is_some_and(|stopped| stopped.unfinished == 0));
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
    assert_eq!(world.stopped().map(|stopped| stopped.unfinished), Some(1));
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
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);
    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

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
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
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
    assert!((1..1_000_000).contains(&sent), "what the protocol took of the file: {sent}");
}
