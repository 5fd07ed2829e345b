//! Blocks, headings and links of a Markdown file, each with its line.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

use pulldown_cmark::{CodeBlockKind, Event, LinkType, Options, Parser, Tag, TagEnd};
use regex_lite::Regex;

/// A Markdown file as its parts.
#[derive(Debug, Default)]
pub struct Document {
    /// The fenced blocks, in order.
    pub blocks: Vec<Block>,
    /// The headings, in order.
    pub headings: Vec<Heading>,
    /// The links and images, in order.
    pub links: Vec<Link>,
    /// Anchors that HTML sets.
    pub anchors: Vec<String>,
    /// The paragraphs, items of lists and cells of tables, without code, in order.
    pub prose: Vec<Prose>,
}

/// A fenced block of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The line of its fence, counted from 1.
    pub line: usize,
    /// The text behind the fence, such as `rust,no_run`.
    pub language: String,
    /// Its text.
    pub text: String,
    /// The comments directly before it, each with its line.
    pub comments: Vec<(usize, String)>,
}

/// A heading of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heading {
    /// The line, counted from 1.
    pub line: usize,
    /// 1 is the title's level.
    pub level: usize,
    /// The text without markup.
    pub text: String,
    /// The anchor that mdBook and GitHub give it.
    pub anchor: String,
}

/// A link, or the source of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The line, counted from 1.
    pub line: usize,
    /// The destination as written.
    pub target: String,
    /// Where in the file the destination stands.
    pub at: Range<usize>,
    /// Whether an image is shown.
    pub is_image: bool,
}

/// A stretch of text that a person reads as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prose {
    /// The line where it begins, counted from 1.
    pub line: usize,
    /// The text; line breaks are kept, code is replaced by [`CODE`].
    pub text: String,
    /// Whether it is the cell of a table.
    pub is_cell: bool,
    /// Whether it is a heading.
    pub is_heading: bool,
}

/// Stands for inline code in [`Prose`]: one word.
pub const CODE: &str = "CODE";

impl Document {
    /// Parses the text of a file.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut reader = Reader::new(text);
        let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_FOOTNOTES;
        let mut events = Parser::new_ext(text, options).into_offset_iter();
        for (event, range) in &mut events {
            reader.see(event, range);
        }
        for (_, definition) in events.reference_definitions().iter() {
            reader.link(definition.span.clone(), &definition.dest, false);
        }
        reader.document
    }

    /// Returns whether a link to `#anchor` finds something.
    #[must_use]
    pub fn has_anchor(&self, anchor: &str) -> bool {
        self.headings.iter().any(|heading| heading.anchor == anchor)
            || self.anchors.iter().any(|set| set == anchor)
    }
}

/// The attributes of HTML that make links and their ends.
static ATTRIBUTE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"\b(href|src|id|name)="([^"]*)""#).expect("a pattern"));

/// The state of reading a file.
struct Reader<'a> {
    source: &'a str,
    document: Document,
    /// Where each line begins.
    starts: Vec<usize>,
    comments: Vec<(usize, String)>,
    block: Option<Block>,
    heading: Option<Heading>,
    prose: Option<Prose>,
    anchors: BTreeMap<String, usize>,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self {
            source: text,
            document: Document::default(),
            starts,
            comments: Vec::new(),
            block: None,
            heading: None,
            prose: None,
            anchors: BTreeMap::new(),
        }
    }

    /// Returns the number of the line at an offset, counted from 1.
    fn line(&self, offset: usize) -> usize {
        self.starts.partition_point(|start| *start <= offset)
    }

    fn see(&mut self, event: Event<'_>, range: Range<usize>) {
        let line = self.line(range.start);
        match event {
            Event::Html(html) => return self.html(range.start, &html),
            Event::InlineHtml(html) => self.html(range.start, &html),
            Event::Start(Tag::HtmlBlock) | Event::End(TagEnd::HtmlBlock) => return,
            Event::Start(Tag::CodeBlock(kind)) => return self.begin_block(line, kind),
            Event::End(TagEnd::CodeBlock) => self.document.blocks.extend(self.block.take()),
            Event::Start(Tag::Link {
                link_type: LinkType::Inline | LinkType::Autolink, dest_url, ..
            }) => {
                self.link(range, &dest_url, false);
            }
            Event::Start(Tag::Image { link_type: LinkType::Inline, dest_url, .. }) => {
                self.link(range, &dest_url, true);
            }
            Event::Start(Tag::Heading { level, .. }) => self.begin_heading(line, level as usize),
            Event::End(TagEnd::Heading(_)) => self.end_heading(),
            Event::Start(Tag::Paragraph | Tag::Item) => self.begin_prose(line, false),
            Event::Start(Tag::TableCell) => self.begin_prose(line, true),
            Event::End(TagEnd::Paragraph | TagEnd::Item | TagEnd::TableCell) => self.end_prose(),
            Event::Text(text) => self.text(&text),
            Event::Code(code) => self.code(&code),
            Event::SoftBreak | Event::HardBreak => self.words("\n"),
            _ => {}
        }
        self.comments.clear();
    }

    fn html(&mut self, start: usize, html: &str) {
        for attribute in ATTRIBUTE.captures_iter(html) {
            let [name, value] = attribute.extract().1;
            let end = start + attribute.get(0).map_or(0, |whole| whole.end());
            match name {
                "id" | "name" => self.document.anchors.push(value.to_owned()),
                _ => self.link(start..end, value, name == "src"),
            }
        }
        for (number, text) in (self.line(start)..).zip(html.lines()) {
            let comment = text.trim().strip_prefix("<!--").and_then(|rest| rest.strip_suffix("-->"));
            self.comments.extend(comment.map(|comment| (number, comment.trim().to_owned())));
        }
    }

    fn begin_block(&mut self, line: usize, kind: CodeBlockKind<'_>) {
        self.end_prose();
        let language = match kind {
            CodeBlockKind::Fenced(language) => language.into_string(),
            CodeBlockKind::Indented => String::new(),
        };
        let comments = std::mem::take(&mut self.comments);
        self.block = Some(Block { line, language, text: String::new(), comments });
    }

    /// Adds the link that stands in a range of the file.
    fn link(&mut self, range: Range<usize>, target: &str, is_image: bool) {
        let line = self.line(range.start);
        let found = self.source.get(range.clone()).and_then(|text| text.rfind(target));
        let start = range.start + found.unwrap_or_default();
        let at = start..start + found.map_or(0, |_| target.len());
        self.document.links.push(Link { line, target: target.to_owned(), at, is_image });
    }

    fn begin_heading(&mut self, line: usize, level: usize) {
        self.end_prose();
        self.heading = Some(Heading { line, level, text: String::new(), anchor: String::new() });
        self.prose = Some(Prose { line, text: String::new(), is_cell: false, is_heading: true });
    }

    fn end_heading(&mut self) {
        self.end_prose();
        let Some(mut heading) = self.heading.take() else { return };
        let slug = slug(&heading.text);
        let before = self.anchors.entry(slug.clone()).or_insert(0);
        heading.anchor = if *before == 0 { slug } else { format!("{slug}-{before}") };
        *before += 1;
        self.document.headings.push(heading);
    }

    fn begin_prose(&mut self, line: usize, is_cell: bool) {
        self.end_prose();
        self.prose = Some(Prose { line, text: String::new(), is_cell, is_heading: false });
    }

    fn end_prose(&mut self) {
        let prose = self.prose.take().filter(|prose| !prose.text.trim().is_empty());
        self.document.prose.extend(prose);
    }

    fn text(&mut self, text: &str) {
        if let Some(block) = &mut self.block {
            block.text.push_str(text);
            return;
        }
        if let Some(heading) = &mut self.heading {
            heading.text.push_str(text);
        }
        self.words(text);
    }

    fn code(&mut self, code: &str) {
        if let Some(heading) = &mut self.heading {
            heading.text.push_str(code);
        }
        self.words(CODE);
    }

    fn words(&mut self, text: &str) {
        if let Some(prose) = &mut self.prose {
            prose.text.push_str(text);
        }
    }
}

/// Returns the anchor of a heading: letters, digits, `-` and `_` are kept, blanks become `-`.
#[must_use]
pub fn slug(heading: &str) -> String {
    let kept = heading.trim().chars().filter_map(|letter| match letter {
        letter if letter.is_alphanumeric() || letter == '_' || letter == '-' => Some(letter),
        letter if letter.is_whitespace() => Some('-'),
        _ => None,
    });
    kept.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_its_line_and_the_comments_directly_before_it() {
        let text = "# T\n\n<!-- run: background -->\n<!-- run: status 3 -->\n```console\n$ a\n```\n\n\
                    <!-- run: no it -->\n\nWords.\n\n```sh\nb\n```\n";
        let blocks = Document::parse(text).blocks;
        assert_eq!(blocks[0].line, 5);
        assert_eq!(blocks[0].comments, [(3, "run: background".to_owned()), (4, "run: status 3".to_owned())]);
        assert_eq!((blocks[1].line, &*blocks[1].text, blocks[1].comments.len()), (13, "b\n", 0));
    }

    #[test]
    fn headings_have_anchors_as_the_book_and_the_repository_show_them() {
        let document = Document::parse("# A `--json` run, twice!\n\n## Über uns\n\n## Über uns\n");
        let anchors: Vec<&str> = document.headings.iter().map(|heading| &*heading.anchor).collect();
        assert_eq!(anchors, ["a---json-run-twice", "über-uns", "über-uns-1"]);
    }

    #[test]
    fn prose_is_text_without_code() {
        let document =
            Document::parse("One `x y`\ntwo [link](a.md).\n\n- item\n\n| a | b |\n|---|---|\n| c | d |\n");
        let prose: Vec<(&str, bool)> =
            document.prose.iter().map(|prose| (&*prose.text, prose.is_cell)).collect();
        assert_eq!(
            prose,
            [
                ("One CODE\ntwo link.", false),
                ("item", false),
                ("a", true),
                ("b", true),
                ("c", true),
                ("d", true)
            ]
        );
    }

    #[test]
    fn links_are_found_where_they_stand() {
        let text = "[a.md](a.md#x) ![i](i.svg)\n<img src=\"j.svg\"> [two][two]\n\n[two]: b.md\n";
        let links = Document::parse(text).links;
        let found: Vec<(usize, &str, &str, bool)> = links
            .iter()
            .map(|link| (link.line, &*link.target, &text[link.at.clone()], link.is_image))
            .collect();
        assert_eq!(
            found,
            [
                (1, "a.md#x", "a.md#x", false),
                (1, "i.svg", "i.svg", true),
                (2, "j.svg", "j.svg", true),
                (4, "b.md", "b.md", false)
            ]
        );
    }
}
