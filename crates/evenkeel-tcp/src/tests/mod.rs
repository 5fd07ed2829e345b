//! Conversations with one connection, with exact times, by behaviour. How a script reads is told in
//! `script.rs`.

mod robustness;
mod script;
mod transfer;

/// One test for each file of `scripts/`. They are read when the test runs, so that nothing is compiled for a
/// change of a script.
macro_rules! behaviours {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            let scripts = concat!(env!("CARGO_MANIFEST_DIR"), "/src/tests/scripts/");
            script::run_file(&format!("{scripts}{}.txt", stringify!($name)));
        })*
    };
}

behaviours! {
    challenge_ack
    close
    counters
    delayed_ack
    ecn
    fast_open
    handshake
    keepalive
    loss
    memory
    nagle
    options
    pacing
    paws
    path_mtu
    reset
    sack
    shrunk_window
    urgent
    window
    zero_window
}
