//! Compares what was printed with what the page shows.

use std::sync::LazyLock;

use regex_lite::Regex;

/// Stands in a page for any lines, also none.
pub const ANY: &str = "...";

/// A line of output that a page shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// Its line in the page, counted from 1.
    pub line: usize,
    /// The text.
    pub text: String,
}

/// Patterns of text that differs from run to run, each with its replacement. The order matters.
static VARYING: LazyLock<[(Regex, &str); 5]> = LazyLock::new(|| {
    let unit = "[kMGTmunpµμ]?(?:bit|B|s|Hz|pps)(?:/s)?|[KMGT]i?B?(?:/s)?|k(?:/s)?|[kMGT] ?pps|/s";
    let number = format!(
        r"[-+]?(?:\b\d{{1,3}}(?:[ \u{{202f}}]\d{{3}}\b)+|\d+)(?:\.\d+)?(?:e[-+]?\d+)?(?: ?%| ?(?:{unit})\b)?"
    );
    [
        (r"\b[0-9a-f]{2}(?::[0-9a-f]{2}){5}\b", "MAC"),
        // Made of the hardware address.
        (r"\bfe80::[0-9a-f:]+", "LINK-LOCAL"),
        (&*number, "N"),
        (r"\s+", " "),
        // Rules of tables.
        (r"─+|--+|==+", "--"),
    ]
    .map(|(pattern, alike)| (Regex::new(pattern).expect("a pattern"), alike))
});

/// Returns a line with everything alike that differs from run to run: numbers with their units, hardware
/// addresses, runs of blanks.
#[must_use]
pub fn alike(line: &str) -> String {
    let mut text = line.trim().to_owned();
    for (pattern, alike) in &*VARYING {
        text = pattern.replace_all(&text, *alike).into_owned();
    }
    text
}

/// A step from what a page shows to what was printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edit {
    /// A line of both.
    Both,
    /// [`ANY`] takes a printed line.
    Absorbed,
    /// [`ANY`] ends.
    AnyEnds,
    /// The page has a line that was not printed.
    Missing,
    /// A line was printed that the page has not.
    Extra,
}

/// The shortest way from what a page shows to what was printed.
#[derive(Debug)]
pub struct Comparison<'a> {
    shown: &'a [Shown],
    printed: Vec<&'a str>,
    edits: Vec<Edit>,
}

impl<'a> Comparison<'a> {
    /// Compares lines of a page with what was printed. Blank lines at either end do not count.
    #[must_use]
    pub fn new(shown: &'a [Shown], printed: &'a str) -> Self {
        let printed: Vec<&str> = trim(printed.lines().collect(), |line| line.trim().is_empty());
        let before = shown.iter().take_while(|line| line.text.trim().is_empty()).count();
        let after = shown.iter().rev().take_while(|line| line.text.trim().is_empty()).count();
        let shown = shown.get(before..shown.len() - after).unwrap_or_default();
        let edits = edits(shown, &printed);
        Self { shown, printed, edits }
    }

    /// Returns whether the page is right.
    #[must_use]
    pub fn is_alike(&self) -> bool {
        !self.edits.iter().any(|edit| matches!(edit, Edit::Missing | Edit::Extra))
    }

    /// Returns the line of the page that is wrong first: one that was not printed, or the one before which
    /// something else was.
    #[must_use]
    pub fn first_wrong(&self) -> Option<usize> {
        let mut shown = self.shown.iter();
        let mut last = None;
        for edit in &self.edits {
            match edit {
                Edit::Both | Edit::AnyEnds => last = shown.next().map(|shown| shown.line),
                Edit::Missing => return shown.next().map(|shown| shown.line),
                Edit::Extra => return shown.next().map(|shown| shown.line).or(last),
                Edit::Absorbed => {}
            }
        }
        None
    }

    /// Returns the difference for people: `-` before what only the page has, `+` before what only was
    /// printed.
    #[must_use]
    pub fn diff(&self) -> String {
        let (mut shown, mut printed) = (self.shown.iter(), self.printed.iter());
        let mut text = String::new();
        for edit in &self.edits {
            let (mark, line) = match edit {
                Edit::Both => (' ', shown.next().and(printed.next().copied())),
                Edit::Absorbed => ('.', printed.next().copied()),
                Edit::AnyEnds => (' ', shown.next().map(|shown| &*shown.text)),
                Edit::Missing => ('-', shown.next().map(|shown| &*shown.text)),
                Edit::Extra => ('+', printed.next().copied()),
            };
            text.push_str(format!("    {mark} {}", line.unwrap_or_default()).trim_end());
            text.push('\n');
        }
        text
    }
}

/// Takes lines without meaning off both ends.
fn trim<T>(mut lines: Vec<T>, is_blank: impl Fn(&T) -> bool) -> Vec<T> {
    let kept = lines.iter().rposition(|line| !is_blank(line)).map_or(0, |last| last + 1);
    lines.truncate(kept);
    let before = lines.iter().take_while(|line| is_blank(line)).count();
    lines.drain(..before);
    lines
}

/// Finds the fewest missing and extra lines.
fn edits(shown: &[Shown], printed: &[&str]) -> Vec<Edit> {
    let shown: Vec<String> = shown.iter().map(|line| alike(&line.text)).collect();
    let printed: Vec<String> = printed.iter().map(|line| alike(line)).collect();
    // The edit to make at each place, from the ends backwards, and how many are wrong from there on.
    let columns = printed.len() + 1;
    let mut best: Vec<(usize, Edit)> = vec![(0, Edit::Both); (shown.len() + 1) * columns];
    let at = |row: usize, column: usize| row * columns + column;
    for row in (0..=shown.len()).rev() {
        for column in (0..=printed.len()).rev() {
            let wrong = |row, column, more, edit| {
                let cell: Option<&(usize, Edit)> = best.get(at(row, column));
                cell.map(|(wrong, _)| (wrong + more, edit))
            };
            let (line, word) = (shown.get(row), printed.get(column));
            let is_any = line.is_some_and(|line| line == ANY);
            let choices = [
                (line.is_some() && line == word).then(|| wrong(row + 1, column + 1, 0, Edit::Both)),
                is_any.then(|| wrong(row + 1, column, 0, Edit::AnyEnds)),
                (is_any && word.is_some()).then(|| wrong(row, column + 1, 0, Edit::Absorbed)),
                line.is_some().then(|| wrong(row + 1, column, 1, Edit::Missing)),
                word.is_some().then(|| wrong(row, column + 1, 1, Edit::Extra)),
            ];
            if let Some(choice) = choices.into_iter().flatten().flatten().min_by_key(|(wrong, _)| *wrong)
                && let Some(cell) = best.get_mut(at(row, column))
            {
                *cell = choice;
            }
        }
    }
    let (mut row, mut column, mut found) = (0, 0, Vec::new());
    while row < shown.len() || column < printed.len() {
        let Some((_, edit)) = best.get(at(row, column)) else { break };
        found.push(*edit);
        row += usize::from(!matches!(edit, Edit::Absorbed | Edit::Extra));
        column += usize::from(!matches!(edit, Edit::AnyEnds | Edit::Missing));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(shown: &str, printed: &str) -> (bool, Option<usize>, String) {
        let shown: Vec<Shown> =
            (1..).zip(shown.lines()).map(|(line, text)| Shown { line, text: text.to_owned() }).collect();
        let comparison = Comparison::new(&shown, printed);
        (comparison.is_alike(), comparison.first_wrong(), comparison.diff())
    }

    #[test]
    fn numbers_with_units_and_prefixes_are_alike() {
        let alike_pairs = [
            ("  eager   274 k  411 k   6.86 M", "eager 1.3 k 999   12"),
            ("10 000 000 bytes in (8.14 MB/s), 93.7 % idle", "1 000 bytes in (12 B/s), 0 % idle"),
            ("99 % within 29.3 µs; 2 s late", "99 % within 1.31 ms; 937 ms late"),
            ("lladdr 02:25:73:e1:26:18 REACHABLE ", "lladdr 02:ff:00:aa:26:99 REACHABLE"),
            ("rtt = 0.116/0.134 ms, time 2034ms", "rtt = 1/2 ms, time 3ms"),
            ("──────", "─"),
            ("p50 161.481 ms, p99 267 ms", "p50 82.8 ms, p99 1 ms"),
            ("23.95 Gbit/s, 4.2 k/s, 12 k pps", "900 Mbit/s, 17 /s, 1.1 M pps"),
        ];
        for (one, other) in alike_pairs {
            assert_eq!(alike(one), alike(other), "{one}");
        }
        for (one, other) in [("3 sent", "3 s"), ("12 kept", "12 k"), ("1 dropped", "- dropped"), ("1 2", "1")]
        {
            assert_ne!(alike(one), alike(other), "{one}");
        }
    }

    #[test]
    fn three_dots_stand_for_any_lines() {
        assert!(compare("a 1\n...\nz", "a 2\nb\nc\nz\n").0);
        assert!(compare("...\nz", "z").0, "also for none");
        assert!(compare("a\n...", "a").0);
        assert!(!compare("a\n...\nz", "a\nb\n").0);
    }

    #[test]
    fn a_difference_names_its_line_and_shows_both_sides() {
        let (is_alike, line, diff) = compare("a\nb 1\nc", "a\nB 2\nc\n");
        assert_eq!((is_alike, line), (false, Some(2)));
        assert_eq!(diff, "      a\n    - b 1\n    + B 2\n      c\n");
        assert_eq!(compare("a", "a\nb").1, Some(1), "the last line, if more was printed");
    }
}
