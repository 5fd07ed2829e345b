//! Tests that the examples work as described.

#[path = "../examples/idle_connections.rs"]
#[expect(dead_code, reason = "its `main` is for people")]
mod idle_connections;

#[test]
fn every_idle_connection_is_closed_and_no_wake_up_is_needless() {
    let report = idle_connections::serve(2_000, 100_000);
    assert_eq!(report, idle_connections::Report { packets: 100_000, closed: 2_000, needless: 0 });
}
