//! A path with a delay: a datagram that comes goes on so much later, in the order in which they come.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use crate::now;

/// A way ends when nothing has come for so long.
const SILENCE: Duration = Duration::from_secs(5);

/// Starts a path with `delay` in both directions in front of `server`. Returns the address that the client
/// sends to instead of `server`.
pub(crate) fn between(server: SocketAddr, delay: Duration) -> io::Result<SocketAddr> {
    let near = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let far = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    far.connect(server)?;
    let address = near.local_addr()?;
    let client = Arc::new(OnceLock::new());
    let is_client = Arc::clone(&client);
    let sends = far.try_clone()?;
    way(near.try_clone()?, delay, move |from| _ = is_client.set(from), move |bytes| _ = sends.send(bytes))?;
    let back = move |bytes: &[u8]| {
        if let Some(client) = client.get() {
            let _ = near.send_to(bytes, client);
        }
    };
    way(far, delay, |_| (), back)?;
    Ok(address)
}

fn way(
    from: UdpSocket,
    delay: Duration,
    mut came: impl FnMut(SocketAddr) + Send + 'static,
    mut goes: impl FnMut(&[u8]) + Send + 'static,
) -> io::Result<()> {
    from.set_read_timeout(Some(SILENCE))?;
    let (held, due) = mpsc::channel::<(Duration, Vec<u8>)>();
    thread::spawn(move || {
        let mut buffer = [0; 2_048];
        while let Ok((length, sender)) = from.recv_from(&mut buffer) {
            came(sender);
            if held.send((now() + delay, buffer[..length].to_vec())).is_err() {
                return;
            }
        }
    });
    thread::spawn(move || {
        while let Ok((at, bytes)) = due.recv() {
            #[expect(clippy::disallowed_methods, reason = "a path of milliseconds")]
            thread::sleep(at.saturating_sub(now()));
            goes(&bytes);
        }
    });
    Ok(())
}
