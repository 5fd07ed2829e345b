//! Tests that the examples work as described.

#[path = "../examples/lossy_pipe.rs"]
#[expect(dead_code, reason = "its `main` is for people")]
mod lossy_pipe;

#[test]
fn everything_comes_back_over_a_lossy_pipe() {
    let text: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
    let (back, lost, time) = lossy_pipe::echo(&text);
    assert_eq!(back.len(), text.len());
    assert!(back == text, "what came back is not what was sent");
    assert!(lost > 50, "{lost} of several hundred segments");
    assert!(time.as_secs() < 60, "{time:?}");
}

#[path = "../examples/many_connections.rs"]
#[expect(dead_code, reason = "its `main` is for people")]
mod many_connections;

#[test]
fn every_one_of_many_connections_is_served_and_keeps_no_buffer() {
    let report = many_connections::serve(2_000);
    assert_eq!((report.open, report.echoed, report.buffered), (2_000, 2_000, 0), "{report:?}");
}
