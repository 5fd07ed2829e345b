//! Files of a directory, by names that strangers choose.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// The number of times that a name is looked up again because a directory on its way was renamed meanwhile.
const TRIES: usize = 16;

/// A directory whose files are opened by names that cannot lead out of it.
///
/// The kernel resolves a name and refuses one that leaves the directory (openat2(2), `RESOLVE_BENEATH`). So
/// no change of the tree between a check and its use can lead out. Symbolic links are followed as long as
/// they are relative and stay below the directory.
#[derive(Debug)]
pub struct Beneath {
    directory: OwnedFd,
}

impl Beneath {
    /// Opens a directory by its path.
    pub fn open(directory: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { directory: rustix::fs::openat(CWD, directory, flags, Mode::empty())? })
    }

    /// Opens a file or a directory by its name relative to this directory, for reading. An empty name is the
    /// directory itself. A FIFO or a device does not block.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if there is no such file. A name that leads out of the directory has none,
    /// nor has one that is too long, that follows links in a circle, or that is of a socket. Others are those
    /// of openat2(2).
    pub fn file(&self, name: &Path) -> io::Result<File> {
        self.open_with(name, OFlags::NONBLOCK | OFlags::NOCTTY)
    }

    fn open_with(&self, name: &Path, flags: OFlags) -> io::Result<File> {
        let name = if name.as_os_str().is_empty() { Path::new(".") } else { name };
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | flags;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let mut tries = 1..=TRIES;
        loop {
            let opened = rustix::fs::openat2(&self.directory, name, flags, Mode::empty(), resolve);
            match opened {
                Err(Errno::AGAIN | Errno::INTR) if tries.next().is_some() => {}
                Err(Errno::XDEV | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::LOOP | Errno::NXIO) => {
                    return Err(io::ErrorKind::NotFound.into());
                }
                opened => return Ok(opened?.into()),
            }
        }
    }

    /// Returns the names in a directory below this one with whether each is a directory, sorted, without `.`
    /// and `..`. Reads at most `max` of them.
    ///
    /// # Errors
    /// Those of [`Beneath::file`], and those of getdents64(2).
    pub fn entries(&self, name: &Path, max: usize) -> io::Result<Vec<(OsString, bool)>> {
        let entries = Dir::read_from(self.open_with(name, OFlags::DIRECTORY)?)?.map(|entry| {
            let entry = entry?;
            let name = OsString::from_vec(entry.file_name().to_bytes().to_vec());
            Ok((name, entry.file_type() == FileType::Directory))
        });
        let mut names = entries
            .filter(|entry| !matches!(entry, Ok((name, _)) if name == "." || name == ".."))
            .take(max)
            .collect::<io::Result<Vec<_>>>()?;
        names.sort_unstable();
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read as _;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::*;

    /// A tree of its own: `root` with files and links, and a secret next to it.
    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str) -> Self {
            let tree = std::env::temp_dir().join(format!("evenkeel-{name}-{}", std::process::id()));
            fs::create_dir_all(tree.join("root/dir")).unwrap();
            fs::write(tree.join("secret"), "secret").unwrap();
            fs::write(tree.join("root/dir/file"), "file").unwrap();
            symlink("dir/file", tree.join("root/inside")).unwrap();
            symlink("../secret", tree.join("root/outside")).unwrap();
            symlink("/etc/passwd", tree.join("root/absolute")).unwrap();
            Self(tree)
        }

        fn open(&self) -> Beneath {
            Beneath::open(&self.0.join("root")).unwrap()
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn names_below_the_directory_are_opened() {
        let tree = Tree::new("below");
        for name in ["dir/file", "inside", "dir/../dir/file"] {
            let mut text = String::new();
            tree.open().file(Path::new(name)).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "file", "{name}");
        }
        assert!(tree.open().file(Path::new("")).unwrap().metadata().unwrap().is_dir());
    }

    #[test]
    fn names_that_lead_out_are_refused() {
        let tree = Tree::new("out");
        for name in ["..", "../secret", "dir/../../secret", "outside", "absolute", "/etc/passwd"] {
            let error = tree.open().file(Path::new(name)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound, "{name}");
        }
    }

    #[test]
    fn names_that_no_file_can_have_are_not_found() {
        let tree = Tree::new("none");
        symlink("circle", tree.0.join("root/circle")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(tree.0.join("root/socket")).unwrap();
        for name in ["none", "dir/file/below", "circle", "socket", &"x".repeat(300), &"x/".repeat(3000)] {
            let error = tree.open().file(Path::new(name)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound, "{name}");
        }
    }

    #[test]
    fn a_fifo_without_a_writer_is_opened_at_once() {
        let tree = Tree::new("fifo");
        let fifo = tree.0.join("root/fifo");
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert!(!tree.open().file(Path::new("fifo")).unwrap().metadata().unwrap().is_file());
    }

    #[test]
    fn entries_are_sorted_and_bounded() {
        let tree = Tree::new("entries");
        let all = tree.open().entries(Path::new(""), 100).unwrap();
        let names: Vec<_> = all.iter().map(|(name, is_dir)| (name.to_str().unwrap(), *is_dir)).collect();
        assert_eq!(names, [("absolute", false), ("dir", true), ("inside", false), ("outside", false)]);
        assert_eq!(tree.open().entries(Path::new(""), 2).unwrap().len(), 2);
        let error = tree.open().entries(Path::new("dir/file"), 2).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
