//! Tests of [`Responder`], and of the whole server between two hosts, with the table of requests.

use std::sync::Arc;

use evenkeel::raw::error::StreamError;
use evenkeel::raw::process::{Program as _, Step};
use evenkeel::raw::socket::TcpStream;
use evenkeel::raw::tcp::ListenerConfig;
use evenkeel::raw::tcp::connection::StreamOption;
use evenkeel::raw::time::Duration;
use evenkeel::raw::wire::IpEndpoint;

use super::{REQUESTS, Row, assert_all, cuts};
use crate::http::{Document, Responder};
use crate::stream::{Counters, Options, Server, Web};
use crate::two_hosts::{ADDRESSES, TwoHosts};

const GOOD: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";
const LEN: u64 = 40;

/// The state in which a server leaves a connection.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Then {
    Keep,
    Close,
}

/// The outcome of a row: the statuses of the answers, and the state of the connection.
type Outcome = (Vec<u16>, Then);

impl Row {
    /// Returns the expected outcome of a row with `before` good requests before it and another one behind
    /// it. The one behind it tests `keep`.
    fn outcome(&self, before: usize) -> Outcome {
        let (then, statuses) = self.expected.split_last().unwrap();
        let statuses = statuses.iter().map(|status| status.parse().unwrap());
        let mut all: Vec<u16> = core::iter::repeat_n(200, before).chain(statuses).collect();
        let then = match *then {
            "keep" => {
                all.push(200);
                Then::Keep
            }
            // Bytes sent after half a request belong to that request.
            "wait" => Then::Keep,
            "close" => Then::Close,
            other => panic!("{other} in {}", self.name),
        };
        (all, then)
    }

    fn is_head(&self, answer: usize) -> bool {
        answer == 0 && self.bytes.starts_with(b"HEAD")
    }

    /// Returns the row's bytes between good requests.
    fn between(&self, before: usize) -> Vec<u8> {
        let behind = if self.expected.ends_with(&["wait"]) { &[] } else { GOOD };
        [&GOOD.repeat(before), &self.bytes[..], behind].concat()
    }

    /// Returns the statuses of the answers, each of which has to be complete.
    fn statuses(&self, mut said: &[u8], before: usize) -> Vec<u16> {
        let mut all = Vec::new();
        while !said.is_empty() {
            let end = said.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
            let head = str::from_utf8(&said[..end]).unwrap();
            let status: u16 = head.strip_prefix("HTTP/1.1 ").unwrap()[..3].parse().unwrap();
            let field = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            let has_none = status == 304 || all.len() >= before && self.is_head(all.len() - before);
            assert_eq!(field.is_none(), status == 304, "{head}");
            assert_eq!(head.contains("\r\nAllow: "), status == 405, "{head}");
            let len: usize = if has_none { 0 } else { field.unwrap().parse().unwrap() };
            said = &said[end + len..];
            all.push(status);
        }
        all
    }
}

fn answered(row: &Row, pieces: &[usize], before: usize) -> Outcome {
    let bytes = row.between(before);
    let pieces = [pieces, &[bytes.len() - pieces.iter().sum::<usize>()]].concat();
    let (mut responder, mut said) = (Responder::new(Document::new(LEN)), Vec::new());
    let (mut begun, mut to) = (0, [0; 64]);
    for piece in pieces {
        let mut rest = &bytes[begun..begun + piece];
        begun += piece;
        loop {
            let taken = responder.receive(rest);
            rest = &rest[taken..];
            let len = responder.fill(&mut to);
            said.extend(&to[..len]);
            responder.sent(len);
            if len == 0 && rest.is_empty() {
                break;
            }
        }
    }
    let then = if responder.is_over() { Then::Close } else { Then::Keep };
    (row.statuses(&said, before), then)
}

#[test]
fn every_request_gets_the_answer_that_fits_however_it_comes() {
    assert_all(REQUESTS, |row| {
        for before in [0, 1] {
            let expected = row.outcome(before);
            for pieces in cuts(row.between(before).len()) {
                let outcome = answered(row, &pieces, before);
                if outcome != expected {
                    return Err(format!("{outcome:?} for {expected:?}, in pieces of {pieces:?}"));
                }
            }
        }
        Ok(())
    });
}

/// Sends a row to a server over TCP, between good requests. Returns the outcome.
fn served(row: &Row) -> Outcome {
    let mut hosts = TwoHosts::new();
    let options =
        Options { port: 80, listener: ListenerConfig::default(), work: Duration::ZERO, count: None };
    let mut server = Server::new(Web::new(Document::new(LEN)), options, Arc::new(Counters::default()));
    let mut serve =
        |hosts: &mut TwoHosts| while hosts.turn(1, |system| server.step(system)) == Step::Again {};
    serve(&mut hosts);
    let to = IpEndpoint::new(ADDRESSES[1], 80);
    let stream = hosts.turn(0, |system| TcpStream::connect(system, to)).unwrap();
    serve(&mut hosts);
    // Time does not pass, so there is no delayed acknowledgment to wait for.
    hosts.turn(0, |system| stream.set(system, StreamOption::Nagle(false))).unwrap();
    let bytes = row.between(1);
    let (mut said, mut to) = (Vec::new(), vec![0; 4_096]);
    for piece in bytes.chunks(1_000) {
        assert_eq!(hosts.turn(0, |system| stream.write(system, piece)), Ok(piece.len()));
        serve(&mut hosts);
        loop {
            match hosts.turn(0, |system| stream.read(system, &mut to)) {
                Ok(0) => return (row.statuses(&said, 1), Then::Close),
                Ok(len) => said.extend(&to[..len]),
                Err(StreamError::WouldBlock) => break,
                Err(error) => panic!("{}: {error}", row.name),
            }
        }
    }
    (row.statuses(&said, 1), Then::Keep)
}

#[test]
fn every_request_gets_the_answer_that_fits_over_tcp() {
    assert_all(REQUESTS, |row| {
        let (outcome, expected) = (served(row), row.outcome(1));
        if outcome == expected { Ok(()) } else { Err(format!("{outcome:?} for {expected:?}")) }
    });
}
