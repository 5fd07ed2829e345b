//! A UDP socket as quinn (QUIC) uses it.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use ::quinn::udp::{RecvMeta, Transmit};
use ::quinn::{AsyncUdpSocket, UdpPoller};
use evenkeel_core::host::System;
use evenkeel_core::socket::{Kinds, SendError};
use evenkeel_core::stack::Origin;
use evenkeel_core::system;

use super::super::address::{endpoint, ip_address, socket_addr};
use super::super::slot::{Slot, try_in};
use super::udp::UdpSocket;
use crate::error::Error;

/// The datagrams that quinn sends in one visit to the host at most.
const SEGMENTS_MAX: usize = 16;

impl UdpSocket {
    /// Receives datagrams in a visit to the host, one into each of `buffers`. Returns their number.
    fn receive_each(
        &self,
        system: &mut System<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Result<usize, Error> {
        let room = buffers.len().min(meta.len());
        for (received, (buffer, meta)) in buffers.iter_mut().zip(meta).enumerate() {
            let taken = self.blocking().receive_in(system, |system, datagram| {
                let (addr, to) = (socket_addr(datagram.source()), socket_addr(datagram.destination()));
                let len = datagram.copy_to(buffer);
                *meta = RecvMeta { addr, len, stride: len, ecn: None, dst_ip: Some(to.ip()) };
                system.recycle(datagram);
            });
            match taken {
                Ok(()) => {}
                Err(error) if received == 0 => return Err(error),
                Err(_) => return Ok(received),
            }
        }
        Ok(room)
    }

    /// Sends datagrams in a visit to the host. Those for which there is no buffer are lost, unless that is so
    /// for the first.
    fn send_each(&self, system: &mut System<'_>, transmit: &Transmit<'_>) -> Result<(), Error> {
        let socket = system::UdpSocket::from(self.socket().fd);
        let (to, address) = (endpoint(transmit.destination), transmit.src_ip.map(ip_address));
        let size = transmit.segment_size.unwrap_or(transmit.contents.len()).max(1);
        for (sent, segment) in transmit.contents.chunks(size).enumerate() {
            match socket.send_from(system, Origin { address, ..Origin::default() }, to, segment) {
                Err(SendError::NoBuffer) if sent > 0 => return Ok(()),
                result => result?,
            }
        }
        Ok(())
    }
}

impl AsyncUdpSocket for UdpSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        let slot = Slot::new(&self.socket().net);
        Box::pin(Poller { socket: self, slot })
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        Ok(try_in(self.socket(), |system| self.send_each(system, transmit))?)
    }

    fn poll_recv(
        &self,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let receive = |system: &mut System<'_>| self.receive_each(system, buffers, meta);
        Poll::Ready(Ok(ready!(self.receive_slot().poll(self.socket(), Kinds::READABLE, context, receive))?))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.blocking().local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        SEGMENTS_MAX
    }
}

/// A task of quinn that waits for buffers.
#[derive(Debug)]
struct Poller {
    socket: Arc<UdpSocket>,
    slot: Slot,
}

impl UdpPoller for Poller {
    fn poll_writable(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.slot.poll_ready(self.socket.socket(), Kinds::WRITABLE, context))?;
        Poll::Ready(Ok(()))
    }
}
