//! The runner of a plan.

use std::collections::BTreeMap;

use evenkeel_core::tcp::connection::{StreamOption, Unavailable};
use evenkeel_core::tcp::endpoint::{EndpointEvent, ListenAt, OpenError};
use evenkeel_core::tcp::fast_open::FastOpenServer;
use evenkeel_core::tcp::table::Id;
use evenkeel_core::tcp::{FourTuple, ListenerConfig, Secret, State};
use evenkeel_core::time::{Duration, Instant};
use evenkeel_sim::tcp::{Network, User};

use crate::judge::{self, Tally};
use crate::plan::{Opening, Plan, When};
use crate::program::{Ending, Fate, Side, Stream};
use crate::referee::{self, Referee, mirrored};

pub(crate) const HTTP: ListenAt = ListenAt { address: None, port: 80 };
const FIRST_PORT: u16 = 20_000;
/// The time by which every world is at rest.
const LIMIT: Instant = Instant::from_millis(6 * 3_600 * 1_000);

/// A connection and its two users: first the one that opens it.
#[derive(Debug)]
pub(crate) struct Conversation {
    pub(crate) opening: Opening,
    /// The tuple from the opener's view, once the connection is open.
    pub(crate) tuple: Option<FourTuple>,
    pub(crate) sides: [Side; 2],
    /// The number of segments that have left.
    pub(crate) segments: u64,
    streams: [Stream; 2],
}

/// The purpose of a wake.
#[derive(Debug, Clone, Copy)]
enum Wake {
    Open,
    OpenToo,
    Read,
    Write,
    End,
    Accept,
    Rekey,
}

const WAKES: [Wake; 7] =
    [Wake::Open, Wake::OpenToo, Wake::Read, Wake::Write, Wake::End, Wake::Accept, Wake::Rekey];

const fn token(wake: Wake, conversation: usize, side: usize) -> u64 {
    (conversation as u64) << 8 | (side as u64) << 4 | wake as u64
}

/// All users of a world.
pub(crate) struct Users {
    pub(crate) conversations: Vec<Conversation>,
    pub(crate) gentle: bool,
    /// Whether an opener that sends no data may remain unknown to the server: its one ACK is lost, and the
    /// server has forgotten the SYN (RFC 4987, 3.6).
    pub(crate) forgets: bool,
    listener: ListenerConfig,
    /// Whether the server keeps its previous key for Fast Open cookies at the next change.
    keeps_key: bool,
    accept_pause: Option<Duration>,
    accepting: bool,
    by_id: BTreeMap<(usize, Id), (usize, usize)>,
    /// The conversations of each tuple, one after the other.
    by_tuple: BTreeMap<FourTuple, Vec<usize>>,
    pub(crate) referee: Referee,
    pub(crate) violations: Vec<String>,
    /// The number of connections accepted twice: SYN cookies keep no state.
    pub(crate) ghosts: u64,
    /// The number of these with data from a repeated SYN (RFC 7413, 6.1).
    pub(crate) heard_twice: u64,
    pub(crate) reused: u64,
    buffer: Vec<u8>,
    /// Whether segments are printed.
    trace: bool,
    next_port: u16,
}

pub(crate) fn run(plan: &Plan) -> Result<Tally, String> {
    let mut network = Network::new(plan.seed);
    for config in &plan.nodes {
        network.add(config.clone());
    }
    for (link, conditions) in plan.links.iter().enumerate() {
        network.join(link + 1, 0, *conditions);
    }
    for &(at, way, change) in &plan.changes {
        network.change(at, way, change);
    }
    network
        .endpoint_mut(0)
        .listen(HTTP, &plan.listener, fast_open(&plan.listener))
        .map_err(|why| why.to_string())?;
    if let Some((after, _)) = plan.rekey {
        network.wake(after, token(Wake::Rekey, 0, 0));
    }
    let mut users = Users::new(plan);
    for (number, conversation) in users.conversations.iter().enumerate() {
        if !matches!(conversation.opening.when, When::Before { .. }) {
            network.wake(conversation.opening.after, token(Wake::Open, number, 0));
        }
    }
    let more = network.run(&mut users, LIMIT).map_err(|why| why.to_string())?;
    if more {
        return Err(format!("still busy after {LIMIT:?}: {:?}", users.open()));
    }
    network.endpoint_mut(0).unlisten(&HTTP);
    network.run(&mut users, LIMIT).map_err(|why| why.to_string())?;
    judge::judge(&network, &users)
}

const KEYS: [Secret; 2] = [Secret::new([1; 16]), Secret::new([2; 16])];

/// Returns the server's side of Fast Open, with its first key.
fn fast_open(config: &ListenerConfig) -> Option<FastOpenServer> {
    (config.fast_open > 0).then(|| FastOpenServer::new(KEYS[0], config.fast_open))
}

impl Users {
    fn new(plan: &Plan) -> Self {
        let conversation = |(number, opening): (usize, &Opening)| Conversation {
            opening: opening.clone(),
            tuple: None,
            sides: Default::default(),
            segments: 0,
            streams: [0, 1].map(|side| Stream::new(plan.seed, number, side)),
        };
        Self {
            conversations: plan.connections.iter().enumerate().map(conversation).collect(),
            gentle: plan.gentle,
            forgets: plan.listener.syn_queue < 100,
            listener: plan.listener,
            keeps_key: plan.rekey.is_some_and(|(_, keeps)| keeps),
            accept_pause: plan.accept_pause,
            accepting: false,
            by_id: BTreeMap::new(),
            by_tuple: BTreeMap::new(),
            referee: Referee::default(),
            violations: Vec::new(),
            ghosts: 0,
            heard_twice: 0,
            reused: 0,
            buffer: vec![0; 1 << 17],
            trace: std::env::var_os("EVENKEEL_TRACE").is_some(),
            next_port: FIRST_PORT,
        }
    }

    /// Returns the conversations that are not over.
    pub(crate) fn open(&self) -> Vec<&Conversation> {
        let is_open = |c: &&Conversation| {
            c.sides[0].fate.is_none() || c.sides[1].id.is_some() && c.sides[1].fate.is_none()
        };
        self.conversations.iter().filter(is_open).collect()
    }

    fn wrong(&mut self, conversation: usize, side: usize, what: &str) {
        let c = &self.conversations[conversation];
        self.violations.push(format!("connection {conversation}, side {side}: {what}: {c:?}"));
    }

    const fn node(&self, conversation: usize, side: usize) -> usize {
        if side == 0 { self.conversations.as_slice()[conversation].opening.client } else { 0 }
    }

    fn open_first(&mut self, network: &mut Network, number: usize) {
        let opening = &self.conversations[number].opening;
        let together = match opening.when {
            When::Together(later) => Some(later),
            _ => None,
        };
        let reused = self.free_port_before(number);
        let now = network.now();
        let mut ports = reused.into_iter().chain((self.next_port..).step_by(1));
        let (client, ipv6) = (opening.client, opening.ipv6);
        let there = (0, if together.is_some() { 4_000 + number as u16 } else { HTTP.port });
        for port in ports.by_ref() {
            let tuple = network.tuple((client, port), there, ipv6);
            match self.connect(network, number, 0, tuple, now) {
                Ok(id) => {
                    self.reused += u64::from(reused == Some(port));
                    self.next_port = self.next_port.max(port + 1);
                    self.conversations[number].tuple = Some(tuple);
                    self.by_tuple.entry(tuple).or_default().push(number);
                    self.begin(network, number, 0, id);
                    break;
                }
                Err(OpenError::InUse) if reused == Some(port) => {}
                Err(why) => return self.wrong(number, 0, &format!("cannot open: {why}")),
            }
        }
        if let Some(later) = together {
            network.wake(later, token(Wake::OpenToo, number, 1));
        }
    }

    /// Returns the port of the client's previous connection, if that went well for both users and the port
    /// is to be used again.
    fn free_port_before(&self, number: usize) -> Option<u16> {
        let opening = &self.conversations[number].opening;
        if opening.when != (When::Before { same_port: true }) {
            return None;
        }
        let before = self.conversations[..number].last().filter(|c| c.opening.client == opening.client)?;
        let done = before.sides.iter().all(|side| side.fate == Some(Fate::Complete));
        let tuple = before.tuple.filter(|_| done && before.opening.ipv6 == opening.ipv6)?;
        (tuple.remote.port == HTTP.port).then_some(tuple.local.port)
    }

    /// Opens a connection at the peer too, for a simultaneous open.
    fn open_too(&mut self, network: &mut Network, number: usize) {
        let Some(tuple) = self.conversations[number].tuple else { return };
        let now = network.now();
        match self.connect(network, number, 1, mirrored(&tuple), now) {
            Ok(id) => self.begin(network, number, 1, id),
            Err(why) => self.wrong(number, 1, &format!("cannot open: {why}")),
        }
    }

    /// Opens a connection, with data in the call or without.
    fn connect(
        &mut self,
        network: &mut Network,
        number: usize,
        side: usize,
        tuple: FourTuple,
        now: Instant,
    ) -> Result<Id, OpenError> {
        let (node, mss) = (self.node(number, side), Network::mss(self.conversations[number].opening.ipv6));
        let conversation = &mut self.conversations[number];
        let program = &conversation.opening.programs[side];
        if !conversation.opening.early {
            return network.endpoint_mut(node).connect(tuple, mss, now);
        }
        let data = &mut self.buffer[..program.bytes.min(program.write_chunk as u64) as usize];
        conversation.streams[side].fill(0, data);
        let (id, taken) = network.endpoint_mut(node).connect_with(tuple, mss, data, now)?;
        conversation.sides[side].written = taken as u64;
        if let Some(pause) = program.write_pause {
            conversation.sides[side].write_paused = true;
            network.wake(pause, token(Wake::Write, number, side));
        }
        Ok(id)
    }

    fn begin(&mut self, network: &mut Network, number: usize, side: usize, id: Id) {
        let node = self.node(number, side);
        self.by_id.insert((node, id), (number, side));
        let program = &self.conversations[number].opening.programs[side];
        let nagle = StreamOption::Nagle(program.nagle);
        let now = network.now();
        network.endpoint_mut(node).set(id, nagle, now).expect("it was just opened");
        if let Ending::CloseAt(after) | Ending::AbortAt(after) = program.ending {
            network.wake(after, token(Wake::End, number, side));
        }
        self.conversations[number].sides[side].id = Some(id);
        self.drive(network, number, side);
    }

    fn accept(&mut self, network: &mut Network) {
        while let Some(id) = network.endpoint_mut(0).accept(&HTTP) {
            let Some(&tuple) = network.endpoint(0).tuple(id) else { continue };
            let number = self.by_tuple.get(&mirrored(&tuple)).and_then(|numbers| numbers.last()).copied();
            match number.filter(|number| self.conversations[*number].sides[1].id.is_none()) {
                Some(number) => self.begin(network, number, 1, id),
                None => self.dismiss(network, id, &tuple),
            }
            if let Some(pause) = self.accept_pause {
                self.accepting = true;
                return network.wake(pause, token(Wake::Accept, 0, 0));
            }
        }
        self.accepting = false;
    }

    /// Dismisses a connection that no user has just opened, after a repeated SYN or ACK. If it has data, a
    /// user must have written them.
    fn dismiss(&mut self, network: &mut Network, id: Id, tuple: &FourTuple) {
        self.ghosts += 1;
        let now = network.now();
        let taken = network.endpoint_mut(0).read(id, &mut self.buffer, now).unwrap_or_default();
        let data = &self.buffer[..taken];
        let numbers = self.by_tuple.get(&mirrored(tuple)).map_or(&[][..], Vec::as_slice);
        let written = numbers.iter().any(|number| self.conversations[*number].streams[0].matches(0, data));
        if !written {
            self.violations.push(format!("{tuple} is opened again with {taken} bytes that nobody wrote"));
        }
        self.heard_twice += u64::from(taken > 0);
        let _ = network.endpoint_mut(0).abort(id);
    }

    /// Restarts the server with another key for its Fast Open cookies.
    fn rekey(&mut self, network: &mut Network) {
        network.endpoint_mut(0).unlisten(&HTTP);
        let room = self.listener.fast_open;
        let mut server = FastOpenServer::new(KEYS[usize::from(!self.keeps_key)], room);
        if self.keeps_key {
            server.rotate(KEYS[1]);
        }
        self.referee.early.rekey(self.keeps_key);
        if let Err(why) = network.endpoint_mut(0).listen(HTTP, &self.listener, Some(server)) {
            self.violations.push(format!("cannot listen again: {why}"));
        }
    }

    /// Makes the calls that a user can make now.
    fn drive(&mut self, network: &mut Network, number: usize, side: usize) {
        self.read(network, number, side);
        self.write(network, number, side);
        self.finish(network, number, side);
    }

    fn read(&mut self, network: &mut Network, number: usize, side: usize) {
        let node = self.node(number, side);
        loop {
            let conversation = &mut self.conversations[number];
            let (program, us) = (&conversation.opening.programs[side], &mut conversation.sides[side]);
            let Some(id) = us.id.filter(|_| us.fate.is_none() && !us.saw_end && !us.read_paused) else {
                return;
            };
            let now = network.now();
            let buffer = &mut self.buffer[..program.read_chunk];
            match network.endpoint_mut(node).read(id, buffer, now) {
                Ok(0) => {
                    us.saw_end = true;
                    let them = &conversation.sides[1 - side];
                    let (written, ended) = (them.written, them.ended);
                    if !ended || conversation.sides[side].read != written {
                        self.wrong(number, side, "reads an end that is none");
                    }
                    return;
                }
                Ok(len) => {
                    let (place, len) = (us.read, len as u64);
                    us.read += len;
                    let read = us.read;
                    us.read_paused = program.read_pause.is_some();
                    if let Some(pause) = program.read_pause {
                        network.wake(pause, token(Wake::Read, number, side));
                    }
                    let written = conversation.sides[1 - side].written;
                    let right = conversation.streams[1 - side].matches(place, &self.buffer[..len as usize]);
                    if !right || read > written {
                        self.wrong(number, side, &format!("reads at {place} what was not written"));
                        return self.leave(network, number, side, true);
                    }
                }
                Err(Unavailable::WouldBlock) => return,
                Err(Unavailable::Failed(why)) => return self.end(network, number, side, Fate::Failed(why)),
                Err(Unavailable::Closed) => return self.wrong(number, side, "cannot read"),
            }
        }
    }

    fn write(&mut self, network: &mut Network, number: usize, side: usize) {
        let node = self.node(number, side);
        loop {
            let conversation = &mut self.conversations[number];
            let (program, us) = (&conversation.opening.programs[side], &mut conversation.sides[side]);
            let left = program.bytes - us.written;
            let Some(id) = us.id.filter(|_| us.fate.is_none() && left > 0 && !us.write_paused) else {
                return;
            };
            let len = left.min(program.write_chunk as u64) as usize;
            let buffer = &mut self.buffer[..len];
            conversation.streams[side].fill(us.written, buffer);
            match network.endpoint_mut(node).write(id, buffer) {
                Ok(taken) => {
                    us.written += taken as u64;
                    us.write_paused = program.write_pause.is_some();
                    if let Some(pause) = program.write_pause {
                        network.wake(pause, token(Wake::Write, number, side));
                    }
                }
                Err(Unavailable::WouldBlock) => return,
                Err(Unavailable::Failed(why)) => return self.end(network, number, side, Fate::Failed(why)),
                Err(Unavailable::Closed) => return self.wrong(number, side, "cannot write"),
            }
        }
    }

    fn finish(&mut self, network: &mut Network, number: usize, side: usize) {
        let node = self.node(number, side);
        let conversation = &mut self.conversations[number];
        let (program, us) = (&conversation.opening.programs[side], &mut conversation.sides[side]);
        let Some(id) = us.id.filter(|_| us.fate.is_none() && us.written == program.bytes) else { return };
        match program.ending {
            Ending::Close => return self.leave(network, number, side, false),
            Ending::ShutdownLast if !us.saw_end => return,
            Ending::CloseAt(_) | Ending::AbortAt(_) => return,
            Ending::Shutdown | Ending::ShutdownLast => {}
        }
        if !us.ended {
            us.ended = true;
            let _ = network.endpoint_mut(node).shutdown(id);
        }
        if us.saw_end {
            self.end(network, number, side, Fate::Complete);
        }
    }

    /// Closes or aborts the connection for a user.
    fn leave(&mut self, network: &mut Network, number: usize, side: usize, abort: bool) {
        let node = self.node(number, side);
        let us = &mut self.conversations[number].sides[side];
        let Some(id) = us.id.filter(|_| us.fate.is_none()) else { return };
        us.fate = Some(Fate::Left);
        let now = network.now();
        if abort {
            let _ = network.endpoint_mut(node).abort(id);
        } else {
            us.ended = true;
            network.endpoint_mut(node).close(id, now);
        }
        self.over(network, number, side);
    }

    fn end(&mut self, network: &mut Network, number: usize, side: usize, fate: Fate) {
        let node = self.node(number, side);
        let us = &mut self.conversations[number].sides[side];
        let Some(id) = us.id.filter(|_| us.fate.is_none()) else { return };
        us.fate = Some(fate);
        let now = network.now();
        network.endpoint_mut(node).close(id, now);
        self.over(network, number, side);
    }

    /// Handles the end of a connection for one of its users: the client's next one may begin.
    fn over(&mut self, network: &mut Network, number: usize, side: usize) {
        let Some(next) = self.conversations.get(number + 1).filter(|_| side == 0) else { return };
        let opening = &next.opening;
        let follows = opening.client == self.conversations[number].opening.client;
        if follows && matches!(opening.when, When::Before { .. }) {
            network.wake(opening.after, token(Wake::Open, number + 1, 0));
        }
    }

    /// Checks that nothing new leaves beyond the congestion window, except a tail loss probe (RFC 8985,
    /// 7.3) and a FIN.
    fn check_window(&mut self, network: &Network, node: usize, number: usize, side: usize) {
        let us = &mut self.conversations[number].sides[side];
        let Some(connection) = us.id.and_then(|id| network.endpoint(node).connection(id)) else { return };
        let (state, recovery) = (connection.state(), connection.info().recovery);
        let is_probe = core::mem::replace(&mut us.probes, recovery.probes) != recovery.probes;
        if !is_probe && state != State::Closed && recovery.in_flight > recovery.cwnd.saturating_add(1) {
            self.wrong(number, side, &format!("more in flight than the window: {recovery:?}"));
        }
    }
}

impl User for Users {
    fn event(&mut self, network: &mut Network, node: usize, event: EndpointEvent) {
        match event {
            EndpointEvent::Acceptable(_) if self.accepting => {}
            EndpointEvent::Acceptable(_) => self.accept(network),
            EndpointEvent::Connection(id, _) => {
                if let Some(&(number, side)) = self.by_id.get(&(node, id)) {
                    self.drive(network, number, side);
                }
            }
        }
    }

    fn woken(&mut self, network: &mut Network, token: u64) {
        let (number, side) = ((token >> 8) as usize, (token >> 4 & 1) as usize);
        match WAKES[(token & 15) as usize] {
            Wake::Open => self.open_first(network, number),
            Wake::OpenToo => self.open_too(network, number),
            Wake::Read => {
                self.conversations[number].sides[side].read_paused = false;
                self.drive(network, number, side);
            }
            Wake::Write => {
                self.conversations[number].sides[side].write_paused = false;
                self.drive(network, number, side);
            }
            Wake::End => {
                let abort =
                    matches!(self.conversations[number].opening.programs[side].ending, Ending::AbortAt(_));
                self.leave(network, number, side, abort);
            }
            Wake::Accept => self.accept(network),
            Wake::Rekey => self.rekey(network),
        }
    }

    fn sent(&mut self, network: &Network, node: usize, tuple: &FourTuple, segment: &[u8]) {
        let first = self.by_tuple.get(tuple).map(|numbers| (numbers, 0));
        let seats = first.or_else(|| self.by_tuple.get(&mirrored(tuple)).map(|numbers| (numbers, 1)));
        // One end may still send for a conversation that the other has dropped, and have begun another after
        // it.
        let streams: Vec<_> = seats.map_or_else(Vec::new, |(numbers, side)| {
            let conversations = numbers.iter().map(|number| &self.conversations[*number]);
            conversations.map(|c| (c.streams[side], c.sides[side].written)).collect()
        });
        let seat = seats.and_then(|(numbers, side)| Some((*numbers.last()?, side)));
        if self.trace {
            println!("{:?} {tuple}: {}", network.now(), referee::describe(segment));
        }
        if let Some((number, _)) = seat {
            self.conversations[number].segments += 1;
        }
        match self.referee.sent(tuple, segment, &streams) {
            Err(why) => self.violations.push(format!("{:?}: node {node}, {tuple}: {why}", network.now())),
            Ok(is_new) => {
                if let Some((number, side)) = seat.filter(|_| is_new) {
                    self.check_window(network, node, number, side);
                }
            }
        }
    }

    fn arrived(&mut self, _network: &Network, _node: usize, tuple: &FourTuple, segment: &[u8]) {
        self.referee.arrived(tuple, segment);
    }
}
