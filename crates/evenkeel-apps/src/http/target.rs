//! The target of a request (RFC 9112, 3.2; RFC 3986), which names a document.

use super::host;

/// The kind of resource that a target names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// The only document of the server, `/`.
    Root,
    /// Another resource on this server.
    Other,
    /// A resource that no server of HTTP without TLS has (RFC 9110, 7.4).
    Foreign,
}

/// Reads the target of a request with this method; `None` if it can be none.
pub(super) fn read(method: &[u8], target: &[u8]) -> Option<Target> {
    match (method, target) {
        (b"CONNECT", authority) => {
            let colon = authority.iter().rposition(|byte| *byte == b':')?;
            let named = colon > 0 && colon + 1 < authority.len();
            (named && host::is_valid(authority)).then_some(Target::Other)
        }
        (b"OPTIONS", b"*") => Some(Target::Other),
        (_, [b'/', ..]) => path(target),
        _ => absolute(target),
    }
}

/// Reads the whole URI, as proxies are sent it; servers have to understand it, too (RFC 9112, 3.2.2).
fn absolute(uri: &[u8]) -> Option<Target> {
    let colon = uri.iter().position(|byte| *byte == b':')?;
    let (scheme, rest) = uri.split_at(colon);
    let rest = rest.strip_prefix(b"://")?;
    let [first, others @ ..] = scheme else { return None };
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    if !first.is_ascii_alphabetic() || !others.iter().all(plain) {
        return None;
    }
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    let found = path(rest)?;
    if !scheme.eq_ignore_ascii_case(b"http") {
        return Some(Target::Foreign);
    }
    // A target without a host is refused (RFC 9110, 4.2.1), and so is one with a user's name (4.2.4), which
    // `is_valid` does not detect.
    (!matches!(authority, [] | [b':', ..]) && host::is_valid(authority)).then_some(found)
}

/// Reads a path and a query. `None` if they are none: percent signs stand before two digits (RFC 3986, 2.1),
/// and a fragment is not sent.
fn path(text: &[u8]) -> Option<Target> {
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        rest = match (first, tail) {
            (b'%', [a, b, tail @ ..]) if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => tail,
            (b'%' | b'#', _) => return None,
            _ => tail,
        };
    }
    let path = text.split(|byte| *byte == b'?').next().unwrap_or_default();
    Some(if is_root(path) { Target::Root } else { Target::Other })
}

/// Returns whether a path is `/`, or is when its dot segments are removed (RFC 3986, 5.2.4 and 6.2.2).
fn is_root(path: &[u8]) -> bool {
    let mut segments = Vec::new();
    for segment in path.split(|byte| *byte == b'/').skip(1) {
        match dots(segment) {
            Some(1) => {}
            Some(2) => drop(segments.pop()),
            _ => segments.push(segment),
        }
    }
    matches!(segments[..], [] | [[]])
}

/// Returns how many dots a segment has, plain or percent-encoded, if it has nothing else.
fn dots(mut segment: &[u8]) -> Option<usize> {
    let mut count = 0;
    loop {
        segment = match segment {
            [] => return Some(count).filter(|count| *count > 0),
            [b'.', rest @ ..] | [b'%', b'2', b'e' | b'E', rest @ ..] => rest,
            _ => return None,
        };
        count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dot_segments_lead_nowhere() {
        for root in ["", "/", "/.", "/./", "/a/..", "/a/../", "/%2e", "/%2E%2e/", "/..", "/a/b/../.."] {
            assert!(is_root(root.as_bytes()), "{root}");
        }
        for other in ["//", "/a", "/a/", "/...", "/..a", "/a/.", "/%2f", "/a/b/..", "/./a"] {
            assert!(!is_root(other.as_bytes()), "{other}");
        }
    }
}
