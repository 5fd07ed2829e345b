#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    evenkeel_fuzz::tcp_segment::run(input);
});
