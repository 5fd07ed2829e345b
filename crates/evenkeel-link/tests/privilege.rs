//! Tests without privilege: one clear line with advice, and nothing left behind.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use evenkeel_link::{Clock, LinkError, LinkSpec, open};
use rustix::process::Uid;
use rustix::thread::set_thread_res_uid;
use support::{in_namespace, run};

#[test]
fn a_program_without_capabilities_is_told_what_it_lacks() {
    in_namespace(|| {
        run("ip link add kernel0 type veth peer name ek0");
        run("ip link set ek0 up");
        run("ip link set kernel0 up");
        let before = run("ip -o link show");
        // Only this thread changes: the kernel removes its capabilities along with user 0.
        let nobody = Uid::from_raw(65534);
        set_thread_res_uid(nobody, nobody, nobody).unwrap();
        for (text, capability) in [("tap:ek1", "CAP_NET_ADMIN"), ("packet:ek0", "CAP_NET_RAW")] {
            let LinkSpec::Device(spec) = text.parse().unwrap() else { panic!("not a device") };
            let error = open(&spec, Clock::start()).unwrap_err();
            assert!(
                matches!(error, LinkError::Privilege { capability: lacks, .. } if lacks == capability),
                "{error:?}"
            );
            let line = error.to_string();
            assert!(
                line.contains("run as root") && line.contains(capability) && !line.contains('\n'),
                "{line}"
            );
        }
        let strip = |text: String| {
            text.lines().map(|line| line.split(" state ").next().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(strip(run("ip -o link show")), strip(before));
    });
}
