//! Tables as lines of text: names to the left, numbers to the right.

/// The blanks before a line, and between two columns.
const GAP: &str = "  ";

/// Returns a heading and the numbers below it. The first word of each row is a name.
pub(crate) fn rows<const N: usize>(
    heading: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> Vec<Vec<String>> {
    let heading = heading.map(str::to_owned).to_vec();
    std::iter::once(heading).chain(rows.map(Vec::from)).collect()
}

/// Returns each row as a line: names to the left, numbers to the right.
pub(crate) fn lines(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let words = rows.iter().filter_map(|row| row.get(column));
        words.map(|word| word.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let words = row.iter().zip(&widths).enumerate().map(|(column, (word, &width))| match column {
            0 => format!("{GAP}{word:<width$}"),
            _ => format!("{GAP}{word:>width$}"),
        });
        words.collect()
    };
    rows.iter().map(line).collect()
}

/// Returns the lines of a table as one text.
pub(crate) fn text(rows: &[Vec<String>]) -> String {
    lines(rows).into_iter().map(|line| line + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_to_the_left_and_numbers_to_the_right() {
        let rows = rows(["process", "used"], [["a".to_owned(), "1 µs".to_owned()]].into_iter());
        assert_eq!(text(&rows), "  process  used\n  a        1 µs\n");
    }
}
