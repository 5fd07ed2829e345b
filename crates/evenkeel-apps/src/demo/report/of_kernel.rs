//! The prose of a report that is about the kernel's own socket alone, without and with the guard.

use core::fmt::Write as _;

use super::words;
use crate::chart::escape;
use crate::demo::guard::Doubt;
use crate::demo::results::{Demonstration, LOSS_FREE_TOLERANCE, OnVeth};
use crate::quantity::{in_words, percent, three_digits_at_most};

/// Returns one sentence on the run. If the machine disturbed it, that claims nothing.
pub(super) fn headline(results: &Demonstration) -> String {
    let (Some(alone), Some(guarded)) = (&results.kernel, &results.guarded) else {
        return "Nothing was measured".to_owned();
    };
    let doubts = [alone, guarded].into_iter().filter_map(|socket| socket.judgement().doubt());
    match doubts.min_by_key(|doubt: &Doubt| doubt.rank()) {
        Some(doubt) => words::nothing_told(doubt).to_owned(),
        None => format!(
            "A flooded UDP server on Linux keeps {} % of its peak, and {} % behind evenkeel guard",
            percent(alone.retention),
            percent(guarded.retention)
        ),
    }
}

/// Returns a few sentences for readers who have never heard of receive livelock.
pub(super) fn lead(results: &Demonstration) -> String {
    let offered = |socket: &Option<OnVeth>| socket.as_ref().map_or(0.0, |socket| socket.offered_max_pps);
    format!(
        "A computer that works on every packet as it arrives can be flooded until it does nothing else: this \
         is receive livelock. Here a UDP server on one core, on a socket of Linux itself, is offered up to \
         {} requests a second. One curve shows how many it serves. The other shows the same server behind \
         evenkeel guard, which drops what its socket cannot take before the kernel works on it. The guard's \
         program runs on the generator's core, so up to {} requests a second were offered there.",
        in_words(offered(&results.kernel)),
        in_words(offered(&results.guarded))
    )
}

/// Returns the explanation below the chart: the method and the limits of the measurement.
pub(super) fn explanation(results: &Demonstration) -> String {
    let mut html = String::new();
    words::seen(&mut html);
    words::architectures(&mut html, results);
    measured(&mut html, results);
    caveats(&mut html, results);
    html
}

fn measured(html: &mut String, results: &Demonstration) {
    let setup = &results.setup;
    let machine = setup.machine.as_deref().unwrap_or("a machine that does not tell its name");
    let _ = write!(
        html,
        "<section>\n<h2>How it was measured</h2>\n<ul>\n\
         <li>In real time on {}, {} cores. One core runs the server and the kernel's protocol input for it. \
         Another core runs the load generator and the kernel's work for the interface. Server and generator \
         are threads of one process.</li>\n\
         <li>The link is a veth pair in a network namespace of its own. Requests are real Ethernet frames of \
         {} bytes, and the generator sends them through AF_XDP if it can.</li>\n\
         <li>Each load lasts {} s. &ldquo;Offered&rdquo; is the load that the generator really sent, not \
         the load that it was asked for.</li>\n\
         <li>Loss-free means that at this load and at all lower ones at most {} % was missing.</li>\n\
         <li>A curve tells nothing if at one load the server and the kernel had less than 90 % of their \
         core, if it falls by more than a tenth of its peak and rises again, or if the highest load is less \
         than twice the peak.</li>\n\
         <li>The figures for programs: <code>evenkeel demo --guard --json</code>.</li>\n</ul>\n</section>\n",
        escape(machine),
        setup.cores,
        setup.frame_bytes,
        three_digits_at_most(setup.seconds_per_point),
        percent(LOSS_FREE_TOLERANCE),
    );
}

fn caveats(html: &mut String, results: &Demonstration) {
    html.push_str(
        "<section>\n<h2>What it does not show</h2>\n<ul>\n\
         <li>A veth pair has no card and no bus. Absolute rates on hardware are others. Compare the shapes \
         of the curves.</li>\n\
         <li>Where all of an interface's work is on the server's core, the guard saves less.</li>\n\
         <li>The kernel's curve depends on its version and settings. It is one configuration, not a \
         verdict.</li>\n",
    );
    words::disturbances(html, results);
    html.push_str("</ul>\n</section>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::{fixture, report, table};

    fn of_kernel() -> Demonstration {
        Demonstration { architectures: Vec::new(), over_xdp: None, ..fixture::demonstration() }
    }

    #[test]
    fn the_page_is_about_the_kernels_socket_alone() {
        let mut results = of_kernel();
        results.guarded.as_mut().unwrap().retention = 0.987;
        results.kernel.as_mut().unwrap().retention = 0.012;
        let page = report::render(&results);
        let heading = "A flooded UDP server on Linux keeps 1.2&nbsp;% of its peak, and 98.7&nbsp;% behind";
        assert!(page.contains(heading), "{page}");
        assert_eq!(page.matches("<svg").count(), 2, "one picture, for wide and for narrow screens");
        for foreign in ["soft-lrp", "architecture", "second socket", "neighbour"] {
            assert!(!page.contains(foreign), "{foreign}");
        }
        let text = table::render(&results);
        assert!(text.contains("kernel, guarded") && !text.contains("the core's time"), "{text}");
        let picture = report::picture(&results);
        assert!(picture.contains("without and with evenkeel guard"), "{picture}");
    }

    #[test]
    fn of_a_disturbed_run_nothing_is_claimed() {
        let mut results = of_kernel();
        results.guarded.as_mut().unwrap().points[0].core_share = 0.5;
        assert_eq!(headline(&results), "This machine was too busy to tell what a flood does");
        assert!(report::render(&results).contains("Cannot tell for Linux, guarded"));
        results.guarded = None;
        assert_eq!(headline(&results), "Nothing was measured");
    }
}
