//! The laboratory's command line.

mod common;

use std::fs;

use common::{evenkeel, json};

#[test]
fn the_list_gives_every_experiment_with_its_modes() {
    for experiment in json(&["lab", "list", "--json"]).as_array().unwrap() {
        for field in ["id", "title", "source"] {
            assert!(experiment[field].is_string(), "{experiment}");
        }
        let modes = experiment["modes"].as_array().unwrap();
        assert!(!modes.is_empty() && modes.iter().all(|m| m == "virtual" || m == "real"), "{experiment}");
    }
}

#[test]
fn the_list_for_people_has_the_same_names() {
    let said = String::from_utf8(evenkeel(&["lab", "list"]).stdout).unwrap();
    for experiment in json(&["lab", "list", "--json"]).as_array().unwrap() {
        assert!(said.contains(experiment["id"].as_str().unwrap()), "{said}");
    }
}

#[test]
fn an_experiment_runs_in_real_time_and_writes_its_files() {
    let directory = std::env::temp_dir().join(format!("evenkeel-lab-test-{}", std::process::id()));
    let files = directory.to_str().unwrap();
    let short =
        ["--real", "--points", "2", "--window", "10ms", "--repeats", "1", "--csv", files, "--svg", files];
    let output = evenkeel(&[&["lab", "run", "l97-fig2", "--json"], &short[..]].concat());
    // A run this short may not show the paper's result; then the checks and the command fail.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
    let report = common::report(&["lab", "run"], output.stdout);
    assert_eq!((&report["id"], &report["mode"]), (&"l97-fig2".into(), &"real".into()));
    assert_eq!(report["points"].as_array().unwrap().len(), 4);
    let csv = fs::read_to_string(directory.join("l97-fig2.csv")).unwrap();
    assert!(csv.starts_with("series,x,y,") && csv.lines().count() == 5, "{csv}");
    assert!(fs::read_to_string(directory.join("l97-fig2.svg")).unwrap().contains("eager+screen"));
    fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_misspelt_experiment_gets_the_nearest_names() {
    let said = |id: &str| {
        let output = evenkeel(&["lab", "run", id]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(said("l97-fig66").contains("did you mean l97-fig6"), "{}", said("l97-fig66"));
    let unlike = said("nosuch");
    assert!(unlike.len() < 120 && unlike.contains("`evenkeel lab list`"), "{unlike}");
}

/// Results are printed even if their files cannot be written. Paths that are evidently impossible are
/// refused before the measurement.
#[test]
fn files_that_cannot_be_written_cost_nothing_that_was_measured() {
    let output = evenkeel(&["lab", "run", "l97-fig1", "--no-files", "--csv", "/dev/full/points"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && output.stdout.is_empty(), "{output:?}");
    assert!(said.contains("cannot write /dev/full/points/l97-fig1.csv: "), "{said}");
    let output =
        evenkeel(&["lab", "run", "l97-fig1", "--seeds", "1", "--no-files", "--markdown", "/dev/full"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(said.contains("cannot write /dev/full: No space left"), "{said}");
    assert!(String::from_utf8(output.stdout).unwrap().contains("first packet of a burst of 16 (ms)"));
}

/// The rows of a table are not positions on an axis.
#[test]
fn a_table_has_points_and_no_picture() {
    let place = std::env::temp_dir().join(format!("evenkeel-lab-table-{}", std::process::id()));
    let files = place.to_str().unwrap();
    let run = ["lab", "run", "o96-tab1", "--seeds", "1", "--no-files", "--csv", files, "--svg", files];
    let output = evenkeel(&run);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(place.join("o96-tab1.csv").exists() && !place.join("o96-tab1.svg").exists());
    fs::remove_dir_all(&place).unwrap();
}

#[test]
fn settings_of_real_time_without_it_are_refused() {
    let output = evenkeel(&["lab", "run", "l97-fig1", "--points", "3"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("--real"));
}

#[test]
fn many_seeds_go_neither_with_one_nor_with_real_time() {
    for other in [&["--seed", "3"][..], &["--real"]] {
        let output = evenkeel(&[&["lab", "run", "l97-fig2", "--seeds", "5"], other].concat());
        assert_eq!(output.status.code(), Some(2), "{other:?}: {output:?}");
    }
}

/// A page of Markdown names its seeds and explains virtual time, so it is refused for a run in real time.
#[test]
fn a_page_of_markdown_is_of_virtual_time() {
    let output = evenkeel(&["lab", "run", "l97-fig2", "--real", "--markdown", "/dev/null"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8(output.stderr).unwrap().contains("--markdown"));
}

#[test]
fn a_run_prints_its_comparison_and_leaves_its_points_and_its_picture() {
    let place = std::env::temp_dir().join(format!("evenkeel-lab-{}", std::process::id()));
    fs::create_dir_all(&place).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_evenkeel"));
        let output =
            command.args(["lab", "run", "l97-fig1"]).args(arguments).current_dir(&place).output().unwrap();
        // The experiment has a known miss, which is no failure.
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(!run(&["--no-files"]).contains("lab-results"));
    run(&["--json"]);
    assert!(!place.join("lab-results").exists(), "nobody asked for files");
    let json = common::report(&["lab", "run"], run(&["--json"]));
    assert_eq!((&json["seed"], &json["seeds"]), (&1.into(), &20.into()));
    assert_eq!(json["summary"]["calibrated"], serde_json::json!({"checks": 5, "hold": 5, "known_misses": 0}));
    let known = json["checks"].as_array().unwrap().iter().filter(|c| c["known_miss"].is_string());
    assert!(known.clone().count() == 1 && known.into_iter().all(|c| c["ok"] == false), "{json}");
    let one = common::report(&["lab", "run"], run(&["--json", "--seed", "7"]));
    assert_eq!((&one["seed"], &one["seeds"]), (&7.into(), &1.into()));
    run(&["--no-files", "--seeds", "3", "--markdown", "page.md"]);
    let page = fs::read_to_string(place.join("page.md")).unwrap();
    assert!(page.contains("with each of 3 seeds") && page.contains("## `l97-fig1`"), "{page}");
    let said = run(&[]);
    assert!(said.contains("first packet of a burst of 16 (ms)"), "{said}");
    assert!(said.ends_with("lab-results/l97-fig1.csv\nlab-results/l97-fig1.svg\n"), "{said}");
    let file = |name: &str| fs::read_to_string(place.join("lab-results").join(name)).unwrap();
    assert!(file("l97-fig1.csv").starts_with("series,x,y,y_min,y_max\n"));
    assert!(file("l97-fig1.svg").starts_with("<svg"));
    fs::remove_dir_all(&place).unwrap();
}
