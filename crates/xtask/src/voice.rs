//! `cargo xtask voice`: docs, pages, changelog and commit subjects that are hard to read.
//!
//! A doc is read alone, in an index or a tooltip: it needs a subject or a verb of its own. This refuses what
//! can be counted. A reader has to judge whether a sentence is true and clear.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

mod prose;

/// Openings that no doc of a function or type has.
const REFUSED: [&str; 8] = ["The same", "As there", "What", "Who", "How", "Says", "When", "Where"];
/// Openings that few docs of anything have.
const RARE: [&str; 6] = ["What", "How", "Whether", "When", "Who", "Where"];
/// The part of all docs that may have a rare opening, in percent.
const RARE_PERCENT: f64 = 4.0;
/// Words in the doc of a function or type, at least.
const WORDS: usize = 4;
/// Characters of an entry of the changelog, at most.
const ENTRY: usize = 200;
/// Characters of a commit's subject, at most.
const SUBJECT: usize = 72;
/// Commits up to this one are from before there was a limit.
const SUBJECTS_SINCE: &str = "4d535988";
/// Words that begin a declaration which [`REFUSED`] and [`WORDS`] are about.
const DECLARATIONS: [&str; 7] = ["fn", "struct", "enum", "trait", "type", "mod", "union"];
/// Words that may stand before those.
const QUALIFIERS: [&str; 5] = ["pub", "const", "async", "unsafe", "extern"];

/// A doc comment of a source.
#[derive(Debug, PartialEq, Eq)]
struct Doc {
    /// Counted from 1.
    line: usize,
    text: String,
    /// The doc of a function or type, or of a whole module.
    is_declaration: bool,
}

/// A finding, with the place it is about.
type Finding = (String, String);

/// Findings in a tree of sources, and how many docs it has.
#[derive(Debug, Default)]
struct Survey {
    findings: Vec<Finding>,
    docs: usize,
    rare: usize,
}

/// Checks the repository that has its root at `root`. Prints what it finds. Returns whether that is nothing.
///
/// # Errors
/// If a file cannot be read.
pub(crate) fn check(root: &Path) -> io::Result<bool> {
    let mut survey = Survey::default();
    for folder in ["crates", "fuzz"] {
        for path in sources(&root.join(folder))? {
            let place = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            survey.add(&place, &fs::read_to_string(&path)?);
        }
    }
    survey.findings.extend(long_entries(&fs::read_to_string(root.join("CHANGELOG.md"))?));
    survey.findings.extend(long_subjects(root));
    survey.findings.extend(prose::check(root)?);
    for (place, finding) in &survey.findings {
        println!("{place}: {finding}");
    }
    let percent = survey.rare as f64 * 100.0 / survey.docs.max(1) as f64;
    let (docs, rare) = (survey.docs, RARE.join(", "));
    println!("{docs} docs, of which {percent:.1} % begin with {rare} (at most {RARE_PERCENT} %)");
    Ok(survey.findings.is_empty() && percent <= RARE_PERCENT)
}

/// Returns all Rust sources below a folder, but for what is built there.
fn sources(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && !path.ends_with("target") {
            found.extend(sources(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

impl Survey {
    fn add(&mut self, place: &str, source: &str) {
        for doc in docs(source) {
            self.docs += 1;
            self.rare += usize::from(opening(&doc.text, &RARE).is_some());
            if let Some(finding) = doc.finding() {
                self.findings.push((format!("{place}:{}", doc.line), finding));
            }
        }
    }
}

impl Doc {
    fn finding(&self) -> Option<String> {
        if !self.is_declaration {
            return None;
        }
        if let Some(opening) = opening(&self.text, &REFUSED) {
            return Some(format!(
                "begins with \"{opening}\": a function's doc begins with a verb, a type's with a noun"
            ));
        }
        let words = self.text.split_whitespace().count();
        (words < WORDS).then(|| format!("has {words} words, which say too little: {}", self.text))
    }
}

/// Returns which of these a text begins with.
fn opening<'a>(text: &str, openings: &[&'a str]) -> Option<&'a str> {
    let begins = |opening: &&str| {
        text.strip_prefix(*opening).is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric()))
    };
    openings.iter().copied().find(|opening| begins(opening))
}

/// Finds the doc comments of a source.
fn docs(source: &str) -> Vec<Doc> {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(line) = lines.get(at) {
        let Some(mark) = ["///", "//!"].into_iter().find(|mark| is_comment(line, mark)) else {
            at += 1;
            continue;
        };
        let first = at;
        let rest = lines.get(at..).unwrap_or_default();
        let text: Vec<&str> = rest.iter().map_while(|line| comment(line, mark)).collect();
        at += text.len();
        let next = lines.get(at..).unwrap_or_default().iter().find(|line| !line.starts_with("#["));
        found.push(Doc {
            line: first + 1,
            text: text.join(" ").trim().to_owned(),
            is_declaration: mark == "//!" || next.is_some_and(|next| is_declaration(next)),
        });
    }
    found
}

/// Returns the text of a line of a comment with this mark. Four slashes are no doc comment.
fn comment<'a>(line: &'a str, mark: &str) -> Option<&'a str> {
    line.strip_prefix(mark).filter(|text| text.is_empty() || text.starts_with(' ')).map(str::trim)
}

fn is_comment(line: &str, mark: &str) -> bool {
    comment(line, mark).is_some()
}

fn is_declaration(line: &str) -> bool {
    let is_qualifier = |word: &&str| {
        QUALIFIERS.contains(word) || word.starts_with("pub(") || word.starts_with('"') || word.ends_with(')')
    };
    let word = line.split_whitespace().find(|word| !is_qualifier(word));
    word.is_some_and(|word| DECLARATIONS.contains(&word))
}

/// Finds entries of a changelog that are too long.
fn long_entries(changelog: &str) -> Vec<Finding> {
    let mut entries: Vec<(usize, String)> = Vec::new();
    for (number, line) in (1..).zip(changelog.lines()) {
        match (line.strip_prefix("- "), entries.last_mut()) {
            (Some(entry), _) => entries.push((number, entry.to_owned())),
            // The next line of an entry.
            (None, Some((_, entry))) if line.starts_with("  ") => {
                entry.push(' ');
                entry.push_str(line.trim());
            }
            _ => {}
        }
    }
    let length = |entry: &String| entry.chars().count();
    let long = entries.into_iter().filter(|(_, entry)| length(entry) > ENTRY);
    let finding = |(line, entry): (usize, String)| {
        (format!("CHANGELOG.md:{line}"), format!("has {} characters, of at most {ENTRY}", length(&entry)))
    };
    long.map(finding).collect()
}

/// Finds subjects of commits that are too long. A clone without its history has none.
fn long_subjects(root: &Path) -> Vec<Finding> {
    let range = format!("{SUBJECTS_SINCE}..HEAD");
    let log = Command::new("git").arg("-C").arg(root).args(["log", "--format=%h %s", &range]).output();
    let log = log.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let commits = log.lines().filter_map(|line| line.split_once(' '));
    let long =
        commits.filter(|(_, subject)| subject.chars().count() > SUBJECT && !subject.starts_with("Merge "));
    let finding = |(commit, subject): (&str, &str)| {
        (
            format!("commit {commit}"),
            format!("has a subject of {} characters, of at most {SUBJECT}", subject.chars().count()),
        )
    };
    long.map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(source: &str) -> usize {
        let mut survey = Survey::default();
        survey.add("a.rs", source);
        survey.findings.len()
    }

    #[test]
    fn docs_without_a_subject_or_verb_are_found() {
        assert_eq!(findings("/// What it is to be called.\nfn name() {}\n"), 1);
        assert_eq!(
            findings("    /// The same, of two.\n    #[must_use]\n    pub(crate) const fn two() {}\n"),
            1
        );
        assert_eq!(
            findings("/// Who.\npub enum Who {\n    /// Who else.\n    Other,\n}\n"),
            1,
            "a variant may"
        );
        assert_eq!(findings("/// A name.\nstruct Name;\n"), 1, "two words");
        assert_eq!(findings("//! How it works.\n\nuse std::fs;\n"), 1);
        assert_eq!(findings("/// Whatever arrives is kept.\nfn keep() {}\n"), 0, "another word");
        assert_eq!(findings("/// Returns the name of it.\nfn name() {}\n//// What.\nfn other() {}\n"), 0);
    }

    #[test]
    fn rare_openings_are_counted_for_all_docs() {
        let mut survey = Survey::default();
        survey.add(
            "a.rs",
            "struct A {\n    /// Whether it is open.\n    open: bool,\n    /// The name.\n    name: u8,\n}\n",
        );
        assert_eq!((survey.docs, survey.rare, survey.findings.len()), (2, 1, 0));
    }

    #[test]
    fn long_entries_of_the_changelog_are_found() {
        let (short, long) =
            ("- ".to_owned() + &"x".repeat(200), format!("- {}\n  {}", "x".repeat(100), "y".repeat(100)));
        let found = long_entries(&format!("# Changes\n{short}\n{long}\n"));
        assert_eq!(found, [("CHANGELOG.md:3".to_owned(), "has 201 characters, of at most 200".to_owned())]);
    }

    #[test]
    fn what_is_declared_is_told_apart() {
        let declarations = [
            "pub fn a()",
            "pub(super) const unsafe fn b()",
            "extern \"C\" fn c()",
            "pub struct D;",
            "pub(in crate::x) mod e;",
        ];
        assert!(declarations.into_iter().all(is_declaration));
        assert!(
            !["pub const A: u8 = 1;", "pub name: u8,", "Variant,", "impl A {"]
                .into_iter()
                .any(is_declaration)
        );
    }
}
