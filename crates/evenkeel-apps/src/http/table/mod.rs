//! Tables of messages, well-formed, odd and hostile, with the expected outcome of each. The tests run them
//! against the server and the client.

mod client;
mod server;

/// The messages that a server gets.
const REQUESTS: &str = include_str!("requests.txt");
/// The messages that a client gets.
pub(crate) const RESPONSES: &str = include_str!("responses.txt");

/// A line of a table: a message and the expected outcome.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) bytes: Vec<u8>,
    /// The words of the expected outcome.
    pub(crate) expected: Vec<&'static str>,
}

pub(crate) fn rows(table: &'static str) -> Vec<Row> {
    let lines = table.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let rows: Vec<Row> = lines.map(row).collect();
    for (at, row) in rows.iter().enumerate() {
        assert!(rows[..at].iter().all(|other| other.name != row.name), "two rows are named {}", row.name);
    }
    rows
}

fn row(line: &'static str) -> Row {
    let parts: Vec<&str> = line.split('|').collect();
    let [name, section, bytes, expected] = parts[..] else { panic!("four columns: {line}") };
    let (rfc, section) = section.trim().split_once(' ').unwrap();
    assert!(rfc.parse::<u16>().is_ok() && !section.is_empty(), "an RFC and a section: {line}");
    let bytes = bytes.strip_prefix(' ').unwrap();
    let bytes = read(bytes.strip_suffix(' ').unwrap_or(bytes));
    Row { name: name.trim(), bytes, expected: expected.split_whitespace().collect() }
}

/// Reads the bytes of a row.
fn read(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text);
    while let Some(first) = rest.chars().next() {
        rest = &rest[first.len_utf8()..];
        match first {
            '\\' => {
                let (escaped, len) = match rest.as_bytes()[0] {
                    b'r' => (b'\r', 1),
                    b'n' => (b'\n', 1),
                    b't' => (b'\t', 1),
                    b'0' => (0, 1),
                    b'\\' => (b'\\', 1),
                    b'x' => (u8::from_str_radix(&rest[1..3], 16).unwrap(), 3),
                    other => panic!("\\{} in {text}", char::from(other)),
                };
                bytes.push(escaped);
                rest = &rest[len..];
            }
            '{' => {
                let (repeated, after) = rest.split_once('}').unwrap();
                let (times, what) = repeated.split_once('*').unwrap();
                bytes.extend(read(what).repeat(times.parse().unwrap()));
                rest = after;
            }
            plain => bytes.extend(plain.to_string().bytes()),
        }
    }
    bytes
}

/// Checks every row of a table, and fails with the names of all wrong rows.
pub(crate) fn assert_all(table: &'static str, check: impl Fn(&Row) -> Result<(), String>) {
    let wrong: Vec<String> = rows(table)
        .iter()
        .filter_map(|row| check(row).err().map(|why| format!("{}: {}", row.name, shortened(&why))))
        .collect();
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}

fn shortened(text: &str) -> String {
    text.chars().take(200).collect()
}

/// Returns ways to cut `len` bytes into pieces: not at all, in two at every byte, and into single bytes.
pub(crate) fn cuts(len: usize) -> Vec<Vec<usize>> {
    // In a message that is too long, only some of the bytes are tested.
    let step = if len > 1_000 { 97 } else { 1 };
    let mut all: Vec<Vec<usize>> = (1..len).step_by(step).map(|cut| vec![cut, len - cut]).collect();
    all.push(vec![len]);
    all.push(vec![1; len]);
    all
}

#[test]
fn there_are_rows_enough() {
    let (requests, responses) = (rows(REQUESTS).len(), rows(RESPONSES).len());
    assert!(requests >= 90 && responses >= 70, "{requests} requests, {responses} responses");
    assert_eq!(read("a\\r\\n\\x7f{3*b\\0}c"), b"a\r\n\x7fb\0b\0b\0c");
}
