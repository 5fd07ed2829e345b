//! Tests of the generator with the table of responses. Each response answers one request and the next one.

use std::collections::VecDeque;

use evenkeel::raw::time::{Duration, Instant};

use super::*;
use crate::http::table::{RESPONSES, Row, assert_all, cuts};

/// A server that answers everything with the bytes of a row.
struct Server<'r> {
    row: &'r Row,
    pieces: &'r [usize],
    /// The only connection that is used at a time.
    id: Option<Id>,
    to_read: VecDeque<Vec<u8>>,
    ends: bool,
}

impl Transport for Server<'_> {
    fn connect(&mut self, id: Id, _: usize) -> Result<(), Fault> {
        (self.id, self.ends) = (Some(id), false);
        self.to_read.clear();
        Ok(())
    }

    fn is_open(&mut self, _: Id) -> Result<bool, Fault> {
        Ok(true)
    }

    fn write(&mut self, _: Id, bytes: &[u8]) -> Result<usize, Fault> {
        let mut rest = &self.row.bytes[..];
        for piece in self.pieces {
            let (first, others) = rest.split_at(*piece);
            rest = others;
            self.to_read.push_back(first.to_vec());
        }
        self.ends = !self.row.expected.contains(&"keep");
        Ok(bytes.len())
    }

    fn read(&mut self, id: Id, to: &mut [u8]) -> Result<Option<usize>, Fault> {
        assert_eq!(Some(id), self.id);
        // Bytes come one piece at a time.
        Ok(match self.to_read.pop_front() {
            Some(piece) => {
                to[..piece.len()].copy_from_slice(&piece);
                Some(piece.len()).filter(|len| *len > 0)
            }
            None => self.ends.then_some(0),
        })
    }

    fn has_ended(&mut self, _: Id) -> bool {
        self.ends && self.to_read.is_empty()
    }

    fn close(&mut self, id: Id, _: Close) {
        self.id = self.id.filter(|open| *open != id);
    }
}

/// Runs two requests that are both answered with the row's bytes. Returns the report.
fn load(row: &Row, pieces: &[usize]) -> Report {
    let method = if row.expected.ends_with(&["HEAD"]) { "HEAD" } else { "GET" };
    let request = Request::new(&"http://here/".parse().unwrap(), method, &[], b"").unwrap();
    let length = Duration::from_millis(200);
    let plan = Plan {
        load: Load::Open { curve: Curve::flat(10.0, length), spacing: Spacing::Constant },
        length,
        warm_up: Duration::ZERO,
        connections: 1,
        requests_per_connection: None,
        timeout: Duration::from_secs(1),
        connect_timeout: Duration::from_secs(1),
        cold: 0,
        cold_rate: 0.0,
        interval: length,
        seed: 1,
        share: Share::WHOLE,
    };
    let mut server = Server { row, pieces, id: None, to_read: VecDeque::new(), ends: false };
    let (mut generator, mut now) = (Generator::new(plan, request), Instant::ZERO);
    while !generator.is_over() {
        generator.turn(now, &mut server);
        if let Some(id) = server.id {
            generator.handle(now, id, &mut server);
        }
        let deadline = generator.deadline();
        let busy = !server.to_read.is_empty() || server.ends && server.id.is_some();
        now = if busy || deadline < now { now.plus_nanos(1_000) } else { deadline.max(now) };
    }
    Report::new(&generator.finish(now, &mut server), Effort { cpu_share: 0.0, run_delay_share: 0.0 })
}

/// Returns how many of two requests were counted as the row expects.
fn counted(row: &Row, counts: &Counts) -> u64 {
    match row.expected[0] {
        "malformed" => counts.failed.of(Failure::Malformed),
        "short" => counts.failed.of(Failure::Short),
        status => match status.parse::<u16>().unwrap() / 100 {
            2 => counts.statuses.successful,
            3 => counts.statuses.redirection,
            4 => counts.statuses.client_error,
            _ => counts.statuses.server_error,
        },
    }
}

#[test]
fn every_response_is_counted_as_what_it_is_however_it_comes() {
    assert_all(RESPONSES, |row| {
        let connections = if row.expected.contains(&"keep") { 1 } else { 2 };
        let all = cuts(row.bytes.len());
        // The reader's own test tries every cutting; these are some of them.
        for pieces in all.iter().take(3).chain(all.iter().rev().take(2)) {
            let report = load(row, pieces);
            let told = (report.counts.due, counted(row, &report.counts), report.connections.opened);
            if told != (2, 2, connections) {
                return Err(format!("{told:?}, in pieces of {pieces:?}: {:?}", report.counts));
            }
        }
        Ok(())
    });
}
