//! What the manual of a command has beyond the definitions of its arguments: how its options are grouped,
//! examples, exit status, and more. `-h`, `--help` and the man pages are made from it.

/// The guide to a command.
#[derive(Debug)]
pub(crate) struct Guide {
    /// The groups of options, each option in one. Options with a page of their own are in none.
    pub(crate) groups: &'static [Group],
    /// Sections that only this command has.
    pub(crate) sections: &'static [Section],
    pub(crate) examples: &'static [Example],
    pub(crate) exit_status: &'static [Term],
    pub(crate) signals: &'static [Term],
    pub(crate) files: &'static [Term],
    /// Commands of evenkeel, such as `lab run`, and manual pages of others, such as `tcpdump(8)`.
    pub(crate) see_also: &'static [&'static str],
}

/// Options that belong together, or commands.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) heading: &'static str,
    /// The options that `-h` explains, by their names in the definitions.
    pub(crate) first: &'static [&'static str],
    /// The options that `-h` only names.
    pub(crate) others: &'static [&'static str],
}

/// A section of a manual.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) heading: &'static str,
    pub(crate) blocks: &'static [Block],
}

/// A part of a section.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Block {
    /// A paragraph.
    Text(&'static str),
    /// Words, each with its meaning.
    Terms(&'static [Term]),
    /// Lines that are shown as they are.
    Code(&'static str),
}

/// A word and its meaning.
pub(crate) type Term = (&'static str, &'static str);

/// A command to paste, and a sentence about it.
#[derive(Debug)]
pub(crate) struct Example {
    pub(crate) says: &'static str,
    /// The command. A long one has several lines, as for a shell.
    pub(crate) command: &'static str,
}

impl Guide {
    /// A guide without anything.
    pub(crate) const EMPTY: Self = Self {
        groups: &[],
        sections: &[],
        examples: &[],
        exit_status: &[],
        signals: &[],
        files: &[],
        see_also: &[],
    };

    /// Returns the group of the option or the command `name`.
    pub(crate) fn group(&self, name: &str) -> Option<&'static Group> {
        self.groups.iter().find(|group| group.names().any(|known| known == name))
    }

    /// Returns the examples as text for a screen of `width` columns.
    pub(crate) fn examples(&self, width: usize) -> String {
        let one = |Example { says, command }: &Example| {
            let command: String = command.lines().map(|line| format!("    {line}\n")).collect();
            wrapped(says, "  ", width) + &command
        };
        let all: String = self.examples.iter().map(one).collect();
        if all.is_empty() { all } else { format!("Examples:\n{all}") }
    }

    /// Returns the sections behind the options as text: the command's own, exit status, and see also.
    pub(crate) fn sections(&self, width: usize) -> String {
        let mut sections: Vec<String> = self.sections.iter().map(|section| section.text(width)).collect();
        if !self.exit_status.is_empty() {
            sections.push(format!("Exit status:\n{}", terms(self.exit_status, width)));
        }
        if !self.see_also.is_empty() {
            let pages: Vec<String> = self.see_also.iter().map(|name| in_help(name)).collect();
            sections.push(wrapped(&format!("See also: {}", pages.join(", ")), "", width));
        }
        sections.join("\n").trim_end().to_owned()
    }
}

impl Group {
    /// Returns the names of the group's options.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.first.iter().chain(self.others).copied()
    }
}

impl Section {
    fn text(&self, width: usize) -> String {
        let blocks: Vec<String> = self.blocks.iter().map(|block| block.text(width)).collect();
        format!("{}:\n{}", self.heading, blocks.join("\n"))
    }
}

impl Block {
    fn text(&self, width: usize) -> String {
        match self {
            Self::Text(text) => wrapped(text, "  ", width),
            Self::Terms(all) => terms(all, width),
            Self::Code(lines) => lines.lines().map(|line| format!("    {line}\n")).collect(),
        }
    }
}

/// Returns the way in which help refers to a command or a page.
fn in_help(name: &str) -> String {
    if name.contains('(') { name.to_owned() } else { format!("evenkeel {name}") }
}

/// Returns terms as text: each term at the beginning of a line, and its meaning behind it.
fn terms(terms: &[Term], width: usize) -> String {
    /// Columns of a term, at most, beside which its meaning begins.
    const WIDEST: usize = 14;
    let widest = terms.iter().map(|(term, _)| term.chars().count()).filter(|width| *width <= WIDEST).max();
    let column = widest.unwrap_or(WIDEST) + 4;
    let one = |(term, meaning): &Term| {
        let text = wrapped(meaning, &" ".repeat(column), width);
        if term.chars().count() > WIDEST {
            return format!("  {term}\n{text}");
        }
        format!("  {term:<rest$}{}", text.trim_start(), rest = column - 2)
    };
    terms.iter().map(one).collect()
}

/// Returns a paragraph in lines of at most `width` columns, each behind `indent`.
pub(crate) fn wrapped(text: &str, indent: &str, width: usize) -> String {
    let mut lines = String::new();
    let mut line = indent.to_owned();
    for word in text.split_whitespace() {
        let is_first = line.len() == indent.len();
        if !is_first && line.chars().count() + 1 + word.chars().count() > width {
            lines.push_str(&line);
            lines.push('\n');
            line.truncate(indent.len());
            line.push_str(word);
        } else {
            if !is_first {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines + &line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_fit_the_width() {
        let text = wrapped("one two three four five", "  ", 11);
        assert_eq!(text, "  one two\n  three\n  four five\n");
        assert_eq!(wrapped("incomprehensible", "", 5), "incomprehensible\n");
    }

    #[test]
    fn meanings_stand_beside_terms_or_below_long_ones() {
        let text = terms(&[("0", "good"), ("12", "not so good")], 12);
        assert_eq!(text, "  0   good\n  12  not so\n      good\n");
        let text = terms(&[("0", "good"), ("a very long term", "one")], 40);
        assert_eq!(text, "  0  good\n  a very long term\n     one\n");
    }
}
