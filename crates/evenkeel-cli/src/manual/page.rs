//! Man pages: the definitions of a command's arguments by way of `clap_mangen`, and its guide.

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, roman};

use super::guide::{Block, Guide, Term};
use crate::manual;

/// A manual page.
pub(crate) struct Page {
    /// The name of the file, such as `evenkeel-route.1`.
    pub(crate) file: String,
    /// The page in the language of roff.
    pub(crate) text: String,
}

/// The section of manuals with the commands of users.
const SECTION: &str = "1";

impl Page {
    /// Returns the page of a command, which has been built and has these words.
    pub(crate) fn of(command: &Command, words: &str) -> Self {
        let guide = manual::guide(words);
        let usage = command.clone().render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ").to_owned();
        let man = Man::new(command.clone().override_usage(usage)).section(SECTION);
        let mut text = heading(words);
        text += &rendered(|out| {
            man.render_name_section(out)?;
            man.render_synopsis_section(out)?;
            man.render_description_section(out)
        });
        text += &options(command, &rendered(|out| man.render_options_section(out)));
        if command.has_subcommands() {
            text += &rendered(|out| man.render_subcommands_section(out));
        }
        text += &rendered(|out| guide.roff().to_writer(out));
        Self { file: format!("{}.{SECTION}", title(words)), text: tidied(&text) }
    }
}

/// Returns the line that begins a page. It has no date, so that equal sources give equal pages.
fn heading(words: &str) -> String {
    let title = title(words).to_uppercase();
    format!(".TH {title} {SECTION} \"\" \"evenkeel {}\" \"User Commands\"\n", env!("CARGO_PKG_VERSION"))
}

/// Returns the title of the page of the command with these words.
fn title(words: &str) -> String {
    format!("evenkeel {words}").trim_end().replace(' ', "-")
}

/// Returns the text that `render` writes. Writing to memory does not fail.
fn rendered(render: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> String {
    let mut text = Vec::new();
    let written = render(&mut text);
    debug_assert!(written.is_ok());
    String::from_utf8_lossy(&text).into_owned()
}

/// Returns the options with their groups as subsections of one section.
fn options(command: &Command, sections: &str) -> String {
    let headings = command.get_arguments().filter_map(|arg| arg.get_help_heading());
    headings.fold(sections.to_owned(), |text, heading| {
        let heading_line = |control: &str, heading: &str| {
            let mut roff = Roff::new();
            roff.control(control, [heading]);
            format!("\n{}\n", roff.render().lines().last().unwrap_or_default())
        };
        text.replace(&heading_line("SH", &heading.to_uppercase()), &heading_line("SS", heading))
    })
}

/// Returns a page without the preambles of its parts but the first one, and without empty paragraphs.
fn tidied(text: &str) -> String {
    // Possible values stand below an empty line.
    let text = text.replace("\n.br\n\n.br\n", "\n.sp\n");
    let preamble: Vec<String> = Roff::new().render().lines().map(str::to_owned).collect();
    let (mut page, mut before) = (preamble.join("\n") + "\n", "");
    for line in text.lines().filter(|line| !preamble.iter().any(|known| known == line)) {
        if line != ".PP" || !before.starts_with(".SH") {
            page.push_str(line);
            page.push('\n');
        }
        before = line;
    }
    page
}

impl Guide {
    /// Returns the sections behind the options.
    fn roff(&self) -> Roff {
        let mut roff = Roff::new();
        for section in self.sections {
            roff.control("SH", [section.heading.to_uppercase().as_str()]);
            section.blocks.iter().for_each(|block| add(&mut roff, *block));
        }
        if !self.examples.is_empty() {
            roff.control("SH", ["EXAMPLES"]);
        }
        for example in self.examples {
            add(&mut roff, Block::Text(example.says));
            add(&mut roff, Block::Code(example.command));
        }
        for (heading, terms) in
            [("EXIT STATUS", self.exit_status), ("FILES", self.files), ("SIGNALS", self.signals)]
        {
            if !terms.is_empty() {
                roff.control("SH", [heading]);
                add(&mut roff, Block::Terms(terms));
            }
        }
        if !self.see_also.is_empty() {
            roff.control("SH", ["SEE ALSO"]);
            roff.text(see_also(self.see_also));
        }
        roff
    }
}

fn add(roff: &mut Roff, block: Block) {
    match block {
        Block::Text(text) => {
            roff.control("PP", []);
            roff.text([roman(text)]);
        }
        Block::Terms(terms) => {
            for (term, meaning) in terms {
                let (term, meaning): Term = (term, meaning);
                roff.control("TP", []);
                roff.text([bold(term)]);
                roff.text([roman(meaning)]);
            }
        }
        Block::Code(lines) => {
            roff.control("PP", []);
            roff.control("RS", ["4"]);
            roff.control("nf", []);
            lines.lines().for_each(|line| _ = roff.text([roman(line)]));
            roff.control("fi", []);
            roff.control("RE", []);
        }
    }
}

/// Returns the names of pages, with commas between them. Commands become their pages: `lab run` is
/// evenkeel-lab-run(1).
fn see_also(names: &[&str]) -> Vec<Inline> {
    let mut inlines = Vec::new();
    for name in names {
        if !inlines.is_empty() {
            inlines.push(roman(", "));
        }
        let (page, section) = match name.split_once('(') {
            Some((page, section)) => (page.to_owned(), format!("({section}")),
            // Pages of shared options are not manual pages.
            None if name.starts_with("help ") => (format!("evenkeel {name}"), String::new()),
            None => (title(name), format!("({SECTION})")),
        };
        inlines.extend([bold(page), roman(section)]);
    }
    inlines
}
