//! The files of the core import one another without a circle, and its floors downwards only.

use evenkeel_skip::Sources;

fn sources() -> Sources {
    Sources::read(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))
}

#[test]
fn files_import_one_another_without_a_circle() {
    sources().assert_no_circle(130, 600);
}

#[test]
fn files_of_the_benchmark_import_one_another_without_a_circle() {
    Sources::read(concat!(env!("CARGO_MANIFEST_DIR"), "/benches/stages")).assert_no_circle(5, 5);
}

/// The rooms of a floor, and those that it must not know, because they stand above it or beside it. Only the
/// coordinator (`net`) and the host see all floors.
const FLOORS: [(&[&str], &[&str]); 4] = [
    (
        &["channel", "poll", "demux", "link", "interface"],
        &["rx", "stack", "socket", "sockets", "ready", "net", "host"],
    ),
    (&["rx"], &["stack", "sockets", "socket", "ready", "net", "host", "system"]),
    (&["stack"], &["rx", "link", "channel", "poll", "socket", "sockets", "ready", "net", "host", "system"]),
    (&["sockets", "socket"], &["rx", "link", "net", "host", "system"]),
];

#[test]
fn a_floor_knows_none_above_it() {
    let imports = sources().graph();
    for (rooms, above) in FLOORS {
        for room in rooms {
            let of_room: Vec<_> =
                imports.iter().filter(|(module, _)| module[..].first().is_some_and(|m| m == room)).collect();
            assert!(!of_room.is_empty(), "there is no room {room}");
            for (module, imported) in of_room {
                let wrong = imported.iter().find(|target| above.contains(&target[0].as_str()));
                assert_eq!(wrong, None, "imported by {module:?}");
            }
        }
    }
}
