//! The imports of the files of a crate from one another. Without a circle each file can be read, and changed,
//! knowing only those below it.
//!
//! A `mod.rs` imports the names that it re-exports. So a file that took a name from its own room's `mod.rs`
//! would be in a circle with it: it takes the name from the file that defines it. Methods need no import, and
//! are not looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A module's path below the crate: `["stack", "route"]`.
pub type Module = Vec<String>;

/// The modules that each module imports.
pub type Graph = BTreeMap<Module, BTreeSet<Module>>;

/// The sources of a crate: each module's file, as named in reports, and its text.
#[derive(Debug, Default)]
pub struct Sources(BTreeMap<Module, (String, String)>);

impl Sources {
    /// Reads all sources below a folder, without those of tests. The root of the modules is `lib.rs` or
    /// `main.rs`.
    ///
    /// # Panics
    /// If the folder cannot be read.
    #[must_use]
    pub fn read(folder: impl AsRef<Path>) -> Self {
        let mut sources = Self::default();
        sources.read_below(folder.as_ref(), "");
        sources
    }

    fn read_below(&mut self, folder: &Path, below: &str) {
        for entry in fs::read_dir(folder).expect("a folder of sources") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().and_then(|name| name.to_str()).expect("a plain name");
            let file = if below.is_empty() { name.to_owned() } else { format!("{below}/{name}") };
            if path.is_dir() && name != "tests" {
                self.read_below(&path, &file);
            } else if name.ends_with(".rs") && name != "tests.rs" {
                self.add(&file, &fs::read_to_string(&path).expect("a source"));
            }
        }
    }

    fn add(&mut self, file: &str, text: &str) {
        self.0.insert(module_of(file), (file.to_owned(), text.to_owned()));
    }

    /// Returns the modules that each module imports.
    #[must_use]
    pub fn graph(&self) -> Graph {
        let imports = |(module, (_, text)): (&Module, &(String, String))| {
            let code = code(text);
            let paths = uses(&code).into_iter().flat_map(paths).chain(qualified(&code));
            (module.clone(), paths.filter_map(|path| self.target(module, &path)).collect())
        };
        self.0.iter().map(imports).collect()
    }

    /// Returns the shortest cycle, by its files: `a.rs -> b.rs -> a.rs`.
    #[must_use]
    pub fn circle(&self) -> Option<String> {
        let graph = self.graph();
        let circles = self.0.keys().filter_map(|module| circle_of(module, &graph));
        let shortest = circles.min_by_key(Vec::len)?;
        let files: Vec<&str> =
            shortest.iter().filter_map(|module| Some(self.0.get(module)?.0.as_str())).collect();
        Some(files.join(" -> "))
    }

    /// Checks that no file imports itself by way of others.
    ///
    /// # Panics
    /// If one does, or if there are fewer files and imports than the caller knows of.
    pub fn assert_no_circle(&self, files: usize, imports: usize) {
        let found: usize = self.graph().values().map(BTreeSet::len).sum();
        assert!(
            self.0.len() >= files && found >= imports,
            "{} files with {found} imports: that is not all",
            self.0.len()
        );
        assert_eq!(self.circle(), None);
    }

    /// Returns the module of this crate that a path in `module` leads to: the longest part that names
    /// a file. A re-export of the crate's root has none: it is of another crate.
    fn target(&self, module: &Module, path: &str) -> Option<Module> {
        let mut target = module.clone();
        let mut segments = path.split("::").map(str::trim).peekable();
        match *segments.peek()? {
            "crate" => target.clear(),
            "self" => {}
            "super" => {
                while segments.next_if(|&segment| segment == "super").is_some() {
                    target.pop();
                }
            }
            child => {
                let child: Module = module.iter().cloned().chain([child.to_owned()]).collect();
                if !self.0.contains_key(&child) {
                    return None;
                }
            }
        }
        let _ = segments.next_if(|&segment| matches!(segment, "crate" | "self"));
        for segment in segments {
            target.push(segment.to_owned());
            if !self.0.contains_key(&target) {
                target.pop();
                break;
            }
        }
        Some(target).filter(|target| !target.is_empty() && target != module)
    }
}

fn module_of(file: &str) -> Module {
    let path = file.strip_suffix(".rs").unwrap_or(file);
    let path = path.strip_suffix("/mod").unwrap_or(path);
    if path == "lib" || path == "main" { Module::new() } else { path.split('/').map(str::to_owned).collect() }
}

/// Returns a text without comments, and without the tests at its end: clippy lets nothing follow them
/// (`items_after_test_module`).
fn code(text: &str) -> String {
    let mut code = String::new();
    let mut lines = text.lines().map(|line| line.split("//").next().unwrap_or_default()).peekable();
    while let Some(line) = lines.next() {
        let begins = |next: &&str| {
            let (before, _) = next.split_once("mod ").unwrap_or(("no module", ""));
            (before.trim().is_empty() || before.trim_start().starts_with("pub"))
                && next.trim_end().ends_with('{')
        };
        if line.trim() == "#[cfg(test)]" && lines.peek().is_some_and(begins) {
            break;
        }
        code.push_str(line);
        code.push('\n');
    }
    code
}

/// Returns the trees of all `use` declarations: each begins a line, with or without its visibility.
fn uses(code: &str) -> Vec<&str> {
    let declares = |&place: &usize| {
        let before = code[..place].rsplit('\n').next().unwrap_or_default().trim();
        before.is_empty() || before == "pub" || (before.starts_with("pub(") && before.ends_with(')'))
    };
    // In a sentence within a string are other characters.
    let is_tree = |tree: &&str| {
        tree.chars().all(|c| {
            c.is_alphanumeric() || c.is_whitespace() || matches!(c, '_' | ':' | '{' | '}' | ',' | '*')
        })
    };
    let places = code.match_indices("use ").map(|(place, _)| place).filter(declares);
    let trees = places.filter_map(|place| code[place + "use ".len()..].split(';').next());
    trees.filter(is_tree).collect()
}

/// Returns the paths that are written in full in the middle of the code.
fn qualified(code: &str) -> Vec<String> {
    let from = |start: &'static str| code.match_indices(start).map(|(place, _)| place);
    let begins = |&place: &usize| {
        let before = &code[..place];
        // Not the middle of a path, nor one that says to whom something is visible.
        !before.ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | ':' | '$'))
            && !before.ends_with("(in ")
    };
    let places = ["crate::", "self::", "super::"].into_iter().flat_map(from).filter(begins);
    let is_path = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':');
    let paths = places.filter_map(|place| code[place..].split(|c| !is_path(c)).next());
    // Those before a brace belong to a `use`.
    paths.filter(|path| !path.ends_with(':')).map(str::to_owned).collect()
}

/// Returns the paths in a tree: `a::{b, c::{self, d}}` has `a::b`, `a::c::self` and `a::c::d`.
fn paths(tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some((before, rest)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default().trim();
        return if path.is_empty() { Vec::new() } else { vec![path.to_owned()] };
    };
    let within = rest.strip_suffix('}').unwrap_or_else(|| panic!("no brace ends {tree}"));
    let mut depth = 0;
    let branches = within.split(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    branches.flat_map(paths).map(|path| format!("{}{path}", before.trim())).collect()
}

/// Returns a shortest path from a module back to itself.
fn circle_of(module: &Module, graph: &Graph) -> Option<Vec<Module>> {
    let mut seen = BTreeSet::new();
    let mut paths = std::collections::VecDeque::from([vec![module.clone()]]);
    while let Some(path) = paths.pop_front() {
        for next in path.last().and_then(|last| graph.get(last)).into_iter().flatten() {
            let longer: Vec<Module> = path.iter().cloned().chain([next.clone()]).collect();
            if next == module {
                return Some(longer);
            }
            if seen.insert(next.clone()) {
                paths.push_back(longer);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circle_among(files: &[(&str, &str)]) -> Option<String> {
        let mut sources = Sources::default();
        files.iter().for_each(|(file, text)| sources.add(file, text));
        sources.circle()
    }

    #[test]
    fn a_circle_is_found_however_it_is_written() {
        let room = |text| {
            circle_among(&[
                ("lib.rs", ""),
                ("a/mod.rs", "mod b;\npub use b::B;"),
                ("a/b.rs", text),
                ("c.rs", "use crate::a::B;"),
            ])
        };
        let through_mod = Some("a/mod.rs -> a/b.rs -> a/mod.rs".to_owned());
        assert_eq!(room("use super::{Other, D as E};"), through_mod);
        assert_eq!(room("use core::fmt;\nuse crate::a::{\n    Other,\n};"), through_mod);
        assert_eq!(room("fn f() {\n    use super::*;\n}"), through_mod);
        assert_eq!(room("pub(in crate::a) use crate::{drop::Reason, a::{self, B}};"), through_mod);
        assert_eq!(room("fn f() -> super::Other {}"), through_mod);
        assert_eq!(room("fn f() {\n    drop(crate::a::Other);\n}"), through_mod);
        let beside_tests = "#[cfg(test)]\nmod tests;\nmod b;\npub use b::B;";
        let files = [("lib.rs", ""), ("a/mod.rs", beside_tests), ("a/b.rs", "use super::Other;")];
        assert_eq!(circle_among(&files), through_mod);
        let through_another = Some("a/mod.rs -> a/b.rs -> c.rs -> a/mod.rs".to_owned());
        assert_eq!(room("use super::super::c::C;"), through_another);
    }

    #[test]
    fn what_is_no_circle_is_not_taken_for_one() {
        let pair = |text| {
            circle_among(&[
                ("lib.rs", "pub use other as tcp;"),
                ("a.rs", "use crate::b::{B, c::C};"),
                ("b/mod.rs", "mod c;\npub use c::C;"),
                ("b/c.rs", text),
            ])
        };
        assert_eq!(pair("use core::fmt;\nuse crate::tcp::A;\npub(crate) use other::a::A;"), None);
        assert_eq!(pair("pub(in crate::b) struct C;\npub(super) fn f() {\n    $crate::a::A\n}"), None);
        assert_eq!(pair("// use crate::a::A;\nstruct User;\n/// We use super::B;"), None);
        assert_eq!(pair("struct C;\n\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}"), None);
        assert_eq!(pair("struct C;\n\n#[cfg(test)]\npub(crate) mod tests {\n    use crate::a::A;\n}"), None);
    }
}
