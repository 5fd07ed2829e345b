//! Functions that read the files which a user names, and find the word that a user meant.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// The largest file that is read. A million routes, or four million addresses, are smaller.
const BYTES_MAX: u64 = 64 << 20;

/// Reads a file that is to be text.
///
/// # Errors
/// If the file cannot be read, is not text, or has more than 64 MiB.
pub fn read_text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "larger than 64 MiB"));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "is not text (UTF-8)"))
}

/// Returns the known words that are most like `word`, which is none of them: at most three, the nearest
/// first.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut known: Vec<_> = known.into_iter().map(|known| (distance(word, known), known)).collect();
    known.sort_by_key(|&(distance, _)| distance);
    let nearest = known.iter().take(3).filter(|&&(distance, known)| 2 * distance <= known.len());
    nearest.map(|&(_, known)| known).collect()
}

/// Returns alternatives as text: `a`, `a or b`, `a, b or c`.
#[must_use]
pub fn alternatives<'a>(all: impl IntoIterator<Item = &'a str>) -> String {
    let all: Vec<&str> = all.into_iter().collect();
    match all.split_last() {
        None => "nothing".to_owned(),
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
    }
}

/// Returns how many letters have to be put in, taken out or replaced to make one word of the other
/// (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (1..=b.len()).collect();
    for (i, a) in a.chars().enumerate() {
        let (mut diagonal, mut left) = (i, i + 1);
        for (above, &b) in row.iter_mut().zip(&b) {
            let replaced = diagonal + usize::from(a != b);
            diagonal = *above;
            left = replaced.min(diagonal + 1).min(left + 1);
            *above = left;
        }
    }
    row.last().copied().unwrap_or_else(|| a.chars().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternatives_read_as_a_sentence() {
        assert_eq!(alternatives(["a"]), "a");
        assert_eq!(alternatives(["a", "b", "c"]), "a, b or c");
    }

    #[test]
    fn the_word_that_was_meant_is_the_nearest() {
        let pages = ["echo", "receiving", "sending"];
        assert_eq!(nearest("recieving", pages), ["receiving"]);
        assert_eq!(nearest("ecko", pages), ["echo"]);
        assert_eq!(nearest("", pages), [""; 0]);
        let distances = [("", "ab"), ("ab", ""), ("ab", "ab"), ("kitten", "sitting")];
        assert_eq!(distances.map(|(a, b)| distance(a, b)), [2, 2, 0, 3]);
    }

    #[test]
    fn a_file_without_end_is_given_up() {
        let error = read_text(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (io::ErrorKind::FileTooLarge, "larger than 64 MiB")
        );
    }
}
