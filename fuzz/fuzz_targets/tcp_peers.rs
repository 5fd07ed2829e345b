#![no_main]

// This is not a module of the library: the core's tests compile that, and this one has its own test.
#[path = "../src/tcp_peers.rs"]
mod tcp_peers;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    tcp_peers::run(input);
});
