//! The rates of a host as lines of text, for the terminal and for `--once`.

use std::cmp::Ordering;

use evenkeel::metrics::{CpuShares, ThreadShare};
use evenkeel_apps::quantity::{self, count, percent};

use super::guard_rates::GuardRates;
use super::model::State;
use super::rates::{Backlog, Bill, DeviceRates, DropRate, HostRates, InterfaceRates, SocketRates};
use crate::table::{self, rows};
use crate::terminal;

/// The columns of a bar.
const BAR: usize = 20;

/// The order of a host's sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Order {
    /// Flooded ones first, then by the rate of lost frames.
    #[default]
    Lost,
    Delivered,
    Waiting,
    Name,
}

/// A line about a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) text: String,
    pub(super) tone: Tone,
}

/// The look of a line in a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Heading,
    Plain,
    /// Something is lost that should not be.
    Alarm,
}

impl Order {
    /// Returns the order after this one, and the first one after the last.
    pub(super) const fn next(self) -> Self {
        match self {
            Self::Lost => Self::Delivered,
            Self::Delivered => Self::Waiting,
            Self::Waiting => Self::Name,
            Self::Name => Self::Lost,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Delivered => "delivered",
            Self::Waiting => "waiting",
            Self::Name => "name",
        }
    }

    fn compare(self, a: &SocketRates, b: &SocketRates) -> Ordering {
        match self {
            // The rates have this order.
            Self::Lost => Ordering::Equal,
            Self::Delivered => b.delivered_pps.total_cmp(&a.delivered_pps),
            Self::Waiting => b.waiting.cmp(&a.waiting),
            Self::Name => (&a.kind, a.address, a.port).cmp(&(&b.kind, b.address, b.port)),
        }
    }
}

/// Returns all lines about a host: frames, drops, sockets, bills, interfaces.
pub(super) fn host(rates: &HostRates, order: Order) -> Vec<Line> {
    let tables = [
        input(rates),
        output(rates),
        drops(&rates.drops),
        sockets(&rates.sockets, order),
        listeners(rates.connections, &rates.listeners),
        bills(&rates.processes),
        rates.cpu.as_ref().map_or_else(Vec::new, core),
        interfaces(&rates.interfaces),
        devices(&rates.interfaces),
    ];
    tables.concat()
}

/// Returns all lines about a guard: what it did with the packets for each port.
pub(super) fn guard(rates: &GuardRates) -> Vec<Line> {
    let row = |name: String, pps: [f64; 3]| {
        let [dropped, answered, passed] = pps.map(rate);
        [name, dropped, answered, passed]
    };
    let ports = rates.ports.iter().map(|port| {
        let pps = [port.dropped_pps, port.answered_pps, port.passed_pps];
        (row(format!("{} {}", port.protocol.name(), port.port), pps), port.is_flooded())
    });
    let limited = rates.limited.iter().map(|limited| {
        let pps = [limited.dropped_pps, 0.0, limited.passed_pps];
        (row(limited.kind.label().to_owned(), pps), limited.dropped_pps > 0.0)
    });
    let all = row("all".to_owned(), [rates.dropped_pps, rates.answered_pps, rates.passed_pps]);
    let (body, alarms): (Vec<_>, Vec<bool>) = ports.chain(limited).chain([(all, false)]).unzip();
    let heading = ["port", "dropped", "answered", "passed"];
    let alarm = |number: usize| alarms.get(number).is_some_and(|is_alarm| *is_alarm);
    let tone = |number| if alarm(number) { Tone::Alarm } else { Tone::Plain };
    let mut lines = lines(&rows(heading, body.into_iter()), tone);
    let plain = |text: String| Line { text, tone: Tone::Plain };
    lines.extend(rates.dry_run.then(|| plain("  only counted: nothing is dropped or answered".to_owned())));
    let mute = rates.mute.iter();
    lines.extend(mute.map(|name| plain(format!("  SYNs at {name} are left to the kernel"))));
    lines.extend(rates.threads.map(|threads| plain(held(&threads, rates.seconds))));
    lines
}

/// Returns the line about the threads that do the interfaces' work.
fn held(threads: &ThreadShare, seconds: f64) -> String {
    let part = share(threads.lowered_seconds / seconds);
    format!("  the interface's threads were held to {} % of a core for {part} of the time", threads.percent)
}

/// Returns a rate in as few columns as possible: three digits and a prefix.
pub(super) fn rate(pps: f64) -> String {
    quantity::si(pps).trim_end().to_owned()
}

/// Returns a share as percent.
pub(super) fn share(share: f64) -> String {
    format!("{} %", percent(share))
}

/// Returns the state of a process in a word or two.
pub(super) fn state(state: &State, subjects: usize) -> String {
    match state {
        State::New => "new".to_owned(),
        State::Answers if subjects == 0 => "no host".to_owned(),
        State::Answers => "runs".to_owned(),
        State::Silent(time) => format!("silent {} s", time.as_secs()),
        State::Unreadable(_) => "unreadable".to_owned(),
    }
}

/// Returns a table as lines: its heading, and rows in the tones that `tone` gives them by their number.
fn lines(rows: &[Vec<String>], tone: impl Fn(usize) -> Tone) -> Vec<Line> {
    let tone = |number: usize| number.checked_sub(1).map_or(Tone::Heading, &tone);
    let lines = table::lines(rows).into_iter().enumerate();
    lines.map(|(number, text)| Line { text: text.trim_end().to_owned(), tone: tone(number) }).collect()
}

/// Returns a table of plain rows; nothing if it has none.
fn plain<const N: usize>(heading: [&str; N], body: impl Iterator<Item = [String; N]>) -> Vec<Line> {
    let rows = rows(heading, body);
    if rows.len() == 1 { Vec::new() } else { lines(&rows, |_| Tone::Plain) }
}

fn input(rates: &HostRates) -> Vec<Line> {
    let frames = &rates.frames;
    let row = [frames.offered_pps, frames.received_pps, frames.delivered_pps, frames.consumed_pps];
    let [offered, received, delivered, consumed] = row.map(rate);
    let [forwarded, dropped] = [frames.forwarded_pps, frames.dropped_pps].map(rate);
    let row =
        ["pps".to_owned(), offered, received, delivered, consumed, forwarded, dropped, count(frames.queued)];
    let heading = ["in", "offered", "received", "delivered", "consumed", "forwarded", "dropped", "queued"];
    plain(heading, std::iter::once(row))
}

fn output(rates: &HostRates) -> Vec<Line> {
    let frames = &rates.frames;
    let [originated, transmitted] = [frames.originated_pps, frames.transmitted_pps].map(rate);
    let row = ["pps".to_owned(), originated, transmitted, count(frames.waiting)];
    plain(["out", "originated", "transmitted", "waiting"], std::iter::once(row))
}

fn drops(drops: &[DropRate]) -> Vec<Line> {
    let row = |drop: &DropRate| {
        [format!("{}: {}", drop.place, drop.reason), rate(drop.dropped_pps), share(drop.share)]
    };
    plain(["dropped", "pps", "share"], drops.iter().map(row))
}

fn sockets(sockets: &[SocketRates], order: Order) -> Vec<Line> {
    let mut sockets: Vec<&SocketRates> = sockets.iter().collect();
    sockets.sort_by(|a, b| b.flooded.cmp(&a.flooded).then_with(|| order.compare(a, b)));
    let row = |socket: &&SocketRates| {
        let mark = if socket.flooded { "! " } else { "" };
        let rates = [socket.arrived_pps, socket.delivered_pps, socket.discarded_pps, socket.dropped_pps];
        let [arrived, delivered, discarded, dropped] = rates.map(rate);
        let name = format!("{mark}{}", socket.name);
        [name, arrived, delivered, discarded, dropped, rate(socket.sent_pps), count(socket.waiting as u64)]
    };
    let heading = ["socket", "arrived", "delivered", "discarded", "dropped", "sent", "waiting"];
    let table = rows(heading, sockets.iter().map(row));
    let is_flooded = |number: usize| sockets.get(number).is_some_and(|socket| socket.flooded);
    let tone = |number| if is_flooded(number) { Tone::Alarm } else { Tone::Plain };
    if sockets.is_empty() { Vec::new() } else { lines(&table, tone) }
}

fn listeners(connections: usize, listeners: &[Backlog]) -> Vec<Line> {
    let row = |listener: &Backlog| {
        let address = listener.address.as_deref().unwrap_or("*");
        let numbers = [listener.half_open, listener.to_accept, listener.backlog];
        let [half_open, to_accept, backlog] = numbers.map(|number| count(number as u64));
        let address = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
        [format!("{address}:{}", listener.port), half_open, to_accept, backlog]
    };
    let mut lines = plain(["listener", "half-open", "to accept", "backlog"], listeners.iter().map(row));
    if connections > 0 {
        let text = format!("  {} TCP connections", count(connections as u64));
        lines.push(Line { text, tone: Tone::Plain });
    }
    lines
}

fn bills(bills: &[Bill]) -> Vec<Line> {
    let row = |bill: &Bill| {
        let bar = terminal::bar(bill.charged, BAR);
        [bill.name.clone(), share(bill.charged), share(bill.used), bar]
    };
    plain(["process", "charged", "used", "pays of the core"], bills.iter().map(row))
}

fn core(cpu: &CpuShares) -> Vec<Line> {
    let levels = [cpu.interrupt, cpu.soft_interrupt, cpu.polling_thread, cpu.process];
    let [interrupt, soft, polling, programs] = levels.map(share);
    let [system, waits, idle] = [cpu.system, cpu.run_delay, cpu.idle].map(share);
    let heading =
        ["core", "interrupt", "soft int.", "polling", "programs", "idle", "waits", "in system calls"];
    let row = [String::new(), interrupt, soft, polling, programs, idle, waits, system];
    plain(heading, std::iter::once(row))
}

fn interfaces(interfaces: &[InterfaceRates]) -> Vec<Line> {
    let row = |it: &InterfaceRates| {
        let input = [it.received_pps, it.missed_pps, it.discarded_pps].map(rate);
        let [received, missed, discarded] = input;
        let [transmitted, full] = [it.transmitted_pps, it.output_full_pps].map(rate);
        let [in_rings, queued] = [it.in_rings, it.queued].map(count);
        [it.name.clone(), received, missed, discarded, in_rings, transmitted, full, queued]
    };
    let heading =
        ["interface", "received", "missed", "discarded", "in rings", "sent", "output full", "queued"];
    plain(heading, interfaces.iter().map(row))
}

/// Returns a line for each interface about what its device and XDP did.
fn devices(interfaces: &[InterfaceRates]) -> Vec<Line> {
    let line = |it: &InterfaceRates| {
        let mut parts = offloaded(it);
        parts.extend(it.device.iter().flat_map(device));
        let is_lossy = it.device.as_ref().is_some_and(|it| it.refused_pps > 0.0 || !it.kernel.is_empty());
        let tone = if is_lossy { Tone::Alarm } else { Tone::Plain };
        let text = format!("  {}: {}", it.name, parts.join("; "));
        (!parts.is_empty()).then_some(Line { text, tone })
    };
    interfaces.iter().filter_map(line).collect()
}

fn offloaded(it: &InterfaceRates) -> Vec<String> {
    let done = [(it.offloaded_pps, "forwarded in XDP"), (it.offload_refused_pps, "refused in XDP")];
    let done = done.into_iter().filter(|(pps, _)| *pps > 0.0);
    done.map(|(pps, what)| format!("{} {what}", quantity::pps(pps))).collect()
}

fn device(device: &DeviceRates) -> Vec<String> {
    let mut parts = Vec::new();
    if device.sent_pps > 0.0 {
        let (sent, per_call) = (quantity::pps(device.sent_pps), device.frames_per_call);
        parts.push(format!("{sent} sent, {per_call:.1} a system call"));
    }
    if device.refused_pps > 0.0 {
        parts.push(format!("{} refused", quantity::pps(device.refused_pps)));
    }
    let loss = device.kernel.iter();
    parts.extend(loss.map(|it| format!("{} lost in the kernel: {}", quantity::pps(it.lost_pps), it.reason)));
    parts
}
