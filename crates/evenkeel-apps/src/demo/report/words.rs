//! The prose of the report. All statements about a run come from its results.

use core::fmt::Write as _;

use crate::chart::escape;
use crate::demo::guard::Doubt;
use crate::demo::options::Place;
use crate::demo::results::{self, Architecture, Demonstration, LOSS_FREE_TOLERANCE, Setup};
use crate::demo::table;
use crate::quantity::{count, in_words, percent, pps, three_digits_at_most};

/// Names of the architectures, each with a description for newcomers.
const ARCHITECTURES: [(&str, &str); 6] = [
    (
        "soft-lrp, 1 queue",
        "The architecture soft-lrp with a single receive queue, as TAPs and most virtual machines have. Both \
         sockets share it, so the host takes every packet out of the ring to see whose it is. It \
         discards the excess of the flooded socket at once. That costs part of the core, and a full ring \
         loses packets of both sockets.",
    ),
    (
        "eager",
        "The classic design, from 4.2BSD. Every packet that arrives interrupts the program that runs. \
         The host processes it through all protocols at once, and only then does it wait for its program. \
         Under a flood the interrupts never stop, and the program never runs.",
    ),
    (
        "early-demux",
        "The interrupt handler finds the socket of a packet, and drops the packet at once if that socket's \
         queue is full. It processes all others eagerly. A dropped packet costs less than with eager, but it \
         still costs an interrupt.",
    ),
    (
        "polled",
        "After Mogul and Ramakrishnan (1996). The first packet raises an interrupt. From then on a thread \
         polls the interface for a limited number of packets at a time. It stops while queues behind it are \
         full, and it uses only part of the core. Excess packets stay in the interface's ring and cost \
         nothing.",
    ),
    (
        "soft-lrp",
        "After Druschel and Banga (1996): lazy receiver processing. The host only sorts packets into a short \
         queue for each socket, and drops the excess there. It does the protocol work when the program asks \
         for data, at the program's priority and on its account. The sorting is polled, with a limit and \
         with feedback from full queues.",
    ),
    (
        "ni-lrp",
        "Lazy receiver processing with a network interface that sorts the packets itself. The excess is \
         dropped on the interface and costs the host nothing.",
    ),
];

/// Returns one sentence on the run. If the machine disturbed any of our architectures, it claims nothing.
pub(super) fn headline(results: &Demonstration) -> String {
    match gravest_doubt(results) {
        Some(doubt) => nothing_told(doubt).to_owned(),
        None => claim(results),
    }
}

/// Returns the headline of a run about which there is a doubt.
pub(super) fn nothing_told(doubt: Doubt) -> &'static str {
    match doubt {
        Doubt::Core(_) => "This machine was too busy to tell what a flood does",
        Doubt::Valley(_) => "These figures scatter too much to tell what a flood does",
        Doubt::Load(_) => "This flood was too small to tell what a flood does",
    }
}

/// Returns the doubt about one of our architectures that weighs most.
fn gravest_doubt(results: &Demonstration) -> Option<Doubt> {
    let doubts = results.architectures.iter().filter_map(|a| a.judgement().doubt());
    doubts.min_by_key(|doubt| doubt.rank())
}

/// Returns the shares of the peak that are left: of the default architecture, its poorest case first, and of
/// the architecture that falls most.
fn claim(results: &Demonstration) -> String {
    let by_retention = |a: &&Architecture, b: &&Architecture| a.retention.total_cmp(&b.retention);
    let is_default = |a: &&Architecture| a.name.starts_with("soft-lrp");
    let mut told: Vec<&Architecture> = results.architectures.iter().filter(is_default).collect();
    if told.is_empty() {
        told.extend(results.architectures.iter().max_by(by_retention));
    }
    told.sort_by_key(|a| a.queues);
    let (name, first) = (told[0].name.split(',').next().unwrap_or_default(), queues(told[0].queues));
    let mut claim = format!(
        "A flooded service keeps {} % of its peak under {name} with {first}",
        percent(told[0].retention)
    );
    for more in &told[1..] {
        let _ = write!(claim, ", {} % with {}", percent(more.retention), more.queues);
    }
    let worst = results.architectures.iter().min_by(by_retention);
    if let Some(worst) = worst.filter(|worst| told.iter().all(|a| a.name != worst.name)) {
        let _ = write!(claim, ", and {} % under {}", percent(worst.retention), worst.name);
    }
    claim
}

fn queues(queues: usize) -> String {
    match queues {
        1 => "one receive queue".to_owned(),
        several => format!("{several} receive queues"),
    }
}

/// Returns a few sentences for readers who have never heard of receive livelock.
pub(super) fn lead(results: &Demonstration) -> String {
    let of_all =
        |figure: fn(&Architecture) -> f64| results.architectures.iter().map(figure).fold(0.0, f64::max);
    let (offered, peak) = (of_all(|a| a.offered_max_pps), of_all(|a| a.peak_pps));
    let overload = match gravest_doubt(results) {
        None if peak > 0.0 => format!(", {:.0} times as many as it can serve", offered / peak),
        _ => String::new(),
    };
    format!(
        "A computer that works on every packet as it arrives can be flooded until it does nothing else: this \
         is receive livelock. Here one UDP service on one core is offered up to {} requests a \
         second{overload}. Each curve shows how many it still serves under one receive architecture, which \
         decides when the host works on a packet and where packets wait. The service and the protocol code \
         are the same on {}.{}",
        in_words(offered),
        on(results),
        second_socket(results)
    )
}

/// Returns a sentence on the loss of the second socket under the default architecture, its poorest case
/// first; nothing if one of these cases is in doubt.
fn second_socket(results: &Demonstration) -> String {
    let cases: Vec<_> = results.architectures.iter().filter(|a| a.name.starts_with("soft-lrp")).collect();
    if cases.is_empty() || cases.iter().any(|a| a.judgement().doubt().is_some()) {
        return String::new();
    }
    let loss = |a: &&Architecture| match a.worst_victim_loss() {
        0.0 => format!("nothing with {}", queues(a.queues)),
        loss => format!("up to {} % of its requests with {}", percent(loss), queues(a.queues)),
    };
    let losses: Vec<String> = cases.iter().map(loss).collect();
    format!(" A second socket that nobody floods loses, under soft-lrp, {}.", losses.join(" and "))
}

/// Returns what the measurements do not tell, and why; nothing if they tell all.
pub(super) fn doubts(results: &Demonstration) -> String {
    match doubtful(results) {
        None => String::new(),
        Some(doubtful) => {
            format!(
                "{doubtful} The page claims nothing about this. Run the demonstration again on an idle \
                 machine."
            )
        }
    }
}

/// Returns the name of a socket on the veth pair in the report.
pub(super) fn title(name: &'static str) -> &'static str {
    match name {
        results::KERNEL => "Linux",
        results::GUARDED => "Linux, guarded",
        _ => name,
    }
}

/// Returns a sentence on the curves that the measurements do not tell, with a reason for each kind of doubt.
fn doubtful(results: &Demonstration) -> Option<String> {
    let ours = results.architectures.iter().map(|a| (a.name.as_str(), a.judgement()));
    let on_veth = results.on_veth().map(|(name, socket)| (title(name), socket.judgement()));
    let mut kinds: Vec<(Vec<&str>, Doubt)> = Vec::new();
    for (name, judgement) in ours.chain(on_veth) {
        let Some(doubt) = judgement.doubt() else { continue };
        match kinds.iter_mut().find(|(_, known)| known.graver(doubt).is_some()) {
            Some((names, known)) => {
                names.push(name);
                *known = known.graver(doubt).unwrap_or(doubt);
            }
            None => kinds.push((vec![name], doubt)),
        }
    }
    let sentence = |(names, doubt): &(Vec<&str>, Doubt)| {
        let names: Vec<String> =
            names.iter().map(|name| name.replace(", 1 queue", " with 1 queue")).collect();
        format!("Cannot tell for {}: {doubt}.", names.join(", "))
    };
    let sentences: Vec<String> = kinds.iter().map(sentence).collect();
    (!sentences.is_empty()).then(|| sentences.join(" "))
}

/// Returns the small print of the picture for documents: conditions, doubts, machine and date.
pub(super) fn small_print(results: &Demonstration) -> Vec<String> {
    let mut lines = vec![table::conditions(results)];
    if let Some(kernel) = &results.kernel {
        lines.push(format!(
            "Linux is the kernel's own UDP socket on a veth pair, with protocol input on the service's core \
             (RPS), up to {}.",
            pps(kernel.offered_max_pps)
        ));
    }
    if let Some(guarded) = &results.guarded {
        lines.push(format!(
            "“{}” is the same socket behind evenkeel's guard, up to {}.",
            title(results::GUARDED),
            pps(guarded.offered_max_pps)
        ));
    }
    if let Some(ours) = &results.over_xdp {
        lines.push(format!(
            "“{}” is a socket of evenkeel on the same veth pair over AF_XDP, up to {}.",
            results::OVER_XDP,
            pps(ours.offered_max_pps)
        ));
    }
    lines.extend(doubtful(results));
    let setup = &results.setup;
    let facts = [setup.machine.clone(), setup.system.clone(), started(setup)];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    lines.push(format!("evenkeel {}. {}.", results.version, facts.join(", ")));
    lines
}

/// Returns the time at which the run began, for readers.
fn started(setup: &Setup) -> Option<String> {
    setup.started.as_ref().map(|at| at.replace('T', " ").replace('Z', " UTC"))
}

/// Returns the foot of the page: all that is needed to repeat the run and to compare it.
pub(super) fn footer(results: &Demonstration) -> String {
    let setup = &results.setup;
    let command = setup.command.as_ref().map(|command| format!("<code>{}</code>", escape(command)));
    let took = setup.took_s.map(|seconds| format!("{} s", three_digits_at_most(seconds)));
    let machine = setup.machine.as_ref().map(|name| format!("{}, {} cores", escape(name), setup.cores));
    let facts = [
        ("Command", command),
        ("Machine", machine),
        ("System", setup.system.as_deref().map(escape)),
        ("Date", started(setup).as_deref().map(escape)),
        ("Duration", took),
        ("Each load", Some(format!("{} s", three_digits_at_most(setup.seconds_per_point)))),
        ("Seed", Some(setup.seed.to_string())),
        ("Version", Some(format!("evenkeel {}", escape(&results.version)))),
    ];
    let known = facts.into_iter().filter_map(|(name, fact)| Some((name, fact?)));
    let mut html = "<footer>\n<dl>\n".to_owned();
    for (name, fact) in known {
        let _ = writeln!(html, "<dt>{name}</dt><dd>{fact}</dd>");
    }
    html.push_str("</dl>\n</footer>\n");
    html
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

/// Returns the explanation below the charts: livelock, architectures, method and limits of the measurement.
pub(super) fn explanation(results: &Demonstration) -> String {
    let mut html = String::new();
    seen(&mut html);
    architectures(&mut html, results);
    measured(&mut html, results);
    caveats(&mut html, results);
    html
}

pub(super) fn seen(html: &mut String) {
    html.push_str(
        "<section>\n<h2>Livelock and its cure</h2>\n\
         <p>A host that works on every packet as it arrives spends more and more of its time on packets that \
         it must drop later. Beyond some load it delivers less and less. This is <em>receive \
         livelock</em>. It takes no malice, only more packets than the program can use.</p>\n\
         <p>The cure is to decide early and cheaply whether the program can use a packet. The host does the \
         costly work for these packets only, on the account of the program that receives them. If the \
         flood has a receive queue of its own, delivered load then stays at its peak, other sockets lose \
         nothing, and other programs keep their share of the core. With one receive queue for all, sorting \
         the flood costs part of the core.</p>\n</section>\n",
    );
}

pub(super) fn architectures(html: &mut String, results: &Demonstration) {
    let heading = if results.is_of_kernel() { "The sockets" } else { "The receive architectures" };
    let _ = write!(html, "<section>\n<h2>{heading}</h2>\n<dl>\n");
    for architecture in &results.architectures {
        let known = ARCHITECTURES.iter().find(|(name, _)| *name == architecture.name);
        let text = known.map_or("", |(_, text)| text);
        let _ = writeln!(html, "<dt>{}</dt><dd>{}</dd>", escape(&architecture.name), escape(text));
    }
    if let Some(kernel) = &results.kernel {
        let _ = writeln!(
            html,
            "<dt>Linux</dt><dd>The kernel's own UDP socket (release {}) on a veth pair, with equal \
             requests and equal work. Its protocol input is steered to the service's core (RPS). The \
             generator and the veth's interface work run on the other core.</dd>",
            escape(&kernel.release)
        );
    }
    if results.guarded.is_some() {
        let _ = writeln!(
            html,
            "<dt>{}</dt><dd>The same socket behind <code>evenkeel guard</code>. The guard's XDP program \
             drops requests for which the socket's queue has no room, on the generator's core.</dd>",
            title(results::GUARDED)
        );
    }
    if results.over_xdp.is_some() {
        let _ = writeln!(
            html,
            "<dt>{}</dt><dd>A UDP socket of evenkeel on the same veth pair over AF_XDP, with equal requests \
             and equal work. The kernel's XDP program puts each frame into the ring of its channel, on the \
             generator's core. All protocol work is done in the receive call.</dd>",
            results::OVER_XDP
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
         <li>In real time on {}, {} cores. One core runs the host: the interface, the protocols and three \
         programs. These are the service, a second service that nobody floods, and a neighbour that only \
         computes. Another core runs the load generator. Both are threads of one process: a kernel that \
         shares its processors by session (<code>sched_autogroup</code>) gives them the share of their \
         session.</li>\n\
         <li>{} with {}. Requests are real Ethernet frames of {} bytes.</li>\n\
         <li>Each load lasts {} s. &ldquo;Offered&rdquo; is the load that the generator really sent, not \
         the load that it was asked for. The second socket gets {} requests a second throughout.</li>\n\
         <li>All figures are counters. Every offered frame must be found again: delivered, dropped for a \
         stated reason, or still queued. The table says whether they add up.</li>\n\
         <li>Loss-free means that at this load and at all lower ones at most {} % was missing. Frames on \
         their way when the clock stops are not lost.</li>\n\
         <li>The guard: a curve tells nothing if at one load the host had less than 90 % of its core, if it \
         falls by more than a tenth of its peak and rises again, or if the highest load is less than twice \
         the peak. The guard judges the curves on the veth pair too.</li>\n\
         <li>Seed {}. The figures for programs: <code>evenkeel demo --json</code>.</li>\n</ul>\n</section>\n",
        escape(machine),
        setup.cores,
        link(setup.place()),
        rings(setup),
        setup.frame_bytes,
        three_digits_at_most(setup.seconds_per_point),
        count(setup.victim_pps.round() as u64),
        percent(LOSS_FREE_TOLERANCE),
        setup.seed
    );
}

/// Names the link between generator and host.
fn link(place: Place) -> &'static str {
    match place {
        Place::Cable => "A cable in memory",
        Place::Packet => {
            "A veth pair of the kernel, whose host's end a packet socket has. The kernel's work for that end \
             runs on the generator's core. The pair is a link"
        }
        Place::Xdp => {
            "A veth pair of the kernel, whose host's end AF_XDP sockets have. The XDP program runs on the \
             generator's core. The pair is a link"
        }
    }
}

fn rings(setup: &Setup) -> String {
    /// The consequence of one ring for both sockets.
    const SHARED: &str = "If a host leaves excess packets in the ring, as <em>polled</em> does, it leaves \
        those of the second socket there too";
    match (setup.queues, setup.shared_queue) {
        (1, _) => format!("one receive ring joins host and generator. {SHARED}"),
        (queues, true) => format!(
            "{queues} receive rings joins host and generator. The cable's hash of the destination gives the \
             second socket's requests the same ring as the flood. {SHARED}"
        ),
        (queues, false) => format!(
            "{queues} receive rings joins host and generator. The cable's hash of the destination gives the \
             second socket's requests another ring than the flood"
        ),
    }
}

fn caveats(html: &mut String, results: &Demonstration) {
    html.push_str(
        "<section>\n<h2>What it does not show</h2>\n<ul>\n\
         <li>The link costs no access to a card and no bus. Absolute rates on hardware are lower. Compare \
         the shapes of the curves.</li>\n\
         <li>An interrupt here is work that goes before everything else on the host's core. There is no \
         trap, whose cost would make <em>eager</em> look worse.</li>\n\
         <li>The demultiplexing interface of <em>ni-lrp</em> costs its host nothing. The generator's core \
         does that work here.</li>\n\
         <li>Other work on the machine shows as noise, most of all in latency. So does a generator that \
         shares caches or a clock with the host. Compare curves of one run, not of two machines.</li>\n",
    );
    if results.setup.cores < 2 {
        html.push_str(
            "<li><strong>This machine offered fewer than two cores. Host and generator took turns, so no \
             figure here is worth much.</strong></li>\n",
        );
    }
    disturbances(html, results);
    if results.on_veth().next().is_some() {
        html.push_str(
            "<li>Packets of sockets on the veth pair go through the kernel, those of the other curves \
             through memory. Between the two kinds compare the shape, not the height.</li>\n",
        );
    }
    html.push_str("</ul>\n</section>\n");
}

/// Writes what disturbed the run, and what could not be measured.
pub(super) fn disturbances(html: &mut String, results: &Demonstration) {
    if let Some(share) = results.disturbed() {
        let share = percent(share);
        let _ = writeln!(
            html,
            "<li><strong>The machine was busy with other things: at one load the host had only {share} % of \
             its core. Figures are low and uneven.</strong></li>"
        );
    }
    for (name, why) in results.missing_on_veth() {
        let _ = writeln!(html, "<li>{} on a veth pair: {}.</li>", title(name), escape(why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::fixture;

    /// Returns results that have the default architecture with a single queue, too.
    fn with_one_queue() -> Demonstration {
        let mut results = fixture::demonstration();
        let mut single =
            Architecture { name: "soft-lrp, 1 queue".into(), queues: 1, ..results.architectures[3].clone() };
        single.retention = 0.78;
        single.points[4].victim_loss = 0.02;
        results.architectures.insert(0, single);
        results
    }

    #[test]
    fn promises_begin_with_their_poorest_case() {
        let mut results = with_one_queue();
        results.architectures[4].retention = 0.95;
        assert_eq!(
            headline(&results),
            "A flooded service keeps 78.0 % of its peak under soft-lrp with one receive queue, 95.0 % \
             with 4, and 0.05 % under eager"
        );
        let said = lead(&results);
        assert!(
            said.ends_with(
                "loses, under soft-lrp, up to 2.0 % of its requests with one receive queue and nothing with \
                 4 receive queues."
            ),
            "{said}"
        );
    }

    #[test]
    fn without_the_default_architecture_the_headline_tells_best_and_worst() {
        let mut results = fixture::demonstration();
        results.architectures.retain(|a| a.name != "soft-lrp");
        results.architectures[1].retention = 0.123;
        results.architectures[0].retention = 0.9;
        let headline = headline(&results);
        assert!(headline.contains("under ni-lrp") && headline.ends_with("12.3 % under polled"), "{headline}");
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
        let mut results = with_one_queue();
        assert_eq!(doubts(&results), "");
        results.architectures[2].points[0].core_share = 0.5;
        assert_eq!(headline(&results), "This machine was too busy to tell what a flood does");
        let said = doubts(&results);
        assert!(
            said.starts_with("Cannot tell for polled: at one load the host had only 50.0 % of"),
            "{said}"
        );
        results.architectures[0].points[0].core_share = 0.4;
        let said = doubts(&results);
        assert!(
            said.starts_with(
                "Cannot tell for soft-lrp with 1 queue, polled: at one load the host had only 40.0 %"
            ),
            "{said}"
        );
        let said = lead(&results);
        assert!(!said.contains("loses") && !said.contains("times as many"), "{said}");
    }

    /// A doubt about the kernel's curve is told, and takes nothing from what is known of ours.
    #[test]
    fn a_doubt_about_the_kernel_is_told() {
        let mut results = fixture::demonstration();
        let before = headline(&results);
        results.kernel.as_mut().unwrap().points[0].core_share = 0.5;
        assert_eq!(headline(&results), before);
        assert!(doubts(&results).starts_with("Cannot tell for Linux: "), "{}", doubts(&results));
    }

    #[test]
    fn every_run_is_explained() {
        let html = explanation(&with_one_queue());
        assert!(!html.contains("<dd></dd>"), "{html}");
        assert!(html.contains("<dt>soft-lrp, 1 queue</dt><dd>The architecture"), "{html}");
    }

    #[test]
    fn architectures_are_counted_once() {
        let results = fixture::demonstration();
        assert!(lead(&results).contains("are the same on five receive architectures."), "{}", lead(&results));
        let mut results = with_one_queue();
        let said = lead(&results);
        assert!(
            said.contains("five receive architectures, soft-lrp also with a single receive queue."),
            "{said}"
        );
        results.architectures.drain(..5);
        assert!(lead(&results).contains("are the same on one receive architecture."), "{}", lead(&results));
    }
}
