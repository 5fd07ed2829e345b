//! Lazy receiver processing (Druschel and Banga, OSDI 1996, section 3.3): the receive calls of UDP sockets do
//! the protocol input of what they receive, in the name of the process that calls.

use crate::channel::{Verdict, Waiting};
use crate::context::Cx;
use crate::demux::PlainTo;
use crate::id::{QueueId, SocketId};
use crate::net::Net;
use crate::socket::ReceiveError;
use crate::stack::{Io, TakesDatagrams};
use crate::time::Instant;
use crate::work::Work;

/// Frames of a channel that one receive call processes at most: a flood of frames that deliver nothing must
/// not make it endless.
const FRAMES_PER_RECEIVE: usize = 64;

/// A receive call on a socket.
pub(super) struct Receiver<'a> {
    net: &'a mut Net,
    id: SocketId,
    now: Instant,
}

impl<'a> Receiver<'a> {
    #[inline(always)]
    pub(super) const fn new(net: &'a mut Net, id: SocketId, now: Instant) -> Self {
        Self { net, id, now }
    }

    /// Hands over datagrams until `to` has no room for more, or there are none: first what waits in the
    /// socket's queue, then, under the lazy architectures, what waits in its channels.
    ///
    /// # Errors
    /// The error of the socket that no call has reported yet, before anything is handed over.
    pub(super) fn receive(&mut self, to: &mut impl TakesDatagrams) -> Result<(), ReceiveError> {
        self.net.sockets.last_read = Some(self.id);
        self.net.keep_order(self.now);
        if !self.take_ready(to) {
            return self
                .net
                .sockets
                .take_error(self.id)
                .map_or(Ok(()), |error| Err(ReceiveError::Failed(error)));
        }
        if self.net.plan.is_lazy() {
            self.receive_from_channels(to);
        }
        Ok(())
    }

    /// Hands over datagrams from the socket's channels until `to` has no room for more, or there are none.
    #[inline(always)]
    fn receive_from_channels(&mut self, to: &mut impl TakesDatagrams) {
        let mut left = FRAMES_PER_RECEIVE;
        while left > 0 && to.has_room() {
            if self.input_plain(to, &mut left) || self.draw(to.room().min(left)) {
                continue;
            }
            left -= 1;
            let Some(waiting) = self.next_frame() else {
                return self.net.readiness().found_empty(self.id);
            };
            self.input(waiting, to);
        }
        if left == 0 {
            // Nothing may have been delivered, and more wait.
            self.net.readiness().found_empty(self.id);
        }
    }

    /// Hands over what waits in the socket's queue, unless an error waits to be reported first. Returns
    /// whether none does.
    #[inline(always)]
    fn take_ready(&mut self, to: &mut impl TakesDatagrams) -> bool {
        let (sockets, mut cx) = self.net.sockets(self.now);
        sockets.take_ready(self.id, to, &mut cx)
    }

    /// Processes a frame from a channel of the socket, and hands over what of it is ready for the caller.
    // The loop over plain datagrams calls it for others only, and needs the registers itself.
    #[inline(never)]
    fn input(&mut self, waiting: Waiting, to: &mut impl TakesDatagrams) {
        // An interface may have filled the channels since the call began.
        self.net.keep_order(self.now);
        self.net.input_waiting(waiting, self.now);
        // It may be the first fragment that later ones have waited for.
        if self.net.stack.reassembling() > 0 {
            self.net.input_fragments(self.now);
        }
        self.take_ready(to);
    }

    /// Hands over plain datagrams from the socket's channel, straight, as long as they come one after the
    /// other: those of a channel that no other socket shares, and of which the demultiplexing function has
    /// found that they are the socket's. Returns whether there were any.
    fn input_plain(&mut self, to: &mut impl TakesDatagrams, left: &mut usize) -> bool {
        let Net { sockets, rx, stack, links, pool, ledger, work, poller, .. } = &mut *self.net;
        let Some(socket) = sockets.descriptors.udp_mut(self.id) else { return false };
        let &[(channel_id, None)] = socket.channels.as_slice() else { return false };
        let Some(channel) = rx.channels.get_mut(channel_id) else { return false };
        if channel.members.len() != 1 || stack.reassembling() > 0 {
            return false;
        }
        let generation = rx.table.generation();
        let mut io = Io { now: self.now, pool, ledger, out: links.out() };
        let (mut taken, mut delivered, mut refused) = (0, 0, None);
        while *left > 0
            && to.has_room()
            && let Some(waiting) = channel.pop()
        {
            *left -= 1;
            taken += 1;
            let Some(plain) = waiting.plain_datagram(generation) else {
                refused = Some(waiting);
                break;
            };
            let Waiting { frame, interface, .. } = waiting;
            match stack.input_plain_udp(interface, frame, plain, &mut io, to) {
                // Or it was dropped for its sum.
                Ok(whole) => delivered += u32::from(whole),
                Err(frame) => {
                    refused = Some(Waiting { frame, interface, verdict: None });
                    break;
                }
            }
        }
        if taken == 0 {
            return false;
        }
        let resume = channel.dequeued();
        socket.counters.received += u64::from(delivered);
        io.ledger.delivered += u64::from(delivered);
        work.add_times(Work::Input, taken - u32::from(refused.is_some()));
        work.add_times(Work::Append, delivered);
        work.add_times(Work::Deliver, delivered);
        if resume {
            poller.resume(QueueId::Channel(channel_id));
        }
        if let Some(waiting) = refused {
            self.input(waiting, to);
        }
        true
    }

    /// Draws at most `limit` frames from a ring of the socket's only channel into the channel's queue, if
    /// that is empty. Returns whether there were any.
    ///
    /// Plain datagrams that lead to this channel get their verdict here, by the host's own table: the adaptor
    /// may have put them into the ring by an older state of the table.
    // The loop over plain datagrams needs the registers itself.
    #[inline(never)]
    fn draw(&mut self, limit: usize) -> bool {
        let Net { config, sockets, rx, links, pool, ledger, work, poller, .. } = &mut *self.net;
        let socket = sockets.descriptors.udp(self.id).filter(|_| !config.listen_only);
        let Some(&[(id, None)]) = socket.map(|socket| socket.channels.as_slice()) else { return false };
        let Some(channel) = rx.channels.get_mut(id) else { return false };
        let (mut plain_here, generation) = (PlainTo::new(&rx.table, id), rx.table.generation());
        let verdict = |bytes: &[u8]| plain_here.parse(bytes).map(|plain| Verdict { plain, generation });
        let Some((interface, frames)) = channel.draw(limit, pool, verdict) else { return false };
        links.count_received(interface, frames as u64, ledger);
        work.add_times(Work::Receive, frames as u32);
        if sockets.is_watched() {
            let mut cx = Cx { now: self.now, pool, ledger, work, poller };
            for waiting in channel.iter() {
                sockets.watch_outside_rings(interface, &waiting.frame, false, &mut cx);
            }
        }
        // Messages that came before these frames may change neighbours.
        self.net.keep_order(self.now);
        true
    }

    /// Takes the next frame for the socket from one of its channels, which take turns.
    fn next_frame(&mut self) -> Option<Waiting> {
        let channels = self.net.sockets.descriptors.udp(self.id)?.channels.len();
        for _ in 0..channels {
            let socket = self.net.sockets.descriptors.udp_mut(self.id)?;
            let (channel, _) = socket.channels.get(socket.next_channel % channels).copied()?;
            socket.next_channel = (socket.next_channel + 1) % channels;
            if let Some(taken) = self.net.take_from_channel(channel, self.now) {
                return Some(taken);
            }
        }
        None
    }
}
