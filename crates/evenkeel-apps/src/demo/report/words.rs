//! The prose of the report. All statements about a run come from its results.

use core::fmt::Write as _;

use crate::chart::escape;
use crate::demo::results::{Architecture, Demonstration, LOSS_FREE_TOLERANCE, Setup};
use crate::quantity::{count, in_words, percent, three_digits_at_most, time};

/// Names of the architectures, each with a description for newcomers.
const ARCHITECTURES: [(&str, &str); 5] = [
    (
        "eager",
        "The classic design, from 4.2BSD. Every arriving packet interrupts whatever runs, is processed \
         through the protocols at once, and only then waits for its program. Under a flood the interrupts \
         never stop, and the program never runs.",
    ),
    (
        "polled",
        "After Mogul and Ramakrishnan (1996). The first packet raises an interrupt; from then on a thread \
         polls the interface, a limited number of packets at a time, stops when queues downstream are full, \
         and may use only part of the core. Excess packets stay in the interface's ring and cost nothing.",
    ),
    (
        "early-demux",
        "The interrupt handler finds out for which socket a packet is, and drops it at once if that socket's \
         queue is full. The rest is processed eagerly. It wastes less on each dropped packet, but still \
         something on every one.",
    ),
    (
        "soft-lrp",
        "After Druschel and Banga (1996): lazy receiver processing. The host only sorts packets into one \
         short queue for each socket, and drops what does not fit. Protocol work is done when the program \
         asks for data, at the program's priority and on its bill. Here the sorting is polled, with a limit \
         and with feedback from full queues.",
    ),
    (
        "ni-lrp",
        "The same, but the network interface sorts the packets. What does not fit dies on the interface and \
         costs the host nothing.",
    ),
];

/// Returns one sentence on the run.
pub(super) fn headline(results: &Demonstration) -> String {
    let by = |a: &&Architecture, b: &&Architecture| a.retention.total_cmp(&b.retention);
    // Architectures whose core was taken away are left out.
    let known = || results.architectures.iter().filter(|a| a.unknown().is_none());
    let worst = known().min_by(by);
    let best = known().max_by(by);
    match (worst, best) {
        (Some(worst), Some(best)) if worst.name != best.name => format!(
            "Flooded far beyond its peak, a service keeps {} % of it with {}, and {} % with {}",
            percent(worst.retention),
            worst.name,
            percent(best.retention),
            best.name
        ),
        (Some(only), _) => format!(
            "Flooded far beyond its peak, a service keeps {} % of it with {}",
            percent(only.retention),
            only.name
        ),
        (None, _) if results.architectures.is_empty() => "Nothing was measured".to_owned(),
        (None, _) => "This machine was too busy with other things to tell what a flood does".to_owned(),
    }
}

/// Returns a few sentences on the run's conditions.
pub(super) fn lead(results: &Demonstration) -> String {
    let offered = results.architectures.iter().map(|a| a.offered_max_pps).fold(0.0, f64::max);
    let setup = &results.setup;
    format!(
        "One UDP service that works {} on each request, on one core, under load rising to {} packets a \
         second. The same \
         service and the same protocol code run on {}; only what runs when, and where packets wait, differs.",
        time(setup.work_ns),
        in_words(offered),
        on(results)
    )
}

/// Returns the number of receive architectures in words. One that is also measured with a single queue
/// counts once.
fn on(results: &Demonstration) -> String {
    const NUMBERS: [&str; 6] = ["no", "one", "two", "three", "four", "five"];
    let single = |a: &&Architecture| a.queues != results.setup.queues;
    let count = results.architectures.iter().filter(|a| !single(a)).count();
    let number = NUMBERS.get(count).map_or_else(|| count.to_string(), ToString::to_string);
    let plural = if count == 1 { "" } else { "s" };
    let again = results.architectures.iter().find(single).map_or_else(String::new, |a| {
        let name = a.name.split(',').next().unwrap_or(&a.name);
        format!(", {name} also with a single receive queue")
    });
    format!("{number} receive architecture{plural}{again}")
}

/// Returns the explanation below the charts: results, architectures, method and limits of the measurement.
pub(super) fn explanation(results: &Demonstration) -> String {
    let mut html = String::new();
    seen(&mut html);
    architectures(&mut html, results);
    measured(&mut html, results);
    caveats(&mut html, results);
    html
}

fn seen(html: &mut String) {
    html.push_str(
        "<section>\n<h2>What is seen here</h2>\n\
         <p>A computer that does work for every packet as soon as it arrives can be made to do nothing else. \
         Beyond some load \
         it spends its time on packets that it must drop later, and delivers less and less: this is \
         <em>receive livelock</em>. \
         It takes no malice, only more packets than the program can use.</p>\n\
         <p>The cure is to decide early and cheaply whether a packet can be used, to do the costly work only \
         for those that \
         can, and to do it on the account of the program that wants them. Then delivered load rises to its \
         peak and stays \
         there, a flood at one socket is no concern of the next, and other programs keep their share of the \
         core.</p>\n</section>\n",
    );
}

fn architectures(html: &mut String, results: &Demonstration) {
    html.push_str("<section>\n<h2>The receive architectures</h2>\n<dl>\n");
    for architecture in &results.architectures {
        let known = ARCHITECTURES.iter().find(|(name, _)| *name == architecture.name);
        let text = known.map_or("", |(_, text)| text);
        let _ = writeln!(html, "<dt>{}</dt><dd>{}</dd>", escape(&architecture.name), escape(text));
    }
    if let Some(kernel) = &results.kernel {
        let _ = writeln!(
            html,
            "<dt>Linux</dt><dd>The kernel's own UDP socket (release {}) on a veth pair, same requests, same \
             work. Its protocol \
             input is steered to the service's core (RPS); what feeds the veth is on the other.</dd>",
            escape(&kernel.release)
        );
    }
    html.push_str("</dl>\n</section>\n");
}

fn measured(html: &mut String, results: &Demonstration) {
    let setup = &results.setup;
    let machine = setup.machine.as_deref().unwrap_or("a machine that does not tell its name");
    let _ = write!(
        html,
        "<section>\n<h2>How it was measured</h2>\n<ul>\n\
         <li>In real time on {}, {} cores. One core runs the host: interface, protocols, and three programs, \
         which are the \
         service, a second service that nobody floods, and a neighbour that only computes. Another core runs \
         the load generator. Both are threads of one process: where a kernel shares its processors by \
         session (<code>sched_autogroup</code>), they have what their session has.</li>\n\
         <li>Host and generator are joined by a cable in memory with {}. Requests are real Ethernet frames \
         of {} bytes.</li>\n\
         <li>Each load lasts {} s. The generator is paced by the clock; &ldquo;offered&rdquo; is what it \
         really sent, not what it was asked for. \
         The second socket gets {} requests a second throughout.</li>\n\
         <li>All numbers are counters. Every frame offered must be found again, as delivered, dropped for a \
         stated reason, \
         or still queued; the table says whether they add up.</li>\n\
         <li>Loss-free means that at this load and all lower ones no more than {} % was missing: frames on \
         their way when the clock stops are not lost.</li>\n\
         <li>Seed {}. The same results for programs: <code>evenkeel demo \
         --json</code>.</li>\n</ul>\n</section>\n",
        escape(machine),
        setup.cores,
        rings(setup),
        setup.frame_bytes,
        three_digits_at_most(setup.seconds_per_point),
        count(setup.victim_pps.round() as u64),
        percent(LOSS_FREE_TOLERANCE),
        setup.seed
    );
}

fn rings(setup: &Setup) -> String {
    /// The consequence of one ring for both sockets.
    const SHARED: &str = "A host that leaves excess packets in the ring, as <em>polled</em> and \
        <em>soft-lrp</em> do, then \
        leaves those of the second socket there too";
    match (setup.queues, setup.shared_queue) {
        (1, _) => format!("one receive ring. {SHARED}"),
        (queues, true) => format!(
            "{queues} receive rings; the adaptor's hash of the destination gives the second socket's \
             requests the same ring as the flood. {SHARED}"
        ),
        (queues, false) => format!(
            "{queues} receive rings; the adaptor's hash of the destination gives the second socket's \
             requests another ring than the flood"
        ),
    }
}

fn caveats(html: &mut String, results: &Demonstration) {
    html.push_str(
        "<section>\n<h2>What it does not show</h2>\n<ul>\n\
         <li>The cable costs no device access and no bus. Absolute rates on hardware are lower; the shapes \
         of the curves are the point.</li>\n\
         <li>An interrupt here is work that goes before everything else on the host's core. There is no \
         trap, whose cost would make <em>eager</em> look worse.</li>\n\
         <li><em>ni-lrp</em> is given its demultiplexing interface for nothing; here the generator's core \
         does that work.</li>\n\
         <li>Other work on the machine shows as noise, most of all in latency, and where host and generator \
         share a core's caches or its clock. Compare curves of one run, not of two machines.</li>\n",
    );
    if results.setup.cores < 2 {
        html.push_str(
            "<li><strong>This machine offered fewer than two cores: host and generator took turns, \
            and no figure here is worth much.</strong></li>\n",
        );
    }
    if let Some(share) = results.disturbed() {
        let share = percent(share);
        let _ = writeln!(
            html,
            "<li><strong>The machine was busy with other things: at one load the host had only {share} % of \
             its core. Figures are low and uneven.</strong></li>"
        );
    }
    if let Some(why) = &results.kernel_missing {
        let _ = writeln!(html, "<li>The kernel's own sockets under the same load: {}.</li>", escape(why));
    }
    if results.kernel.is_some() {
        html.push_str(
            "<li>The kernel's path goes through a veth pair and system calls, ours through memory. \
            Compare the shape, not the height.</li>\n",
        );
    }
    html.push_str("</ul>\n</section>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::fixture;

    #[test]
    fn the_headline_tells_worst_and_best_of_this_run() {
        let mut results = fixture::demonstration();
        results.architectures[1].retention = 0.123;
        results.architectures[0].retention = 0.9;
        let headline = headline(&results);
        assert!(
            headline.contains("12.3 % of it with polled") && headline.ends_with("with ni-lrp"),
            "{headline}"
        );
    }

    #[test]
    fn too_few_cores_are_confessed() {
        let mut results = fixture::demonstration();
        assert!(!explanation(&results).contains("took turns"));
        results.setup.cores = 1;
        assert!(explanation(&results).contains("took turns"));
    }

    #[test]
    fn of_cores_that_were_taken_away_the_headline_tells_nothing() {
        let mut results = fixture::demonstration();
        results.architectures[0].points[0].core_share = 0.5;
        assert!(!headline(&results).contains("eager"), "{}", headline(&results));
        results.architectures.iter_mut().for_each(|a| a.points[0].core_share = 0.5);
        assert!(headline(&results).contains("too busy"), "{}", headline(&results));
    }

    #[test]
    fn architectures_are_counted_once() {
        let mut results = fixture::demonstration();
        assert!(lead(&results).contains("run on five receive architectures; only"), "{}", lead(&results));
        let single =
            Architecture { name: "soft-lrp, 1 queue".into(), queues: 1, ..results.architectures[3].clone() };
        results.architectures.insert(4, single);
        let said = lead(&results);
        assert!(
            said.contains("five receive architectures, soft-lrp also with a single receive queue;"),
            "{said}"
        );
        results.architectures.truncate(1);
        assert!(lead(&results).contains("run on one receive architecture;"), "{}", lead(&results));
    }

    #[test]
    fn nothing_measured_is_said() {
        let mut results = fixture::demonstration();
        results.architectures.clear();
        assert_eq!(headline(&results), "Nothing was measured");
    }
}
