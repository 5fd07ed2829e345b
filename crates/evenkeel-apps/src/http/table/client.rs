//! Tests of [`ResponseReader`] with the table of responses.

use super::{RESPONSES, Row, assert_all, cuts};
use crate::http::{Malformed, ResponseReader, Unfinished};

/// Reads a row in pieces. Returns the response's status, whether the connection is kept, and whether all
/// bytes of the row had come by then.
fn read(row: &Row, pieces: &[usize]) -> Result<(u16, bool, bool), Unfinished> {
    let mut reader = ResponseReader::new(row.expected.ends_with(&["HEAD"]));
    let mut begun = 0;
    for piece in pieces {
        let bytes = &row.bytes[begun..begun + piece];
        begun += piece;
        match reader.receive(bytes) {
            Ok(Some(answered)) => return Ok((answered.status, answered.keep, begun == row.bytes.len())),
            Ok(None) => {}
            Err(Malformed) => return Err(Unfinished::Malformed),
        }
    }
    reader.end().map(|answered| (answered.status, answered.keep, true))
}

fn is_right(row: &Row, read: Result<(u16, bool, bool), Unfinished>) -> bool {
    match (row.expected[0], read) {
        ("malformed", Err(Unfinished::Malformed)) | ("short", Err(Unfinished::Short)) => true,
        (status, Ok((read, keep, all))) => {
            // Whether something follows shows only if it came along.
            let kept = keep == (row.expected[1] == "keep") || keep && !all;
            status.parse() == Ok(read) && kept
        }
        _ => false,
    }
}

#[test]
fn every_response_is_read_the_same_however_it_comes() {
    assert_all(RESPONSES, |row| {
        for pieces in cuts(row.bytes.len()) {
            let read = read(row, &pieces);
            if !is_right(row, read) {
                return Err(format!("{read:?} for {:?}, in pieces of {pieces:?}", row.expected));
            }
        }
        Ok(())
    });
}
