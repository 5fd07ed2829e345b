//! Our side as an endpoint without a host.

use evenkeel_tcp::connection::{Info, Unavailable};
use evenkeel_tcp::endpoint::{EndpointEvent, ListenAt, Opening, Packet};
use evenkeel_tcp::fast_open::FastOpenServer;
use evenkeel_tcp::table::Id;
use evenkeel_tcp::time::Instant;
use evenkeel_tcp::{Ecn, Endpoint, FourTuple, Secret, SeqNumber};

use super::ours::{Notice, OUR_PORT, Ours, PEER, PEER_PORT, Refusal, US, end, ip};
use super::plan::Plan;
use super::wire::Seg;

/// An endpoint with one connection.
#[derive(Debug)]
pub(crate) struct Alone {
    endpoint: Endpoint,
    tuple: FourTuple,
    id: Option<Id>,
    accepted: bool,
}

const MSS: u16 = 1_460;

impl Alone {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self {
            endpoint: Endpoint::new(plan.endpoint.clone(), Secret::new([3; 16])),
            tuple: FourTuple::new(end(US, OUR_PORT), end(PEER, PEER_PORT)),
            id: None,
            accepted: false,
        }
    }

    /// Obtains a Fast Open cookie in an earlier connection.
    fn get_cookie(&mut self, plan: &Plan, now: Instant) -> Result<(), String> {
        let tuple = FourTuple::new(end(US, OUR_PORT + 1), self.tuple.remote);
        let (id, _) = self.endpoint.connect_with(tuple, MSS, &[], now).map_err(|why| why.to_string())?;
        let mut buffer = [0; 2_048];
        let left = self.endpoint.poll_transmit(now, &(), &mut buffer).ok_or("no SYN")?;
        let syn = Seg::parse(&buffer[..left.len], US, PEER).ok_or("a malformed SYN")?;
        let answer = plan.peer.cookie_for(&syn);
        let bytes = answer.emit((PEER, PEER_PORT), (US, OUR_PORT + 1));
        self.endpoint.input(&bytes, &packet(Ecn::NotCapable), now);
        let _ = self.endpoint.abort(id);
        while self.endpoint.poll_transmit(now, &(), &mut buffer).is_some() {}
        Ok(())
    }
}

impl Ours for Alone {
    fn listen(&mut self, plan: &Plan, _now: Instant) -> Option<Vec<u8>> {
        let at = ListenAt { address: None, port: OUR_PORT };
        let server = plan.fast_open.then(|| FastOpenServer::new(Secret::new([4; 16]), 8));
        let cookie = server.as_ref().map(|server| server.cookie(&ip(PEER), &ip(US)).as_slice().to_vec());
        let _ = self.endpoint.listen(at, &plan.listener, server);
        cookie
    }

    fn connect(&mut self, plan: &Plan, data: Option<&[u8]>, now: Instant) -> Result<usize, String> {
        if data.is_some() {
            self.get_cookie(plan, now)?;
        }
        let opening = Opening { data, ..Opening::new(MSS) };
        let opened = self.endpoint.connect_as(self.tuple, &opening, now);
        let (id, taken) = opened.map_err(|why| why.to_string())?;
        self.id = Some(id);
        Ok(taken)
    }

    fn input(&mut self, segment: &[u8], ecn: Ecn, now: Instant) {
        self.endpoint.input(segment, &packet(ecn), now);
    }

    fn too_big(&mut self, seq: u32, mss: u16, now: Instant) {
        self.endpoint.packet_too_big(&self.tuple, SeqNumber::new(seq), mss, now);
    }

    fn advance(&mut self, now: Instant) {
        self.endpoint.advance(now);
    }

    fn deadline(&mut self) -> Instant {
        self.endpoint.next_deadline().unwrap_or(Instant::NEVER)
    }

    fn transmit(&mut self, to: &mut [u8], now: Instant) -> Option<(usize, Ecn)> {
        self.endpoint.poll_transmit(now, &(), to).map(|left| (left.len, left.ecn))
    }

    fn notice(&mut self, _now: Instant) -> Option<Notice> {
        loop {
            match self.endpoint.poll_event()? {
                EndpointEvent::Acceptable(at) => {
                    let mut accepted = None;
                    while let Some(id) = self.endpoint.accept(&at) {
                        if self.accepted {
                            // An old SYN was repeated.
                            let _ = self.endpoint.abort(id);
                            continue;
                        }
                        (self.id, self.accepted) = (Some(id), true);
                        accepted = Some(Notice::Accepted);
                    }
                    if accepted.is_some() {
                        return accepted;
                    }
                }
                EndpointEvent::Connection(id, now) if self.id == Some(id) => {
                    let (readable, writable) = (now.readable || now.over, now.writable || now.over);
                    return Some(Notice::Ready { readable, writable });
                }
                EndpointEvent::Connection(..) => {}
            }
        }
    }

    fn write(&mut self, data: &[u8], _now: Instant) -> Result<usize, Refusal> {
        let Some(id) = self.id else { return Err(Refusal::WouldBlock) };
        self.endpoint.write(id, data).map_err(refusal)
    }

    fn read(&mut self, to: &mut [u8], now: Instant) -> Result<usize, Refusal> {
        let Some(id) = self.id else { return Err(Refusal::WouldBlock) };
        self.endpoint.read(id, to, now).map_err(refusal)
    }

    fn shutdown(&mut self, _now: Instant) -> bool {
        self.id.is_some_and(|id| self.endpoint.shutdown(id).is_ok())
    }

    fn close(&mut self, now: Instant) {
        if let Some(id) = self.id.take() {
            self.endpoint.close(id, now);
        }
    }

    fn abort(&mut self, _now: Instant) {
        if let Some(id) = self.id.take() {
            let _ = self.endpoint.abort(id);
        }
    }

    fn info(&self) -> Option<Info> {
        let id = self.endpoint.find(&self.tuple)?;
        self.endpoint.connection(id).map(|connection| connection.info())
    }

    fn left(&mut self, _now: Instant) -> Option<String> {
        let Self { endpoint, .. } = self;
        let (left, bytes, waiting) = (endpoint.len(), endpoint.buffered(), endpoint.waiting());
        let nothing = left == 0 && bytes == 0 && waiting == 0;
        (!nothing).then(|| format!("{left} connections, {bytes} bytes, {waiting} in TIME-WAIT are left"))
    }
}

fn refusal(why: Unavailable) -> Refusal {
    match why {
        Unavailable::WouldBlock => Refusal::WouldBlock,
        other => Refusal::Failed(other.to_string()),
    }
}

const fn packet(ecn: Ecn) -> Packet {
    Packet { source: ip(PEER), destination: ip(US), ecn, mss: MSS }
}
