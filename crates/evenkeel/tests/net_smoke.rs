use evenkeel::net::{Net, TcpListener, TcpStream, UdpSocket};
use std::io::{Read, Write};
use std::thread;

#[test]
fn udp() {
    let (a, b) = Net::pair().unwrap();
    let server = UdpSocket::bind(&b, "0.0.0.0:7").unwrap();
    let t = thread::spawn(move || {
        for _ in 0..1000 {
            let mut buf = [0; 100];
            let (n, from) = server.recv_from(&mut buf).unwrap();
            server.send_to(&buf[..n], from).unwrap();
        }
    });
    let client = UdpSocket::bind(&a, "0.0.0.0:0").unwrap();
    let start = std::time::Instant::now();
    for i in 0..1000u32 {
        client.send_to(&i.to_ne_bytes(), "10.0.0.2:7").unwrap();
        let mut buf = [0; 100];
        let (n, _) = client.recv_from(&mut buf).unwrap();
        assert_eq!(&buf[..n], &i.to_ne_bytes());
    }
    eprintln!("udp {:?}", start.elapsed() / 1000);
    t.join().unwrap();
}

#[test]
fn tcp() {
    let (a, b) = Net::pair().unwrap();
    let server = TcpListener::bind(&b, "0.0.0.0:80").unwrap();
    let t = thread::spawn(move || {
        let mut all = Vec::new();
        for _ in 0..4 {
            let (mut s, _) = server.accept().unwrap();
            all.push(thread::spawn(move || {
                let mut buf = [0; 100];
                loop {
                    let n = s.read(&mut buf).unwrap();
                    if n == 0 {
                        break;
                    }
                    s.write_all(&buf[..n]).unwrap();
                }
            }));
        }
        for t in all {
            t.join().unwrap()
        }
    });
    let start = std::time::Instant::now();
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let a = a.clone();
            thread::spawn(move || {
                let mut c = TcpStream::connect(&a, "10.0.0.2:80").unwrap();
                for i in 0..1000u32 {
                    c.write_all(&i.to_ne_bytes()).unwrap();
                    let mut buf = [0; 4];
                    c.read_exact(&mut buf).unwrap();
                    assert_eq!(buf, i.to_ne_bytes());
                }
            })
        })
        .collect();
    for t in clients {
        t.join().unwrap()
    }
    eprintln!("tcp {:?}", start.elapsed() / 1000);
    t.join().unwrap();
}
