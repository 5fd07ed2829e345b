#![no_main]

// This is not a module of the library: the core's tests compile that, and the rules are above the core.
#[path = "../src/rules.rs"]
mod rules;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    rules::run(input);
});
