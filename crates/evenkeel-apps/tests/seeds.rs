//! Runs the fuzz target of the screening rules over its seeds, on the stable toolchain and in every run of
//! the tests.

use std::fs;
use std::path::Path;

use evenkeel_apps::route::rules::Action;

#[path = "../../../fuzz/src/rules.rs"]
#[allow(unreachable_pub, reason = "shared with the fuzz target")]
mod rules;

/// Checks that the seeds still reach every action; otherwise they would find nothing.
#[test]
fn rules() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/rules");
    let mut decisions = Vec::new();
    for entry in fs::read_dir(folder).expect("the folder of the seeds") {
        let file = entry.expect("a seed").path();
        // The output of a failed test shows the seed.
        eprintln!("{}", file.display());
        decisions.extend(rules::run(&fs::read(file).expect("a seed that can be read")));
    }
    for action in [Action::Pass, Action::Drop, Action::Return] {
        assert!(decisions.iter().any(|d| d.action == action && d.rule.is_some()), "{action:?}");
    }
}
