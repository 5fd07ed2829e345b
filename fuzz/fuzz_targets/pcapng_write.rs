#![no_main]

// This is not a module of the library: the core's tests compile that, and captures are above the core.
#[path = "../src/pcapng_write.rs"]
#[allow(dead_code, reason = "its test counts what was written")]
mod pcapng_write;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    pcapng_write::run(input);
});
