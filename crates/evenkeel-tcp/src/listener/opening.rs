//! The conversion of a listener's handshake to a connection.

use core::net::IpAddr;

use super::{Handshake, ListenerConfig};
use crate::connection::{self, Agreement, Config, Open, SynAck};
use crate::isn::InitialSequence;

impl ListenerConfig {
    /// Returns a configuration whose SYN-ACKs offer the options of connections of this kind. Its bounds are
    /// the defaults.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        Self {
            mss_max: config.mss_max.max(Config::MSS_MAX_LEAST),
            window: config.syn_window(),
            window_scale: config.window_scaling.then(|| config.window_shift()),
            sack_permitted: config.sack,
            timestamps: config.timestamps,
            ..Self::default()
        }
    }
}

impl Handshake {
    /// Returns the parameters with which [`Connection::accept`](connection::Connection::accept) opens.
    /// `numbers` is the listener's.
    #[must_use]
    pub fn open(&self, numbers: &InitialSequence) -> Open {
        Open {
            local_port: self.tuple.local.port,
            remote_port: self.tuple.remote.port,
            ipv6: matches!(self.tuple.remote.addr, IpAddr::V6(_)),
            mss: self.mss,
            iss: self.iss,
            timestamp_offset: numbers.timestamp_offset(&self.tuple),
        }
    }

    /// Returns the progress of the connection after [`Reaction::Establish`](super::Reaction::Establish).
    /// After [`Reaction::FastOpen`](super::Reaction::FastOpen) the SYN-ACK is [`SynAck::Due`] instead.
    #[must_use]
    pub fn progress(&self) -> connection::SynReceived {
        connection::SynReceived {
            irs: self.irs,
            window: self.window,
            agreement: Agreement {
                mss: Some(self.peer_mss),
                window_scale: self.peer_window_scale,
                sack: self.sack_permitted,
                timestamp: self.ts_recent,
                ecn: self.ecn,
            },
            syn_ack: self.sent_at.map_or(SynAck::Sent(self.sent_again), SynAck::SentAt),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::connection::Connection;
    use crate::counters::Counters;
    use crate::fast_open::FastOpenServer;
    use crate::listener::{Arrival, Listener, Reaction};
    use crate::secret::Secret;
    use crate::segment::{Header, Segment};
    use crate::seq::SeqNumber;
    use crate::state::State;
    use crate::time::Instant;
    use crate::tuple::FourTuple;
    use crate::tuple::tests::tuple;

    const MSS: u16 = 1_440;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    fn numbers() -> InitialSequence {
        InitialSequence::new(Secret::new([1; 16]))
    }

    fn config() -> Arc<Config> {
        Arc::new(Config { ecn: true, ..Config::default() })
    }

    fn listener(syn_queue: usize) -> Listener {
        let config = ListenerConfig { syn_queue, ..ListenerConfig::of(&config()) };
        Listener::new(config, Secret::new([2; 16]), numbers())
    }

    fn client(tuple: &FourTuple) -> Open {
        Open {
            local_port: tuple.remote.port,
            remote_port: tuple.local.port,
            ipv6: matches!(tuple.remote.addr, IpAddr::V6(_)),
            mss: MSS,
            iss: SeqNumber::new(u32::MAX - 1),
            timestamp_offset: 99,
        }
    }

    /// Returns all segments that a connection has to send, as they are on the wire.
    fn sent(from: &mut Connection, now: Instant) -> Vec<(Header, Vec<u8>)> {
        let next = || from.poll_transmit(now).map(|out| (out.segment.header, out.segment.payload.concat()));
        core::iter::from_fn(next).collect()
    }

    fn give(to: &mut Connection, segments: &[(Header, Vec<u8>)], now: Instant) {
        for (header, payload) in segments {
            to.on_segment(&Segment { header: *header, payload: [payload, b""] }, now);
        }
    }

    fn listen(
        listener: &mut Listener,
        tuple: FourTuple,
        segment: &(Header, Vec<u8>),
        now: Instant,
    ) -> Reaction {
        let segment = Segment { header: segment.0, payload: [&segment.1, b""] };
        let arrival = Arrival { tuple, segment, mss: MSS, previous: None, now };
        listener.handle_segment(&arrival, &mut Counters::new())
    }

    fn read(from: &mut Connection, now: Instant) -> Vec<u8> {
        let mut to = [0; 100];
        let len = from.read(&mut to, now).unwrap();
        to[..len].to_vec()
    }

    /// Connections open through the SYN queue and by cookie, over IPv4 and IPv6: both ends then agree on
    /// their options.
    #[test]
    fn a_connection_is_made_of_it_and_data_flows() {
        for (n, syn_queue) in [(0, 10), (1, 10), (0, 0), (1, 0)] {
            let (tuple, mut listener) = (tuple(n), listener(syn_queue));
            let mut client = Connection::connect(&config(), &client(&tuple), None, at(0));
            client.write(b"hello").unwrap();
            let syn = sent(&mut client, at(0));
            let reaction = listen(&mut listener, tuple, &syn[0], at(10));
            let (Reaction::Open(syn_ack) | Reaction::Send(syn_ack)) = reaction else { panic!() };
            give(&mut client, &[(syn_ack, Vec::new())], at(20));
            let segments = sent(&mut client, at(20));
            let Reaction::Establish(handshake) = listen(&mut listener, tuple, &segments[0], at(30)) else {
                panic!()
            };
            let mut server =
                Connection::accept(&config(), &handshake.open(&numbers()), &handshake.progress(), at(30));
            give(&mut server, &segments, at(30));
            assert_eq!((server.state(), client.state()), (State::Established, State::Established));
            assert_eq!(read(&mut server, at(30)), b"hello");
            server.write(b"world").unwrap();
            give(&mut client, &sent(&mut server, at(30)), at(40));
            assert_eq!(read(&mut client, at(40)), b"world");
            let agreed = |end: &Connection| {
                let info = end.info();
                (info.mss, info.sack, info.timestamps, info.ecn)
            };
            assert_eq!(agreed(&server), agreed(&client), "queue of {syn_queue}");
            assert!(server.info().sack && server.info().timestamps && server.info().ecn);
            // The acknowledgment is delayed.
            client.on_deadline(at(80));
            give(&mut server, &sent(&mut client, at(80)), at(90));
            assert_eq!((server.info().send_queue, client.info().send_queue), (0, 0), "all is acknowledged");
            assert!(server.info().send_window > 65_535, "windows are scaled: {}", server.info().send_window);
        }
    }

    /// RFC 5681, 3.1, with RFC 6928, 2: a single loss may be chance.
    #[test]
    fn after_two_lost_syn_acks_the_window_is_one_segment() {
        for (lost, segments) in [(0, 10), (1, 10), (2, 1), (3, 1)] {
            let (tuple, mut listener, mut now) = (tuple(0), listener(10), at(0));
            let mut client = Connection::connect(&config(), &client(&tuple), None, now);
            let syn = sent(&mut client, now);
            let Reaction::Open(mut syn_ack) = listen(&mut listener, tuple, &syn[0], now) else { panic!() };
            for _ in 0..lost {
                now = listener.next_deadline().unwrap();
                syn_ack = listener.poll_transmit(now, &mut Counters::new()).unwrap().1;
            }
            give(&mut client, &[(syn_ack, Vec::new())], now);
            let ack = sent(&mut client, now);
            let Reaction::Establish(agreed) = listen(&mut listener, tuple, &ack[0], now) else { panic!() };
            let mut server = Connection::accept(&config(), &agreed.open(&numbers()), &agreed.progress(), now);
            give(&mut server, &ack, now);
            server.write(&[0; 50_000]).unwrap();
            assert_eq!(sent(&mut server, now).len(), segments, "{lost} lost");
        }
    }

    #[test]
    fn data_in_the_syn_reaches_the_connection_before_the_handshake_is_over() {
        let (tuple, mut listener) = (tuple(0), listener(10));
        let server = FastOpenServer::new(Secret::new([3; 16]), 5);
        let cookie = server.cookie(&tuple.remote.addr, &tuple.local.addr);
        listener.enable_fast_open(server);
        let mut client = Connection::connect(&config(), &client(&tuple), Some(cookie), at(0));
        client.write(b"hello").unwrap();
        let syn = sent(&mut client, at(0));
        let Reaction::FastOpen(handshake, new) = listen(&mut listener, tuple, &syn[0], at(10)) else {
            panic!()
        };
        let progress = connection::SynReceived { syn_ack: SynAck::Due(new), ..handshake.progress() };
        let mut server = Connection::accept(&config(), &handshake.open(&numbers()), &progress, at(10));
        server.on_early_data(&Segment { header: syn[0].0, payload: [&syn[0].1, b""] }, at(10));
        assert_eq!((server.state(), read(&mut server, at(10))), (State::SynReceived, b"hello".to_vec()));
        give(&mut client, &sent(&mut server, at(10)), at(20));
        give(&mut server, &sent(&mut client, at(20)), at(30));
        assert_eq!((server.state(), client.state()), (State::Established, State::Established));
        assert_eq!(client.info().send_queue, 0);
    }
}
