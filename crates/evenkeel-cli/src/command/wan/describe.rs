//! Text about an emulator, its settings and its counters.

use std::time::Duration;

use evenkeel_apps::quantity::{
    bit_rate, count, decimals_at_most, exact_time, percent, short_bit_rate, three_digits,
};
use evenkeel_apps::wan::cable::{Demonstrated, Measured};
use evenkeel_apps::wan::{Direction, Late, Own, Report};
use evenkeel_wan::{Bursts, Limit, Loss, Rate, Ratio, Settings, Size};

use crate::{message, terminal};

/// A live line about a running emulator. On a terminal it is overwritten; elsewhere lines are separate, and
/// only on request.
pub(super) struct Live {
    progress: Option<terminal::Progress>,
    before: Option<Report>,
}

impl Live {
    pub(super) fn new(asked_for: Option<Duration>) -> Self {
        Self { progress: asked_for.is_none().then(terminal::Progress::new), before: None }
    }

    pub(super) fn show(&mut self, report: &Report) {
        let line = line(report, self.before.as_ref());
        match &mut self.progress {
            Some(progress) => progress.show(&line),
            None => message::interim(&line),
        }
        self.before = Some(report.clone());
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

/// Returns the live line of an emulator, with drops and rates since the report `before`.
fn line(now: &Report, before: Option<&Report>) -> String {
    let seconds = (now.seconds - before.map_or(0.0, |before| before.seconds)).max(1e-9);
    let since = |direction: &Direction, of: fn(&Direction) -> u64, n: usize| {
        of(direction) - before.and_then(|before| before.directions.get(n)).map_or(0, of)
    };
    // A terminal may not have room for the whole line, so losses come first.
    let dropped = now
        .directions
        .iter()
        .enumerate()
        .map(|(n, direction)| since(direction, |direction| direction.lost + direction.queue_full, n));
    let mut line = format!("{:>8} s  dropped {}", three_digits(now.seconds), count(dropped.sum::<u64>()));
    line.extend(now.directions.iter().map(|direction| own(&direction.own)));
    for (n, direction) in now.directions.iter().enumerate() {
        let bits = since(direction, |direction| direction.bytes_out, n) as f64 * 8.0 / seconds;
        let (from, to) = (&direction.from, &direction.to);
        line.push_str(&format!(
            "; {from} -> {to} {}, {} under way",
            bit_rate(bits),
            count(direction.under_way as u64)
        ));
    }
    line
}

/// Returns a description of each direction's settings.
pub(super) fn both(directions: &[Settings; 2]) -> [String; 2] {
    directions.each_ref().map(settings)
}

/// Returns a description of the settings of one direction.
pub(super) fn settings(settings: &Settings) -> String {
    let mut parts = Vec::new();
    match &settings.rate {
        Rate::Unlimited => {}
        Rate::Bits(bps) => parts.push(short_bit_rate(*bps as f64)),
        Rate::Trace(trace) => parts.push(format!(
            "a trace of {} s and {} opportunities ({})",
            decimals_at_most(trace.period().as_secs_f64(), 3),
            count(trace.opportunities() as u64),
            short_bit_rate(trace.mean_bps() as f64)
        )),
    }
    if settings.rate != Rate::Unlimited {
        let (of, queue) = (size(settings.size), &settings.queue);
        parts.push(format!(
            "{of}{}",
            match queue {
                Limit::Packets(packets) => format!("a queue of {} packets", count(*packets as u64)),
                Limit::Bytes(bytes) => format!("a queue of {} bytes", count(*bytes)),
                Limit::Time(time) => format!("a queue of {}", exact_time(*time)),
            }
        ));
    }
    let (least, most) = (settings.delay, settings.delay + settings.jitter);
    let overtaking = if settings.jitter_reorders { ", overtaking" } else { "" };
    match settings.jitter.is_zero() {
        true if least.is_zero() => {}
        true => parts.push(format!("{} of delay", exact_time(least))),
        false => parts.push(format!("{} to {} of delay{overtaking}", exact_time(least), exact_time(most))),
    }
    match settings.loss {
        Loss::Independent(Ratio::ZERO) => {}
        Loss::Independent(share) => parts.push(format!("{} lost", share_of(share))),
        Loss::Bursts(Bursts { enter, leave, in_bad, in_good }) => parts.push(format!(
            "turns bad {} and good {}, {} lost when bad, {} when good",
            share_of(enter),
            share_of(leave),
            share_of(in_bad),
            share_of(in_good)
        )),
    }
    for (share, what) in [(settings.duplication, "doubled"), (settings.corruption, "corrupted")] {
        if share.numerator() > 0 {
            parts.push(format!("{} {what}", share_of(share)));
        }
    }
    if settings.reordering.numerator() > 0 {
        let (share, time) = (share_of(settings.reordering), exact_time(settings.reordering_delay));
        parts.push(format!("{share} held back for {time}"));
    }
    if parts.is_empty() { "unchanged and at once".to_owned() } else { parts.join(", ") }
}

/// Returns a description of the size that counts for a frame; empty if that is the frame's own size.
fn size(size: Size) -> String {
    match size {
        Size { least: 0, extra: 0 } => String::new(),
        Size::IP => "of IP packets, ".to_owned(),
        Size::ETHERNET => "as on Ethernet, ".to_owned(),
        Size { extra, .. } => format!("of frames {extra:+} bytes, "),
    }
}

fn share_of(share: Ratio) -> String {
    let value = f64::from(share.numerator()) / f64::from(share.denominator()) * 100.0;
    format!("{} %", decimals_at_most(value, 6))
}

/// Returns the final counters of an emulator as text.
pub(super) fn whole(report: &Report) -> String {
    let mut text = format!("ran {} s, seed {}\n", three_digits(report.seconds), report.seed);
    let width = report
        .directions
        .iter()
        .map(|direction| direction.from.len() + direction.to.len())
        .max()
        .unwrap_or(0)
        + 4;
    for direction in &report.directions {
        text.push_str(&direction_line(direction, width));
    }
    text + &error(report, width)
}

fn direction_line(direction: &Direction, width: usize) -> String {
    let name = format!("{} -> {}", direction.from, direction.to);
    let mut line = format!(
        "  {name:width$}  {} frames in, {} out at {}",
        count(direction.received),
        count(direction.sent),
        bit_rate(direction.out_bps)
    );
    for (frames, what) in [
        (direction.lost, "lost"),
        (direction.queue_full, "dropped by the queue"),
        (direction.duplicated, "doubled"),
        (direction.corrupted, "corrupted"),
        (direction.reordered, "held back"),
        (direction.under_way as u64, "under way"),
    ] {
        if frames > 0 {
            line.push_str(&format!(", {} {what}", count(frames)));
            if what == "lost" {
                line.push_str(&format!(" ({} %)", percent(frames as f64 / direction.received.max(1) as f64)));
            }
        }
    }
    line + "\n"
}

/// Returns the text about the emulator's own error: late frames, frames it lost itself, and CPU use.
fn error(report: &Report, width: usize) -> String {
    let mut text =
        "its own error: frames left late, between being given to the device and having been taken by it\n"
            .to_owned();
    for direction in &report.directions {
        let name = format!("{} -> {}", direction.from, direction.to);
        text.push_str(&format!("  {name:width$}  {}\n", late(direction)));
    }
    if report.directions.iter().all(|direction| own_words(&direction.own).is_empty()) {
        text.push_str("  no frame left early, and none was lost that was not to be\n");
    }
    for (direction, own) in report
        .directions
        .iter()
        .map(|direction| (direction, own_words(&direction.own)))
        .filter(|(_, own)| !own.is_empty())
    {
        text.push_str(&format!("  lost by itself, {} -> {}: {own}\n", direction.from, direction.to));
    }
    let priority = match (report.real_time, report.preferred) {
        (true, _) => "preferred to all ordinary programs (--realtime)",
        (false, true) => "with nice -20 (--realtime goes further)",
        (false, false) => "at ordinary priority: not root",
    };
    text + &format!(
        "  used {} % of a core, waited for one {} % of the time, {priority}; clock {}\n",
        percent(report.cpu),
        percent(report.run_delay),
        report.clock
    )
}

/// Returns the text about lateness. A frame left between the time when the device was given it and the time
/// when the device had taken it.
fn late(direction: &Direction) -> String {
    let (given, late) = (&direction.given, &direction.late);
    if late.frames == 0 {
        return "no frame".to_owned();
    }
    let us = |of: fn(&Late) -> Option<f64>| {
        let number = |value: Option<f64>| value.map_or("-".to_owned(), three_digits);
        format!("{} to {} µs", number(of(given)), number(of(late)))
    };
    format!(
        "p50 {}, p99 {}, max {}; {} of {} by more than 100 µs",
        us(|late| late.p50_us),
        us(|late| late.p99_us),
        us(|late| late.max_us),
        count(late.over_100us.unwrap_or(0)),
        count(late.frames)
    )
}

/// Returns the part of the live line about frames that the emulator itself lost; empty if there are none.
fn own(own: &Own) -> String {
    match own.lost() {
        0 => String::new(),
        lost => format!(", {} lost by itself", count(lost)),
    }
}

fn own_words(own: &Own) -> String {
    let parts = [
        (own.ring, "in the receive ring, not taken in time"),
        (own.oversized, "larger than any buffer, as they came"),
        (own.unsent, "not taken by the device"),
        (own.too_long, "too long for the MTU of the device"),
        (own.refused, "refused by the device"),
        (own.gone, "while the device was gone"),
        (own.uncopied, "not doubled, for want of memory"),
    ];
    let parts = parts.into_iter().filter(|(frames, _)| *frames > 0);
    let because = |what: &str| match own.refused_because {
        Some(why) if what.starts_with("refused") => format!(" ({why})"),
        _ => String::new(),
    };
    let parts = parts.map(|(frames, what)| format!("{} {what}{}", count(frames), because(what)));
    parts.collect::<Vec<_>>().join(", ")
}

/// Returns the results of the demonstration as text, with the settings of each direction.
pub(super) fn demonstrated(done: &Demonstrated, directions: &[Settings; 2]) -> String {
    let mut text = String::new();
    for (((direction, measured), settings), asked) in
        done.report.directions.iter().zip(&done.measured).zip(directions).zip(both(directions))
    {
        text.push_str(&format!("{} -> {}: {asked}\n", direction.from, direction.to));
        text.push_str(&seen(measured, settings));
    }
    text + &whole(&done.report)
}

/// Returns the line about one direction as measured at the ends of the cables.
fn seen(measured: &Measured, settings: &Settings) -> String {
    let rate = match &settings.rate {
        Rate::Bits(bps) => Some(*bps as f64),
        Rate::Trace(trace) => Some(trace.mean_bps() as f64),
        Rate::Unlimited => None,
    };
    let of = rate
        .zip(measured.received_bps)
        .map(|(rate, bps)| format!(" ({} % of the rate)", percent(bps / rate)));
    let ms = |us: Option<f64>| us.map_or("-".to_owned(), |us| format!("{:.3} ms", us / 1e3));
    format!(
        "  at the ends: {} sent, {} came out at {}{}; {} at least, p50 {}, p99 {}\n",
        count(measured.sent),
        count(measured.received),
        measured.received_bps.map_or("-".to_owned(), bit_rate),
        of.unwrap_or_default(),
        ms(measured.least_us),
        ms(measured.p50_us),
        ms(measured.p99_us)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_was_not_made_is_no_frame_lost() {
        let uncopied = Own { uncopied: 3, ..Own::default() };
        assert_eq!(
            (own(&uncopied).as_str(), own(&Own { gone: 2, ..uncopied }).as_str()),
            ("", ", 2 lost by itself")
        );
    }

    #[test]
    fn only_real_time_is_preferred_to_other_programs() {
        let said = |real_time, preferred| {
            let report = Report {
                seconds: 1.0,
                seed: 1,
                directions: Vec::new(),
                cpu: 0.0,
                run_delay: 0.0,
                preferred,
                real_time,
                clock: "tsc",
                conserved: true,
            };
            whole(&report)
        };
        for preferred in [false, true] {
            assert!(said(true, preferred).contains("preferred to all ordinary programs (--realtime)"));
        }
        for (preferred, priority) in [(false, "at ordinary priority"), (true, "with nice -20")] {
            let said = said(false, preferred);
            assert!(said.contains(priority) && !said.contains("preferred"), "{said}");
        }
    }

    #[test]
    fn rates_are_said_without_zeros() {
        let of = |bps| settings(&Settings { rate: Rate::Bits(bps), ..Settings::PERFECT });
        assert_eq!(of(50_000_000), "50 Mbit/s, a queue of 1\u{202f}000 packets");
        assert!(of(500).starts_with("500 bit/s, "));
    }
}
