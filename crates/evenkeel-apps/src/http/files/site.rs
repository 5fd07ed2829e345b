//! The answers to requests for the files of a directory.

use core::ops::Range;
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::SystemTime;

use evenkeel::raw::host::random_bits;
use evenkeel::raw::kernel::Beneath;
use hyper::header::{
    ACCEPT_RANGES, ALLOW, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HOST,
    HeaderMap, HeaderName, HeaderValue, LAST_MODIFIED, LOCATION, SERVER, VARY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, Request, Response, StatusCode, Version};

use super::body::Body;
use super::coding::Coding;
use super::listing;
use super::range::Selection;
use super::settings::Settings;
use super::target::Target;
use super::validators::{Validators, Verdict};

/// The name of the file that is served for its directory.
const INDEX: &str = "index.html";

/// The files below a directory, as answers to requests.
#[derive(Debug)]
pub(super) struct Site {
    root: Beneath,
    has_listing: bool,
    has_precompressed: bool,
}

/// The result of looking up a path.
enum Found {
    File(Document),
    /// A directory whose address lacks its slash.
    Moved(String),
    Listing(String),
}

/// An open file that is to be served.
struct Document {
    file: File,
    metadata: Metadata,
    content_type: String,
    coding: Option<Coding>,
}

impl Site {
    /// Opens the site of the files below `root`.
    pub(super) fn open(root: &Path, settings: &Settings) -> io::Result<Self> {
        Ok(Self {
            root: Beneath::open(root)?,
            has_listing: settings.listing,
            has_precompressed: settings.precompressed,
        })
    }

    /// Returns the answer to a request that arrived at `now`.
    pub(super) fn answer<B>(&self, request: &Request<B>, now: SystemTime) -> Response<Body> {
        let mut answer = self.answer_get(request, now).unwrap_or_else(refuse);
        let len = answer.body().len();
        let headers = answer.headers_mut();
        headers.insert(SERVER, HeaderValue::from_static("evenkeel"));
        // RFC 9110, 8.6: the length would be that of the file, which nobody needs.
        if answer.status() != StatusCode::NOT_MODIFIED {
            answer.headers_mut().insert(CONTENT_LENGTH, len.into());
        }
        if request.method() == Method::HEAD {
            answer.body_mut().clear();
        }
        answer
    }

    fn answer_get<B>(&self, request: &Request<B>, now: SystemTime) -> Result<Response<Body>, StatusCode> {
        if !has_right_host(request) {
            return Err(StatusCode::BAD_REQUEST);
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return Err(StatusCode::METHOD_NOT_ALLOWED);
        }
        let target = Target::parse(request.uri().path()).ok_or(StatusCode::NOT_FOUND)?;
        match self.find(&target, request.headers()).map_err(|error| status_of(&error))? {
            Found::File(document) => Ok(document.answer(request, now, self.has_precompressed)),
            Found::Moved(address) => Ok(redirect(&address, request.uri().query())),
            Found::Listing(page) => {
                let mut answer = Response::new(Body::text(page));
                set(answer.headers_mut(), CONTENT_TYPE, "text/html; charset=utf-8");
                Ok(answer)
            }
        }
    }

    fn find(&self, target: &Target, headers: &HeaderMap) -> io::Result<Found> {
        if target.is_directory {
            return match self.document(&target.name().join(INDEX), headers) {
                Err(error) if error.kind() == ErrorKind::NotFound && self.has_listing => self.list(target),
                document => document.map(Found::File),
            };
        }
        let file = self.root.file(target.name())?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Ok(Found::Moved(target.directory_address()));
        }
        self.prefer_copy(target.name(), file, metadata, headers).map(Found::File)
    }

    fn list(&self, target: &Target) -> io::Result<Found> {
        let entries = self.root.entries(target.name(), listing::NAMES_MAX)?;
        Ok(Found::Listing(listing::page(&target.directory_address(), &entries)))
    }

    fn document(&self, name: &Path, headers: &HeaderMap) -> io::Result<Document> {
        let file = self.root.file(name)?;
        let metadata = file.metadata()?;
        self.prefer_copy(name, file, metadata, headers)
    }

    /// Returns the file, or a copy of it in a coding that the client prefers. A copy that is older than the
    /// file is of an earlier version.
    fn prefer_copy(
        &self,
        name: &Path,
        file: File,
        metadata: Metadata,
        headers: &HeaderMap,
    ) -> io::Result<Document> {
        // Directories, devices and FIFOs.
        if !metadata.is_file() {
            return Err(ErrorKind::NotFound.into());
        }
        let content_type = content_type(name);
        let modified = metadata.modified()?;
        let codings = Coding::accepted(headers).filter(|_| self.has_precompressed);
        for coding in codings {
            let mut copy = OsString::from(name);
            copy.push(coding.extension());
            let Ok(file) = self.root.file(Path::new(&copy)) else { continue };
            let metadata = file.metadata()?;
            if metadata.is_file() && metadata.modified()? >= modified {
                return Ok(Document { file, metadata, content_type, coding: Some(coding) });
            }
        }
        Ok(Document { file, metadata, content_type, coding: None })
    }
}

impl Document {
    /// Returns the answer to a `GET` or `HEAD`. `varies` says whether other clients may get another coding.
    fn answer<B>(self, request: &Request<B>, now: SystemTime, varies: bool) -> Response<Body> {
        let (method, wanted) = (request.method(), request.headers());
        let len = self.metadata.len();
        let validators = Validators::new(&self.metadata, self.coding.map_or("", Coding::name), now);
        let mut headers = HeaderMap::new();
        set(&mut headers, ETAG, &validators.etag());
        set(&mut headers, LAST_MODIFIED, &validators.last_modified());
        if varies {
            set(&mut headers, VARY, "Accept-Encoding");
        }
        match validators.evaluate(method, wanted) {
            Verdict::Perform => {}
            Verdict::NotModified => return with_head(StatusCode::NOT_MODIFIED, headers, Body::empty()),
            Verdict::PreconditionFailed => return refuse(StatusCode::PRECONDITION_FAILED),
        }
        set(&mut headers, ACCEPT_RANGES, "bytes");
        set(&mut headers, X_CONTENT_TYPE_OPTIONS, "nosniff");
        if let Some(coding) = self.coding {
            set(&mut headers, CONTENT_ENCODING, coding.name());
        }
        let selection = if method == Method::GET && validators.allow_range(wanted) {
            Selection::of(wanted, len)
        } else {
            Selection::Whole
        };
        let (status, content_type, body) = match selection {
            Selection::Whole => (StatusCode::OK, self.content_type, content(self.file, 0..len)),
            Selection::Ranges(ranges) if ranges.len() > 1 => {
                let boundary = boundary();
                let body = multipart(self.file, &ranges, len, &self.content_type, &boundary);
                let content_type = format!("multipart/byteranges; boundary={boundary}");
                (StatusCode::PARTIAL_CONTENT, content_type, body)
            }
            Selection::Ranges(ranges) => {
                let range = ranges.into_iter().next().unwrap_or_default();
                set(&mut headers, CONTENT_RANGE, &content_range(&range, len));
                (StatusCode::PARTIAL_CONTENT, self.content_type, content(self.file, range))
            }
            Selection::Unsatisfiable => {
                let mut answer = refuse(StatusCode::RANGE_NOT_SATISFIABLE);
                set(answer.headers_mut(), CONTENT_RANGE, &format!("bytes */{len}"));
                return answer;
            }
        };
        set(&mut headers, CONTENT_TYPE, &content_type);
        with_head(status, headers, body)
    }
}

/// Returns whether a request of HTTP/1.1 says whom it is for (RFC 9112, 3.2).
fn has_right_host<B>(request: &Request<B>) -> bool {
    request.version() != Version::HTTP_11 || request.headers().get_all(HOST).iter().count() == 1
}

/// Returns the answer for a file that could not be opened.
fn status_of(error: &io::Error) -> StatusCode {
    match error.kind() {
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::PermissionDenied => StatusCode::FORBIDDEN,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Returns an answer whose content says what its status means.
fn refuse(status: StatusCode) -> Response<Body> {
    let text = format!("{} {}\n", status.as_u16(), status.canonical_reason().unwrap_or(""));
    let mut headers = HeaderMap::new();
    set(&mut headers, CONTENT_TYPE, "text/plain; charset=utf-8");
    if status == StatusCode::METHOD_NOT_ALLOWED {
        set(&mut headers, ALLOW, "GET, HEAD");
    }
    with_head(status, headers, Body::text(text))
}

fn redirect(address: &str, query: Option<&str>) -> Response<Body> {
    let location = query.map_or_else(|| address.to_owned(), |query| format!("{address}?{query}"));
    let mut answer = refuse(StatusCode::MOVED_PERMANENTLY);
    set(answer.headers_mut(), LOCATION, &location);
    answer
}

fn with_head(status: StatusCode, headers: HeaderMap, body: Body) -> Response<Body> {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    *answer.headers_mut() = headers;
    answer
}

/// Sets a field whose value this server made. A value that no field can have is left out.
fn set(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

fn content(file: File, range: Range<u64>) -> Body {
    let mut body = Body::of_file(file);
    body.push_range(range);
    body
}

/// Returns several ranges as parts of one content (RFC 9110, 14.6).
fn multipart(file: File, ranges: &[Range<u64>], len: u64, content_type: &str, boundary: &str) -> Body {
    let mut body = Body::of_file(file);
    for range in ranges {
        let content_range = content_range(range, len);
        body.push_text(format!(
            "\r\n--{boundary}\r\nContent-Type: {content_type}\r\nContent-Range: {content_range}\r\n\r\n"
        ));
        body.push_range(range.clone());
    }
    body.push_text(format!("\r\n--{boundary}--\r\n"));
    body
}

fn content_range(range: &Range<u64>, len: u64) -> String {
    format!("bytes {}-{}/{len}", range.start, range.end.saturating_sub(1))
}

/// Returns a boundary that no file has but by chance.
fn boundary() -> String {
    format!("{:032x}", u128::from_ne_bytes(random_bits().unwrap_or_default()))
}

/// Returns the content type by the file's extension. Texts are in UTF-8.
fn content_type(name: &Path) -> String {
    let essence = mime_guess::from_path(name).first_raw().unwrap_or("application/octet-stream");
    let charset = if essence.starts_with("text/") { "; charset=utf-8" } else { "" };
    format!("{essence}{charset}")
}
