//! The results as tables for a terminal of 120 columns or less.

use core::fmt::Write as _;

use super::options::Place;
use super::results::{self, Architecture, Demonstration, Drop, Setup};
use super::verdict;
use crate::quantity::{count, percent, pps, si, three_digits, three_digits_at_most, time};

/// The number of columns with the name of a socket on the veth pair, and its figures.
const SOCKET_COLUMNS: usize = 6;

/// A table of rows under a head. The first column is aligned to the left, all others to the right.
#[derive(Debug)]
struct Table {
    head: Vec<Vec<String>>,
    rows: Vec<Vec<String>>,
}

/// Returns the results in words and figures, ending with a newline.
#[must_use]
pub fn render(results: &Demonstration) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}", conditions(results));
    if let Some(why) = &results.setup.no_xdp {
        let _ = writeln!(text, "Not over AF_XDP: {why}");
    }
    if let Some(shared) = shared_queue(&results.setup) {
        let _ = writeln!(text, "{shared}");
    }
    text.push('\n');
    text.push_str(&loads(results).render());
    if !results.is_of_kernel() {
        let _ = writeln!(text, "\nWhere the core's time went at the highest load, in %:\n");
        text.push_str(&cpu(&results.architectures).render());
        let _ = writeln!(text, "\nWhere frames were dropped at the highest load:\n");
        text.push_str(&drops(&results.architectures).render());
    }
    let _ = writeln!(text, "\nIn words:\n");
    for architecture in &results.architectures {
        let _ = writeln!(text, "  {:<17} {}", architecture.name, verdict::line(architecture));
    }
    for (name, socket) in results.on_veth() {
        let _ = writeln!(text, "  {name:<17} {}", verdict::on_veth(socket));
    }
    for (name, why) in results.missing_on_veth() {
        let _ = writeln!(text, "  {name:<17} not measured: {why}");
    }
    if let Some(kernel) = &results.kernel {
        let _ = writeln!(
            text,
            "\nThe kernel: Linux {}, its UDP socket on a veth pair, protocol input on its core (RPS), at \
             most {}.",
            kernel.release,
            pps(kernel.offered_max_pps)
        );
    }
    if let Some(guarded) = &results.guarded {
        let _ = writeln!(
            text,
            "{}: the same socket behind `evenkeel guard`, at most {}.",
            results::GUARDED,
            pps(guarded.offered_max_pps)
        );
    }
    if let Some(ours) = &results.over_xdp {
        let _ = writeln!(
            text,
            "{}: our UDP socket on the same pair over AF_XDP, at most {}.",
            results::OVER_XDP,
            pps(ours.offered_max_pps)
        );
    }
    if let Some(share) = results.disturbed() {
        let _ = writeln!(
            text,
            "\nThe machine was busy with other things: at one load the host had only {} % of its core. \
             Figures are low and uneven.",
            percent(share)
        );
    }
    text
}

/// Returns one line on what was measured under which conditions.
#[must_use]
pub fn conditions(results: &Demonstration) -> String {
    let setup = &results.setup;
    if results.is_of_kernel() {
        return format!(
            "One UDP service on the kernel's own socket, {} of work for each request; a veth pair, {} cores, \
             {} s at each load.",
            time(setup.work_ns),
            setup.cores,
            three_digits_at_most(setup.seconds_per_point)
        );
    }
    let over = match setup.place() {
        Place::Cable => "",
        Place::Packet => " over a packet socket on a veth pair",
        Place::Xdp => " over AF_XDP on a veth pair",
    };
    format!(
        "One UDP service{over}, {} of work for each request; {} receive queue{}, {} cores, {} s at each \
         load, seed {}.",
        time(setup.work_ns),
        setup.queues,
        if setup.queues == 1 { "" } else { "s" },
        setup.cores,
        three_digits_at_most(setup.seconds_per_point),
        setup.seed
    )
}

/// Returns a line on the receive queues, if there are several and both sockets share one.
fn shared_queue(setup: &Setup) -> Option<String> {
    let shared = setup.queues > 1 && setup.shared_queue;
    shared.then(|| {
        format!(
            "The hash of the cable gives both sockets the same one of the {} receive queues.",
            setup.queues
        )
    })
}

/// Returns the table of the results by architecture.
fn loads(results: &Demonstration) -> Table {
    let head = [
        ["", "loss-free", "", "at the", "highest", "load:", "", "other", "socket", ""],
        [
            "",
            "up to",
            "peak",
            "offered",
            "delivered",
            "of peak",
            "neighbour",
            "loss",
            "99 % within",
            "frames",
        ],
        ["architecture", "pps", "pps", "pps", "pps", "%", "% CPU", "%", "µs", "add up"],
    ];
    let mut rows: Vec<Vec<String>> = results.architectures.iter().map(row).collect();
    for (name, socket) in results.on_veth() {
        let mut row = vec![name.to_owned()];
        row.extend(
            [socket.mlfrr_pps, socket.peak_pps, socket.offered_max_pps, socket.delivered_max_pps].map(si),
        );
        row.push(socket.judgement().share_left(socket.retention));
        row.resize(head[0].len(), "-".to_owned());
        rows.push(row);
    }
    let mut head = head.map(|line| line.map(str::to_owned).to_vec()).to_vec();
    if results.is_of_kernel() {
        head.iter_mut().chain(&mut rows).for_each(|line| line.truncate(SOCKET_COLUMNS));
        head.last_mut().into_iter().for_each(|line| "socket".clone_into(&mut line[0]));
    }
    Table { head, rows }
}

fn row(a: &Architecture) -> Vec<String> {
    let mut row = vec![a.name.clone()];
    row.extend([a.mlfrr_pps, a.peak_pps, a.offered_max_pps, a.delivered_max_pps].map(si));
    row.push(a.judgement().share_left(a.retention));
    row.extend([a.neighbour_cpu, a.victim_loss].map(percent));
    row.push(a.victim_p99_us.map_or_else(|| "-".to_owned(), three_digits));
    row.push(if a.conserved { "yes" } else { "NO" }.to_owned());
    row
}

fn cpu(architectures: &[Architecture]) -> Table {
    let head = [
        "architecture",
        "interrupt",
        "soft interrupt",
        "polling thread",
        "processes",
        "idle",
        "halting",
        "run delay",
    ];
    let rows = architectures
        .iter()
        .map(|a| core::iter::once(a.name.clone()).chain(a.cpu.parts().map(percent)).collect());
    Table { head: vec![head.map(str::to_owned).to_vec()], rows: rows.collect() }
}

fn drops(architectures: &[Architecture]) -> Table {
    let head = ["architecture", "frames", "reason", "place"];
    let rows = architectures.iter().flat_map(|a| {
        let row = |d: &Drop| vec![a.name.clone(), count(d.frames), d.reason.to_string(), d.place.to_string()];
        let mut rows: Vec<_> = a.drops.iter().map(row).collect();
        if rows.is_empty() {
            rows.push(vec![a.name.clone(), "0".into(), "-".into(), "-".into()]);
        }
        rows
    });
    Table { head: vec![head.map(str::to_owned).to_vec()], rows: rows.collect() }
}

impl Table {
    fn render(&self) -> String {
        let lines = || self.head.iter().chain(&self.rows);
        let columns = lines().map(Vec::len).max().unwrap_or(0);
        let width = |column| {
            lines().filter_map(|line| line.get(column)).map(|cell: &String| cell.chars().count()).max()
        };
        let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
        let mut text = String::new();
        for line in &self.head {
            text.push_str(&aligned(line, &widths));
        }
        let rule: usize = widths.iter().sum::<usize>() + 2 * columns.saturating_sub(1);
        let _ = writeln!(text, "  {}", "─".repeat(rule));
        for line in &self.rows {
            text.push_str(&aligned(line, &widths));
        }
        text
    }
}

fn aligned(line: &[String], widths: &[usize]) -> String {
    let cells = line.iter().zip(widths).enumerate().map(|(column, (cell, &width))| match column {
        0 => format!("{cell:<width$}"),
        _ => format!("{cell:>width$}"),
    });
    let cells: Vec<String> = cells.collect();
    format!("  {}\n", cells.join("  ").trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::fixture;

    #[test]
    fn it_fits_a_terminal_and_names_every_architecture() {
        let mut results = fixture::demonstration();
        results.setup.shared_queue = true;
        let text = render(&results);
        for line in text.lines() {
            assert!(line.chars().count() <= 120, "{line}");
        }
        for name in ["eager", "polled", "early-demux", "soft-lrp", "ni-lrp", "kernel"] {
            assert!(text.lines().any(|l| l.trim_start().starts_with(name)), "{name}\n{text}");
        }
        assert!(text.contains("livelocks") && text.contains("keeps its peak"));
    }

    #[test]
    fn a_queue_that_both_sockets_share_is_told() {
        let mut results = fixture::demonstration();
        let told =
            |results: &_| render(results).contains("both sockets the same one of the 4 receive queues");
        assert!(!told(&results));
        results.setup.shared_queue = true;
        assert!(told(&results));
        results.setup.queues = 1;
        assert_eq!(shared_queue(&results.setup), None, "there is no other");
    }

    #[test]
    fn all_of_the_cores_time_is_shown() {
        let mut results = fixture::demonstration();
        results.architectures.truncate(1);
        let cpu = &mut results.architectures[0].cpu;
        *cpu = fixture::shares_of_all_kinds();
        let table = super::cpu(&results.architectures);
        let shown = table.rows[0][1..].iter().map(|share| share.parse::<f64>().unwrap());
        assert!((shown.sum::<f64>() - 100.0).abs() < 1.0, "{:?}", table.rows);
        assert_eq!(table.rows[0].len(), table.head[0].len());
    }

    /// A share of the peak is a statement, so a doubtful curve has none.
    #[test]
    fn of_a_core_that_was_taken_away_no_share_is_stated() {
        let mut results = fixture::demonstration();
        let shares = |results: &_| -> Vec<String> {
            loads(results).rows.into_iter().map(|row| row[5].clone()).collect()
        };
        assert!(!shares(&results).contains(&"?".to_owned()));
        results.architectures[0].points[0].core_share = 0.5;
        results.kernel.as_mut().unwrap().points[0].core_share = 0.5;
        let shares = shares(&results);
        assert!(shares[0] == "?" && shares[5] == "?" && shares[1] != "?", "{shares:?}");
        assert_eq!(render(&results).matches("cannot tell: at one load the host had only 50.0 %").count(), 2);
    }

    #[test]
    fn counters_that_do_not_add_up_are_shouted() {
        let mut results = fixture::demonstration();
        assert!(!render(&results).contains(" NO\n"));
        results.architectures[0].conserved = false;
        assert!(render(&results).contains(" NO\n"));
    }

    #[test]
    fn what_was_not_measured_is_a_dash() {
        let mut results = fixture::demonstration();
        results.architectures.truncate(1);
        (results.kernel, results.architectures[0].victim_p99_us) = (None, None);
        assert!(loads(&results).render().contains("  -  "));
    }
}
