//! Links of README, the book and the crates' pages lead somewhere.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fs;
use std::path::{Path, PathBuf};

use evenkeel_book::Document;
use evenkeel_book::links;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the root of the repository")
}

/// A repository with these files, removed at the end.
struct Repository(PathBuf);

impl Repository {
    fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let root = std::env::temp_dir().join(format!("evenkeel-links-{}-{name}", std::process::id()));
        for (name, text) in [("docs/SUMMARY.md", ""), ("crates/a/src/lib.rs", "1\n2\n")].iter().chain(files) {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Self(root)
    }

    fn wrong(&self) -> Vec<String> {
        links::check(&self.0).unwrap()
    }
}

impl Drop for Repository {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn every_link_leads_somewhere_and_every_page_is_in_the_summary() {
    assert!(links::files(root()).unwrap().len() > 10);
    let wrong = links::check(root()).unwrap();
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

/// rustdoc takes a block without a language for Rust.
#[test]
fn every_block_says_its_language() {
    let mut wrong = Vec::new();
    let compiled = ["README.md", "CONTRIBUTING.md"].map(|name| root().join(name));
    for file in links::pages(root()).unwrap().into_iter().chain(compiled) {
        let blocks = Document::parse(&fs::read_to_string(&file).unwrap()).blocks;
        let without = blocks.iter().filter(|block| block.language.is_empty());
        wrong.extend(without.map(|block| format!("{}:{}", file.display(), block.line)));
    }
    assert!(wrong.is_empty(), "without a language, such as `text`:\n{}\n", wrong.join("\n"));
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let good = "[a](docs/b.md#two-words) [c](#t) [l](crates/a/src/lib.rs#L2) [f](crates/a) \
                [rfc](https://www.rfc-editor.org/rfc/rfc862) ![i](docs/i.svg) <a id=\"here\"></a> [h](#here)";
    let readme = format!("# T\n\n{good}\n");
    let summary = ("docs/SUMMARY.md", "[b](b.md)");
    let page = ("docs/b.md", "# B\n\n## Two words\n\n[up](../README.md#t)\n");
    let right = Repository::new("right", &[("README.md", &readme), summary, page, ("docs/i.svg", "")]);
    assert_eq!(right.wrong(), [""; 0]);
    let cases = [
        ("[a](docs/x.md)", "there is no such file"),
        ("[a](docs/b.md#no)", "there is no such heading"),
        ("[a](crates/a/src/lib.rs#L3)", "there is no such line"),
        ("[a](../x.md)", "leaves the repository"),
        ("[a](https://rfc-editor)", "is no address"),
        ("![a](i.png)", "there is no such file"),
        ("<img src=\"i.png\">", "there is no such file"),
    ];
    for (text, why) in cases {
        let wrong = Repository::new("wrong", &[("README.md", text), summary, ("docs/b.md", "# B\n")]).wrong();
        assert!(
            wrong.len() == 1 && wrong[0].starts_with("README.md:1: ") && wrong[0].ends_with(why),
            "{wrong:?}"
        );
    }
}

#[test]
fn the_summary_and_the_pages_name_each_other() {
    let wrong =
        Repository::new("summary", &[("docs/SUMMARY.md", "[a](a.md)"), ("docs/d/b.md", "# B\n")]).wrong();
    assert_eq!(wrong.len(), 2, "{wrong:?}");
    assert!(wrong[0].ends_with("docs/SUMMARY.md:1: a.md: there is no such file"), "{wrong:?}");
    assert!(wrong[1].ends_with("docs/d/b.md: is not in docs/SUMMARY.md"), "{wrong:?}");
}
