//! The text of the metrics, in Prometheus' exposition format.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::prometheus_text;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::families::{Family, PREFIX, all};
use super::figures::Figures;
use super::samples::{Labels, Samples, Value};

/// The type of the text in HTTP.
pub const CONTENT_TYPE: &str = prometheus_text::CONTENT_TYPE;

/// Returns the text of the metrics of `figures`, as a program of this version of evenkeel has read them.
#[must_use]
pub fn text(figures: &Figures) -> String {
    of_samples(Samples::of(figures, env!("CARGO_PKG_VERSION")))
}

fn of_samples(samples: Samples) -> String {
    let (mut registry, mut text) = (Registry::with_prefix(PREFIX), String::new());
    registry.register_collector(Box::new(samples));
    // Writing to a string does not fail.
    let _ = prometheus_text::encode(&mut text, &registry);
    text
}

impl Collector for Samples {
    /// Encodes all families that have values, each with its values in the order of their labels.
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for family in all() {
            let mut values = self.of_family(family).peekable();
            if values.peek().is_some() {
                encode(family, values, &mut encoder)?;
            }
        }
        Ok(())
    }
}

fn encode<'a>(
    family: &Family,
    values: impl Iterator<Item = (&'a Labels, Value)>,
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let kind = family.metric_type();
    let mut encoder = encoder.encode_descriptor(family.stem, family.help, None, kind)?;
    for (labels, value) in values {
        let one = encoder.encode_family(labels)?;
        match (kind, value) {
            (MetricType::Counter, Value::Count(count)) => ConstCounter::new(count).encode(one)?,
            (MetricType::Counter, Value::Seconds(seconds)) => ConstCounter::new(seconds).encode(one)?,
            (_, Value::Count(count)) => ConstGauge::new(count).encode(one)?,
            (_, Value::Seconds(seconds)) => ConstGauge::new(seconds).encode(one)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use evenkeel::metrics::{
        Device, Dropped, Guarded, Interface, KernelDrops, Limited, LimitedAccount, Listener, PortAccount,
        Process, Protocol, Published, Snapshot, Socket, ThreadShare, Unreadable,
    };
    use evenkeel::raw::time::Duration;

    use super::*;

    fn socket(number: u32, discarded: u64) -> Socket {
        let (kind, process, address, port) = ("udp".into(), Some(3), None, 7);
        let (waiting, limit, arrived, received, sent, dropped) = (5, 64, 2 * discarded, 3, 2, 1);
        Socket {
            number,
            kind,
            process,
            address,
            port,
            waiting,
            limit,
            arrived,
            discarded,
            received,
            sent,
            dropped,
        }
    }

    fn host() -> Snapshot {
        let mut host = Snapshot::default();
        host.elapsed = Duration::from_millis(2_500);
        (host.frames.received, host.frames.delivered) = (u64::MAX, 11);
        let drop = |reason: &'static str, place: &'static str, frames| Dropped {
            reason: reason.into(),
            place: place.into(),
            frames,
        };
        host.drops = vec![drop("ring-full", "interface ring", 4), drop("ring-full", "interface ring", 5)];
        host.cpu.idle = Duration::from_nanos(1);
        let (used, charged) = (Duration::from_millis(1), Duration::from_secs(2));
        host.processes = vec![Process { number: 3, name: "a \"b\" \\ c\nd".to_owned(), used, charged }];
        host.sockets = vec![socket(1, 10)];
        host.tcp.counters = vec![("InSegs".into(), 6), ("CurrEstab".into(), 7)];
        host.tcp.listeners =
            vec![Listener { port: 80, address: None, half_open: 1, to_accept: 2, backlog: 128 }];
        let kernel = Some(KernelDrops { rx_dropped: 8, ..KernelDrops::default() });
        let device = Device { sent: 1, kernel, kept_from_kernel: Some(0), ..Device::default() };
        let name = "eth0".to_owned();
        host.interfaces = vec![Interface { name, device: Some(device), ..Interface::default() }];
        host
    }

    fn port(port: u16, dropped: u64) -> PortAccount {
        PortAccount { protocol: Protocol::Udp, port, passed: 1, dropped, answered: 0 }
    }

    fn guard() -> Guarded {
        Guarded {
            seconds: 1.5,
            interfaces: vec!["g0".to_owned(), "g1".to_owned()],
            mute: vec!["g1".to_owned()],
            dry_run: true,
            ports: vec![port(53, 9)],
            threads: Some(ThreadShare { percent: 10, lowered_seconds: 0.5 }),
            limited: vec![LimitedAccount { kind: Limited::TcpClosed, passed: 2, dropped: 3 }],
            ..Guarded::default()
        }
    }

    fn published(pid: u32, hosts: Vec<Snapshot>, guards: Vec<Guarded>) -> Published {
        Published { pid, program: "evenkeel echo".to_owned(), hosts, guards }
    }

    fn figures() -> Figures {
        let processes =
            vec![published(7, vec![host(), host()], Vec::new()), published(8, vec![], vec![guard()])];
        Figures { processes, unreadable: vec![(9, Unreadable::NoProcess)] }
    }

    #[test]
    fn values_have_their_labels_and_text_is_escaped() {
        let text = text(&figures());
        for line in [
            "# TYPE evenkeel_frames_received_total counter",
            "# HELP evenkeel_frames_received_total Frames taken from the interfaces.",
            "evenkeel_frames_received_total{pid=\"7\",program=\"evenkeel echo\",host=\"0\"} \
             18446744073709551615",
            "evenkeel_frames_received_total{pid=\"7\",program=\"evenkeel echo\",host=\"1\"} \
             18446744073709551615",
            "evenkeel_processes 2",
            "evenkeel_unreadable_processes 1",
            "evenkeel_host_age_seconds{pid=\"7\",program=\"evenkeel echo\",host=\"0\"} 2.5",
            "evenkeel_process_charged_seconds_total{pid=\"7\",program=\"evenkeel echo\",host=\"0\",\
             number=\"3\",name=\"a \\\"b\\\" \\\\ c\\nd\"} 2.0",
            "evenkeel_tcp_listener_backlog_connections{pid=\"7\",program=\"evenkeel echo\",host=\"0\",\
             address=\"\",port=\"80\"} 128",
            "evenkeel_device_kernel_drops_total{pid=\"7\",program=\"evenkeel echo\",host=\"0\",\
             interface=\"eth0\",counter=\"rx_dropped\"} 8",
            "evenkeel_guard_dry_run{pid=\"8\",program=\"evenkeel echo\",guard=\"0\"} 1",
            "evenkeel_guard_mute{pid=\"8\",program=\"evenkeel echo\",guard=\"0\",interface=\"g1\"} 1",
            "evenkeel_guard_packets_total{pid=\"8\",program=\"evenkeel echo\",guard=\"0\",\
             protocol=\"udp\",port=\"53\",verdict=\"dropped\"} 9",
        ] {
            assert!(text.lines().any(|there| there == line), "{line} is not in\n{text}");
        }
        assert!(text.ends_with('\n') && !text.contains("CurrEstab"), "{text}");
    }

    /// Prometheus refuses a text in which a set of labels comes twice, or a family in two parts.
    #[test]
    fn each_set_of_labels_has_one_value_and_each_family_one_part() {
        let text = text(&figures());
        let sum = "reason=\"ring-full\",place=\"interface ring\"} 9";
        assert_eq!(text.lines().filter(|line| line.ends_with(sum)).count(), 2, "{text}");
        let names = text.lines().filter_map(|line| line.strip_prefix("# HELP "));
        let names: Vec<&str> = names.filter_map(|line| line.split(' ').next()).collect();
        let order: Vec<String> = all().iter().map(|family| family.name()).collect();
        assert_eq!(names, order, "every family has a value, in the order of the list");
        let mut seen = BTreeSet::new();
        let mut family = "";
        for line in text.lines() {
            if let Some(begin) = line.strip_prefix("# TYPE ") {
                family = begin.split(' ').next().unwrap();
            }
            let series = line.rsplit_once(' ').unwrap().0;
            assert!(line.starts_with('#') || series.split('{').next() == Some(family), "{line}");
            assert!(line.starts_with('#') || seen.insert(series), "{line}");
        }
    }

    /// Sockets and ports may be many thousands.
    #[test]
    fn the_number_of_series_is_bounded_and_those_with_losses_stay() {
        let mut many = host();
        many.sockets = (0..2_000).map(|number| socket(number, u64::from(number))).collect();
        many.tcp.listeners = (0..2_000)
            .map(|port| Listener { port, address: None, half_open: 0, to_accept: 0, backlog: 1 })
            .collect();
        let guard =
            Guarded { ports: (0..2_000).map(|number| port(number, number.into())).collect(), ..guard() };
        let text =
            text(&Figures { processes: vec![published(7, vec![many], vec![guard])], unreadable: vec![] });
        let count = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
        assert_eq!(count("evenkeel_socket_queue_frames{"), 256);
        assert_eq!(count("evenkeel_tcp_listener_backlog_connections{"), 256);
        assert_eq!(count("evenkeel_guard_packets_total{"), 3 * 256);
        for part in ["host=\"0\",socket=\"1999\"", "port=\"1999\",verdict=\"dropped\"} 1999"] {
            assert!(text.contains(part), "{part}");
        }
        for end in
            ["omitted_sockets{pid=\"7\",program=\"evenkeel echo\",host=\"0\"} 1744", "guard=\"0\"} 1744"]
        {
            assert!(text.contains(end), "{end}");
        }
    }

    #[test]
    fn without_processes_there_are_the_values_of_the_exporter() {
        let text = text(&Figures::default());
        let values: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let build = concat!("evenkeel_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1");
        assert_eq!(values, [build, "evenkeel_processes 0", "evenkeel_unreadable_processes 0"]);
    }
}
