//! The results as one self-contained page, which loads nothing and runs no script.

mod of_kernel;
mod pictures;
mod words;

use core::fmt::Write as _;

pub use pictures::document as picture;

use super::guard::Judgement;
use super::results::{Architecture, Demonstration, OnVeth, Point, VethPoint};
use crate::chart::{self, escape};
use crate::quantity::{percent, pps, si, three_digits};

/// Returns the report on `results` as a page of HTML.
#[must_use]
pub fn render(results: &Demonstration) -> String {
    let mut page = String::with_capacity(192 * 1024);
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
    verdicts(&mut page, results);
    figures(&mut page, results);
    figures_table(&mut page, results);
    each_load(&mut page, results);
    let is_of_kernel = results.is_of_kernel();
    page.push_str(&if is_of_kernel { of_kernel::explanation(results) } else { words::explanation(results) });
    page.push_str(&words::footer(results));
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

fn header(page: &mut String, results: &Demonstration) {
    let (headline, lead) = if results.is_of_kernel() {
        (of_kernel::headline(results), of_kernel::lead(results))
    } else {
        (words::headline(results), words::lead(results))
    };
    let _ = write!(
        page,
        "<header>\n<p class=\"eyebrow\">evenkeel demonstration</p>\n<h1>{}</h1>\n<p \
         class=\"lead\">{}</p>\n",
        // A number keeps its unit in its line.
        escape(&headline).replace(" %", "&nbsp;%"),
        escape(&lead)
    );
    let doubts = words::doubts(results);
    if !doubts.is_empty() {
        let _ = writeln!(page, "<p class=\"doubt\" role=\"note\">{}</p>", escape(&doubts));
    }
    page.push_str("</header>\n");
}

fn verdicts(page: &mut String, results: &Demonstration) {
    page.push_str("<ul class=\"verdicts\">\n");
    for architecture in &results.architectures {
        verdict(page, &architecture.name, architecture.judgement(), architecture.retention);
    }
    for (name, socket) in results.on_veth() {
        verdict(page, words::title(name), socket.judgement(), socket.retention);
    }
    let each = if results.is_of_kernel() { "the server" } else { "each architecture" };
    let _ = write!(
        page,
        "</ul>\n<p class=\"note\">The share of its own peak that {each} still delivers at the highest load."
    );
    for (name, socket) in results.on_veth() {
        let _ = write!(page, " For {} that load is {}.", words::title(name), pps(socket.offered_max_pps));
    }
    page.push_str("</p>\n");
}

fn verdict(page: &mut String, name: &str, judgement: Judgement, retention: f64) {
    let unit = if judgement.doubt().is_some() { "" } else { " %" };
    let _ = writeln!(
        page,
        "<li style=\"--c: var(--s{})\"><strong>{}</strong><b>{}{unit}</b><span>{}</span></li>",
        pictures::style(name),
        escape(name),
        judgement.share_left(retention),
        judgement.words()
    );
}

fn figures(page: &mut String, results: &Demonstration) {
    figure(
        page,
        &pictures::delivered(results),
        "The dotted line is what the service would receive if nothing were lost. A curve that falls to the \
         right is a host that works for packets that it then throws away. A curve that stays level is a host \
         that drops the excess before it costs anything.",
    );
    if results.is_of_kernel() {
        return;
    }
    page.push_str("<div class=\"three\">\n");
    figure(
        page,
        &pictures::victim_loss(results),
        if results.setup.shared_queue {
            "A second socket on this host gets a few requests and no flood, through the same receive queue. \
             These are the requests that it never received."
        } else {
            "A second socket on this host gets a few requests and no flood. These are the requests that it \
             never received."
        },
    );
    figure(
        page,
        &pictures::victim_latency(results),
        "99 of 100 requests to the second socket took less than this. A curve ends where no request arrived.",
    );
    figure(
        page,
        &pictures::neighbour(results),
        "A program that only computes shares the core with the service. This is the time it got.",
    );
    page.push_str("</div>\n");
    figure(
        page,
        &pictures::cpu(results),
        "Where the core's time went at the highest load. Work at interrupt level is done before any program \
         runs.",
    );
    figure(
        page,
        &pictures::fate(results),
        "The reasons for drops are listed from the cheapest to the dearest. A packet that never left the \
         ring cost the host nothing. A packet that found its socket full cost all of the work.",
    );
}

fn figure(page: &mut String, picture: &pictures::Picture, caption: &str) {
    let _ = write!(
        page,
        "<figure>\n<h2>{}</h2>\n{}<figcaption>{}</figcaption>\n</figure>\n",
        escape(picture.title),
        picture.markup,
        escape(caption)
    );
}

/// A column and its unit.
type Column = (&'static str, &'static str);

/// The columns of the table of figures.
const COLUMNS: [Column; 9] = [
    ("loss-free up to", "pps"),
    ("peak", "pps"),
    ("offered", "pps"),
    ("delivered", "pps"),
    ("of peak", "%"),
    ("neighbour", "% of core"),
    ("second socket lost", "%"),
    ("99 % within", "µs"),
    ("frames add up", ""),
];

/// The number of the columns that sockets on the veth pair have, too.
const LOAD_FIGURES: usize = 5;

/// The columns of the tables of each load.
const LOAD_COLUMNS: [Column; 6] = [
    ("offered", "pps"),
    ("delivered", "pps"),
    ("neighbour", "% of core"),
    ("second socket lost", "%"),
    ("99 % within", "µs"),
    ("had of its core", "%"),
];

fn figures_table(page: &mut String, results: &Demonstration) {
    page.push_str(
        "<section>\n<h2 id=\"figures\">The figures</h2>\n<table class=\"figures\" role=\"table\" \
         aria-labelledby=\"figures\">\n",
    );
    let columns = if results.is_of_kernel() { &COLUMNS[..LOAD_FIGURES] } else { &COLUMNS[..] };
    head(page, first_column(results), columns);
    page.push_str("<tbody role=\"rowgroup\">\n");
    for architecture in &results.architectures {
        write_row(page, &architecture.name, &COLUMNS, &cells(architecture));
    }
    for (name, socket) in results.on_veth() {
        write_row(page, words::title(name), columns, &veth_cells(socket));
    }
    page.push_str(
        "</tbody>\n</table>\n<p class=\"note\">All columns from &ldquo;offered&rdquo; on are taken at the \
         highest load. A question mark stands for what this machine was too busy to tell.</p>\n</section>\n",
    );
}

/// Returns what rows of figures are about.
fn first_column(results: &Demonstration) -> &'static str {
    if results.is_of_kernel() { "socket" } else { "architecture" }
}

fn head(page: &mut String, first: &str, columns: &[Column]) {
    let _ = write!(
        page,
        "<thead role=\"rowgroup\">\n<tr role=\"row\"><th role=\"columnheader\" scope=\"col\">{first}</th>"
    );
    for (name, unit) in columns {
        let _ = write!(page, "<th role=\"columnheader\" scope=\"col\">{name}<small>{unit}</small></th>");
    }
    page.push_str("</tr>\n</thead>\n");
}

fn cells(a: &Architecture) -> Vec<String> {
    let mut cells = vec![si(a.mlfrr_pps), si(a.peak_pps), si(a.offered_max_pps), si(a.delivered_max_pps)];
    cells.push(a.judgement().share_left(a.retention));
    cells.extend([percent(a.neighbour_cpu), percent(a.victim_loss), within(a.victim_p99_us)]);
    cells.push(if a.conserved { "yes" } else { "NO" }.to_owned());
    cells
}

fn veth_cells(k: &OnVeth) -> Vec<String> {
    let mut cells = [k.mlfrr_pps, k.peak_pps, k.offered_max_pps, k.delivered_max_pps].map(si).to_vec();
    cells.push(k.judgement().share_left(k.retention));
    cells.resize(COLUMNS.len(), "–".to_owned());
    cells
}

/// Returns a 99th percentile, in microseconds.
fn within(micros: Option<f64>) -> String {
    micros.map_or_else(|| "none".to_owned(), three_digits)
}

fn write_row(page: &mut String, name: &str, columns: &[Column], cells: &[String]) {
    let _ = write!(page, "<tr role=\"row\"><th role=\"rowheader\" scope=\"row\">{}</th>", escape(name));
    for ((column, unit), cell) in columns.iter().zip(cells) {
        let label = if unit.is_empty() { (*column).to_owned() } else { format!("{column}, {unit}") };
        let _ = write!(page, "<td role=\"cell\" data-label=\"{label}\">{}</td>", escape(cell.trim_end()));
    }
    page.push_str("</tr>\n");
}

/// Writes the figures at each load, folded up.
fn each_load(page: &mut String, results: &Demonstration) {
    page.push_str("<section>\n<h2>The figures at each load</h2>\n");
    for architecture in &results.architectures {
        let rows: Vec<_> = architecture.points.iter().map(load_cells).collect();
        loads(page, &architecture.name, &LOAD_COLUMNS, &rows);
    }
    for (name, socket) in results.on_veth() {
        let cells = |p: &VethPoint| [si(p.offered_pps), si(p.delivered_pps), percent(p.core_share)];
        let rows: Vec<_> = socket.points.iter().map(cells).collect();
        let [offered, delivered, .., core_share] = LOAD_COLUMNS;
        loads(page, words::title(name), &[offered, delivered, core_share], &rows);
    }
    page.push_str("</section>\n");
}

fn load_cells(p: &Point) -> [String; LOAD_COLUMNS.len()] {
    [
        si(p.offered_pps),
        si(p.delivered_pps),
        percent(p.neighbour_cpu),
        percent(p.victim_loss),
        within(p.victim_p99_us),
        percent(p.core_share),
    ]
}

fn loads<const N: usize>(page: &mut String, name: &str, columns: &[Column; N], rows: &[[String; N]]) {
    let name = escape(name);
    let _ = writeln!(page, "<details><summary>{name}</summary>\n<table aria-label=\"{name} at each load\">");
    let Some(((first, unit), rest)) = columns.split_first() else { return };
    head(page, &format!("{first}<small>{unit}</small>"), rest);
    page.push_str("<tbody>\n");
    for (offered, cells) in rows.iter().filter_map(|row| row.split_first()) {
        write_row(page, offered, rest, cells);
    }
    page.push_str("</tbody>\n</table>\n</details>\n");
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
        assert_eq!(page.matches("<svg").count(), 5);
        assert_eq!(page.matches("<svg").count(), page.matches("<desc>").count());
    }

    /// Nothing is wider than a phone: the one wide picture has a narrow version, and no part scrolls.
    #[test]
    fn nothing_scrolls_sideways_on_a_phone() {
        let page = render(&fixture::demonstration());
        let wide = page.matches("<svg class=\"chart\" viewBox=\"0 0 1060 ").count();
        assert_eq!((wide, page.matches("<svg class=\"chart\" viewBox=\"0 0 360 ").count()), (1, 4));
        assert_eq!(page.matches("<div class=\"wide\">").count(), wide);
        assert!(page.contains(".wide { display: none; } .narrow { display: block; }"));
        assert!(!page.contains("overflow-x") && !page.contains("min-width: 6"));
    }

    /// The page says where its figures come from, and how to get them again.
    #[test]
    fn the_foot_has_all_that_a_repetition_needs() {
        let page = render(&fixture::demonstration());
        let foot = page.split_once("<footer>").unwrap().1;
        let said = ["evenkeel demo --work 1us", "A &lt;made-up&gt; processor", "Linux 6.0.0-&lt;made-up&gt;"];
        for said in said.into_iter().chain(["2026-01-02 03:04:05 UTC", "61 s", "0.0.0-fixture", "<dd>1</dd>"])
        {
            assert!(foot.contains(said), "{said}: {foot}");
        }
    }

    /// A page on a disturbed run states no share of any doubtful peak, in no place.
    #[test]
    fn nothing_is_claimed_if_the_guard_fails() {
        let mut results = fixture::demonstration();
        results.architectures.iter_mut().for_each(|a| a.points[3].core_share = 0.5);
        results.kernel.as_mut().unwrap().points[3].core_share = 0.5;
        results.guarded.as_mut().unwrap().points[3].core_share = 0.5;
        results.over_xdp.as_mut().unwrap().points[3].core_share = 0.5;
        let page = render(&results);
        let heading = page.split_once("<h1>").unwrap().1.split_once("</h1>").unwrap().0;
        assert_eq!(heading, "This machine was too busy to tell what a flood does");
        assert_eq!(page.matches("<b>?</b><span>cannot tell</span>").count(), 8);
        for claim in ["keeps its peak", "livelocks", "falls under load", "% of its peak", "loses nothing"] {
            assert!(!page.contains(claim), "{claim}");
        }
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
            assert!(page.contains(&format!("scope=\"row\">{name}</th>")), "{name}");
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
        assert!(render(&results).contains(">123 k</td>"));
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
        for tag in [
            "main", "section", "figure", "div", "table", "tr", "td", "svg", "text", "dl", "ul", "li", "p",
            "details",
        ] {
            let opened =
                page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
        }
    }
}
