//! The files of this crate import one another without a circle, and no tool knows another.

use evenkeel_skip::Sources;

/// The tools. What two of them need stands in a file or a room of its own.
const TOOLS: [&str; 6] = ["demo", "load", "monitor", "route", "sending", "wan"];

fn sources() -> Sources {
    Sources::read(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))
}

#[test]
fn files_import_one_another_without_a_circle() {
    sources().assert_no_circle(140, 400);
}

#[test]
fn no_tool_imports_another() {
    let graph = sources().graph();
    for tool in TOOLS {
        let own = graph.iter().filter(|(module, _)| module.first().is_some_and(|room| room == tool));
        let imports: Vec<_> =
            own.flat_map(|(module, imports)| imports.iter().map(move |to| (module, to))).collect();
        assert!(!imports.is_empty(), "there is no tool {tool}");
        let other = imports.iter().find(|(_, to)| to[0] != tool && TOOLS.contains(&to[0].as_str()));
        assert_eq!(other, None, "{tool} knows another tool");
    }
}

/// Shared files may know each other, and no tool.
#[test]
fn what_is_shared_imports_no_tool() {
    let graph = sources().graph();
    let shared =
        graph.iter().filter(|(module, _)| !module.is_empty() && !TOOLS.contains(&module[0].as_str()));
    for (module, imports) in shared {
        let tool = imports.iter().find(|to| TOOLS.contains(&to[0].as_str()));
        assert_eq!(tool, None, "imported by {module:?}");
    }
}
