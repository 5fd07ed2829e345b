//! Reading the files that a user names.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// A file larger than this is not what was meant. A million routes, or four million addresses, are less.
const BYTES_MAX: u64 = 64 << 20;

/// Reads a file that is to be text.
///
/// # Errors
/// If it cannot be read, is no text, or has more than 64 MiB.
pub fn read_text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "larger than 64 MiB"));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "is not text (UTF-8)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_end_is_given_up() {
        let error = read_text(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (io::ErrorKind::FileTooLarge, "larger than 64 MiB")
        );
    }
}
