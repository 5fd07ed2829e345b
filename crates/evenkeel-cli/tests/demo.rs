//! The demonstration, shortened. Figures of such short runs mean little, but table, page and JSON must exist,
//! and the counters must be right.

mod common;

use common::{evenkeel, json, report};
use evenkeel_skip::Lack;

const SHORT: [&str; 8] =
    ["demo", "--points", "3", "--seconds-per-point", "0.05", "--no-kernel", "--on", "cable"];

#[test]
fn json_has_every_architecture_with_every_frame_accounted_for() {
    let result = json(&[&SHORT[..], &["--no-report", "--json"]].concat());
    assert_eq!((&result["setup"]["queues"], &result["setup"]["shared_queue"]), (&4.into(), &false.into()));
    let architectures = result["architectures"].as_array().unwrap();
    let names: Vec<&str> = architectures.iter().map(|a| a["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["soft-lrp, 1 queue", "eager", "early-demux", "polled", "soft-lrp", "ni-lrp"]);
    for architecture in architectures {
        assert_eq!(architecture["conserved"], true, "{architecture}");
        assert_eq!(architecture["points"].as_array().unwrap().len(), 3);
        for figure in ["offered_max_pps", "peak_pps", "retention", "neighbour_cpu"] {
            assert!(architecture[figure].as_f64().is_some_and(|figure| figure >= 0.0), "{architecture}");
        }
    }
}

/// As root the demonstration runs over AF_XDP without being asked to.
#[test]
fn as_root_the_architectures_are_measured_over_af_xdp() {
    let result = json(&[
        "demo",
        "--points",
        "3",
        "--seconds-per-point",
        "0.05",
        "--no-kernel",
        "--no-report",
        "--json",
    ]);
    let setup = &result["setup"];
    if setup["on"] != "xdp" {
        let why = setup["no_xdp"].as_str().unwrap_or("no network namespace of its own");
        return evenkeel_skip::skip("the demonstration over AF_XDP", &Lack::Root(why));
    }
    assert_eq!((&setup["queues"], &setup["no_xdp"]), (&1.into(), &serde_json::Value::Null));
    let architectures = result["architectures"].as_array().unwrap();
    let names: Vec<&str> = architectures.iter().map(|a| a["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["eager", "early-demux", "polled", "soft-lrp", "ni-lrp"]);
    assert!(architectures.iter().all(|a| a["conserved"] == true), "{result}");
    assert!(architectures.iter().any(|a| a["peak_pps"].as_f64() > Some(0.0)), "{result}");
    assert!(setup["command"].as_str().unwrap().starts_with("evenkeel demo --on xdp"), "{setup}");
}

/// As root the kernel's own socket is measured, without and with the guard. Others are told what it needs.
#[test]
fn the_guard_is_shown_in_front_of_the_kernels_socket() {
    let asked = ["demo", "--guard", "--points", "3", "--seconds-per-point", "0.05", "--no-report", "--json"];
    let output = evenkeel(&asked);
    if !output.status.success() {
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("no network namespace of its own"), "{said}");
        return evenkeel_skip::skip("the_guard_is_shown_in_front_of_the_kernels_socket", &Lack::Root(&said));
    }
    let results = report(&asked, output.stdout);
    assert_eq!(
        (&results["architectures"], &results["over_xdp"]),
        (&serde_json::json!([]), &serde_json::Value::Null)
    );
    if let Some(why) = results["guarded_missing"].as_str() {
        return evenkeel_skip::skip("the_guard_is_shown_in_front_of_the_kernels_socket", &Lack::Other(why));
    }
    for socket in ["kernel", "guarded"] {
        let points = results[socket]["points"].as_array().unwrap();
        assert!(points.iter().any(|point| point["delivered_pps"].as_f64().unwrap() > 0.0), "{results}");
        // A generator that reaches its maximum ends the series.
        assert!((1..=3).contains(&points.len()), "{results}");
    }
    assert_eq!(results["setup"]["command"], "evenkeel demo --guard --points 3 --seconds-per-point 0.05");
}

#[test]
fn only_the_cable_has_several_queues() {
    let output = evenkeel(&["demo", "--on", "xdp", "--queues", "2", "--no-report"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && said.contains("--queues is for --on cable"), "{said}");
}

/// Page, picture and table of an earlier run come from its JSON alone.
#[test]
fn an_earlier_run_is_shown_without_measuring() {
    let directory = std::env::temp_dir().join(format!("evenkeel-demo-from-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let file = |name: &str| directory.join(name).to_str().unwrap().to_owned();
    let asked = ["--architectures", "eager,soft-lrp", "--work", "2us", "--no-report", "--json"];
    let measured = json(&[&SHORT[..], &asked].concat());
    let command = "evenkeel demo --on cable --architectures eager,soft-lrp --points 3 --seconds-per-point \
        0.05 --work 2000ns --no-kernel";
    assert_eq!(measured["setup"]["command"], command, "it repeats the run");
    std::fs::write(file("run.json"), measured.to_string()).unwrap();
    let shown =
        ["--from", &file("run.json"), "--report", &file("page.html"), "--picture", &file("picture.svg")];
    let output = evenkeel(&[&["demo"], &shown[..]].concat());
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{said}");
    assert!(said.contains("2 µs of work") && said.contains("soft-lrp, 1 queue"), "{said}");
    let read = |name: &str| std::fs::read_to_string(file(name)).unwrap();
    let date = measured["setup"]["started"].as_str().unwrap().replace('T', " ").replace('Z', " UTC");
    assert!(read("page.html").contains(&date) && read("page.html").contains(command));
    assert!(read("picture.svg").starts_with("<svg") && read("picture.svg").contains(&date));
    let refused = |more: &[&str]| {
        let output = evenkeel(&[&["demo", "--no-report"], more].concat());
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (status, said) = refused(&["--from", &file("picture.svg")]);
    assert!(status == Some(2) && said.contains("no results of `evenkeel demo --json`"), "{said}");
    assert_eq!(refused(&["--from", &file("run.json"), "--points", "3"]).0, Some(2), "nothing is measured");
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn table_and_page_are_written_for_the_architectures_asked_for() {
    let page = std::env::temp_dir().join(format!("evenkeel-demo-test-{}.html", std::process::id()));
    let file = page.to_str().unwrap();
    let asked = ["--architectures", "soft-lrp", "--work", "2us", "--queues", "3", "--report", file];
    let output = evenkeel(&[&SHORT[..], &asked].concat());
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(said.contains("2 µs of work") && said.contains("soft-lrp") && !said.contains("eager"), "{said}");
    assert!(said.contains("both sockets the same one of the 3 receive queues"), "{said}");
    let html = std::fs::read_to_string(&page).unwrap();
    std::fs::remove_file(&page).unwrap();
    assert!(html.ends_with("</html>\n") && html.contains("soft-lrp"));
}

/// The command prints its results even if the disk is full when the page is written.
#[test]
fn a_page_that_cannot_be_written_costs_no_figures() {
    for json in [false, true] {
        let mut arguments = [&SHORT[..], &["--architectures", "ni-lrp", "--report", "/dev/full"]].concat();
        arguments.extend(json.then_some("--json"));
        let output = evenkeel(&arguments);
        let (said, told) =
            (String::from_utf8(output.stderr).unwrap(), String::from_utf8(output.stdout).unwrap());
        assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
        assert!(said.contains("cannot write /dev/full: No space left"), "{said}");
        assert!(told.contains("ni-lrp") && !told.contains("The results as pictures"), "{told}");
        assert!(!json || serde_json::from_str::<serde_json::Value>(&told).is_ok(), "{told}");
    }
}

/// The error comes before the measurement: an hour at each load would be lost.
#[test]
fn a_page_that_cannot_be_written_is_explained() {
    let output = evenkeel(&[
        "demo",
        "--no-kernel",
        "--seconds-per-point",
        "3600",
        "--report",
        "/dev/null/report.html",
    ]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said.lines().count() == 1 && said.contains("--report"), "{said}");
}
