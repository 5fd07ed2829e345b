//! HTTP on several cores: a thread for each link, with a host and an executor of its own. No two threads
//! share anything, so none waits for another.
//!
//! As root: `cargo run --example several_cores --features hyper -- tap:keel0 tap:keel1`, and then
//! `curl http://10.77.0.2/` and `curl http://10.77.1.2/`.

use std::convert::Infallible;
use std::future::ready;
use std::time::Duration;
use std::{env, io, thread};

use evenkeel::net::Net;
use evenkeel::net::executor::{Executor, TcpListener};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};

/// The time that a client has for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Opens the host of a core.
pub(crate) fn open(link: &str, core: usize) -> io::Result<Net> {
    let end = |number| format!("10.77.{core}.{number}/24");
    let builder = Net::builder().link(link).address(&end(2));
    // A TAP has an end in the kernel, a network device has none.
    if link.starts_with("tap:") { builder.kernel_address(&end(1)) } else { builder }.open()
}

/// Serves on the calling thread, until no more connection can be accepted.
pub(crate) fn serve(net: &Net, core: usize) -> io::Result<()> {
    let listener = TcpListener::bind(net, "0.0.0.0:80")?;
    let executor = Executor::new(net)?;
    executor.block_on(async {
        loop {
            let (stream, _) = listener.accept().await?;
            // Nothing here has to be `Send`.
            // Nothing here has to be `Send`.
            let service = service_fn(move |request: Request<Incoming>| {
                let text = format!("core {core} has {}\n", request.uri().path());
                ready(Ok::<_, Infallible>(Response::new(Full::<Bytes>::from(text))))
            });
            let mut http = http1::Builder::new();
            http.timer(executor.timer()).header_read_timeout(HEAD_TIMEOUT);
            let connection = http.serve_connection(stream, service);
            executor.spawn(async { drop(connection.await) });
        }
    })
}

fn main() -> io::Result<()> {
    let nets: io::Result<Vec<_>> =
        env::args().skip(1).enumerate().map(|(core, link)| open(&link, core)).collect();
    let threads: Vec<_> =
        nets?.into_iter().enumerate().map(|(core, net)| thread::spawn(move || serve(&net, core))).collect();
    threads
        .into_iter()
        .try_for_each(|thread| thread.join().unwrap_or_else(|_| Err(io::Error::other("panic"))))
}
