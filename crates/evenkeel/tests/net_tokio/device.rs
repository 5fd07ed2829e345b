//! A host whose only device is removed.

use std::io::ErrorKind;

use evenkeel::net::Net;
use evenkeel::net::tokio::{TcpListener, UdpSocket};
use evenkeel_testing::run;
use tokio::io::AsyncReadExt as _;

use crate::{PATIENCE, current_thread};

/// Tasks that wait in any call are woken, and so are later calls answered.
#[test]
fn a_device_that_is_removed_ends_the_calls_of_tasks() {
    evenkeel_testing::in_namespace(&[&[("ip", "iproute2")]], || {
        run("ip link add ek0 type veth peer name kernel0");
        run("ip addr add 10.77.0.1/24 dev kernel0");
        run("ip link set kernel0 up");
        run("ip link set ek0 up");
        let net = Net::builder().link("packet:ek0").address("10.77.0.2/24").open().unwrap();
        let waits = async {
            let listener = TcpListener::bind(&net, "0.0.0.0:80").await.unwrap();
            let socket = UdpSocket::bind(&net, "0.0.0.0:7").await.unwrap();
            let client = std::thread::spawn(|| std::net::TcpStream::connect("10.77.0.2:80").unwrap());
            let (mut stream, _) = listener.accept().await.unwrap();
            let tasks = [
                tokio::spawn(async move { stream.read(&mut [0]).await.map(drop).unwrap_err() }),
                tokio::spawn(async move { socket.recv(&mut [0]).await.map(drop).unwrap_err() }),
                tokio::spawn(async move {
                    let error = listener.accept().await.map(drop).unwrap_err();
                    assert_eq!(listener.accept().await.unwrap_err().kind(), error.kind());
                    error
                }),
            ];
            // All of them wait when the device goes.
            tokio::task::yield_now().await;
            run("ip link del ek0");
            for task in tasks {
                assert_eq!(task.await.unwrap().kind(), ErrorKind::NetworkDown);
            }
            drop(client.join());
        };
        current_thread().block_on(async { tokio::time::timeout(PATIENCE, waits).await }).unwrap();
        net.check().unwrap();
    });
}
