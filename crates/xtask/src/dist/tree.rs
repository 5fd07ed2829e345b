//! The files of a package or an image, before they are written.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Files by their paths, with their contents, and directories.
#[derive(Debug, Default)]
pub(super) struct Tree(Vec<File>);

#[derive(Debug)]
struct File {
    /// The path below the root, without a slash at its begin.
    path: PathBuf,
    mode: u32,
    contents: Vec<u8>,
}

impl Tree {
    /// Adds a file that everyone can read.
    pub(super) fn add(&mut self, path: impl Into<PathBuf>, contents: impl Into<Vec<u8>>) {
        self.0.push(File { path: path.into(), mode: 0o644, contents: contents.into() });
    }

    /// Adds a file that everyone can execute.
    pub(super) fn add_program(&mut self, path: impl Into<PathBuf>, contents: impl Into<Vec<u8>>) {
        self.0.push(File { path: path.into(), mode: 0o755, contents: contents.into() });
    }

    /// Adds copies of all files of a directory, as they are named there.
    pub(super) fn add_all(&mut self, below: &str, from: &Path) -> io::Result<()> {
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            self.add(Path::new(below).join(entry.file_name()), fs::read(entry.path())?);
        }
        Ok(())
    }

    /// Returns the sizes of all files together, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.0.iter().map(|file| file.contents.len()).sum()
    }

    /// Returns the paths below a directory, in order.
    pub(super) fn below(&self, directory: &str) -> Vec<&Path> {
        let paths = self.0.iter().map(|file| file.path.as_path());
        let mut paths: Vec<_> = paths.filter(|path| path.starts_with(directory)).collect();
        paths.sort_unstable();
        paths
    }

    /// Writes all files into a new directory.
    pub(super) fn write(&self, root: &Path) -> io::Result<()> {
        make_directory(root)?;
        for File { path, mode, contents } in &self.0 {
            let mut directory = root.to_owned();
            for part in path.parent().into_iter().flat_map(Path::iter) {
                directory.push(part);
                make_directory(&directory)?;
            }
            let path = root.join(path);
            fs::write(&path, contents)?;
            fs::set_permissions(&path, Permissions::from_mode(*mode))?;
        }
        Ok(())
    }
}

/// Makes a directory that everyone can read, whatever the mask of this process.
fn make_directory(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o755))
}

/// A directory for intermediate files, which is removed at the end.
#[derive(Debug)]
pub(super) struct Scratch(pub(super) PathBuf);

impl Scratch {
    pub(super) fn new(name: &str) -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("evenkeel-dist-{}-{name}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
