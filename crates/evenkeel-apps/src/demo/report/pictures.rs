//! The pictures of the report.

use evenkeel::raw::drops::{QueueDrop, Reason};
use evenkeel::raw::receive;

use super::words;
use crate::chart::{Axis, Bar, BarChart, Curve, LineChart, Scale, Segment, styles};
use crate::demo::guard::Judgement;
use crate::demo::results::{Architecture, Demonstration, GUARDED, KERNEL, Point};
use crate::quantity::{percent, pps, short, three_digits, three_digits_at_most};

/// A picture of the page, with its title.
pub(super) struct Picture {
    pub(super) title: &'static str,
    /// The picture as markup.
    pub(super) markup: String,
}

const WIDE: (f64, f64) = (1060.0, 440.0);
/// The size for a phone, whose screen is hardly wider.
const NARROW: (f64, f64) = (360.0, 320.0);
/// The size of a picture in a document.
const DOCUMENT: (f64, f64) = (772.0, 400.0);
/// The number of the kernel's style, after those of the five architectures.
const KERNEL_STYLE: usize = 5;
/// The number of the style of the architecture that is also measured with a single queue.
const SINGLE_QUEUE_STYLE: usize = 6;

/// Draws delivered against offered load: the picture of receive livelock. It is there twice, for wide and
/// for narrow screens.
pub(super) fn delivered(results: &Demonstration) -> Picture {
    let title = "Requests delivered, against requests offered";
    let of_size = |class: &str, size| {
        format!("<div class=\"{class}\">\n{}</div>\n", delivered_chart(results, title, size).render())
    };
    Picture { title, markup: of_size("wide", WIDE) + &of_size("narrow", NARROW) }
}

/// Returns the picture of receive livelock as a file of its own, for documents. The measurement's conditions
/// are its small print.
#[must_use]
pub fn document(results: &Demonstration) -> String {
    let title = if results.is_of_kernel() {
        "What a flooded UDP server on Linux still delivers, without and with evenkeel guard"
    } else {
        "What a flooded UDP service still delivers, by receive architecture"
    };
    let command = results.setup.command.as_deref().unwrap_or("evenkeel demo");
    delivered_chart(results, title, DOCUMENT).file(&words::small_print(results), command)
}

fn delivered_chart(results: &Demonstration, title: &str, size: (f64, f64)) -> LineChart {
    let mut curves = curves(results, size, |p| Some(p.delivered_pps));
    for (name, socket) in results.on_veth() {
        let points = socket.points.iter().map(|p| (p.offered_pps, Some(p.delivered_pps))).collect();
        let shown = if size == NARROW { brief(words::title(name)) } else { words::title(name) };
        // Without the architectures there is a colour for it.
        let (paint, dashed) = match (results.is_of_kernel(), name) {
            (true, GUARDED) => (style("soft-lrp"), false),
            _ => (style(name), name != KERNEL),
        };
        curves.push(Curve { name: shown.into(), style: paint, dashed, points });
    }
    let kept = |name: &str, judgement: Judgement, retention| match judgement.doubt() {
        None => format!("{name} keeps {} % of its peak", percent(retention)),
        Some(_) => format!("{name} cannot be told"),
    };
    let ours = results.architectures.iter().map(|a| kept(&a.name, a.judgement(), a.retention));
    let on_veth = results.on_veth().map(|(name, it)| kept(words::title(name), it.judgement(), it.retention));
    let all: Vec<_> = ours.chain(on_veth).collect();
    LineChart {
        title: title.into(),
        description: format!("At the highest load {}.", all.join(", ")),
        size,
        x: offered("requests offered, pps"),
        y: Axis {
            label: "requests delivered, pps".into(),
            scale: Scale::Linear,
            include: Some((0.0, 0.0)),
            max: None,
            format: short,
        },
        curves,
        diagonal: Some("no loss".into()),
    }
}

/// Draws the share of requests that the unflooded socket lost.
pub(super) fn victim_loss(results: &Demonstration) -> Picture {
    let lost = |a: &Architecture| format!("{} loses {} %", a.name, percent(a.victim_loss));
    let description = format!("At the highest load {}.", list(results, lost));
    small(results, "Loss of a socket that is not flooded", description, shares("requests lost, %"), |p| {
        Some(p.victim_loss)
    })
}

/// Draws the latency of the unflooded socket.
pub(super) fn victim_latency(results: &Demonstration) -> Picture {
    let within = |a: &Architecture| match a.victim_p99_us {
        Some(micros) => format!("{} {} µs", a.name, three_digits(micros)),
        None => format!("{} none arrived", a.name),
    };
    let description = format!("99th percentile at the highest load: {}.", list(results, within));
    let axis =
        Axis { label: "99 % within, µs".into(), scale: Scale::Log, include: None, max: None, format: short };
    small(results, "Latency of a socket that is not flooded", description, axis, |p| p.victim_p99_us)
}

/// Draws the CPU share of the compute-bound neighbour.
pub(super) fn neighbour(results: &Demonstration) -> Picture {
    let got = |a: &Architecture| format!("{} leaves it {} %", a.name, percent(a.neighbour_cpu));
    let description = format!("At the highest load {}.", list(results, got));
    small(results, "What a computing neighbour gets", description, shares("share of the core, %"), |p| {
        Some(p.neighbour_cpu)
    })
}

/// The parts of a core's time in the order of [`times`], each with the number of its fill.
const TIMES: [(&str, usize); 8] = [
    ("interrupt", 0),
    ("soft interrupt", 1),
    ("polling thread", 2),
    ("receiving programs", 3),
    ("neighbour", 4),
    ("idle", 5),
    ("halting", 6),
    ("run delay", 7),
];

/// Returns the shares of a core's time by use. They add up to 1.
fn times(a: &Architecture) -> [f64; TIMES.len()] {
    let [interrupt, soft_interrupt, polling_thread, process, idle, halting, run_delay] = a.cpu.parts();
    let (programs, neighbour) = (process - a.neighbour_cpu, a.neighbour_cpu);
    [interrupt, soft_interrupt, polling_thread, programs, neighbour, idle, halting, run_delay]
}

/// Draws the shares of the core's time by use at the highest load.
pub(super) fn cpu(results: &Demonstration) -> Picture {
    let title = "The core's time at the highest load";
    let bars = results.architectures.iter().map(|a| {
        let segments = times(a).into_iter().enumerate().map(|(part, size)| Segment { part, size });
        Bar { name: a.name.clone(), segments: segments.collect() }
    });
    let shares = |a: &Architecture| {
        let overhead = a.cpu.interrupt + a.cpu.soft_interrupt + a.cpu.polling_thread;
        format!("{} spends {} % below its programs", a.name, percent(overhead))
    };
    let chart = BarChart {
        description: format!("At the highest load {}.", list(results, shares)),
        legend: TIMES.map(|(name, fill)| (name.to_owned(), fill)).to_vec(),
        bars: bars.collect(),
    };
    Picture { title, markup: chart.render() }
}

/// Draws the frames at the highest load by their fate: delivered, or dropped for which reason.
pub(super) fn fate(results: &Demonstration) -> Picture {
    /// The fills for the reasons of drops, the cheapest reason first.
    const FILLS: [usize; 7] = [5, 4, 1, 0, 2, 6, 7];
    let title = "What became of the packets at the highest load";
    let reasons = reasons_met(results);
    let mut legend = vec![("delivered".to_owned(), 3)];
    legend.extend(reasons.iter().zip(FILLS.iter().cycle()).map(|(reason, &fill)| (meaning(reason), fill)));
    let bars = results.architectures.iter().map(|a| {
        let mut segments =
            vec![Segment { part: 0, size: a.delivered_max_pps * results.setup.seconds_per_point }];
        for (place, reason) in reasons.iter().enumerate() {
            #[expect(clippy::cast_precision_loss, reason = "drawn as a length")]
            let frames = a.drops.iter().filter(|d| d.reason == *reason).map(|d| d.frames).sum::<u64>() as f64;
            segments.push(Segment { part: place + 1, size: frames });
        }
        Bar { name: a.name.clone(), segments }
    });
    let delivered = |a: &Architecture| {
        format!("{} delivers {} of {}", a.name, pps(a.delivered_max_pps), pps(a.offered_max_pps))
    };
    let chart = BarChart {
        description: format!("At the highest load {}.", list(results, delivered)),
        legend,
        bars: bars.collect(),
    };
    Picture { title, markup: chart.render() }
}

/// Returns the reasons of all drops, the cheapest first.
fn reasons_met(results: &Demonstration) -> Vec<String> {
    let drops = results.architectures.iter().flat_map(|a| &a.drops);
    let mut reasons: Vec<String> = drops.map(|drop| drop.reason.clone().into_owned()).collect();
    reasons.sort_by_key(|name| (work_wasted(name), name.clone()));
    reasons.dedup();
    reasons
}

/// Returns the rank of a reason by the work already done for the frame: none, classification, an interrupt,
/// protocols, all of it.
fn work_wasted(reason: &str) -> u8 {
    match Reason::all().find(|r| r.name() == reason) {
        Some(Reason::Link(_)) => 0,
        Some(Reason::Queue(QueueDrop::Channel)) => 1,
        Some(Reason::Queue(QueueDrop::IpQueue)) => 2,
        Some(Reason::Ip(_)) => 3,
        Some(Reason::Udp(_) | Reason::Tcp(_)) => 4,
        Some(Reason::Queue(QueueDrop::Screen | QueueDrop::Unscreened | QueueDrop::Capture)) => 4,
        Some(Reason::Queue(QueueDrop::Socket | QueueDrop::Closed | QueueDrop::Output)) => 5,
        _ => 6,
    }
}

/// Returns a reason's name with its meaning.
fn meaning(reason: &str) -> String {
    let known = Reason::all().find(|r| r.name() == reason);
    known.map_or_else(|| reason.to_owned(), |r| format!("{reason}: {}", r.meaning()))
}

fn small(
    results: &Demonstration,
    title: &'static str,
    description: String,
    y: Axis,
    value: fn(&Point) -> Option<f64>,
) -> Picture {
    let percent_axis = y.scale == Scale::Linear;
    let scaled = move |p: &Point| value(p).map(|v| if percent_axis { v * 100.0 } else { v });
    let chart = LineChart {
        title: title.into(),
        description,
        size: NARROW,
        x: offered("requests offered, pps"),
        y,
        curves: curves(results, NARROW, scaled),
        diagonal: None,
    };
    Picture { title, markup: chart.render() }
}

fn curves(results: &Demonstration, size: (f64, f64), value: impl Fn(&Point) -> Option<f64>) -> Vec<Curve> {
    let curve = |a: &Architecture| Curve {
        name: if size == NARROW { brief(&a.name) } else { &a.name }.to_owned(),
        style: style(&a.name),
        dashed: false,
        points: a.points.iter().map(|p| (p.offered_pps, value(p))).collect(),
    };
    results.architectures.iter().map(curve).collect()
}

/// Returns a name for narrow pictures: `1 queue` for `soft-lrp, 1 queue`.
fn brief(name: &str) -> &str {
    name.split_once(", ").map_or(name, |(_, brief)| brief)
}

/// Returns the number of an architecture's colour and marker, which is fixed in all reports. It is the same
/// on a veth pair as on the cable.
pub(super) fn style(name: &str) -> usize {
    let is_single = name.ends_with(", 1 queue");
    let architecture = name.split_once(", ").map_or(name, |(architecture, _)| architecture);
    let is_known = receive::Architecture::ALL.iter().any(|a| a.name() == architecture);
    match is_known {
        _ if is_single => SINGLE_QUEUE_STYLE,
        true => styles(&[architecture.to_owned()])[0],
        false => KERNEL_STYLE,
    }
}

fn offered(label: &str) -> Axis {
    Axis { label: label.into(), scale: Scale::Log, include: None, max: None, format: short }
}

fn shares(label: &str) -> Axis {
    Axis {
        label: label.into(),
        scale: Scale::Linear,
        include: Some((0.0, 100.0)),
        max: None,
        format: three_digits_at_most,
    }
}

fn list(results: &Demonstration, say: impl Fn(&Architecture) -> String) -> String {
    results.architectures.iter().map(say).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::SERIES;
    use crate::demo::fixture;

    #[test]
    fn an_architecture_keeps_its_colour_when_others_are_left_out() {
        assert_eq!(["eager", "ni-lrp", "gone-fishing"].map(style), [0, 4, KERNEL_STYLE]);
        assert_ne!(style("soft-lrp, 1 queue"), KERNEL_STYLE, "Linux is in the same picture");
        assert!(style("soft-lrp, 1 queue") < SERIES);
    }

    #[test]
    fn a_bar_of_a_cores_time_adds_up_though_others_had_the_core() {
        let mut results = fixture::demonstration();
        let architecture = &mut results.architectures[0];
        architecture.cpu = fixture::shares_of_all_kinds();
        architecture.neighbour_cpu = 0.2;
        let times = times(architecture);
        assert!((times.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{times:?}");
        assert!(cpu(&results).markup.contains("eager: run delay, 20.0 %"));
    }

    /// The file has what a document does not say of it: conditions, machine and date, and doubts.
    #[test]
    fn a_picture_for_documents_stands_alone() {
        let mut results = fixture::demonstration();
        let file = document(&results);
        assert!(file.starts_with("<svg xmlns=") && file.contains("fill=\"#ffffff\""));
        for said in ["2026-01-02", "A &lt;made-up&gt; processor", "Linux", "no loss", "1 µs of work"] {
            assert!(file.contains(said), "{said}: {file}");
        }
        assert!(file.contains("<metadata>evenkeel demo --work 1us</metadata>"));
        assert!(!file.contains("Cannot tell"), "{file}");
        results.kernel.as_mut().unwrap().points[0].core_share = 0.5;
        let file = document(&results);
        assert!(file.contains("Cannot tell for Linux"), "{file}");
    }

    #[test]
    fn ticks_are_short() {
        assert_eq!([0.0, 100e3, 2e6, 0.5, 12.0].map(short), ["0", "100 k", "2 M", "0.5", "12"]);
    }

    #[test]
    fn drops_are_ordered_by_the_work_they_wasted() {
        let reasons = reasons_met(&fixture::demonstration());
        assert_eq!(reasons, ["ring-full", "channel-full", "ip-queue-full", "socket-full"]);
    }

    #[test]
    fn an_unknown_reason_is_shown_by_name() {
        assert_eq!(meaning("gone-fishing"), "gone-fishing");
    }
}
