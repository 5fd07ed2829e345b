//! Text about a router and its counters.

use std::time::Duration;

use evenkeel_apps::quantity::{count, pps, three_digits};
use evenkeel_apps::route::report::{CoreReport, LinkReport, Routed, ScreeningReport};

use crate::command::account;
use crate::{message, terminal};

/// A live line about a running router. On a terminal it is overwritten; elsewhere lines are separate, and
/// only on request.
pub(super) struct Live {
    progress: Option<terminal::Progress>,
    before: Option<Routed>,
}

impl Live {
    pub(super) fn new(asked_for: Option<Duration>) -> Self {
        Self { progress: asked_for.is_none().then(terminal::Progress::new), before: None }
    }

    pub(super) fn show(&mut self, routed: &Routed) {
        let line = line(routed, self.before.as_ref());
        match &mut self.progress {
            Some(progress) => progress.show(&line),
            None => message::interim(&line),
        }
        self.before = Some(routed.clone());
    }

    /// Returns whether the line is shown.
    pub(super) fn is_seen(&self) -> bool {
        self.progress.as_ref().is_none_or(terminal::Progress::is_active)
    }

    pub(super) fn clear(&mut self) {
        if let Some(progress) = &mut self.progress {
            progress.clear();
        }
    }
}

/// Returns the live line of a router, with rates since the report `before`.
fn line(now: &Routed, before: Option<&Routed>) -> String {
    let seconds = now.seconds - before.map_or(0.0, |b| b.seconds);
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = |of: fn(&Routed) -> u64| {
        let more = of(now).saturating_sub(before.map_or(0, of));
        pps(more as f64 / seconds.max(1e-9))
    };
    let mut line = format!(
        "{:>8} s  forwarded {}, dropped {}, {}, {} waiting",
        three_digits(now.seconds),
        rate(|r| r.forwarded + r.offloaded),
        rate(|r| r.counters.dropped()),
        account::idle_alone(&now.counters.cpu),
        count(now.links.iter().map(|link| link.queued).sum::<u64>() + now.counters.queued),
    );
    for link in &now.links {
        let of = |routed: Option<&Routed>| {
            routed.and_then(|r| r.links.iter().find(|l| l.name == link.name)).map_or(0, |l| l.received)
        };
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let received = (link.received - of(before)) as f64 / seconds.max(1e-9);
        line.push_str(&format!("; {} {} in", link.name, pps(received)));
    }
    if let Some(kernel) = &now.kernel {
        line.push_str(&format!("; {} kernel routes", kernel.routes));
    }
    if let Some(screening) = &now.screening {
        line.push_str(&format!(
            "; refused {}",
            rate(|r| r.screening.as_ref().map_or(0, |s| s.dropped + s.rejected))
        ));
        failures(screening).into_iter().for_each(|what| line.push_str(&format!("; {what}")));
    }
    line
}

/// Returns the failures of screening and of its log, each as text.
fn failures(screening: &ScreeningReport) -> Vec<String> {
    let mut all = Vec::new();
    if screening.stalled > 0.0 {
        all.push(format!("screening hangs for {} s", three_digits(screening.stalled)));
    }
    if let Some(log) = &screening.log
        && (log.lost > 0 || log.failure.is_some())
    {
        let why = log.last_failure.as_deref().unwrap_or("the disk is too slow");
        let now = if log.failure.is_none() && log.last_failure.is_some() { "; it works again" } else { "" };
        all.push(format!("{} packets not logged ({why}{now})", count(log.lost)));
    }
    all
}

/// Returns the final counters of a router as text.
pub(super) fn whole(routed: &Routed) -> String {
    let mut text = format!(
        "ran {} s, forwarded {} packets{}; {} routes, {} neighbours\n",
        three_digits(routed.seconds),
        count(routed.forwarded),
        in_xdp(routed),
        routed.routes,
        routed.neighbors
    );
    let width = routed.links.iter().map(|link| link.name.len()).max().unwrap_or(0);
    for link in &routed.links {
        text.push_str(&link_line(link, width));
    }
    for CoreReport { core, counters } in &routed.cores {
        let (forwarded, idle) = (count(counters.forwarded), account::idle(&counters.cpu));
        text.push_str(&format!("  core {core}  {forwarded} forwarded, {idle}\n"));
    }
    if let Some(screening) = &routed.screening {
        text.push_str(&screening_lines(screening));
    }
    text.push_str(&account::drops(&routed.counters));
    text.push_str(&account::interfaces(&routed.counters));
    if let Some(kernel) = &routed.kernel {
        text.push_str(&format!(
            "  followed the kernel: {} routes, {} neighbours, {} changes, {} times read again\n",
            kernel.routes, kernel.neighbors, kernel.changes, kernel.resyncs
        ));
    }
    if let Some(captured) = &routed.capture {
        text.push_str(&super::super::capture::line(captured));
    }
    if routed.reloads + routed.reloads_failed > 0 {
        text.push_str(&format!(
            "  read again {} times, refused {} times\n",
            routed.reloads, routed.reloads_failed
        ));
    }
    text
}

/// Returns a text about the packets that were forwarded and refused in XDP, if there were any.
fn in_xdp(routed: &Routed) -> String {
    let mut text = String::new();
    if routed.offloaded > 0 {
        text.push_str(&format!(", and {} in XDP", count(routed.offloaded)));
    }
    if routed.offload_refused > 0 {
        text.push_str(&format!(", refused {} in XDP", count(routed.offload_refused)));
    }
    text
}

fn link_line(link: &LinkReport, width: usize) -> String {
    let mut line = format!(
        "  {:width$}  {} in, {} out",
        link.name,
        count(link.received),
        count(link.transmitted.saturating_sub(link.refused))
    );
    for (frames, what) in [
        (link.missed, "shed by its receive ring"),
        (link.output_full, "dropped by its output queue"),
        (link.refused, "not taken by the device"),
    ] {
        if frames > 0 {
            line.push_str(&format!(", {} {what}", count(frames)));
        }
    }
    if let Some(why) = &link.failed {
        line.push_str(&format!("; {why}"));
    }
    line + "\n"
}

fn screening_lines(screening: &ScreeningReport) -> String {
    let mut text = format!(
        "  screening passed {}, dropped {}, refused {}\n",
        count(screening.passed),
        count(screening.dropped),
        count(screening.rejected)
    );
    // The log identifies rules by these numbers.
    let width = screening.rules.len().to_string().len();
    for (rule, number) in screening.rules.iter().zip(1..) {
        let packets = count(rule.packets);
        text.push_str(&format!("  {packets:>12}  rule {number:<width$}  {}\n", rule.rule));
    }
    text.push_str(&format!("  {:>12}  (no rule: pass)\n", count(screening.unmatched)));
    if screening.malformed > 0 {
        text.push_str(&format!("  {:>12}  (malformed: drop)\n", count(screening.malformed)));
    }
    if let Some(log) = &screening.log {
        text.push_str(&format!("  logged {} packets to {}\n", count(log.written), log.file));
    }
    for what in failures(screening) {
        text.push_str(&format!("  {what}\n"));
    }
    text
}
