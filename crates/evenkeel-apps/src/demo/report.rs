//! The results as one self-contained page, which loads nothing and runs no script.

mod pictures;
mod words;

use core::fmt::Write as _;

use super::results::{Architecture, Demonstration, Kernel};
use super::{table, verdict};
use crate::chart::{self, escape};
use crate::quantity::{percent, si, three_digits};

/// Returns the report on `results` as a page of HTML.
#[must_use]
pub fn render(results: &Demonstration) -> String {
    let mut page = String::with_capacity(128 * 1024);
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>evenkeel: what a flood does to a \
         service</title>\n<style>\n{}\n{}</style>\n</head>\n<body>\n<main>\n",
        chart::STYLE,
        include_str!("report/report.css")
    );
    header(&mut page, results);
    figures(&mut page, results);
    figures_table(&mut page, results);
    page.push_str(&words::explanation(results));
    let _ = write!(
        page,
        "<footer>evenkeel {}. {}</footer>\n</main>\n</body>\n</html>\n",
        escape(&results.version),
        escape(&table::conditions(&results.setup))
    );
    page
}

fn header(page: &mut String, results: &Demonstration) {
    let _ = write!(
        page,
        "<header>\n<p class=\"eyebrow\">evenkeel demonstration</p>\n<h1>{}</h1>\n<p \
         class=\"lead\">{}</p>\n</header>\n",
        escape(&words::headline(results)),
        escape(&words::lead(results))
    );
    page.push_str("<ul class=\"verdicts\">\n");
    for architecture in &results.architectures {
        let _ = writeln!(
            page,
            "<li style=\"--c: var(--s{})\"><strong>{}</strong><b>{} %</b><span>{}</span></li>",
            pictures::style(&architecture.name),
            escape(&architecture.name),
            percent(architecture.retention),
            verdict::words(architecture)
        );
    }
    page.push_str(
        "</ul>\n<p class=\"note\">Share of its own peak that each architecture still delivers at \
        the highest load.</p>\n",
    );
}

fn figures(page: &mut String, results: &Demonstration) {
    figure(
        page,
        "wide",
        &pictures::delivered(results),
        "Requests the service received, against requests offered. The dotted line is what would be received \
         if nothing were lost. A curve that falls to the right does work for packets that it then throws \
         away.",
    );
    page.push_str("<div class=\"grid\">\n");
    figure(
        page,
        "",
        &pictures::victim_loss(results),
        if results.setup.shared_queue {
            "A second socket on the same host gets a few requests and no flood, by the same receive queue. \
             These are the requests it never saw."
        } else {
            "A second socket on the same host gets a few requests and no flood. These are the requests it \
             never saw."
        },
    );
    figure(
        page,
        "",
        &pictures::victim_latency(results),
        "How long the second socket's requests were under way: 99 of 100 were faster. A curve ends where no \
         request arrived at all.",
    );
    figure(
        page,
        "",
        &pictures::neighbour(results),
        "A program that only computes shares the core with the service. This is the time it got.",
    );
    figure(
        page,
        "",
        &pictures::cpu(results),
        "Where the core's time went at the highest load. Work at interrupt level is done before any program \
         runs.",
    );
    page.push_str("</div>\n");
    figure(
        page,
        "wide",
        &pictures::fate(results),
        "What became of the packets at the highest load. The reasons are listed from the cheapest on: \
         nothing is wasted on a packet that never left the ring, all of the work on one that found its \
         socket full.",
    );
}

/// A hint that is shown if the screen is narrower than the picture.
const HINT: &str = "<p class=\"hint\">Wider than this screen: scroll the picture to the right &rarr;</p>\n";

fn figure(page: &mut String, class: &str, picture: &pictures::Picture, caption: &str) {
    let _ = write!(
        page,
        "<figure class=\"{class}\">\n<h2>{}</h2>\n{}<div class=\"scroll\">\n{}</div>\n\
         <figcaption>{}</figcaption>\n</figure>\n",
        escape(picture.title),
        if class == "wide" { HINT } else { "" },
        picture.svg,
        escape(caption)
    );
}

fn figures_table(page: &mut String, results: &Demonstration) {
    page.push_str(
        "<section>\n<h2>The figures</h2>\n<div class=\"scroll\"><table>\n<thead>\n\
         <tr><th rowspan=\"2\" scope=\"col\">architecture</th><th scope=\"col\">loss-free up to</th><th \
         scope=\"col\">peak</th>\
         <th scope=\"col\">offered</th><th scope=\"col\">delivered</th><th scope=\"col\">of peak</th><th \
         scope=\"col\">neighbour</th>\
         <th scope=\"col\">2nd socket lost</th><th scope=\"col\">99 % within</th><th scope=\"col\">frames \
         add up</th></tr>\n\
         <tr class=\"unit\"><th>pps</th><th>pps</th><th>pps</th><th>pps</th>\
         <th>%</th><th>% of core</th><th>%</th><th>µs</th><th></th></tr>\n</thead>\n<tbody>\n",
    );
    for architecture in &results.architectures {
        row(page, architecture);
    }
    if let Some(kernel) = &results.kernel {
        kernel_row(page, kernel);
    }
    page.push_str(
        "</tbody>\n</table></div>\n<p class=\"note\">All columns from &ldquo;offered&rdquo; on are \
        taken at the highest load.</p>\n</section>\n",
    );
}

fn row(page: &mut String, a: &Architecture) {
    let p99 = a.victim_p99_us.map_or_else(|| "none arrived".to_owned(), three_digits);
    let mut cells = vec![si(a.mlfrr_pps), si(a.peak_pps), si(a.offered_max_pps), si(a.delivered_max_pps)];
    cells.extend([percent(a.retention), percent(a.neighbour_cpu), percent(a.victim_loss), p99]);
    cells.push(if a.conserved { "yes" } else { "NO" }.to_owned());
    write_row(page, &a.name, &cells);
}

fn kernel_row(page: &mut String, k: &Kernel) {
    let mut cells = [k.mlfrr_pps, k.peak_pps, k.offered_max_pps, k.delivered_max_pps].map(si).to_vec();
    cells.push(percent(k.retention));
    cells.resize(9, "–".to_owned());
    write_row(page, &format!("Linux {}", k.release), &cells);
}

fn write_row(page: &mut String, name: &str, cells: &[String]) {
    let _ = write!(page, "<tr><th scope=\"row\">{}</th>", escape(name));
    for cell in cells {
        let _ = write!(page, "<td>{}</td>", escape(cell));
    }
    page.push_str("</tr>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::fixture;

    #[test]
    fn it_stands_on_its_own() {
        let page = render(&fixture::demonstration());
        for outside in ["http://", "https://", "<script", "<link", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert_eq!(page.matches("<svg").count(), 6);
        assert_eq!(page.matches("<svg").count(), page.matches("<desc>").count());
    }

    /// Both wide pictures keep letters readable on a phone, so they do not fit there. The page says so on
    /// narrow screens only.
    #[test]
    fn what_scrolls_says_so() {
        let page = render(&fixture::demonstration());
        assert_eq!(page.matches("<figure class=\"wide\">").count(), 2);
        assert_eq!(page.matches(HINT).count(), 2);
        let narrow = page.lines().find(|line| line.starts_with("@media (max-width: 700px)")).unwrap();
        assert!(narrow.contains(".hint { display: block") && narrow.contains("min-width: 640px"), "{narrow}");
        assert!(page.contains(".hint { display: none"), "elsewhere nothing scrolls");
    }

    /// Writes the page to a file, to see it while working on it:
    /// `REPORT=/tmp/sample.html cargo test -p evenkeel-apps sample`.
    #[test]
    fn sample_on_request() {
        if let Some(file) = std::env::var_os("REPORT") {
            std::fs::write(file, render(&fixture::demonstration())).unwrap();
        }
    }

    #[test]
    fn every_architecture_is_named_and_explained() {
        let page = render(&fixture::demonstration());
        for name in ["eager", "polled", "early-demux", "soft-lrp", "ni-lrp"] {
            assert!(page.contains(&format!("<th scope=\"row\">{name}</th>")), "{name}");
            assert!(page.contains(&format!("<dt>{name}</dt>")), "{name}");
        }
    }

    #[test]
    fn text_from_outside_is_escaped() {
        let page = render(&fixture::demonstration());
        assert!(page.contains("A &lt;made-up&gt; processor") && !page.contains("<made-up>"));
    }

    #[test]
    fn figures_come_from_the_results() {
        let mut results = fixture::demonstration();
        results.architectures[2].peak_pps = 123_456.0;
        assert!(render(&results).contains("<td>123 k</td>"));
    }

    #[test]
    fn a_queue_that_both_sockets_share_is_told() {
        let mut results = fixture::demonstration();
        let told = |results: &_| {
            let page = render(results);
            ["same receive queue", "same ring as the flood"].map(|said| page.contains(said))
        };
        assert_eq!(told(&results), [false; 2]);
        results.setup.shared_queue = true;
        assert_eq!(told(&results), [true; 2]);
    }

    #[test]
    fn markup_is_balanced() {
        let page = render(&fixture::demonstration());
        for tag in
            ["main", "section", "figure", "div", "table", "tr", "td", "svg", "text", "dl", "ul", "li", "p"]
        {
            let opened =
                page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
        }
    }
}
