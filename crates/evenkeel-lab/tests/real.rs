//! Tests of the experiments in real time. They are so short that the figures mean nothing, but every curve
//! must exist and the counters must be right.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use evenkeel_lab::real::{self, Options, Place};
use evenkeel_lab::{Figure, Mode, Report, find, list};
use evenkeel_skip::Lack;

fn short(on: Place) -> Options {
    let [warm_up, window] = [5, 10].map(Duration::from_millis);
    Options { on, points: 2, warm_up, window, repeats: 1, ..Options::default() }
}

/// The tests run one after the other, because they use the same two cores.
static MACHINE: Mutex<()> = Mutex::new(());

fn run(id: &str, on: Place) -> io::Result<Report> {
    run_with(id, &short(on))
}

fn run_with(id: &str, options: &Options) -> io::Result<Report> {
    let _alone = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    let experiment = find(id).expect("an experiment of that id");
    real::run(experiment, options, &mut |_| ()).expect("one that runs in real time")
}

/// The name of the check on the counters. On devices of the kernel, only a part of a frame's path is ours.
const ALL_OF_THE_WAY: &str = "every frame is accounted for";
const OUR_PART: &str =
    "the router accounts for every frame, has no more than were sent, and no more come out than it sent";

fn is_whole(report: &Report, variants: &[&str], counters: &str) {
    assert_eq!(report.mode, Mode::Real);
    for variant in variants {
        let points: Vec<_> = report.outcome.points.iter().filter(|p| p.series == *variant).collect();
        assert_eq!(points.len(), 2, "{variant}: {}", report.text());
        for point in points {
            // A busy machine may not let the generator send at all in such a short time.
            assert!(point.more["offered_pps"] >= 0.0 && point.more["forwarded_pps"] >= 0.0, "{point:?}");
            let shares =
                ["interrupt", "soft_interrupt", "polling_thread", "process"].map(|level| point.more[level]);
            assert!(shares.iter().all(|share| (0.0..=1.01).contains(share)), "{point:?}");
        }
    }
    assert_eq!(report.outcome.points.len(), 2 * variants.len());
    for variant in variants {
        let kept = report.outcome.kept[*variant];
        let mut checks = report.outcome.checks.iter().filter(|c| c.name.contains("share of the peak"));
        let its = checks.find(|c| c.name.starts_with(&format!("{variant}: ")));
        // The report shows the values that were judged.
        assert!(
            its.is_none_or(|check| check.measured == Figure::Number(kept)),
            "{variant}: {}",
            report.text()
        );
    }
    let forwarded: f64 = report.outcome.points.iter().map(|p| p.more["forwarded_pps"]).sum();
    assert!(forwarded > 0.0, "{}", report.text());
    let counters = report.outcome.checks.iter().find(|c| c.name == counters);
    assert!(counters.is_some_and(|check| check.ok), "{}", report.text());
}

#[test]
fn every_experiment_measures_all_its_variants_on_the_cable() {
    let variants: [(&str, &[&str]); 4] = [
        ("l97-fig2", &["eager", "eager+screen"]),
        ("l97-fig5", &["eager", "no quota", "polled", "soft-lrp"]),
        ("l97-fig6", &["eager", "no feedback", "polled", "soft-lrp"]),
        ("l97-fig10", &["25 %", "50 %", "75 %", "100 %", "50 %+screen", "soft-lrp"]),
    ];
    for (id, variants) in variants {
        is_whole(&run(id, Place::Cable).unwrap(), variants, ALL_OF_THE_WAY);
    }
    // Experiments that are measured in other ways have their own tests.
    let others = [
        "o96-fig3",
        "o96-fig4",
        "o96-fig5",
        "s98-fig9",
        "t00-tab1",
        "t00-tab10",
        "t00-tab11",
        "t00-tab12",
        "t00-tab7",
    ];
    let mut measured: Vec<&str> = variants.iter().map(|(id, _)| *id).chain(others).collect();
    let mut in_real_time: Vec<&str> = list()
        .into_iter()
        .filter(|listed| listed.modes.contains(&Mode::Real))
        .map(|listed| listed.id)
        .collect();
    measured.sort_unstable();
    in_real_time.sort_unstable();
    assert_eq!(in_real_time, measured);
}

#[test]
fn transfers_beside_a_syn_flood_are_measured_for_every_system_and_flood() {
    for place in [Place::Cable, Place::Packet, Place::Xdp] {
        // The window is long enough for a transfer even if the threads share a core.
        let options = Options { window: Duration::from_millis(60), ..short(place) };
        match run_with("o96-fig5", &options) {
            Ok(report) => has_transfers(&report, place),
            Err(error) => skip_or_panic(place, &error),
        }
    }
    let error = run("o96-fig5", Place::Tap).unwrap_err().to_string();
    assert!(error.contains("cable, packet or xdp"), "{error}");
}

fn has_transfers(report: &Report, place: Place) {
    assert_eq!(report.mode, Mode::Real);
    for system in ["eager", "polled", "soft-lrp", "ni-lrp"] {
        let floods: Vec<f64> =
            report.outcome.points.iter().filter(|p| p.series == system).map(|p| p.x).collect();
        let expected: &[f64] =
            if system == "ni-lrp" && place == Place::Packet { &[] } else { &[1.0, 2.0, 5.0, 10.0] };
        assert_eq!(floods, expected, "{system} on {place}: {}", report.text());
    }
    let sum = |of| report.outcome.points.iter().map(|p| p.more[of]).sum::<f64>();
    assert!(sum("calm_transfers_per_s") > 0.0 && sum("offered_pps") > 0.0, "{}", report.text());
    let counters = report.outcome.checks.iter().find(|c| c.name == ALL_OF_THE_WAY);
    assert!(counters.is_some_and(|check| check.ok), "{}", report.text());
}

#[test]
fn tables_over_a_wide_area_network_have_no_tap() {
    assert!(run("t00-tab10", Place::Tap).is_err(), "on cable or packet only");
}

#[test]
fn json_says_how_it_was_measured() {
    let json = serde_json::to_value(run("l97-fig6", Place::Cable).unwrap()).unwrap();
    assert_eq!(json["mode"], "real");
    assert!(json["conditions"].as_str().unwrap().starts_with("on cable; "));
    assert!(json["points"][0]["more"]["ring_drops"].is_f64());
}

#[test]
fn devices_of_the_kernel_are_measured_too() {
    for place in [Place::Packet, Place::Tap, Place::Xdp] {
        match run("l97-fig6", place) {
            Ok(report) => is_whole(&report, &["eager", "no feedback", "polled", "soft-lrp"], OUR_PART),
            Err(error) => skip_or_panic(place, &error),
        }
    }
}

/// The name of the check on the counters of a receiver on a device of the kernel.
const RECEIVED: &str = "the host accounts for every frame, and has no more than were sent";

#[test]
fn a_receiver_of_datagrams_is_measured_on_every_kind_of_interface_that_its_architecture_can_have() {
    let ours = ["eager", "early-demux", "soft-lrp", "ni-lrp"];
    for (place, systems, counters) in [
        (Place::Cable, ours.to_vec(), ALL_OF_THE_WAY),
        (Place::Tap, ours[..3].to_vec(), RECEIVED),
        (Place::Packet, [&ours[..3], &["linux"]].concat(), RECEIVED),
        (Place::Xdp, [&ours[..], &["linux"]].concat(), RECEIVED),
    ] {
        match run("o96-fig3", place) {
            Ok(report) => {
                is_whole(&report, &systems, counters);
                let left_out = report.text().contains("ni-lrp is left out");
                assert_eq!(left_out, !systems.contains(&"ni-lrp"), "{}", report.text());
            }
            Err(error) => skip_or_panic(place, &error),
        }
    }
}

#[test]
fn round_trips_during_a_blast_are_measured_on_every_kind_of_interface() {
    for place in [Place::Cable, Place::Packet, Place::Xdp] {
        match run("o96-fig4", place) {
            Ok(report) => {
                let pings: f64 = report.outcome.points.iter().map(|p| p.more["pings"]).sum();
                assert!(pings > 0.0, "{place}: {}", report.text());
                let calm = |system| report.outcome.points.iter().any(|p| p.series == system && p.x == 0.0);
                let lazy = if place == Place::Packet { "soft-lrp" } else { "ni-lrp" };
                assert!(calm("eager") && calm(lazy), "{place}: {}", report.text());
                let counters = report.outcome.checks.iter().find(|c| c.name.ends_with("every frame"));
                assert!(counters.is_some_and(|check| check.ok), "{}", report.text());
            }
            Err(error) => skip_or_panic(place, &error),
        }
    }
}

/// Reports that a place was skipped because it needs root.
fn skip_or_panic(place: Place, error: &io::Error) {
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{place}: {error}");
    evenkeel_skip::skip(&format!("real time on {place}"), &Lack::Root(&error.to_string()));
}

#[test]
fn what_has_no_real_time_is_not_run() {
    assert!(real::run(find("o96-tab2").unwrap(), &short(Place::Cable), &mut |_| ()).is_none());
}
