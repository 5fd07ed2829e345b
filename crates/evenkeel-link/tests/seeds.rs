//! Runs the fuzz target that writes captures over its seeds, on the stable toolchain and in every run of the
//! tests.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fs;
use std::path::Path;

#[path = "../../../fuzz/src/pcapng_write.rs"]
#[allow(unreachable_pub, missing_docs, reason = "shared with the fuzz target")]
mod pcapng_write;

/// Checks that the seeds still write every kind of block; otherwise they would find nothing.
#[test]
fn pcapng_write() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/pcapng_write");
    let (mut interfaces, mut packets, mut statistics) = (0, 0, 0);
    for entry in fs::read_dir(folder).unwrap() {
        let file = entry.unwrap().path();
        // The output of a failed test shows the seed.
        eprintln!("{}", file.display());
        let written = pcapng_write::run(&fs::read(file).unwrap());
        interfaces += written.interfaces;
        packets += written.packets;
        statistics += written.statistics;
    }
    assert!(interfaces >= 10 && packets >= 30 && statistics >= 3, "{interfaces} {packets} {statistics}");
}
