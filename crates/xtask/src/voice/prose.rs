//! The prose of README and the book: how long sentences are, and words that have plainer ones.

use std::fs;
use std::io;
use std::path::Path;

use evenkeel_book::links;
use evenkeel_book::markdown::{Document, Prose};
use regex_lite::Regex;

use super::Finding;

/// Words in a sentence of README and the guides, on average, at most.
const MEAN: f64 = 18.0;
/// Pages that commands write.
const GENERATED: [&str; 2] = ["docs/evidence/experiments.md", "docs/evidence/experiments-t00.md"];

/// Words, and what to say for them. Only words that have no other use here: `plan`, `gate`, `unit`, `turn`,
/// `enter`, `attach`, `tell` (apart) and `carry` (data) do.
const WORDS: [(&str, &str); 22] = [
    (r"h(?:o|e)ld(?:s|ing)? back", "defer, throttle, pause"),
    (r"gather(?:s|ed|ing)?", "batch, coalesce"),
    (r"beside", "compared with, next to"),
    (r"whoever|whomever", "the caller, the receiver"),
    (r"nobody's", "unowned"),
    (r"somebody(?: else)?(?:'s)?", "another process, the user"),
    (r"aside", "next to"),
    (r"in vain", "needlessly"),
    (r"be it", "whether"),
    (r"lends?|lent|lending", "pass, give"),
    (r"tells|told|telling", "notify, say"),
    (r"hears?|heard", "receive, be notified"),
    (r"news", "pending events"),
    (r"believ(?:e|es|ed|ing)", "expect, predict"),
    (r"carried", "recent traffic, sent"),
    (r"(?:both|either|each|all) ways?|ways (?:in|out)", "direction"),
    (r"far ends?", "peer"),
    (r"in pieces", "incrementally"),
    (r"giv(?:e|es|ing) way", "yield"),
    (r"tak(?:e|es|en|ing) up", "dequeue, start"),
    (r"not(?:e|ed|ing) that", "(leave it out)"),
    (r"all the same", "nevertheless"),
];

/// The prose of one page.
#[derive(Debug, Default)]
struct Page {
    words: usize,
    sentences: usize,
    findings: Vec<(usize, String)>,
}

/// Checks README and the book. Prints how long the sentences of each page are. Returns what it finds.
///
/// # Errors
/// If a file cannot be read.
pub(super) fn check(root: &Path) -> io::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for path in [vec![root.join("README.md")], links::pages(root)?].concat() {
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        if GENERATED.contains(&&*name) {
            continue;
        }
        let page = Page::of(&fs::read_to_string(&path)?);
        findings.extend(page.findings.iter().map(|(line, word)| (format!("{name}:{line}"), word.clone())));
        if page.sentences > 0 {
            println!("{:5.1} words in a sentence: {name}", page.mean());
        }
        if is_limited(&name) && page.mean() >= MEAN {
            let mean = page.mean();
            findings.push((name, format!("has {mean:.1} words in a sentence on average, not under {MEAN}")));
        }
    }
    Ok(findings)
}

/// Returns whether the mean sentence of a page has a limit.
fn is_limited(page: &str) -> bool {
    page == "README.md" || page.starts_with("docs/guides/")
}

impl Page {
    fn of(text: &str) -> Self {
        let mut page = Self::default();
        let words = WORDS
            .map(|(pattern, say)| (Regex::new(&format!(r"(?i)\b(?:{pattern})\b")).expect("a pattern"), say));
        for prose in Document::parse(text).prose {
            page.add_lengths(&prose);
            for (pattern, say) in &words {
                page.findings.extend(pattern.find_iter(&prose.text).map(|found| {
                    let before = prose.text.get(..found.start()).unwrap_or_default();
                    let line = prose.line + before.matches('\n').count();
                    (line, format!("\"{}\": say {say}", found.as_str()))
                }));
            }
        }
        page
    }

    /// Counts the sentences of paragraphs and items. What ends without a mark is none.
    fn add_lengths(&mut self, prose: &Prose) {
        if prose.is_cell || prose.is_heading {
            return;
        }
        for sentence in sentences(&prose.text) {
            self.words += sentence;
            self.sentences += 1;
        }
    }

    fn mean(&self) -> f64 {
        self.words as f64 / self.sentences.max(1) as f64
    }
}

/// Returns how many words each sentence of a text has.
fn sentences(text: &str) -> Vec<usize> {
    let (mut lengths, mut words) = (Vec::new(), 0);
    let mut all = text.split_whitespace().peekable();
    while let Some(word) = all.next() {
        words += usize::from(word.contains(char::is_alphanumeric));
        let bare = word.trim_end_matches([')', '"', '”', '*']);
        let ends = bare.ends_with(['.', '!', '?', ':']) && !["e.g.", "i.e.", "etc.", "vs."].contains(&bare);
        let begins =
            |next: &&str| next.trim_start_matches(['(', '"', '“', '*']).starts_with(char::is_uppercase);
        if ends && all.peek().is_none_or(begins) {
            lengths.push(words);
            words = 0;
        }
    }
    lengths
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_told_apart() {
        assert_eq!(
            sentences("One two 1.5 e.g. Three. It is `x`.\nAnd (so on.) Four words without an end"),
            [5, 3, 3]
        );
        assert_eq!(sentences("As here:"), [2]);
    }

    #[test]
    fn the_mean_is_of_paragraphs_and_items() {
        let page = Page::of(
            "# A heading of words.\n\nOne two `three four`.\n\n- One.\n- no mark\n\n| a. |\n|---|\n| b. |\n",
        );
        assert_eq!((page.words, page.sentences), (4, 2));
    }

    #[test]
    fn long_sentences_of_guides_are_found() {
        let root = std::env::temp_dir().join(format!("evenkeel-prose-{}", std::process::id()));
        fs::create_dir_all(root.join("docs/guides")).unwrap();
        let sentence = |words: usize| format!("# T\n\nWords{}.\n", " go".repeat(words - 1));
        fs::write(root.join("README.md"), sentence(17)).unwrap();
        fs::write(root.join("docs/a.md"), sentence(40)).unwrap();
        fs::write(root.join("docs/guides/b.md"), sentence(18)).unwrap();
        let found = check(&root).unwrap();
        fs::remove_dir_all(&root).unwrap();
        let said = "has 18.0 words in a sentence on average, not under 18".to_owned();
        assert_eq!(found, [("docs/guides/b.md".to_owned(), said)]);
    }

    #[test]
    fn words_with_plainer_ones_are_found_in_prose_and_not_in_code() {
        let page = Page::of(
            "# Beside\n\nA `gather`\nwhoever asks is told.\n\n```text\ntold\n```\n\n| lent |\n|---|\n| x |\n",
        );
        let lines: Vec<usize> = page.findings.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [1, 4, 4, 7 + 3], "{:?}", page.findings);
        assert!(Page::of("Besides, a gatherer foretells asides.").findings.is_empty());
    }
}
