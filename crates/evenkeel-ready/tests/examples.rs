//! Tests that the examples work as described.

#[path = "../examples/many_sockets.rs"]
#[expect(dead_code, reason = "its `main` is for people")]
mod many_sockets;

#[test]
fn all_bytes_are_read_and_no_idle_socket_is_tested() {
    let report = many_sockets::serve(10_000, 100, 10).unwrap();
    assert_eq!((report.arrived, report.read), (100_000, 100_000));
    assert_eq!(report.tests, report.events, "each test found an event");
}
