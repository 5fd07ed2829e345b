//! The laboratory's outside.

mod common;

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
