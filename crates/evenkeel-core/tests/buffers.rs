//! A sender that finds no free buffer is notified when there are some again.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use common::two::{A, B, Two, address};
use evenkeel_core::receive::Architecture;
use evenkeel_core::socket::{Kinds, SendError};
use evenkeel_core::stack::{Datagram, IpEndpoint};
use evenkeel_core::system::UdpSocket;
use evenkeel_core::time::Duration;

const PORT: u16 = 9;

#[derive(Default)]
struct Bell(AtomicBool);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Has A keep the datagrams that B sends, until A has no buffer left to send one with.
fn exhaust(two: &mut Two, [ours, theirs]: [UdpSocket; 2]) -> Vec<Datagram> {
    let (to_a, to_b) = (IpEndpoint::new(address(A), PORT), IpEndpoint::new(address(B), PORT));
    let mut kept = Vec::new();
    for _ in 0..10_000 {
        if two.call(A, |system| ours.send(system, to_b, b"?")) == Err(SendError::NoBuffer) {
            return kept;
        }
        for _ in 0..8 {
            let _ = two.call(B, |system| theirs.send(system, to_a, b"!"));
        }
        two.run(Duration::from_millis(1));
        kept.extend(
            two.call(A, |system| std::iter::from_fn(|| ours.receive(system).ok()).collect::<Vec<_>>()),
        );
        while let Ok(datagram) = two.call(B, |system| theirs.receive(system)) {
            two.call(B, |system| system.recycle(datagram));
        }
    }
    panic!("there are buffers without end");
}

/// Whether the program gives the buffers back in a call, or drops them between two calls.
#[test]
fn a_sender_without_buffers_is_writable_when_there_are_some_again() {
    for architecture in Architecture::ALL {
        for recycles in [true, false] {
            let mut two = Two::new(architecture);
            let sockets =
                [A, B].map(|side| two.call(side, |system| UdpSocket::bind(system, None, PORT)).unwrap());
            let kept = exhaust(&mut two, sockets);
            let (bell, to) = (Arc::<Bell>::default(), IpEndpoint::new(address(B), PORT));
            let waker = Waker::from(Arc::clone(&bell));
            let wait = |two: &mut Two| two.call(A, |system| system.wait(sockets[A], Kinds::WRITABLE, &waker));
            assert_eq!(wait(&mut two), Kinds::NONE, "{architecture}");
            two.run(Duration::from_millis(5));
            assert!(!bell.0.load(Ordering::Relaxed), "{architecture}: nothing has changed");
            if recycles {
                two.call(A, |system| kept.into_iter().for_each(|datagram| system.recycle(datagram)));
            } else {
                drop(kept);
                assert!(!bell.0.load(Ordering::Relaxed), "{architecture}");
                two.run(Duration::from_millis(3));
            }
            assert!(bell.0.load(Ordering::Relaxed), "{architecture}, {recycles}");
            assert_eq!(wait(&mut two), Kinds::WRITABLE, "{architecture}");
            assert_eq!(two.call(A, |system| sockets[A].send(system, to, b"?")), Ok(()), "{architecture}");
        }
    }
}
