//! The texts of rules: the file itself, and the files that it includes.

use std::collections::BTreeMap;

use crate::route::text_error::TextError;

/// Texts, joined end to end: a place is a number of bytes from the beginning of the first.
#[derive(Debug, Clone, Default)]
pub(super) struct Sources {
    files: Vec<Source>,
    /// For each place of an include, the number of the file.
    included: BTreeMap<usize, usize>,
}

#[derive(Debug, Clone)]
pub(super) struct Source {
    /// The name of the text in messages.
    pub(super) name: String,
    pub(super) text: String,
    /// The place of the text's first byte.
    pub(super) base: usize,
}

/// Texts do not count when two sets of rules are compared.
impl PartialEq for Sources {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}
impl Eq for Sources {}

impl Sources {
    /// Adds a text, which is included at a place in another, and returns its number.
    pub(super) fn add(&mut self, name: &str, text: String, at: Option<usize>) -> usize {
        // The end of a text is a place, too.
        let base = self.files.last().map_or(0, |last| last.base + last.text.len() + 1);
        self.files.push(Source { name: name.to_owned(), text, base });
        let number = self.files.len() - 1;
        if let Some(at) = at {
            self.included.insert(at, number);
        }
        number
    }

    pub(super) fn included_at(&self, at: usize) -> Option<usize> {
        self.included.get(&at).copied()
    }

    pub(super) fn get(&self, number: usize) -> Option<&Source> {
        self.files.get(number)
    }

    /// Returns the number of the text that a place is in.
    pub(super) fn number_of(&self, at: usize) -> usize {
        self.files.partition_point(|source| source.base <= at).saturating_sub(1)
    }

    pub(super) fn error_at(&self, at: usize, what: impl Into<String>) -> TextError {
        match self.files.get(self.number_of(at)) {
            Some(source) => TextError::at(&source.name, &source.text, at - source.base, what),
            None => TextError::at("", "", 0, what),
        }
    }

    /// Drops the texts, but keeps their names.
    pub(super) fn forget(&mut self) {
        self.files.iter_mut().for_each(|source| source.text = String::new());
    }
}
