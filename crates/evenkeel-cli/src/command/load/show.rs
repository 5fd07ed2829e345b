//! Text about a load and its results.

use evenkeel_apps::load::{
    ColdCounts, Doubt, Effort, Failure, Glance, Interval, Percentiles, Report, Statuses,
};
use evenkeel_apps::quantity::{count, micros, per_s, percent, three_digits, time_of_day};

use crate::terminal;

/// Columns of the progress bar.
const BAR: usize = 20;

/// Returns the progress line of a load.
pub(super) fn glance(glance: &Glance) -> String {
    if glance.finding {
        return "connecting".to_owned();
    }
    if glance.gathering {
        return format!("opening cold connections: {} so far", count(glance.cold as u64));
    }
    let (seconds, length) = (glance.measured.as_secs_f64(), glance.length.as_secs_f64());
    let counts = &glance.counts;
    let rate = |count: u64| per_s(if seconds > 0.0 { count as f64 / seconds } else { 0.0 });
    let mut line = format!(
        "{} {seconds:>4.0} of {length:.0} s  offered {}, answered {}, {} failed; {} under way",
        terminal::bar(seconds / length, BAR),
        rate(counts.offered),
        rate(counts.statuses.all()),
        count(counts.failed.all()),
        count(glance.in_flight as u64)
    );
    if glance.waiting > 0 {
        line.push_str(&format!(", {} waiting", count(glance.waiting as u64)));
    }
    line
}

/// Returns the whole result as text. With `rows` it includes a row for each part of the run. For a day the
/// rows are its hours, and the day passed `compress` times as fast.
/// `can_split` says whether the generator could use more threads.
pub(super) fn report(
    headline: &str,
    report: &Report,
    rows: bool,
    compress: Option<f64>,
    can_split: bool,
) -> String {
    let mut text = format!("{headline}\n\n{}", requests(report));
    text.push_str(&times(report));
    text.push_str(&connections(report));
    if rows {
        text.push_str(&intervals(&report.intervals, compress));
    }
    for doubt in report.doubts() {
        text.push_str(&format!("\ncareful: {}\n", doubted(doubt, report, can_split)));
    }
    text
}

fn requests(report: &Report) -> String {
    let counts = &report.counts;
    let seconds = three_digits(report.seconds);
    let early = if report.stopped { ", ended early" } else { "" };
    let mut text = format!("  due       {:>11}", count(counts.due));
    if let Some(target) = report.target_rps {
        text.push_str(&format!("  in {seconds} s{early}; {} wanted", per_s(target)));
    } else {
        text.push_str(&format!("  in {seconds} s{early}"));
    }
    text.push_str(&format!("\n  offered   {:>11}  {}\n", count(counts.offered), per_s(report.offered_rps)));
    let answered = counts.statuses.all();
    text.push_str(&format!("  answered  {:>11}  {}", count(answered), per_s(report.answered_rps)));
    text.push_str(&format!("{}\n", classes(&counts.statuses)));
    let failed = counts.failed.all();
    text.push_str(&format!("  failed    {:>11}", count(failed)));
    let why = Failure::ALL.into_iter().filter(|failure| counts.failed.of(*failure) > 0);
    let why: Vec<String> =
        why.map(|failure| format!("{} {}", count(counts.failed.of(failure)), failure.words())).collect();
    let gap = if failed > 0 { "  " } else { "" };
    text + gap + &why.join(", ") + "\n"
}

/// Returns the numbers of answers by class, unless all are good.
fn classes(statuses: &Statuses) -> String {
    let Statuses { successful, redirection, client_error, server_error } = *statuses;
    let classes = [(successful, "2xx"), (redirection, "3xx"), (client_error, "4xx"), (server_error, "5xx")];
    let present: Vec<String> = classes
        .into_iter()
        .filter(|(answers, _)| *answers > 0)
        .map(|(answers, class)| format!("{} {class}", count(answers)))
        .collect();
    if present.is_empty() { String::new() } else { format!(": {}", present.join(", ")) }
}

/// The percentiles that the text shows.
const SHOWN: [&str; 7] = ["50 %", "75 %", "90 %", "99 %", "99.9 %", "99.99 %", "longest"];

fn times(report: &Report) -> String {
    let mut text = format!("\n  {:<18}", "");
    for column in SHOWN {
        text.push_str(&format!("{column:>10}"));
    }
    text.push('\n');
    for (name, times) in [
        ("due to answered", &report.response_us),
        ("sent to answered", &report.service_us),
        ("to connect", &report.connect_us),
        ("begun late by", &report.late_us),
    ] {
        if times.count > 0 {
            text.push_str(&row(name, times));
        }
    }
    text
}

fn row(name: &str, times: &Percentiles) -> String {
    let Percentiles { p50, p75, p90, p99, p99_9, p99_99, max, .. } = *times;
    let mut text = format!("  {name:<18}");
    for value in [p50, p75, p90, p99, p99_9, p99_99, max] {
        text.push_str(&format!("{:>10}", micros(value)));
    }
    text + "\n"
}

fn connections(report: &Report) -> String {
    let connections = &report.connections;
    let (opened, most, limit) =
        (count(connections.opened), count(connections.most as u64), count(connections.limit as u64));
    let mut text = format!("\n  connections: {opened} opened, {most} of {limit} at a time");
    for (times, what) in [
        (connections.closed_idle, "closed by the server while idle"),
        (report.waited, "requests had to wait for one"),
        (report.repeated, "requests were sent again, as the server closed theirs"),
    ] {
        if times > 0 {
            text.push_str(&format!(", {} {what}", count(times)));
        }
    }
    text.push('\n');
    if let Some(cold) = &report.cold {
        text.push_str(&cold_line(cold));
    }
    let Effort { cpu_share, run_delay_share } = report.generator;
    let threads = match report.threads {
        1 => String::new(),
        threads => format!("{threads} threads, the busiest with "),
    };
    text.push_str(&format!("  generator: {threads}{} % of a processor", percent(cpu_share)));
    if run_delay_share >= 0.005 {
        text.push_str(&format!(", {} % of the time waiting for one", percent(run_delay_share)));
    }
    text + "\n"
}

fn cold_line(cold: &ColdCounts) -> String {
    let mut text = format!(
        "  cold: of {} connections {} open at the start, {} at the end",
        count(cold.wanted as u64),
        count(cold.at_start as u64),
        count(cold.at_end as u64)
    );
    for (times, what) in [(cold.failed, "attempts failed"), (cold.closed, "closed by the server")] {
        if times > 0 {
            text.push_str(&format!(", {} {what}", count(times)));
        }
    }
    if cold.requests > 0 {
        text.push_str(&format!("; {} requests, {} answered", count(cold.requests), count(cold.answered)));
    }
    text + "\n"
}

fn intervals(intervals: &[Interval], compress: Option<f64>) -> String {
    let mut text = format!(
        "\n  {:>8} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}\n",
        "from", "offered", "answered", "failed", "50 %", "99 %", "longest"
    );
    for interval in intervals {
        let rate = |count: u64| per_s(count as f64 / interval.seconds.max(f64::MIN_POSITIVE));
        let at = compress
            .map_or_else(|| format!("{} s", three_digits(interval.at)), |c| time_of_day(interval.at * c));
        text.push_str(&format!(
            "  {at:>8} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}\n",
            rate(interval.offered),
            rate(interval.answered),
            count(interval.failed),
            micros(interval.p50_us),
            micros(interval.p99_us),
            micros(interval.max_us)
        ));
    }
    text
}

/// Returns the text that explains why the figures may be wrong.
fn doubted(doubt: Doubt, report: &Report, can_split: bool) -> String {
    let Effort { cpu_share, run_delay_share } = report.generator;
    match doubt {
        Doubt::Busy => {
            let advice = match can_split {
                true => format!(": try --threads {}", report.threads + 1),
                false => String::new(),
            };
            format!(
                "the generator used {} % of its processor; it may be what was measured, rather than the \
                 server{advice}",
                percent(cpu_share)
            )
        }
        Doubt::Disturbed => format!(
            "others had the generator's processor in {} % of the time; the times include that",
            percent(run_delay_share)
        ),
        Doubt::Late => format!(
            "the generator could not keep up: a hundredth of the requests were begun {} late or more; the \
             times from due include that",
            micros(report.late_us.p99)
        ),
        Doubt::NotOffered => {
            let unsent = report.counts.due - report.counts.offered.min(report.counts.due);
            format!("{} requests were never sent: see failed, and allow more --connections", count(unsent))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_of_a_compressed_day() {
        assert_eq!((time_of_day(0.0).as_str(), time_of_day(86_399.0).as_str()), ("00:00", "24:00"));
        assert_eq!(time_of_day(9.5 * 3_600.0), "09:30");
    }

    #[test]
    fn a_busy_generator_is_told_to_use_more_threads_if_it_can() {
        use evenkeel_apps::load::Measured;
        let effort = Effort { cpu_share: 0.95, run_delay_share: 0.0 };
        let report = Report { threads: 2, ..Report::new(&Measured::default(), effort) };
        let text = super::report("", &report, false, None, true);
        assert!(text.contains("generator: 2 threads, the busiest with 95"), "{text}");
        assert!(text.contains("rather than the server: try --threads 3\n"), "{text}");
        assert!(!super::report("", &report, false, None, false).contains("--threads"));
    }

    #[test]
    fn only_what_there_is_is_told() {
        let none = Statuses::default();
        assert_eq!(classes(&none), "");
        assert_eq!(classes(&Statuses { successful: 5, server_error: 1, ..none }), ": 5 2xx, 1 5xx");
        assert_eq!((micros(None), micros(Some(1.5))), ("-".to_owned(), "1.5 µs".to_owned()));
        let cold = ColdCounts { wanted: 9, at_start: 8, at_end: 9, failed: 1, ..ColdCounts::default() };
        assert_eq!(
            cold_line(&cold),
            "  cold: of 9 connections 8 open at the start, 9 at the end, 1 attempts failed\n"
        );
    }
}
