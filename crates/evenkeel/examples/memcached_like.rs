//! A store of values by key, with the text protocol of memcached: `get`, `set` and `delete`.
//!
//! As root: `cargo run --example memcached_like -- tap:keel0`, and then `nc 10.77.0.2 11211`.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel::net::Net;
use evenkeel::net::tokio::{TcpListener, TcpStream};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream};

/// The largest value, as in memcached.
const VALUE_BYTES: usize = 1 << 20;
/// The longest line of a request.
const LINE_BYTES: u64 = 512;

#[derive(Debug, Default)]
struct Store(Mutex<BTreeMap<String, Value>>);

#[derive(Debug, Clone)]
struct Value {
    flags: u32,
    data: Arc<[u8]>,
}

impl Store {
    fn with<T>(&self, change: impl FnOnce(&mut BTreeMap<String, Value>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Serves until the task is dropped.
pub(crate) async fn serve(net: &Net) -> io::Result<()> {
    let (listener, store) = (TcpListener::bind(net, "0.0.0.0:11211").await?, Arc::new(Store::default()));
    loop {
        let (stream, _) = listener.accept().await?;
        let store = Arc::clone(&store);
        // A connection that fails concerns nobody else.
        tokio::spawn(async move { answer(BufStream::new(stream), &store).await });
    }
}

async fn answer(mut stream: BufStream<TcpStream>, store: &Store) -> io::Result<()> {
    let mut line = String::new();
    loop {
        line.clear();
        if (&mut stream).take(LINE_BYTES).read_line(&mut line).await? == 0 {
            return Ok(());
        }
        let words: Vec<_> = line.split_whitespace().collect();
        match words[..] {
            ["get", ref keys @ ..] => {
                for key in keys {
                    if let Some(Value { flags, data }) = store.with(|values| values.get(*key).cloned()) {
                        stream
                            .write_all(format!("VALUE {key} {flags} {}\r\n", data.len()).as_bytes())
                            .await?;
                        stream.write_all(&data).await?;
                        stream.write_all(b"\r\n").await?;
                    }
                }
                stream.write_all(b"END\r\n").await?;
            }
            ["set", key, flags, _expires, len] => {
                let (Ok(flags), Ok(len)) = (flags.parse(), len.parse::<usize>()) else {
                    stream.write_all(b"CLIENT_ERROR bad command line format\r\n").await?;
                    return stream.flush().await;
                };
                if len > VALUE_BYTES {
                    stream.write_all(b"SERVER_ERROR object too large for cache\r\n").await?;
                    return stream.flush().await;
                }
                // With the end of the line behind it.
                let mut data = vec![0; len + 2];
                stream.read_exact(&mut data).await?;
                let value = Value { flags, data: Arc::from(&data[..len]) };
                store.with(|values| values.insert(key.to_owned(), value));
                stream.write_all(b"STORED\r\n").await?;
            }
            ["delete", key] => {
                let found = store.with(|values| values.remove(key)).is_some();
                stream.write_all(if found { b"DELETED\r\n" } else { b"NOT_FOUND\r\n" }).await?;
            }
            ["quit"] => return stream.flush().await,
            _ => stream.write_all(b"ERROR\r\n").await?,
        }
        stream.flush().await?;
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let link = std::env::args().nth(1).unwrap_or_else(|| "tap:keel0".to_owned());
    serve(&Net::open(&link)?).await
}
