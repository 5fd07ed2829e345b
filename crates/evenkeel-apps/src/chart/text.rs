//! The widths of texts, as far as a picture can know them without its reader's font.

use super::svg::escape;

/// Returns a width that `text` in bold letters of `size` does not exceed with any common sans-serif font.
/// The widest of these, DejaVu Sans and Verdana, set the measure.
pub(super) fn width(text: &str, size: f64) -> f64 {
    text.chars().map(of_letter).sum::<f64>() * size
}

/// Returns the width of a letter as a multiple of the font's size.
fn of_letter(letter: char) -> f64 {
    match letter {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | ' ' | '-' | '/' => 0.42,
        'f' | 't' | 'r' | '(' | ')' => 0.50,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 1.11,
        letter if letter.is_uppercase() => 0.86,
        _ => 0.73,
    }
}

/// Breaks `text` between words into lines that are at most `limit` wide at the font size `size`. A longer
/// word has a line of its own.
pub(super) fn wrap(text: &str, size: f64, limit: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(line, size) + width(" ", size) + width(word, size) <= limit => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Returns `lines` as SVG below each other. The first has its baseline at `y`.
pub(super) fn lines_at(lines: &[String], class: &str, x: f64, y: f64, pitch: f64) -> String {
    let line = |(row, line): (usize, &String)| {
        #[expect(clippy::cast_precision_loss, reason = "a handful of lines")]
        let y = pitch.mul_add(row as f64, y);
        format!("<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>\n", escape(line))
    };
    lines.iter().enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_no_longer_than_the_limit_and_lose_no_word() {
        let text = "a host with a service, and a generator that floods it from another core";
        let lines = wrap(text, 12.0, 150.0);
        assert!(lines.len() > 3 && lines.iter().all(|line| width(line, 12.0) <= 150.0), "{lines:?}");
        assert_eq!(lines.join(" "), text);
        assert_eq!(wrap("incomprehensibilities", 12.0, 10.0), ["incomprehensibilities"]);
    }

    /// The other widths are those that a browser gives for DejaVu Sans Bold at a size of 1000.
    #[test]
    fn no_name_is_wider_than_it_is_assumed() {
        let names = [
            ("early-demux", 7_049.0),
            ("soft-lrp, 1 queue", 9_430.0),
            ("ST-Apache-compute", 11_139.0),
            ("realistic, new select and ufalloc", 17_882.0),
        ];
        for (text, bold) in names {
            let assumed = width(text, 1_000.0);
            assert!((bold..1.15 * bold).contains(&assumed), "{text}: {assumed}");
        }
    }
}
