//! Connections that are over, and that a program still has open.

use super::*;

const PORT: u16 = 40_000;

/// A connection from [`PORT`], and its ends.
struct Opened {
    world: World,
    client: Id,
    server: Id,
}

fn opened() -> Opened {
    opened_with(EndpointConfig::default())
}

fn opened_with(config: EndpointConfig) -> Opened {
    let mut world = World::listening(config, &ListenerConfig::default(), Faults::default(), 1);
    let client = world.connect(PORT);
    world.pass(Duration::from_millis(50));
    let server = world.ends[1].accept(&HTTP).unwrap();
    Opened { world, client, server }
}

impl Opened {
    fn read(&mut self, end: usize, id: Id) -> Result<usize, Unavailable> {
        let now = self.world.now;
        self.world.ends[end].read(id, &mut [0; 1_000], now)
    }

    fn error(&self, end: usize, id: Id) -> Option<Error> {
        self.world.ends[end].connection(id).unwrap().error()
    }

    fn state(&self, end: usize, id: Id) -> State {
        self.world.ends[end].connection(id).unwrap().state()
    }

    /// Gives the server a segment of the client's, and returns the header of the answer.
    fn answer(&mut self, header: Header) -> Option<Header> {
        let mut bytes = [0; 2_000];
        let len = Segment::bare(header).emit(&mut bytes, CLIENT, SERVER).unwrap();
        self.world.ends[1].input(&bytes[..len], &FROM_CLIENT, self.world.now);
        let answer = self.world.ends[1].poll_transmit(self.world.now, &self.world.routes, &mut bytes)?;
        let segment = Segment::parse(&bytes[..answer.len], SERVER, CLIENT, Ecn::NotCapable).unwrap();
        Some(segment.header)
    }

    /// Returns the header of the next segment that the client could send.
    fn client_header(&self, flags: Flags) -> Header {
        let connection = self.world.ends[0].connection(self.client).unwrap();
        let (seq, ack) =
            (self.world.ends[1].connection(self.server).unwrap().rcv_nxt(), connection.rcv_nxt());
        Header { seq, ack, flags, window: 1_000, ..tuple(PORT).header() }
    }
}

/// The server's program has not closed its socket yet, but the connection is over (RFC 9293, 3.10.7.1).
#[test]
fn after_a_reset_what_comes_is_answered_as_if_nobody_had_the_connection() {
    let mut opened = opened();
    let data = opened.client_header(Flags::ACK);
    opened.world.ends[0].abort(opened.client).unwrap();
    opened.world.pass(Duration::from_millis(50));
    assert_eq!(opened.error(1, opened.server), Some(Error::Reset));
    assert_eq!(opened.answer(data).map(|header| (header.flags, header.seq)), Some((Flags::RST, data.ack)));
    // A connection between the same ends begins while the program still has the old one open.
    let client = opened.world.connect(PORT);
    opened.world.pass(Duration::from_millis(50));
    assert_eq!(opened.state(0, client), State::Established);
    let again = opened.world.ends[1].accept(&HTTP).unwrap();
    assert_ne!(again, opened.server);
    assert_eq!((opened.world.ends[1].len(), opened.world.ends[1].find(&opened.flipped())), (2, Some(again)));
    assert_eq!(opened.world.ends[0].write(client, b"hello"), Ok(5));
    opened.world.pass(Duration::from_millis(50));
    assert_eq!(opened.read(1, opened.server), Err(Unavailable::Failed(Error::Reset)));
    assert_eq!(opened.read(1, again), Ok(5));
    // The old one goes, and the new one stays.
    opened.world.ends[1].close(opened.server, opened.world.now);
    opened.world.pass(Duration::from_millis(50));
    assert_eq!((opened.world.ends[1].len(), opened.world.ends[1].find(&opened.flipped())), (1, Some(again)));
}

impl Opened {
    /// Returns the connection's addresses and ports as the server sees them.
    fn flipped(&self) -> FourTuple {
        let FourTuple { local, remote } = tuple(PORT);
        FourTuple::new(remote, local)
    }
}

/// The client has lost its state, and begins anew with the same port: SYN, challenge ACK, RST, SYN again
/// (RFC 9293, 3.5.1).
#[test]
fn who_has_crashed_and_begun_anew_is_let_in_though_the_old_connection_is_open() {
    let mut opened = opened();
    opened.world.ends[0] = Endpoint::new(EndpointConfig::default(), Secret::new([7; 16]));
    opened.world.now += Duration::from_secs(1);
    let client = opened.world.connect(PORT);
    opened.world.pass(Duration::from_secs(3));
    assert_eq!(opened.error(1, opened.server), Some(Error::Reset));
    assert_eq!(opened.state(0, client), State::Established);
    assert!(opened.world.ends[1].accept(&HTTP).is_some());
}

#[test]
fn after_the_last_ack_the_same_ports_may_be_used_again_though_the_old_connection_is_open() {
    let mut opened = opened();
    opened.world.ends[0].close(opened.client, opened.world.now);
    opened.world.pass(Duration::from_millis(50));
    opened.world.ends[1].shutdown(opened.server).unwrap();
    opened.world.pass(Duration::from_millis(50));
    assert_eq!((opened.state(1, opened.server), opened.read(1, opened.server)), (State::Closed, Ok(0)));
    opened.world.pass(Duration::from_secs(1));
    let client = opened.world.connect(PORT);
    opened.world.pass(Duration::from_millis(50));
    assert_eq!(opened.state(0, client), State::Established);
}

#[test]
fn a_connection_that_was_given_up_is_no_obstacle_to_the_next() {
    let config = Config { user_timeout: Duration::from_secs(10), ..Config::default() };
    let config = EndpointConfig { connection: Arc::new(config), ..EndpointConfig::default() };
    let mut opened = opened_with(config);
    opened.world.ends[1].write(opened.server, b"hello").unwrap();
    opened.world.faults.lost = 100;
    opened.world.pass(Duration::from_secs(20));
    assert_eq!(opened.error(1, opened.server), Some(Error::TimedOut));
    opened.world.faults.lost = 0;
    let syn = Header { flags: Flags::SYN, ack: SeqNumber::default(), ..opened.client_header(Flags::NONE) };
    assert_eq!(opened.answer(syn).map(|header| header.flags), Some(Flags::SYN | Flags::ACK));
}

/// Returns a connection in TIME-WAIT that the program still has open: it only called `shutdown`.
fn in_time_wait() -> Opened {
    let mut opened = opened_with(without_timestamps());
    opened.world.ends[0].write(opened.client, b"last").unwrap();
    opened.world.pass(Duration::from_millis(50));
    opened.world.ends[1].shutdown(opened.server).unwrap();
    opened.world.pass(Duration::from_millis(50));
    opened.world.ends[0].shutdown(opened.client).unwrap();
    opened.world.pass(Duration::from_millis(50));
    assert_eq!(opened.world.ends[1].waiting(), 1);
    opened
}

#[test]
fn time_wait_answers_alike_whether_its_connection_is_open_or_not() {
    for close in [false, true] {
        let mut opened = in_time_wait();
        let ack = opened.client_header(Flags::ACK);
        if close {
            opened.world.ends[1].close(opened.server, opened.world.now);
        }
        let acknowledged = |answer: Option<Header>| answer.map(|header| (header.flags, header.ack));
        let end = Some((Flags::ACK, ack.seq));
        // "The only thing that can arrive in this state is a retransmission of the remote FIN": the wait
        // begins anew.
        opened.world.pass(Duration::from_secs(50));
        let fin = Header { seq: ack.seq - 1, flags: Flags::ACK | Flags::FIN, ..ack };
        assert_eq!(acknowledged(opened.answer(fin)), end, "closed: {close}");
        opened.world.pass(Duration::from_secs(50));
        assert_eq!(opened.world.ends[1].waiting(), 1, "closed: {close}");
        // A FIN beyond the last is not from this connection.
        assert_eq!(acknowledged(opened.answer(Header { seq: ack.seq + 5, ..fin })), end, "closed: {close}");
        // A SYN behind it begins a new one.
        let syn = Header { seq: ack.seq + 1, flags: Flags::SYN, ..ack };
        let answer = opened.answer(syn).unwrap();
        assert_eq!((answer.flags, answer.ack), (Flags::SYN | Flags::ACK, syn.seq + 1), "closed: {close}");
        assert_eq!(opened.world.ends[1].waiting(), 0);
    }
}

#[test]
fn what_came_before_time_wait_can_be_read_in_it_and_after_it() {
    let mut opened = in_time_wait();
    assert_eq!(opened.world.ends[1].connection(opened.server).unwrap().readable(), 4);
    opened.world.pass(Duration::from_secs(70));
    assert_eq!((opened.read(1, opened.server), opened.read(1, opened.server)), (Ok(4), Ok(0)));
    assert_eq!(opened.error(1, opened.server), None);
    opened.world.ends[1].close(opened.server, opened.world.now);
    opened.world.ends[0].close(opened.client, opened.world.now);
    opened.world.assert_empty();
}

/// A reset leaves the receive queue alone, as `tcp_reset` of Linux does.
#[test]
fn what_was_acknowledged_is_read_before_the_reset_is_told_of() {
    let mut opened = opened();
    opened.world.ends[0].write(opened.client, b"acknowledged").unwrap();
    opened.world.pass(Duration::from_millis(100));
    assert_eq!(opened.world.ends[0].connection(opened.client).unwrap().info().send_queue, 0);
    opened.world.ends[0].abort(opened.client).unwrap();
    opened.world.pass(Duration::from_millis(50));
    assert_eq!(opened.world.ends[1].write(opened.server, b"!"), Err(Unavailable::Failed(Error::Reset)));
    assert_eq!(opened.read(1, opened.server), Ok(12));
    assert_eq!(opened.read(1, opened.server), Err(Unavailable::Failed(Error::Reset)));
    assert_eq!(opened.world.ends[1].buffered(), 0);
}

#[test]
fn a_program_that_gives_up_reads_no_more_and_holds_nothing() {
    let mut opened = opened();
    opened.world.ends[0].write(opened.client, b"unread").unwrap();
    opened.world.pass(Duration::from_millis(50));
    assert!(opened.world.ends[1].buffered() > 0);
    opened.world.ends[1].abort(opened.server).unwrap();
    assert_eq!(opened.world.ends[1].buffered(), 0);
}

/// Returns a connection that was reset in LAST-ACK, with `len` bytes that never arrived.
fn reset_in_last_ack(len: usize) -> Opened {
    let mut opened = opened();
    opened.world.ends[0].shutdown(opened.client).unwrap();
    opened.world.pass(Duration::from_millis(50));
    assert_eq!(opened.read(1, opened.server), Ok(0));
    let reset = Header { ack: SeqNumber::default(), ..opened.client_header(Flags::RST) };
    opened.world.faults.lost = 100;
    opened.world.ends[1].write(opened.server, &vec![7; len]).unwrap();
    opened.world.ends[1].shutdown(opened.server).unwrap();
    opened.world.pass(Duration::from_millis(50));
    assert_eq!(opened.state(1, opened.server), State::LastAck);
    while opened.world.ends[1].poll_event().is_some() {}
    opened.answer(reset);
    opened
}

#[test]
fn a_reset_after_both_have_closed_is_told_of_if_it_lost_anything() {
    let opened = reset_in_last_ack(10);
    assert_eq!(opened.error(1, opened.server), Some(Error::Reset));
    let opened = reset_in_last_ack(0);
    assert_eq!((opened.error(1, opened.server), opened.state(1, opened.server)), (None, State::Closed));
}

/// The peer's data came completely: its FIN confirms it. The event and the other calls report that ours
/// did not arrive.
#[test]
fn the_end_of_the_stream_stays_the_end_after_a_reset() {
    let mut opened = reset_in_last_ack(10);
    let over = Readiness { readable: true, ended: true, over: true, ..Readiness::default() };
    assert_eq!(opened.world.ends[1].poll_event(), Some(EndpointEvent::Connection(opened.server, over)));
    assert_eq!(opened.read(1, opened.server), Ok(0));
    assert_eq!(opened.world.ends[1].write(opened.server, b"!"), Err(Unavailable::Failed(Error::Reset)));
}

/// As in Linux: the peer has said all, so a reader finds the end, and only a writer has lost something.
#[test]
fn a_reset_after_the_peers_end_is_a_broken_pipe_for_writers() {
    let mut opened = opened();
    opened.world.ends[0].shutdown(opened.client).unwrap();
    opened.world.pass(Duration::from_millis(50));
    assert_eq!(opened.state(1, opened.server), State::CloseWait);
    opened.world.ends[0].abort(opened.client).unwrap();
    opened.world.pass(Duration::from_millis(50));
    let broken = Unavailable::Failed(Error::BrokenPipe);
    assert_eq!(opened.world.ends[1].write(opened.server, b"!"), Err(broken));
    assert_eq!(broken.fault(), Some(crate::Fault::Network));
    assert_eq!(opened.read(1, opened.server), Ok(0));
    assert_eq!(opened.world.ends[1].take_error(opened.server), Some(Error::BrokenPipe));
    assert_eq!(opened.world.ends[1].write(opened.server, b"!"), Err(Unavailable::Closed));
}

/// A program never gets a connection that was reset while it waited to be accepted.
#[test]
fn what_was_reset_before_it_was_accepted_is_never_accepted() {
    let mut world =
        World::listening(EndpointConfig::default(), &ListenerConfig::default(), Faults::default(), 1);
    let first = world.connect(PORT);
    // So many that its place in the queue is not cleared away at once.
    (1..4).for_each(|port| _ = world.connect(PORT + port));
    world.pass(Duration::from_millis(50));
    world.ends[0].abort(first).unwrap();
    // Not a segment leaves the server in between: the connection has not been cleared away.
    let mut bytes = [0; 2_000];
    let reset = world.ends[0].poll_transmit(world.now, &world.routes, &mut bytes).unwrap();
    world.ends[1].input(&bytes[..reset.len], &FROM_CLIENT, world.now);
    let accepted = world.ends[1].accept(&HTTP).unwrap();
    assert_eq!(world.ends[1].tuple(accepted).unwrap().remote.port, PORT + 1);
    assert_eq!(world.ends[1].state.listeners.get(&HTTP).unwrap().accept_queue_len(), 2);
    world.pass(Duration::from_millis(50));
    assert!(world.ends[1].accept(&HTTP).is_some() && world.ends[1].accept(&HTTP).is_some());
    assert_eq!((world.ends[1].len(), world.ends[1].accept(&HTTP)), (3, None));
    assert_eq!(world.ends[1].state.listeners.get(&HTTP).unwrap().accept_queue_len(), 0);
}

/// Connections that are over and not closed count against the limit, however many ports their peers have.
#[test]
fn connections_that_are_over_count_until_they_are_closed() {
    let config = EndpointConfig { connections: 3, ..EndpointConfig::default() };
    let mut world = World::listening(config, &ListenerConfig::default(), Faults::default(), 1);
    let mut kept = Vec::new();
    for port in 0..3 {
        let client = world.connect(PORT + port);
        world.pass(Duration::from_millis(50));
        kept.push(world.ends[1].accept(&HTTP).unwrap());
        world.ends[0].abort(client).unwrap();
        world.pass(Duration::from_millis(50));
    }
    world.connect(PORT);
    world.pass(Duration::from_millis(50));
    assert_eq!((world.ends[1].len(), world.ends[1].accept(&HTTP)), (3, None));
    world.ends[1].close(kept[1], world.now);
    world.pass(Duration::from_secs(2));
    assert!(world.ends[1].accept(&HTTP).is_some());
}

/// The end is reported once, as soon as no segment can come for the connection: its receive ring can then
/// be reused.
#[test]
fn the_end_is_reported_once_and_when_it_is_there() {
    let mut opened = opened();
    opened.world.ends[1].report_ends();
    opened.world.ends[0].abort(opened.client).unwrap();
    opened.world.pass(Duration::from_millis(50));
    let ended = (opened.server, opened.flipped());
    assert_eq!((opened.world.ends[1].poll_ended(), opened.world.ends[1].poll_ended()), (Some(ended), None));
    opened.world.ends[1].close(opened.server, opened.world.now);
    opened.world.pass(Duration::from_millis(50));
    assert_eq!((opened.world.ends[1].len(), opened.world.ends[1].poll_ended()), (0, None));
}
