//! Tests with whole requests, pieces of requests, several requests at once, and malformed ones.

use proptest::prelude::*;

use super::*;

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n";
const LEN: u64 = 1_000;

fn responder() -> Responder {
    Responder::new(Document::new(LEN))
}

/// Returns the answers to `bytes`. The bytes come in pieces of `piece`, and the answers leave in pieces of
/// `room`.
fn converse(responder: &mut Responder, mut bytes: &[u8], piece: usize, room: usize) -> Vec<u8> {
    let mut said = Vec::new();
    let mut to = vec![0; room];
    loop {
        let taken = responder.receive(&bytes[..piece.min(bytes.len())]);
        bytes = &bytes[taken..];
        let len = responder.fill(&mut to);
        // A caller need not send all bytes that were filled.
        let sent = len.div_ceil(2);
        said.extend(&to[..sent]);
        responder.sent(sent);
        if len == 0 && (bytes.is_empty() || taken == 0) {
            return said;
        }
    }
}

/// Returns the heads of the answers, and their contents.
fn answers(mut said: &[u8], heads_only: bool) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    while !said.is_empty() {
        let end = said.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
        let head = str::from_utf8(&said[..end]).unwrap();
        let field = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
        let len: usize = if heads_only { 0 } else { field.parse().unwrap() };
        all.push((head.to_owned(), said[end..end + len].to_vec()));
        said = &said[end + len..];
    }
    all
}

fn status_of(request: &[u8]) -> (u16, bool) {
    let mut responder = responder();
    let said = converse(&mut responder, request, usize::MAX, 100);
    let [(head, _)] = &answers(&said, request.starts_with(b"HEAD"))[..] else { panic!("{said:?}") };
    assert_eq!(head.contains("Connection: close"), responder.is_over(), "{head}");
    (head[9..12].parse().unwrap(), responder.is_over())
}

#[test]
fn gives_the_document_and_keeps_the_connection() {
    let mut responder = responder();
    let said = converse(&mut responder, GET, usize::MAX, 300);
    let [(head, content)] = &answers(&said, false)[..] else { panic!() };
    assert_eq!(
        head,
        "HTTP/1.1 200 OK\r\nServer: evenkeel\r\nContent-Type: application/octet-stream\r\nContent-Length: \
         1000\r\n\r\n"
    );
    let mut document = vec![0; 1_000];
    Document::new(LEN).read(0, &mut document);
    assert_eq!(content, &document);
    assert!(!responder.is_over() && !responder.has_answer());
    assert_eq!(answers(&converse(&mut responder, GET, usize::MAX, 300), false).len(), 1);
    responder.end();
    assert!(responder.is_over());
    assert_eq!(responder.answers(), 2);
}

#[test]
fn head_is_the_head_alone() {
    let said = converse(&mut responder(), b"HEAD / HTTP/1.1\r\nHost: here\r\n\r\n", usize::MAX, 300);
    let [(head, _)] = &answers(&said, true)[..] else { panic!() };
    assert!(head.contains("Content-Length: 1000"));
}

#[test]
fn connections_are_kept_or_closed_as_the_client_has_it() {
    let get = |version: &str, fields: &str| {
        status_of(format!("GET / HTTP/{version}\r\nHost: h\r\n{fields}\r\n").as_bytes())
    };
    assert_eq!(get("1.1", ""), (200, false));
    assert_eq!(get("1.1", "Connection: close\r\n"), (200, true));
    assert_eq!(get("1.1", "Connection: TE, Close\r\n"), (200, true));
    assert_eq!(get("1.0", ""), (200, true));
    assert_eq!(get("1.0", "Connection: Keep-Alive\r\n"), (200, false));
    assert_eq!(status_of(b"GET / HTTP/1.0\r\n\r\n"), (200, true), "HTTP/1.0 knows no Host");
    let said = converse(&mut responder(), b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 99, 99);
    assert!(answers(&said, false)[0].0.contains("Connection: keep-alive\r\n"));
}

#[test]
fn what_cannot_be_given_gets_the_error_that_fits() {
    let get = |target: &str| status_of(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes());
    assert_eq!(get("/elsewhere"), (404, false));
    assert_eq!(get("/?query"), (200, false));
    assert_eq!(get("http://here/"), (200, false));
    assert_eq!(get("HTTP://here"), (200, false));
    assert_eq!(get("http://here/there"), (404, false));
    assert_eq!(get("*"), (400, true), "it is for OPTIONS");
    let with = |method: &str, fields: &str| {
        status_of(format!("{method} / HTTP/1.1\r\nHost: h\r\n{fields}\r\n").as_bytes())
    };
    assert_eq!(with("POST", ""), (405, false));
    assert_eq!(with("get", ""), (501, false), "methods have their case");
    assert_eq!(with("POST", "Content-Length: 65537\r\n"), (413, true));
    assert_eq!(with("POST", "Content-Length: 99999999999999999999999999\r\n"), (413, true));
    assert_eq!(with("POST", "Transfer-Encoding: gzip, chunked\r\n"), (501, true));
    assert_eq!(with("GET", "Host: again\r\n"), (400, true));
    assert_eq!(status_of(b"GET / HTTP/1.1\r\n\r\n"), (400, true), "no host");
    assert_eq!(status_of(b"GET / HTTP/2.0\r\nHost: h\r\n\r\n"), (505, true));
    assert_eq!(status_of(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), (400, true), "TLS");
    assert_eq!(status_of(b"GET / HTTP/1.1\r\nHost: h\r\nno colon\r\n\r\n"), (400, true));
    assert_eq!(status_of(b"GET / HTTP/1.1\r\nHost: h\r\n folded\r\n\r\n"), (400, true));
}

/// If two servers disagree about the end of a request, an attacker can smuggle a request (RFC 9112, 11.2).
#[test]
fn what_could_be_read_in_two_ways_is_refused() {
    let with = |fields: &str| status_of(format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n").as_bytes());
    assert_eq!(with("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), (400, true));
    assert_eq!(with("Content-Length: 5\r\nContent-Length: 6\r\n"), (400, true));
    for length in ["+5", "-5", "5, 5", "0x5", "", "5 5"] {
        assert_eq!(with(&format!("Content-Length: {length}\r\n")), (400, true), "{length}");
    }
    assert_eq!(with("Content-Length : 5\r\n"), (400, true), "a blank before the colon");
    // RFC 9112, 6.3: the end of a coded content is known only if `chunked` is the last coding.
    for codings in
        ["gzip", "chunked, gzip", "chunked, chunked", "identity", "", ",", "xchunked", "\"chunked\""]
    {
        assert_eq!(with(&format!("Transfer-Encoding: {codings}\r\n")), (400, true), "{codings}");
    }
    assert_eq!(with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), (400, true));
    let old = b"GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n";
    assert_eq!(status_of(old), (400, true), "HTTP/1.0 knows no codings");
}

#[test]
fn bounds_are_kept() {
    let long = format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", "a".repeat(HEAD_BYTES_MAX));
    assert_eq!(status_of(long.as_bytes()), (414, true));
    let large = format!("GET / HTTP/1.1\r\nHost: h\r\nA: {}\r\n\r\n", "a".repeat(HEAD_BYTES_MAX));
    assert_eq!(status_of(large.as_bytes()), (431, true));
    let many = |n| format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", "A: a\r\n".repeat(n));
    assert_eq!(status_of(many(HEADERS_MAX - 1).as_bytes()), (200, false));
    assert_eq!(status_of(many(HEADERS_MAX).as_bytes()), (431, true));
    // A client may never end its request.
    let mut responder = responder();
    let said = converse(&mut responder, &b"GET / HTTP/1.1\r\nHost: h\r\n".repeat(10_000), 1_000, 100);
    assert_eq!(answers(&said, false).len(), 1);
    assert!(responder.is_over() && responder.input.capacity() == 0);
    assert_eq!(responder.receive(&[b'a'; 5_000]), 5_000, "what still comes is forgotten");
}

/// The responder takes no more bytes while an answer waits to be sent.
#[test]
fn a_client_that_does_not_read_has_to_wait() {
    let mut responder = responder();
    let many = GET.repeat(1_000);
    let mut taken = 0;
    for _ in 0..10 {
        taken += responder.receive(&many[taken..]);
    }
    assert!(taken <= HEAD_BYTES_MAX, "{taken}");
    assert_eq!((responder.answers(), responder.has_answer()), (1, true));
}

#[test]
fn content_is_read_and_forgotten() {
    let mut responder = responder();
    let post =
        [&b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 40000\r\n\r\n"[..], &[b'x'; 40_000]].concat();
    for piece in [1, 7, 1_000, usize::MAX] {
        let said = converse(&mut responder, &[&post[..], GET].concat(), piece, 100);
        let codes: Vec<String> =
            answers(&said, false).iter().map(|(head, _)| head[9..12].to_owned()).collect();
        assert_eq!(codes, ["405", "200"], "pieces of {piece}");
    }
}

/// Returns the status codes of the answers to bytes that come in pieces.
fn codes(responder: &mut Responder, bytes: &[u8], piece: usize) -> Vec<String> {
    let said = converse(responder, bytes, piece, 100);
    answers(&said, false).iter().map(|(head, _)| head[9..12].to_owned()).collect()
}

#[test]
fn content_in_chunks_is_read_and_forgotten() {
    let mut responder = responder();
    let head = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\n\r\n";
    let content = [&b"9c40\r\n"[..], &[b'x'; 40_000], b"\r\n1;ext\r\ny\r\n0\r\nTrailer: t\r\n\r\n"].concat();
    let post = [&head[..], &content, GET].concat();
    for piece in [1, 7, 1_000, usize::MAX] {
        assert_eq!(codes(&mut responder, &post, piece), ["405", "200"], "pieces of {piece}");
        assert!(!responder.is_over());
    }
}

#[test]
fn after_a_content_that_makes_no_sense_the_connection_is_closed() {
    for content in [&b"x\r\n"[..], b"5\r\nhello world\r\n", b"10001\r\n", b"ffffffffffffffffff\r\n"] {
        let mut responder = responder();
        let head = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(codes(&mut responder, &[head, content, GET].concat(), 10), ["405"], "{content:?}");
        assert!(responder.is_over(), "{}", content.escape_ascii());
    }
}

/// RFC 9112, 3.2 demands a 400 (Bad Request) for an invalid `Host`.
#[test]
fn a_host_that_can_be_none_is_refused() {
    let with = |host: &str| status_of(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
    for host in ["here", "10.77.0.2:80", "[fd77::2]:80", ""] {
        assert_eq!(with(host), (200, false), "{host}");
    }
    for host in ["a b", "a/b", "user@here", "[fd77::2", "here:http"] {
        assert_eq!(with(host), (400, true), "{host}");
    }
    assert_eq!(status_of(b"GET / HTTP/1.0\r\nHost: a b\r\n\r\n"), (400, true));
}

#[test]
fn answers_say_the_date_if_it_is_known() {
    let mut responder = responder();
    responder.set_date(HttpDate { seconds: 784_111_777 });
    for request in [GET, b"nonsense\r\n\r\n"] {
        let said = converse(&mut responder, request, usize::MAX, 300);
        let head = &answers(&said, false)[0].0;
        assert!(head.contains("\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"), "{head}");
    }
}

/// A client that has begun a request gets a 408 on a timeout. A client that has sent nothing, or does not
/// take its answer, gets none.
#[test]
fn who_takes_too_long_is_told_so_once() {
    let mut idle = responder();
    assert!(!idle.time_out() && !idle.has_answer());
    assert_eq!(idle.receive(b"GET / HT"), 8);
    assert!(idle.time_out());
    assert_eq!(codes(&mut idle, b"", 1), ["408"]);
    assert!(idle.is_over() && !idle.time_out());
    let mut slow = responder();
    slow.receive(GET);
    assert!(!slow.time_out() && slow.has_answer());
}

proptest! {
    /// For any cutting of the requests into pieces, there are as many answers as requests, in order, and each
    /// is complete.
    #[test]
    fn pieces_make_no_difference(count in 1usize..20, piece in 1usize..200, room in 1usize..2_000) {
        let other = b"GET /other HTTP/1.1\r\nHost: here\r\n\r\n";
        let requests: Vec<u8> =
            (0..count).flat_map(|n| if n % 3 == 2 { &other[..] } else { GET }).copied().collect();
        let mut responder = responder();
        let said = converse(&mut responder, &requests, piece, room);
        let all = answers(&said, false);
        prop_assert_eq!(all.len(), count);
        let mut document = vec![0; 1_000];
        Document::new(LEN).read(0, &mut document);
        for (n, (head, content)) in all.iter().enumerate() {
            let (code, wanted) = if n % 3 == 2 { ("404", &b"Not Found"[..]) } else { ("200", &document[..]) };
            prop_assert_eq!(&head[9..12], code);
            prop_assert_eq!(content, wanted);
        }
        prop_assert!(!responder.is_over());
    }

    /// For any bytes, the responder keeps its bounds, sends complete answers, and closes or waits.
    #[test]
    fn any_bytes_do_no_harm(
        bytes in proptest::collection::vec(any::<u8>(), 0..500),
        cut in 0usize..40,
        piece in 1usize..100,
    ) {
        let mut responder = responder();
        let bytes = [&GET[..cut.min(GET.len())], &bytes].concat();
        let said = converse(&mut responder, &bytes, piece, 64);
        prop_assert!(responder.input.len() <= HEAD_BYTES_MAX);
        prop_assert_eq!(answers(&said, false).len() as u64, responder.answers());
    }
}
