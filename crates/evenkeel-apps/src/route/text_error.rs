//! Errors in a text that a user wrote, with their position.

use core::fmt;

/// An error in a file: `rules.conf:7:12: expected an address, found `10.0.0``.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextError {
    /// The name of the file, or of another source of the text.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// A description of the error and of what was expected.
    pub what: String,
}

impl TextError {
    /// Creates an error at byte `at` of `text`, the content of `file`.
    #[must_use]
    pub fn at(file: &str, text: &str, at: usize, what: impl Into<String>) -> Self {
        let before = text.get(..at).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let column = before.get(line_start..).map_or(0, |line| line.chars().count()) + 1;
        let line = before.matches('\n').count() + 1;
        Self { file: file.to_owned(), line, column, what: what.into() }
    }
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.what)
    }
}

impl core::error::Error for TextError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_from_one_and_columns_in_characters() {
        let text = "a\nµx y";
        let place = |at| (TextError::at("f", text, at, "").line, TextError::at("f", text, at, "").column);
        assert_eq!(
            [place(0), place(1), place(2), place(4), place(99)],
            [(1, 1), (1, 2), (2, 1), (2, 2), (2, 5)]
        );
    }
}
