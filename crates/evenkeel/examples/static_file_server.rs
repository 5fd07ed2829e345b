//! A static file server on hyper: files with ranges, conditional requests and an index, over our sockets.
//!
//! As root: `cargo run --example static_file_server -- tap:keel0 public`, and then
//! `curl -r 0-99 http://10.77.0.2/`.

use std::fs::{File, Metadata};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::UNIX_EPOCH;

use evenkeel::net::Net;
use evenkeel::net::tokio::TcpListener;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{ACCEPT_RANGES, CONTENT_RANGE, ETAG, IF_NONE_MATCH, RANGE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;

/// The bytes that are read from a file at a time.
const PIECE_BYTES: u64 = 64 * 1024;

/// Serves the files below `root` until the task is dropped.
pub(crate) async fn serve(net: &Net, root: &Path) -> io::Result<()> {
    let root = root.canonicalize()?;
    let listener = TcpListener::bind(net, "0.0.0.0:80").await?;
    loop {
        let (stream, peer) = listener.accept().await?;
        let root = root.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| std::future::ready(answer(&root, &request)));
            if let Err(error) = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await {
                eprintln!("{peer}: {error}");
            }
        });
    }
}

fn answer(root: &Path, request: &Request<Incoming>) -> hyper::http::Result<Response<Content>> {
    let status = |status| Response::builder().status(status).body(Content::default());
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return status(StatusCode::METHOD_NOT_ALLOWED);
    }
    let Some((file, metadata)) = open(root, request.uri().path()) else {
        return status(StatusCode::NOT_FOUND);
    };
    let field = |name| request.headers().get(name)?.to_str().ok();
    let (len, etag) = (metadata.len(), etag(&metadata));
    let answer = Response::builder().header(ETAG, &etag).header(ACCEPT_RANGES, "bytes");
    if field(IF_NONE_MATCH).is_some_and(|known| known == etag) {
        return answer.status(StatusCode::NOT_MODIFIED).body(Content::default());
    }
    match field(RANGE).and_then(|range| parse_range(range, len)) {
        None => answer.body(Content { file: Some(file), range: 0..len }),
        Some(range) if range.is_empty() => {
            let answer = answer.header(CONTENT_RANGE, format!("bytes */{len}"));
            answer.status(StatusCode::RANGE_NOT_SATISFIABLE).body(Content::default())
        }
        Some(range) => {
            let sent = format!("bytes {}-{}/{len}", range.start, range.end - 1);
            let answer = answer.status(StatusCode::PARTIAL_CONTENT).header(CONTENT_RANGE, sent);
            answer.body(Content { file: Some(file), range })
        }
    }
}

/// Opens the file that `path` names below the root, of a directory its index.
fn open(root: &Path, path: &str) -> Option<(File, Metadata)> {
    let relative: PathBuf = path.split('/').filter(|name| !name.is_empty()).collect();
    let is_plain =
        |part| matches!(part, Component::Normal(name) if !name.as_encoded_bytes().starts_with(b"."));
    if !relative.components().all(is_plain) {
        return None;
    }
    let mut path = root.join(relative);
    if path.is_dir() {
        path.push("index.html");
    }
    // A symbolic link may lead out of the root, which the whole path shows.
    let path = path.canonicalize().ok().filter(|path| path.starts_with(root))?;
    let file = File::open(path).ok()?;
    let metadata = file.metadata().ok().filter(Metadata::is_file)?;
    Some((file, metadata))
}

/// Returns a validator that changes with a file.
fn etag(metadata: &Metadata) -> String {
    let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    format!("\"{:x}-{:x}\"", modified.unwrap_or_default().as_nanos(), metadata.len())
}

/// Reads a single range of bytes: `bytes=FIRST-LAST`, `bytes=FIRST-` or `bytes=-LENGTH`. A range beyond the
/// end is empty. Any other field is ignored, as RFC 9110 allows.
fn parse_range(field: &str, len: u64) -> Option<Range<u64>> {
    let (first, last) = field.strip_prefix("bytes=")?.split_once('-')?;
    if first.is_empty() {
        return Some(len.saturating_sub(last.parse().ok()?)..len);
    }
    let first: u64 = first.parse().ok()?;
    let end = if last.is_empty() { len } else { last.parse::<u64>().ok()?.saturating_add(1).min(len) };
    Some(first.min(end)..end)
}

/// A range of a file, which is read as it is sent.
#[derive(Default)]
struct Content {
    file: Option<File>,
    range: Range<u64>,
}

impl Content {
    fn read(&mut self) -> io::Result<Option<Bytes>> {
        let Some(file) = self.file.as_mut().filter(|_| !self.range.is_empty()) else { return Ok(None) };
        let len = PIECE_BYTES.min(self.range.end - self.range.start);
        let mut piece = vec![0; usize::try_from(len).map_err(io::Error::other)?];
        file.seek(SeekFrom::Start(self.range.start))?;
        file.read_exact(&mut piece)?;
        self.range.start += len;
        Ok(Some(piece.into()))
    }
}

impl Body for Content {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Poll::Ready(self.read().transpose().map(|piece| piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.range.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.range.end - self.range.start)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let mut args = std::env::args().skip(1);
    let link = args.next().unwrap_or_else(|| "tap:keel0".to_owned());
    let root = args.next().unwrap_or_else(|| ".".to_owned());
    serve(&Net::open(&link)?, Path::new(&root)).await
}
