//! UDP sockets of tasks: refusals, many datagrams at once, buffers that grow, and options.

use std::io::ErrorKind;
use std::net::SocketAddr;

use evenkeel::net::tokio::UdpSocket;
use evenkeel::raw::socket::Datagrams;

use crate::on_each;

const SERVER: &str = "10.0.0.2:7";

#[test]
fn a_closed_port_wakes_a_task_that_receives() {
    on_each(|client, server| async move {
        let socket = UdpSocket::bind(&client, "0.0.0.0:0").await?;
        socket.connect(SERVER).await?;
        assert_eq!(socket.local_addr()?.ip().to_string(), "10.0.0.1");
        let mut buffer = [0; 8];
        let (sent, received) = tokio::join!(socket.send(b"x"), socket.recv(&mut buffer));
        sent?;
        assert_eq!(received.unwrap_err().kind(), ErrorKind::ConnectionRefused);
        assert!(socket.take_error()?.is_none());
        let service = UdpSocket::bind(&server, SERVER).await?;
        socket.send(b"y").await?;
        let (len, from) = service.recv_from(&mut buffer).await?;
        assert_eq!((&buffer[..len], from), (&b"y"[..], socket.local_addr()?));
        Ok(())
    });
}

#[test]
fn many_datagrams_are_sent_and_received_at_once() {
    on_each(|client, server| async move {
        let service = UdpSocket::bind(&server, SERVER).await?;
        let socket = UdpSocket::bind(&client, "0.0.0.0:0").await?;
        let to: SocketAddr = SERVER.parse().unwrap();
        let all = [(to, &b"one"[..]), (to, b"two"), (to, b"three")];
        assert_eq!(socket.send_many(&all).await?, all.len());
        let (mut datagrams, mut received) = (Datagrams::new(8), Vec::new());
        while received.len() < all.len() {
            service.recv_many(&mut datagrams).await?;
            for request in datagrams.iter() {
                let payload = request.as_slice().unwrap();
                assert_eq!(service.reply(request, payload).await?, payload.len());
                received.push(payload.to_vec());
            }
        }
        assert_eq!(received, [&b"one"[..], b"two", b"three"]);
        let mut answer = [0; 8];
        for (_, payload) in all {
            assert_eq!(socket.recv_from(&mut answer).await?, (payload.len(), to));
        }
        Ok(())
    });
}

#[test]
fn a_buffer_gets_what_it_has_capacity_for() {
    on_each(|client, server| async move {
        let service = UdpSocket::bind(&server, SERVER).await?;
        let socket = UdpSocket::bind(&client, "0.0.0.0:0").await?;
        socket.connect(SERVER).await?;
        for payload in [&b"first"[..], b"second", b"third"] {
            socket.send(payload).await?;
        }
        let mut buffer = Vec::with_capacity(11);
        let (len, from) = service.recv_buf_from(&mut buffer).await?;
        assert_eq!((len, from), (5, socket.local_addr()?));
        assert_eq!(service.recv_buf(&mut buffer).await?, 6);
        assert_eq!(buffer, b"firstsecond");
        let mut room = [0; 2];
        assert_eq!(service.recv_buf(&mut &mut room[..]).await?, 2);
        assert_eq!(&room, b"th");
        assert_eq!(service.try_recv_buf(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
        Ok(())
    });
}

#[test]
fn the_time_to_live_is_an_option_of_each_socket() {
    on_each(|client, _| async move {
        let socket = UdpSocket::bind(&client, "0.0.0.0:0").await?;
        assert_eq!(socket.ttl()?, 64);
        socket.set_ttl(1)?;
        assert_eq!(socket.ttl()?, 1);
        assert_eq!(socket.set_ttl(256).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(socket.ttl()?, 1);
        Ok(())
    });
}
