//! The style and the markup of pictures.

/// The style sheet that charts need. Colours are those of Okabe and Ito, distinguishable with any colour
/// vision; two series swap a dark tone for its light sister on a dark page.
pub const STYLE: &str = include_str!("chart.css");

/// Returns [`STYLE`] for a file that stands alone: light colours only, and no variables, which many viewers
/// do not support.
pub(super) fn plain_style() -> String {
    let (variables, rules) = STYLE.split_once("@media").unwrap_or(("", STYLE));
    // The dark variables end at the first line without an indent.
    let rules = rules.split_once("\n}\n").map_or(rules, |(_, rules)| rules);
    let values = variables.split(['{', ';', '\n']).filter_map(|part| part.trim().split_once(':'));
    values
        .filter(|(name, _)| name.starts_with("--"))
        .fold(rules.to_owned(), |style, (name, value)| style.replace(&format!("var({name})"), value.trim()))
}

/// The number of series with a colour of their own; further ones begin again.
pub const SERIES: usize = 7;

/// Escapes the characters of `text` that have a meaning in XML and HTML.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Opens an `<svg>` with a description in words.
pub(super) fn open(width: f64, height: f64, title: &str, description: &str) -> String {
    format!(
        "<svg class=\"chart\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{0}. \
         {1}\">\n<title>{0}</title>\n<desc>{1}</desc>\n",
        escape(title),
        escape(description)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_style_of_a_file_has_colours_and_no_variables() {
        let style = plain_style();
        assert!(!style.contains("var(") && !style.contains("--") && !style.contains("@media"), "{style}");
        assert!(
            style.starts_with(".chart {") && style.contains(".chart .s0 { stroke: #d55e00; }"),
            "{style}"
        );
    }

    #[test]
    fn markup_in_names_stays_text() {
        assert_eq!(escape("<a href='x'>&\"</a>"), "&lt;a href=&#39;x&#39;&gt;&amp;&quot;&lt;/a&gt;");
        assert!(open(1.0, 1.0, "a<b", "c\"d").contains("aria-label=\"a&lt;b. c&quot;d\""));
    }
}
