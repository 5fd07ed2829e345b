//! The files that the tests serve.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use evenkeel_testing::Scratch;

/// The date of the files.
pub(crate) const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

/// A directory of its own for a test, with the directory `root` in it.
pub(crate) struct Tree(Scratch);

impl Tree {
    /// Creates a tree with these files below the root. All are of [`DATE`].
    pub(crate) fn new(files: &[(&str, &[u8])]) -> Self {
        let tree = Self(Scratch::new());
        fs::create_dir_all(tree.root()).unwrap();
        for (name, bytes) in files {
            tree.write(name, bytes);
        }
        tree
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.0.file("root")
    }

    /// Returns the path of a file next to the root.
    pub(crate) fn outside(&self, name: &str) -> PathBuf {
        self.0.file(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.root().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        set_date(&path, 0);
    }
}

/// Makes a file one of `seconds` after [`DATE`].
pub(crate) fn set_date(path: &Path, seconds: u64) {
    let modified = UNIX_EPOCH + Duration::from_secs(784_111_777 + seconds);
    File::options().append(true).open(path).unwrap().set_modified(modified).unwrap();
}

/// Returns bytes whose pieces differ.
pub(crate) fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 % 251) as u8).collect()
}
