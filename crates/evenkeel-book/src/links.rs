//! Checks that links of Markdown files lead somewhere, and that the book's summary is complete.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;

use regex_lite::Regex;

use crate::markdown::{Document, Link};

/// A link that leaves the repository: a name of a machine, and a path without blanks.
static ADDRESS: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r#"^(https?://[a-z0-9-]+(\.[a-z0-9-]+)+(:\d+)?(/[^\s<>"]*)?|mailto:[^\s@]+@[^\s@]+)$"#;
    Regex::new(pattern).expect("a pattern")
});

/// The Markdown files of a repository: those of its root, of each crate's folder, and all of the book.
///
/// # Errors
/// If a folder cannot be read.
pub fn files(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = markdown_in(root)?;
    for entry in fs::read_dir(root.join("crates"))? {
        files.extend(markdown_in(&entry?.path())?);
    }
    files.extend(pages(root)?);
    files.sort();
    Ok(files)
}

/// The pages of a repository's book, its summary included.
///
/// # Errors
/// If a folder cannot be read.
pub fn pages(root: &Path) -> io::Result<Vec<PathBuf>> {
    let (mut pages, mut folders) = (Vec::new(), vec![root.join("docs")]);
    while let Some(folder) = folders.pop() {
        pages.extend(markdown_in(&folder)?);
        for entry in fs::read_dir(&folder)? {
            folders.extend(Some(entry?.path()).filter(|path| path.is_dir()));
        }
    }
    pages.sort();
    Ok(pages)
}

/// Returns the Markdown files directly in a folder.
fn markdown_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let paths: io::Result<Vec<PathBuf>> =
        fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect();
    let is_markdown = |path: &PathBuf| path.is_file() && path.extension().is_some_and(|end| end == "md");
    Ok(paths?.into_iter().filter(is_markdown).collect())
}

/// Checks all links of a repository's Markdown files. Returns what is wrong, for people.
///
/// # Errors
/// If a file cannot be read.
pub fn check(root: &Path) -> io::Result<Vec<String>> {
    let mut checker = Checker { root: root.to_owned(), documents: BTreeMap::new() };
    let mut wrong = Vec::new();
    for file in files(root)? {
        let name = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        for link in checker.document(&file)?.links.clone() {
            if let Some(why) = checker.judge(&file, &link)? {
                wrong.push(format!("{name}:{}: {}: {why}", link.line, link.target));
            }
        }
    }
    wrong.extend(check_summary(root)?);
    Ok(wrong)
}

/// Checks that the book's summary and its pages name each other.
fn check_summary(root: &Path) -> io::Result<Vec<String>> {
    let summary = root.join("docs/SUMMARY.md");
    let links = Document::parse(&fs::read_to_string(&summary)?).links;
    let listed: BTreeSet<PathBuf> =
        links.iter().map(|link| normal(&root.join("docs").join(&link.target))).collect();
    let pages: BTreeSet<PathBuf> = pages(root)?.into_iter().filter(|page| *page != summary).collect();
    let forgotten = pages.difference(&listed);
    Ok(forgotten.map(|page| format!("{}: is not in docs/SUMMARY.md", page.display())).collect())
}

/// Returns a path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

/// Returns the text of a page of the book with links to the repository's other files turned into addresses
/// below `repository`. The page's path is relative to `docs`.
#[must_use]
pub fn to_repository(page: &Path, text: &str, repository: &str, root: &Path) -> String {
    let mut links = Document::parse(text).links;
    links.sort_by_key(|link| link.at.start);
    let (mut rewritten, mut done) = (String::new(), 0);
    for link in links {
        let Some(address) = address(page, &link, repository, root) else { continue };
        rewritten.push_str(text.get(done..link.at.start).unwrap_or_default());
        rewritten.push_str(&address);
        done = link.at.end;
    }
    rewritten.push_str(text.get(done..).unwrap_or_default());
    rewritten
}

/// Returns the address of what a page links to; `None` if it is part of the book, or has one already.
fn address(page: &Path, link: &Link, repository: &str, root: &Path) -> Option<String> {
    if link.target.contains(':') || link.target.starts_with('#') {
        return None;
    }
    let (path, anchor) = link.target.split_once('#').unwrap_or((&link.target, ""));
    let path = normal(&Path::new("docs").join(page).parent()?.join(path));
    if path.starts_with("docs") {
        return None;
    }
    let kind = if root.join(&path).is_dir() { "tree" } else { "blob" };
    let raw = if link.is_image { "?raw=true" } else { "" };
    let hash = if anchor.is_empty() { "" } else { "#" };
    Some(format!("{repository}/{kind}/main/{}{raw}{hash}{anchor}", path.display()))
}

/// The files that are read so far.
struct Checker {
    root: PathBuf,
    documents: BTreeMap<PathBuf, Document>,
}

impl Checker {
    fn document(&mut self, file: &Path) -> io::Result<&Document> {
        if !self.documents.contains_key(file) {
            self.documents.insert(file.to_owned(), Document::parse(&fs::read_to_string(file)?));
        }
        self.documents.get(file).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Returns why a link is wrong.
    fn judge(&mut self, file: &Path, link: &Link) -> io::Result<Option<&'static str>> {
        let target = link.target.as_str();
        if target.contains(':') {
            return Ok((!ADDRESS.is_match(target)).then_some("is no address"));
        }
        let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
        let folder = file.parent().unwrap_or(file);
        let path = if path.is_empty() { file.to_owned() } else { normal(&folder.join(path)) };
        if !path.starts_with(&self.root) {
            return Ok(Some("leaves the repository"));
        }
        if !path.exists() {
            return Ok(Some("there is no such file"));
        }
        let docs = self.root.join("docs");
        if file.starts_with(&docs) && path.starts_with(&docs) && path.is_dir() {
            return Ok(Some("a folder, which the book cannot show: name a page"));
        }
        if anchor.is_empty() {
            return Ok(None);
        }
        if path.extension().is_some_and(|end| end == "md") {
            return Ok((!self.document(&path)?.has_anchor(anchor)).then_some("there is no such heading"));
        }
        let lines = fs::read_to_string(&path)?.lines().count();
        let numbers =
            anchor.split('-').map(|part| part.strip_prefix('L').and_then(|digits| digits.parse().ok()));
        let is_there = |number: Option<usize>| number.is_some_and(|number| (1..=lines).contains(&number));
        Ok((!numbers.into_iter().all(is_there)).then_some("there is no such line"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_leave_the_book_become_addresses() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        let text = "[a](../../README.md#x) [b](../start/b.md) [c](../../crates) [d](https://e.org/../x) \
                    [e][e]\n\n[e]: ../../LICENSE-MIT\n";
        let expected = "[a](https://r.org/blob/main/README.md#x) [b](../start/b.md) \
                        [c](https://r.org/tree/main/crates) [d](https://e.org/../x) [e][e]\n\n\
                        [e]: https://r.org/blob/main/LICENSE-MIT\n";
        assert_eq!(to_repository(Path::new("guides/a.md"), text, "https://r.org", root), expected);
    }
}
