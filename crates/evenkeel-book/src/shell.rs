//! As much of the shell's grammar as finds the simple commands of a line, without running it.

/// Splits a line at `|`, `&`, `;`, parentheses and redirections, and each part into its words.
///
/// A redirection's target is no word. Quotes and backslashes are taken off; nothing is expanded.
#[must_use]
pub fn simple_commands(line: &str) -> Vec<Vec<String>> {
    let mut reader = Reader::default();
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\'' => reader.quote(letters.by_ref().take_while(|next| *next != '\'')),
            '"' => reader.double_quote(&mut letters),
            // A backslash at the end of a line joins it with the next one.
            '\\' if letters.next_if_eq(&'\n').is_some() => {}
            '\\' => reader.quote(letters.next().into_iter()),
            '#' if reader.word.is_none() => drop(letters.by_ref().find(|next| *next == '\n')),
            ' ' | '\t' => reader.end_word(),
            '\n' | '|' | ';' | '(' | ')' => reader.end_command(),
            // `2>&1` and `&>file` are redirections.
            '&' if reader.redirects && reader.word.is_none() => reader.quote("&".chars()),
            '&' if letters.peek() == Some(&'>') => {}
            '&' => reader.end_command(),
            '<' | '>' => reader.redirect(),
            _ => reader.quote(std::iter::once(letter)),
        }
    }
    reader.end_command();
    reader.commands
}

#[derive(Default)]
struct Reader {
    commands: Vec<Vec<String>>,
    words: Vec<String>,
    word: Option<String>,
    /// The next word is a file's name.
    redirects: bool,
}

impl Reader {
    fn quote(&mut self, letters: impl Iterator<Item = char>) {
        self.word.get_or_insert_default().extend(letters);
    }

    fn double_quote(&mut self, letters: &mut impl Iterator<Item = char>) {
        let word = self.word.get_or_insert_default();
        while let Some(letter) = letters.next().filter(|letter| *letter != '"') {
            if letter == '\\' {
                word.extend(letters.next());
            } else {
                word.push(letter);
            }
        }
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        if !std::mem::take(&mut self.redirects) {
            self.words.push(word);
        }
    }

    fn redirect(&mut self) {
        // The number of a descriptor directly before is part of the redirection.
        self.word.take_if(|word| word.chars().all(|letter| letter.is_ascii_digit()));
        self.end_word();
        self.redirects = true;
    }

    fn end_command(&mut self) {
        self.end_word();
        self.redirects = false;
        if !self.words.is_empty() {
            self.commands.push(std::mem::take(&mut self.words));
        }
    }
}

/// Returns the arguments of each call of `program` in a line, also behind another one such as `chrt -f 10`.
#[must_use]
pub fn calls_of(program: &str, line: &str) -> Vec<Vec<String>> {
    let calls = simple_commands(line).into_iter().filter_map(|words| {
        let at = words.iter().position(|word| word == program)?;
        // In `command -v evenkeel` it is an argument, and so it is for `which` and `man`.
        let is_argument = words.first().is_some_and(|first| ["command", "which", "man"].contains(&&**first));
        (!is_argument).then(|| words.into_iter().skip(at + 1).collect())
    });
    calls.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_split_as_the_shell_does() {
        let commands = simple_commands("echo \"a b\" 2>&1 | nc -u 'x|y' > file & seq 3 # rest");
        let expected: [&[&str]; 3] = [&["echo", "a b"], &["nc", "-u", "x|y"], &["seq", "3"]];
        assert_eq!(commands, expected);
        assert_eq!(simple_commands("a \\\n  b && c <in"), [vec!["a", "b"], vec!["c"]]);
    }

    #[test]
    fn calls_are_found_behind_other_programs() {
        assert_eq!(calls_of("evenkeel", "seq 3 | chrt -f 10 evenkeel echo cable"), [["echo", "cable"]]);
        assert!(calls_of("evenkeel", "man evenkeel").is_empty());
    }
}
