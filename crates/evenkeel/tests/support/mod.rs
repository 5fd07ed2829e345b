//! Tests of misuse share these: calls that are dropped while they wait, and hosts with nothing left.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::task::Poll;

use evenkeel::net::Net;
use evenkeel::raw::host::Config;
use evenkeel::raw::time::Instant;
use evenkeel_base::SplitMix64;
use evenkeel_testing::wait_for;

/// Opens two hosts whose processes may have few descriptors, so that descriptors that are not closed are
/// missed.
pub(crate) fn frugal_pair() -> (Net, Net) {
    let config = Config { descriptors_max: 64, ..Config::default() };
    let client = Net::builder().link("cable").config(config).open().unwrap();
    let server = client.peer().unwrap().clone();
    (client, server)
}

/// Waits until a host has no sockets, no connections and no process of a runtime or a listener. Checks that
/// it accounts for every frame.
pub(crate) fn assert_nothing_is_left(net: &Net) {
    wait_for("the end of all sockets", || {
        let snapshot = net.snapshot();
        let processes = snapshot.processes.iter().filter(|it| ["listener", "tokio"].contains(&&*it.name));
        snapshot.sockets.len() + snapshot.tcp.connections + snapshot.tcp.listeners.len() == 0
            && processes.count() == 0
    });
    net.check().unwrap();
}

/// Ends the processes of a host's sockets, which closes all descriptors under their users.
pub(crate) fn close_all(net: &Net) {
    let now = Instant::ZERO + net.snapshot().elapsed;
    net.raw(|host| {
        let is_of_sockets = |name: &str| ["sockets", "listener", "tokio"].contains(&name);
        let all = host.processes().filter(|(_, name, _)| is_of_sockets(name));
        let all: Vec<_> = all.map(|(process, ..)| process).collect();
        all.into_iter().for_each(|process| host.kill(process, now));
    });
}

/// Polls a future at most so many times, in turn with other tasks, and drops it as it is then.
pub(crate) async fn poll_up_to<T>(polls: u64, future: impl Future<Output = T>) -> Option<T> {
    let (mut future, mut left) = (pin!(future), polls);
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending if left == 0 => Poll::Ready(None),
        Poll::Pending => {
            left -= 1;
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await
}

/// The sockets of a runtime.
pub(crate) trait Sockets {
    type Listener;
    type Stream;

    async fn listen(net: &Net) -> io::Result<Self::Listener>;
    async fn accept(listener: &Self::Listener) -> io::Result<Self::Stream>;
    async fn connect(net: &Net) -> io::Result<Self::Stream>;
    async fn read(stream: &mut Self::Stream, buffer: &mut [u8]) -> io::Result<usize>;
    async fn write(stream: &mut Self::Stream, data: &[u8]) -> io::Result<usize>;
}

/// The number of calls that [`drop_calls`] makes.
const CALLS: u32 = 3_000;

/// Makes calls of all kinds in random order, most of which are dropped while they wait. Afterwards a
/// connection serves as it should.
pub(crate) async fn drop_calls<S: Sockets>(client: &Net, server: &Net, seed: u64) -> io::Result<()> {
    let (mut dice, mut streams, mut dropped) = (SplitMix64::new(seed), Vec::<S::Stream>::new(), 0);
    let listener = S::listen(server).await?;
    for _ in 0..CALLS {
        let polls = dice.remainder(6);
        let (nth, size) = (dice.remainder(streams.len() as u64) as usize, dice.remainder(20_000) as usize);
        let is_done = match (dice.remainder(9), streams.get_mut(nth)) {
            (0 | 1, _) => {
                poll_up_to(polls, S::accept(&listener)).await.map(|accepted| streams.extend(accepted))
            }
            (2 | 3, _) => poll_up_to(polls, S::connect(client)).await.map(|opened| streams.extend(opened)),
            (4 | 5, Some(stream)) => poll_up_to(polls, S::read(stream, &mut vec![0; size])).await.map(drop),
            (6 | 7, Some(stream)) => poll_up_to(polls, S::write(stream, &vec![0; size])).await.map(drop),
            _ => Some(()),
        };
        dropped += u32::from(is_done.is_none());
        // Ended connections go, too.
        if streams.len() > 20 || nth == 1 {
            streams.swap_remove(nth);
        }
    }
    assert!(dropped > CALLS / 20, "{dropped} calls were dropped");
    drop((streams, listener));
    serve_once::<S>(client, server).await
}

/// Opens a connection to the port that the test has used, and moves some bytes.
async fn serve_once<S: Sockets>(client: &Net, server: &Net) -> io::Result<()> {
    let listener = S::listen(server).await?;
    let mut near = S::connect(client).await?;
    let mut far = S::accept(&listener).await?;
    let mut buffer = [0; 8];
    assert_eq!(S::write(&mut near, b"all well").await?, 8);
    assert_eq!(S::read(&mut far, &mut buffer).await?, 8);
    assert_eq!(&buffer, b"all well");
    Ok(())
}
