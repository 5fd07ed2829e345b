//! The access log, in the combined format of Apache and nginx.

use core::fmt::{self, Write as _};
use std::io::Write;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use evenkeel::raw::time::Utc;
use hyper::header::{HeaderName, REFERER, USER_AGENT};
use hyper::{Request, StatusCode};

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A log of requests, with a line for each when its answer ends.
///
/// A line is written with one call. A line that cannot be written is lost, because no request should fail
/// for it.
pub struct AccessLog(Mutex<Box<dyn Write + Send>>);

impl AccessLog {
    /// Creates a log that writes its lines to `to`.
    #[must_use]
    pub fn new(to: impl Write + Send + 'static) -> Self {
        Self(Mutex::new(Box::new(to)))
    }

    fn write(&self, line: &str) {
        let mut to = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = to.write_all(line.as_bytes()).and_then(|()| to.flush());
    }
}

impl fmt::Debug for AccessLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessLog")
    }
}

/// The line of one request. It is written when it is dropped, with the bytes that were sent by then.
#[derive(Debug)]
pub(super) struct Entry {
    log: Arc<AccessLog>,
    front: String,
    bytes: u64,
    back: String,
}

impl Entry {
    /// Creates the line of a request of `client` that arrived at `at` and is answered with `status`.
    pub(super) fn new<B>(
        log: &Arc<AccessLog>,
        client: IpAddr,
        at: SystemTime,
        request: &Request<B>,
        status: StatusCode,
    ) -> Self {
        let path = request.uri().path_and_query().map_or("-", |path| path.as_str());
        let (method, version) = (request.method(), request.version());
        let front = format!(
            "{} - - [{}] \"{method} {} {version:?}\" {} ",
            client.to_canonical(),
            Stamp(at),
            Escaped(path.as_bytes()),
            status.as_u16()
        );
        let field =
            |name: HeaderName| request.headers().get(name).map_or(&b"-"[..], |value| value.as_bytes());
        let back = format!(" \"{}\" \"{}\"\n", Escaped(field(REFERER)), Escaped(field(USER_AGENT)));
        Self { log: Arc::clone(log), front, bytes: 0, back }
    }

    /// Records that bytes of the answer's content went on their way.
    pub(super) const fn sent(&mut self, bytes: u64) {
        self.bytes += bytes;
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.log.write(&format!("{}{}{}", self.front, self.bytes, self.back));
    }
}

/// A time as logs have it: `06/Nov/1994:08:49:37 +0000`.
struct Stamp(SystemTime);

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let Utc { year, month, day, hour, minute, second, .. } = Utc::of(seconds);
        let month = MONTHS.get(usize::from(month).wrapping_sub(1)).unwrap_or(&"");
        write!(f, "{day:02}/{month}/{year:04}:{hour:02}:{minute:02}:{second:02} +0000")
    }
}

/// Bytes of a client, with escapes for those that could end a field or a line, or control a terminal.
struct Escaped<'a>(&'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|&byte| match byte {
            b'"' | b'\\' | 0..=0x1f | 0x7f.. => write!(f, "\\x{byte:02X}"),
            _ => f.write_char(char::from(byte)),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    /// Sends the lines that are written to it.
    struct Lines(mpsc::Sender<String>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.send(String::from_utf8(bytes.to_vec()).unwrap()).unwrap();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_is_in_the_combined_format_and_cannot_be_broken_by_a_client() {
        let (sender, lines) = mpsc::channel();
        let log = Arc::new(AccessLog::new(Lines(sender)));
        let request = Request::get("/a?b=c")
            .header("Referer", "http://x/\"")
            .header("User-Agent", "curl\t1\\")
            .body(())
            .unwrap();
        let at = UNIX_EPOCH + Duration::from_secs(784_111_777);
        let client = "::ffff:10.0.0.1".parse().unwrap();
        let mut entry = Entry::new(&log, client, at, &request, StatusCode::PARTIAL_CONTENT);
        entry.sent(1000);
        entry.sent(234);
        assert!(lines.try_recv().is_err(), "a line is written when the answer has ended");
        drop(entry);
        assert_eq!(
            lines.recv().unwrap(),
            "10.0.0.1 - - [06/Nov/1994:08:49:37 +0000] \"GET /a?b=c HTTP/1.1\" 206 1234 \
             \"http://x/\\x22\" \"curl\\x091\\x5C\"\n"
        );
    }
}
