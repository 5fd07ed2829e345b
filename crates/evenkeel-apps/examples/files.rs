//! Serves the files of a directory on the kernel's sockets, with tokio: `evenkeel http` compared with other
//! servers, on the sockets that they use.
//!
//! ```sh
//! cargo run -p evenkeel-apps --example files -- target/doc 127.0.0.1:8080
//! cargo run -p evenkeel-apps --example files -- target/doc 127.0.0.1:8443 cert.pem key.pem
//! ```

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::task::Context;

use evenkeel_apps::http::files::{Server, Settings, Tls};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpListener;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [root, listen, tls @ ..] = &arguments[..] else {
        return Err("usage: files ROOT ADDRESS:PORT [CERTIFICATE KEY]".into());
    };
    let settings = Settings { listing: true, ..Settings::default() };
    let mut server = Server::open(Path::new(root), settings, TokioTimer::new(), TokioExecutor::new())?;
    if let [certificate, key] = tls {
        server = server.with_tls(Arc::new(Tls::load(Path::new(certificate), Path::new(key))?));
    }
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let listener = TcpListener::bind(listen).await?;
        let accept = move |cx: &mut Context<'_>| {
            listener.poll_accept(cx).map_ok(|(stream, client)| (TokioIo::new(stream), client))
        };
        server.run(accept).await?;
        Ok(())
    })
}
