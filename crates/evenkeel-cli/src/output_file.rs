//! Files that a command writes at its end, and checks before it begins.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// A file that can be written, as far as a check in advance can show.
#[derive(Debug)]
pub(crate) struct OutputFile {
    path: PathBuf,
    /// A pipe or a device stays open. A regular file is opened again for the write, so that it is whole or
    /// untouched.
    open: Option<File>,
}

impl OutputFile {
    /// Checks whether the file can be written. Leaves an old file as it is, and no new file behind.
    ///
    /// # Errors
    /// The reason, with the name of the file.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        Self::prepare(path).map_err(|error| cannot(path, &error))
    }

    /// Makes the file's directory first, and then checks the file like [`OutputFile::open`].
    ///
    /// # Errors
    /// As [`OutputFile::open`].
    pub(crate) fn open_in_directory(path: &Path) -> Result<Self, Failure> {
        let made = path.parent().map_or(Ok(()), fs::create_dir_all);
        made.map_err(|error| cannot(path, &error))?;
        Self::open(path)
    }

    fn prepare(path: &Path) -> io::Result<Self> {
        let new = OpenOptions::new().write(true).create_new(true).open(path);
        let open = match new {
            Ok(_) => {
                fs::remove_file(path)?;
                None
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let file = OpenOptions::new().write(true).open(path)?;
                let is_regular = file.metadata()?.is_file();
                (!is_regular).then_some(file)
            }
            Err(error) => return Err(error),
        };
        Ok(Self { path: path.to_owned(), open })
    }

    /// Writes the file.
    ///
    /// # Errors
    /// The reason, with the name of the file.
    pub(crate) fn write(self, text: &str) -> Result<(), Failure> {
        let written = match self.open {
            Some(mut file) => file.write_all(text.as_bytes()),
            None => fs::write(&self.path, text),
        };
        written.map_err(|error| cannot(&self.path, &error))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

fn cannot(path: &Path, error: &io::Error) -> Failure {
    Failure::machine(format!("cannot write {}", path.display()), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_before_the_end() {
        let folder = std::env::temp_dir().join(format!("evenkeel-output-{}", std::process::id()));
        let path = folder.join("deep").join("file");
        assert!(OutputFile::open(&path).is_err(), "there is no such directory");
        let file = OutputFile::open_in_directory(&path).unwrap();
        assert!(!path.exists());
        file.write("first").unwrap();
        let file = OutputFile::open(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "first");
        file.write("2nd").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "2nd");
        assert!(OutputFile::open(&folder).is_err() && OutputFile::open(&path.join("file")).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_full_disk_shows_at_the_end() {
        let said = OutputFile::open(Path::new("/dev/full")).unwrap().write("text").unwrap_err().to_string();
        assert!(said.contains("cannot write /dev/full") && said.contains("No space left"), "{said}");
    }
}
