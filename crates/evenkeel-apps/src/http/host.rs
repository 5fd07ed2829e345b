//! The value of the field `Host`: the host and optionally the port of a URI, or nothing (RFC 9110, 7.2; RFC
//! 3986, 3.2.2 and 3.2.3).

use std::net::Ipv6Addr;

/// Returns whether `value` is `uri-host [ ":" port ]`.
pub(super) fn is_valid(value: &[u8]) -> bool {
    let (host, rest) = match value.strip_prefix(b"[") {
        Some(literal) => {
            let Some(end) = literal.iter().position(|byte| *byte == b']') else { return false };
            let (literal, rest) = literal.split_at(end);
            if !is_literal(literal) {
                return false;
            }
            (&[][..], rest.get(1..).unwrap_or_default())
        }
        None => value.split_at(value.iter().position(|byte| *byte == b':').unwrap_or(value.len())),
    };
    let port = rest.strip_prefix(b":").map_or(rest.is_empty(), |port| port.iter().all(u8::is_ascii_digit));
    port && is_name(host)
}

/// Returns whether `text` is an IPv6 address, with or without a zone (RFC 6874, 2), or an address of a
/// future version.
fn is_literal(text: &[u8]) -> bool {
    if let [b'v' | b'V', future @ ..] = text {
        let mut parts = future.splitn(2, |byte| *byte == b'.');
        let version = parts.next().unwrap_or_default();
        let address = parts.next().unwrap_or_default();
        let plain = |byte: &u8| is_plain(*byte) || *byte == b':';
        return !version.is_empty()
            && version.iter().all(u8::is_ascii_hexdigit)
            && !address.is_empty()
            && address.iter().all(plain);
    }
    let (address, zone) = match text.iter().position(|byte| *byte == b'%') {
        Some(at) => text.split_at(at),
        None => (text, &[][..]),
    };
    let zoned = zone.is_empty() || zone.strip_prefix(b"%25").is_some_and(is_zone);
    zoned && str::from_utf8(address).is_ok_and(|address| address.parse::<Ipv6Addr>().is_ok())
}

fn is_zone(zone: &[u8]) -> bool {
    !zone.is_empty() && is_name(zone) && !zone.iter().any(|byte| b"!$&'()*+,;=".contains(byte))
}

/// Returns whether `text` is a registered name. IPv4 addresses are such names.
fn is_name(mut text: &[u8]) -> bool {
    loop {
        text = match text {
            [] => return true,
            [b'%', a, b, rest @ ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => rest,
            [byte, rest @ ..] if is_plain(*byte) => rest,
            _ => return false,
        }
    }
}

/// Returns whether `byte` is an unreserved character or one that delimits parts of names.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_those_of_uris() {
        for right in [
            "",
            "h",
            "example.com",
            "example.com:",
            "example.com:8080",
            "10.77.0.2:80",
            "[fd77::2]",
            "[fd77::2]:80",
            "[::ffff:10.0.0.1]",
            "[v1.a:b]",
            "a_b~c",
            "%41",
            ":80",
            "a,b",
            "[fe80::1%25eth0]:80",
        ] {
            assert!(is_valid(right.as_bytes()), "{right}");
        }
        for wrong in [
            "a b",
            "a/b",
            "a:b",
            "a:80:80",
            "user@h",
            "[fd77::2",
            "[fd77::g]",
            "[]",
            "[fd77::2]x",
            "[fd77::2]x:80",
            "fd77::2",
            "%4",
            "%zz",
            "h?",
            "h#",
            "\"h\"",
            "<h>",
            "[v.a]",
            "[v1.]",
            "h\u{e4}",
            "h\\",
            "h:+80",
            "h: 80",
            "[fe80::1%eth0]",
            "[fe80::1%25]",
            "[fe80::1%25a=b]",
        ] {
            assert!(!is_valid(wrong.as_bytes()), "{wrong}");
        }
    }
}
