//! The target and the bytes of a request, computed once.

use core::fmt;
use core::str::FromStr;
use std::net::Ipv6Addr;

/// A server and a path on it, from an `http` or `https` URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The protocol below HTTP.
    pub scheme: Scheme,
    /// The server's name or address; an IPv6 address is without brackets and zone.
    pub host: String,
    /// The zone of a link-local address: the interface that leads to it.
    pub zone: Option<String>,
    /// The server's port.
    pub port: u16,
    /// The path and query of the URL.
    pub path: String,
}

/// The protocol below HTTP, by the scheme of the URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// TCP.
    Http,
    /// TLS over TCP.
    Https,
}

impl Scheme {
    /// Returns the scheme's name in a URL.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// Returns the port of servers whose URL names none (RFC 9110, 4.2).
    const fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

impl Target {
    /// Returns the host as a resolver takes it: with the zone of an address.
    #[must_use]
    pub fn resolvable(&self) -> String {
        match &self.zone {
            Some(zone) => format!("{}%{zone}", self.host),
            None => self.host.clone(),
        }
    }

    /// Returns host and port as a `Host` field has them (RFC 9110, 7.2). The zone is not sent, because it
    /// means nothing to the server (RFC 6874, 4).
    #[must_use]
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == self.scheme.port() { host } else { format!("{host}:{}", self.port) }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut authority = self.authority();
        if let Some(zone) = &self.zone {
            // RFC 6874, 2.
            authority = authority.replacen(']', &format!("%25{zone}]"), 1);
        }
        write!(f, "{}://{authority}{}", self.scheme.name(), self.path)
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (scheme, rest) = match text.split_once("://") {
            None => (Scheme::Http, text),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (Scheme::Http, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (Scheme::Https, rest),
            Some((scheme, _)) => return Err(format!("expected http:// or https://, not {scheme}://")),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let expected = || "expected a URL such as http://192.0.2.9:8080/path".to_owned();
        let (host, zone, port) = authority_of(authority, scheme).ok_or_else(expected)?;
        if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("blanks and letters beyond ASCII in a path must be percent-encoded".to_owned());
        }
        if !are_encoded(path) {
            return Err("a `%` in a path must be followed by two hexadecimal digits, or be %25".to_owned());
        }
        let (host, zone) = (host.to_owned(), zone.map(str::to_owned));
        Ok(Self { scheme, host, zone, port, path: without_dots(path) })
    }
}

/// Reads the host, the zone and the port of a URL.
fn authority_of(authority: &str, scheme: Scheme) -> Option<(&str, Option<&str>, u16)> {
    let (host, zone, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (literal, port) = rest.split_once(']')?;
            // `%25` is the form of RFC 6874, 2; a bare `%` is what people type.
            let (address, zone) = match literal.split_once('%') {
                Some((address, zone)) => (address, Some(zone.strip_prefix("25").unwrap_or(zone))),
                None => (literal, None),
            };
            let plain = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
            let zoned = zone.is_none_or(|zone| !zone.is_empty() && zone.chars().all(plain));
            address.parse::<Ipv6Addr>().ok().filter(|_| zoned)?;
            (address, zone, port)
        }
        None => {
            let (host, port) = authority.split_at(authority.find(':').unwrap_or(authority.len()));
            let plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
            if host.is_empty() || !host.chars().all(plain) {
                return None;
            }
            (host, None, port)
        }
    };
    let port = match port.strip_prefix(':') {
        // An empty port is the ordinary one (RFC 3986, 3.2.3 and 6.2.3).
        Some("") => scheme.port(),
        None if port.is_empty() => scheme.port(),
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse().ok().filter(|port| *port > 0)?
        }
        _ => return None,
    };
    Some((host, zone, port))
}

/// Returns whether each `%` begins an encoded byte (RFC 3986, 2.1).
fn are_encoded(path: &str) -> bool {
    let is_encoded = |rest: &str| {
        let digits = rest.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    path.split('%').skip(1).all(is_encoded)
}

/// Returns path and query with the dot segments of the path removed (RFC 3986, 5.2.4), as curl and browsers
/// do.
fn without_dots(path: &str) -> String {
    let (path, query) = path.split_at(path.find('?').unwrap_or(path.len()));
    let (mut segments, mut ends_in_folder) = (Vec::new(), true);
    for segment in path.split('/').skip(1) {
        let plain = segment.replace("%2e", ".").replace("%2E", ".");
        ends_in_folder = matches!(plain.as_str(), "." | "..");
        match plain.as_str() {
            "." => {}
            ".." => drop(segments.pop()),
            _ => segments.push(segment),
        }
    }
    if ends_in_folder {
        segments.push("");
    }
    format!("/{}{query}", segments.join("/"))
}

/// A request, ready to be sent many times.
#[derive(Debug, Clone)]
pub struct Request {
    kept: Vec<u8>,
    last: Vec<u8>,
    /// Whether the request is a HEAD. Its response has no content.
    pub(super) is_head: bool,
    /// Whether sending the request twice does no harm (RFC 9110, 9.2.2).
    pub(super) idempotent: bool,
    pub(super) parts: Parts,
}

/// The parts of a request.
#[derive(Debug, Clone)]
pub(super) struct Parts {
    pub(super) target: Target,
    pub(super) method: String,
    /// The fields by name, with the host and the user agent. Blanks may be around the values.
    pub(super) fields: Vec<(String, String)>,
    pub(super) content: Vec<u8>,
}

/// The fields that frame a message, which the user may not set.
const OURS: [&str; 3] = ["connection", "content-length", "transfer-encoding"];

/// Reads the method of a request.
///
/// # Errors
/// A message that names the expected text.
pub fn method(text: &str) -> Result<String, String> {
    let is_method = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-');
    is_method.then(|| text.to_owned()).ok_or_else(|| "expected a method such as GET or POST".to_owned())
}

impl Request {
    /// Creates a request with a method that [`method`] accepts, fields such as `Accept: text/html`, and a
    /// content.
    ///
    /// # Errors
    /// A message about the fault of the request.
    pub fn new(target: &Target, method: &str, fields: &[String], content: &[u8]) -> Result<Self, String> {
        if self::method(method).is_err() {
            return Err(format!("`{method}` is no method such as GET or POST"));
        }
        let names = |name: &str| fields.iter().any(|field| name_of(field).eq_ignore_ascii_case(name));
        let mut all = Vec::new();
        if !names("host") {
            all.push(("Host".to_owned(), format!(" {}", target.authority())));
        }
        if !names("user-agent") {
            all.push(("User-Agent".to_owned(), " evenkeel".to_owned()));
        }
        for field in fields {
            all.push(checked(field)?);
        }
        if !content.is_empty() || ["POST", "PUT", "PATCH"].contains(&method) {
            all.push(("Content-Length".to_owned(), format!(" {}", content.len())));
        }
        let lines: String = all.iter().map(|(name, value)| format!("{name}:{value}\r\n")).collect();
        let head = format!("{method} {} HTTP/1.1\r\n{lines}", target.path);
        let with = |connection: &str| [head.as_bytes(), connection.as_bytes(), b"\r\n", content].concat();
        Ok(Self {
            kept: with(""),
            last: with("Connection: close\r\n"),
            is_head: method == "HEAD",
            idempotent: ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "TRACE"].contains(&method),
            parts: Parts {
                target: target.clone(),
                method: method.to_owned(),
                fields: all,
                content: content.to_vec(),
            },
        })
    }

    /// Returns the bytes of the request. If `last`, they ask the server to close the connection after it.
    pub(super) fn bytes(&self, last: bool) -> &[u8] {
        if last { &self.last } else { &self.kept }
    }
}

fn name_of(field: &str) -> &str {
    field.split_once(':').map_or("", |(name, _)| name)
}

/// Returns the name and the value of a field, with the blanks around the value.
fn checked(field: &str) -> Result<(String, String), String> {
    let name = name_of(field);
    if OURS.iter().any(|ours| name.eq_ignore_ascii_case(ours)) {
        return Err(format!("`{name}` is for evenkeel to say"));
    }
    let token = !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b));
    let text = field.bytes().all(|byte| byte == b'\t' || byte >= b' ' && byte != 0x7f);
    let value = field.split_once(':').map(|(_, value)| value).filter(|_| token && text);
    let value = value.ok_or_else(|| format!("`{field}` is no field such as `Accept: text/html`"))?;
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read() {
        let read = |text: &str| text.parse::<Target>().map(|t| (t.host, t.port, t.path));
        let ok = |host: &str, port, path: &str| Ok((host.to_owned(), port, path.to_owned()));
        assert_eq!(read("http://here"), ok("here", 80, "/"));
        assert_eq!(read("HTTP://here:8080/a?b=c#d"), ok("here", 8080, "/a?b=c"));
        assert_eq!(read("https://here/a"), ok("here", 443, "/a"));
        assert_eq!(read("https://here:80/"), ok("here", 80, "/"));
        assert_eq!(read("127.0.0.1:81/x"), ok("127.0.0.1", 81, "/x"));
        assert_eq!(read("http://[::1]:82?q"), ok("::1", 82, "/?q"));
        // RFC 3986, 3.2.3.
        assert_eq!(read("http://here:/x"), ok("here", 80, "/x"));
        assert_eq!(read("http://[::1]:"), ok("::1", 80, "/"));
        assert_eq!(read("http://here:0080/"), ok("here", 80, "/"));
        // RFC 3986, 5.2.4, and segments that are not dot segments.
        for (path, expected) in [
            ("/./a/../b/.", "/b/"),
            ("/..", "/"),
            ("/a/b/..", "/a/"),
            ("/a/%2E%2e/c", "/c"),
            ("/a//b/", "/a//b/"),
            ("/...", "/..."),
            ("/?x=/../y", "/?x=/../y"),
            ("/a%20b%2f", "/a%20b%2f"),
            ("?q", "/?q"),
        ] {
            assert_eq!(read(&format!("http://here{path}")), ok("here", 80, expected), "{path}");
        }
        for (wrong, why) in [
            ("ftp://here/", "not ftp"),
            ("http:///x", "such as"),
            ("http://here:0/", "such as"),
            ("http://here:http/", "such as"),
            ("http://[::1/", "such as"),
            ("http://user@here/", "such as"),
            ("http://here:+80/", "such as"),
            ("http://here:65536/", "such as"),
            ("http://[here]/", "such as"),
            ("http://[127.0.0.1]/", "such as"),
            ("http://[::1]80/", "such as"),
            ("http://[fe80::1%]/", "such as"),
            ("http://[fe80::1%25]/", "such as"),
            ("http://here%eth0/", "such as"),
            ("http://::1/", "such as"),
            ("http://here/%zz", "two hexadecimal"),
            ("http://here/?50%", "two hexadecimal"),
            ("http://here/a b", "percent"),
            ("", "such as"),
        ] {
            assert!(read(wrong).is_err_and(|error| error.contains(why)), "{wrong}");
        }
        for text in ["https://here/", "https://here:80/", "http://here:443/", "http://here/"] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
        assert_eq!("[::1]:82/x".parse::<Target>().unwrap().to_string(), "http://[::1]:82/x");
    }

    /// RFC 6874 defines the zone of an address, and that it is not sent.
    #[test]
    fn a_zone_is_for_the_resolver_and_does_not_go_to_the_server() {
        for text in ["http://[fe80::1%25eth0]:81/", "http://[fe80::1%eth0]:81/"] {
            let target: Target = text.parse().unwrap();
            assert_eq!((target.resolvable().as_str(), target.port), ("fe80::1%eth0", 81));
            assert_eq!(target.authority(), "[fe80::1]:81");
            assert_eq!(target.to_string(), "http://[fe80::1%25eth0]:81/");
            let request = Request::new(&target, "GET", &[], b"").unwrap();
            assert!(request.bytes(false).starts_with(b"GET / HTTP/1.1\r\nHost: [fe80::1]:81\r\n"));
        }
    }

    #[test]
    fn requests_say_what_they_must() {
        let target: Target = "http://here:81/x".parse().unwrap();
        let get = Request::new(&target, "GET", &[], b"").unwrap();
        let text = "GET /x HTTP/1.1\r\nHost: here:81\r\nUser-Agent: evenkeel\r\n";
        assert_eq!(get.bytes(false), format!("{text}\r\n").as_bytes());
        assert_eq!(get.bytes(true), format!("{text}Connection: close\r\n\r\n").as_bytes());
        let fields = ["Host: there".to_owned(), "user-agent: x".to_owned()];
        let post = Request::new(&target, "POST", &fields, b"hi").unwrap();
        let text = "POST /x HTTP/1.1\r\nHost: there\r\nuser-agent: x\r\nContent-Length: 2\r\n\r\nhi";
        assert_eq!(post.bytes(false), text.as_bytes());
        assert!(get.idempotent && !post.idempotent && !get.is_head);
        for wrong in ["no colon", "a b: c", ": c", "A: b\r\nC: d", "Content-Length: 5", "connection: x"] {
            assert!(Request::new(&target, "GET", &[wrong.to_owned()], b"").is_err(), "{wrong}");
        }
        assert!(Request::new(&target, "GE T", &[], b"").is_err());
    }
}
