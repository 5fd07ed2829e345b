//! The path of a request: its bytes decoded, and everything refused that could lead elsewhere.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, percent_encode};

/// The bytes that a segment of a path does not have as they are (RFC 3986, 3.3).
const IN_SEGMENT: AsciiSet = CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'/')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// A file or directory that a request names, relative to the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    name: PathBuf,
    /// Whether the path ends with a slash, and so names a directory.
    pub(super) is_directory: bool,
}

impl Target {
    /// Returns the target of a path, or `None` if no file can have that name: a segment that begins with a
    /// dot, or that has a slash or NUL once it is decoded. Empty segments do not count.
    pub(super) fn parse(path: &str) -> Option<Self> {
        let path = path.strip_prefix('/')?;
        let mut name = PathBuf::new();
        for segment in path.split('/').filter(|segment| !segment.is_empty()) {
            let bytes: Vec<u8> = percent_decode_str(segment).collect();
            if bytes.starts_with(b".") || bytes.contains(&b'/') || bytes.contains(&0) {
                return None;
            }
            name.push(OsStr::from_bytes(&bytes));
        }
        Some(Self { name, is_directory: path.is_empty() || path.ends_with('/') })
    }

    /// Returns the name relative to the root.
    pub(super) fn name(&self) -> &Path {
        &self.name
    }

    /// Returns the address of this directory, with the slash at its end. It has only one slash at its front,
    /// so that no name can be taken for another server's.
    pub(super) fn directory_address(&self) -> String {
        let segments = self.name.iter().map(|segment| encode(segment) + "/");
        core::iter::once("/".to_owned()).chain(segments).collect()
    }
}

/// Returns a name as a segment of an address.
pub(super) fn encode(name: &OsStr) -> String {
    percent_encode(name.as_bytes(), &IN_SEGMENT).to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(path: &str) -> Option<(String, bool)> {
        let target = Target::parse(path)?;
        Some((target.name().to_str().unwrap().to_owned(), target.is_directory))
    }

    #[test]
    fn paths_are_decoded_segment_by_segment() {
        let named = |name: &str, is_directory| Some((name.to_owned(), is_directory));
        assert_eq!(name("/"), named("", true));
        assert_eq!(name("/a/b.txt"), named("a/b.txt", false));
        assert_eq!(name("//a///b/"), named("a/b", true));
        assert_eq!(name("/a%20b/%C3%A9+"), named("a b/é+", false));
        assert_eq!(name("/100%/%zz"), named("100%/%zz", false), "no code: the bytes themselves");
        assert_eq!(name("/a%5Cb"), named("a\\b", false));
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for path in [
            "/..",
            "/../a",
            "/a/../b",
            "/.",
            "/a/./b",
            "/%2e%2e/a",
            "/.%2E/a",
            "/.git/config",
            "/a/.htaccess",
            "/a%2Fb",
            "/a%2f..%2fb",
            "/a%00",
            "/%00",
            "a",
            "",
            "*",
        ] {
            assert_eq!(name(path), None, "{path}");
        }
    }

    #[test]
    fn the_address_of_a_directory_is_one_on_this_server() {
        let address = |path: &str| Target::parse(path).unwrap().directory_address();
        assert_eq!(address("//evil.example/a b"), "/evil.example/a%20b/");
        assert_eq!(address("/a%5C%3Fb%23"), "/a%5C%3Fb%23/");
        assert_eq!(address("/"), "/");
    }

    proptest! {
        #[test]
        fn a_target_stays_below_the_root(path in "/([a.%20-9eE/\\\\]|%2e|%2f|%00){0,24}") {
            if let Some(target) = Target::parse(&path) {
                let only_names = |part| matches!(part, std::path::Component::Normal(_));
                prop_assert!(target.name().components().all(only_names), "{:?}", target);
                let again = Target::parse(&target.directory_address()).unwrap();
                prop_assert_eq!(again.name(), target.name());
            }
        }
    }
}
