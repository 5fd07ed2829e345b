//! The list of a directory's names, as a page.

use core::fmt::{self, Write as _};
use std::ffi::OsString;

use super::target::encode;

/// The number of names that a page has at most.
pub(super) const NAMES_MAX: usize = 10_000;

/// Returns the page of the directory at `address`. Names that begin with a dot are not served, so the page
/// leaves them out.
pub(super) fn page(address: &str, entries: &[(OsString, bool)]) -> String {
    let address = percent_encoding::percent_decode_str(address).decode_utf8_lossy();
    let title = Escaped(&address);
    let mut page = format!(
        "<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><title>{title}</title></head>\n\
         <body><h1>{title}</h1>\n<ul>\n"
    );
    if address != "/" {
        page.push_str("<li><a href=\"../\">../</a></li>\n");
    }
    for (name, is_directory) in entries {
        let text = name.to_string_lossy();
        if !text.starts_with('.') {
            let slash = if *is_directory { "/" } else { "" };
            // The dot keeps a name with a colon from being read as a scheme.
            let _ = writeln!(
                page,
                "<li><a href=\"./{}{slash}\">{}{slash}</a></li>",
                Escaped(&encode(name)),
                Escaped(&text)
            );
        }
    }
    page.push_str("</ul></body></html>\n");
    page
}

/// A text in HTML.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|char| match char {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '"' => f.write_str("&quot;"),
            '\'' => f.write_str("&#39;"),
            other => f.write_char(other),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_and_hidden_ones_left_out() {
        let entries = [("<b>&'\"", false), (".git", true), ("a:b", false), ("sub dir", true)];
        let page = page("/%3Ci%3E/", &entries.map(|(name, is_directory)| (name.into(), is_directory)));
        for line in [
            "<title>/&lt;i&gt;/</title>",
            "<li><a href=\"../\">../</a></li>\n",
            "<li><a href=\"./%3Cb%3E&amp;&#39;%22\">&lt;b&gt;&amp;&#39;&quot;</a></li>\n",
            "<li><a href=\"./a:b\">a:b</a></li>\n",
            "<li><a href=\"./sub%20dir/\">sub dir/</a></li>\n",
        ] {
            assert!(page.contains(line), "{page}");
        }
        assert!(!page.contains(".git"));
    }
}
