//! Interfaces of machines that exist as files only.

use evenkeel::raw::device::XdpProgram;
use evenkeel_testing::Scratch;

use super::*;

fn facts() -> DeviceFacts {
    DeviceFacts { index: 2, is_up: true, has_carrier: true, mtu: 1500, ..DeviceFacts::default() }
}

/// A machine whose `eth0` has the index 2.
fn machine(files: &[(&str, &str)]) -> (Scratch, Files) {
    let scratch = Scratch::new();
    scratch.write("sys/class/net/eth0/ifindex", "2\n");
    for (file, text) in files {
        scratch.write(file, text);
    }
    let files = Files::below(scratch.file(""));
    (scratch, files)
}

fn find(found: &[Finding], check: &str) -> (Verdict, String, Option<String>) {
    let finding = found.iter().find(|finding| finding.check == check).unwrap();
    assert_eq!(finding.interface.as_deref(), Some("eth0"));
    (finding.verdict, finding.seen.clone(), finding.mend.clone())
}

#[test]
fn a_device_with_one_queue_of_several_may_have_more() {
    let queues = |used, max| {
        let facts = DeviceFacts { rx_queues: Some(used), rx_queues_max: Some(max), ..facts() };
        let finding = queues("eth0", &facts);
        (finding.verdict, finding.mend)
    };
    assert_eq!(queues(4, 8), (Verdict::Good, None));
    assert_eq!(queues(1, 1), (Verdict::CouldBeBetter, None));
    let mend = Some("ethtool -L eth0 combined 8".to_owned());
    assert_eq!(queues(1, 8), (Verdict::CouldBeBetter, mend));
}

#[test]
fn what_a_kernel_or_a_driver_does_not_tell_is_unknown() {
    let (_scratch, files) = machine(&[]);
    let found = findings(&files, "eth0", &facts());
    for check in ["queues", "native-xdp", "xdp-program", "offloads", "threaded-napi", "rps", "deferral"] {
        assert_eq!(find(&found, check).0, Verdict::Unknown, "{check}");
    }
    assert_eq!(find(&found, "state").0, Verdict::Good);
}

/// A process may be in another network namespace than the files below `/sys` show.
#[test]
fn files_of_another_device_are_not_taken_for_its_own() {
    let (_scratch, files) = machine(&[("sys/class/net/eth0/threaded", "1")]);
    assert_eq!(find(&findings(&files, "eth0", &facts()), "threaded-napi").0, Verdict::Good);
    let other = DeviceFacts { index: 3, ..facts() };
    let (verdict, seen, _) = find(&findings(&files, "eth0", &other), "threaded-napi");
    assert_eq!((verdict, seen.as_str()), (Verdict::Unknown, "/sys shows another network namespace"));
}

#[test]
fn threads_steering_and_deferral_are_read() {
    let folder = "sys/class/net/eth0";
    let file = |name: &str| format!("{folder}/{name}");
    let names =
        ["threaded", "queues/rx-0/rps_cpus", "queues/rx-1/rps_cpus", "queues/tx-0/xps_cpus"].map(file);
    let more = ["gro_flush_timeout", "napi_defer_hard_irqs"].map(file);
    let texts = ["0\n", "0\n", "00000000,0000000a\n", "3\n"];
    let mut state: Vec<_> = names.iter().map(String::as_str).zip(texts).collect();
    state.extend(more.iter().map(String::as_str).zip(["200000\n", "2\n"]));
    let (_scratch, files) = machine(&state);
    let found = findings(&files, "eth0", &facts());
    let mend = Some("echo 1 > /sys/class/net/eth0/threaded".to_owned());
    assert_eq!(find(&found, "threaded-napi"), (Verdict::CouldBeBetter, "off: softirqs".to_owned(), mend));
    let mend = Some("echo 0 | tee /sys/class/net/eth0/queues/rx-1/rps_cpus".to_owned());
    let seen = "frames are steered to cores 1, 3".to_owned();
    assert_eq!(find(&found, "rps"), (Verdict::CouldBeBetter, seen, mend));
    let (verdict, seen, _) = find(&found, "deferral");
    assert_eq!(
        (verdict, seen.as_str()),
        (Verdict::CouldBeBetter, "polled every 200 µs instead of by interrupts")
    );
}

const INTERRUPTS: &str = "   CPU0  CPU1\n 40: 0 0 PCI-MSIX 0-edge virtio3-config\n 41: 1579 0 PCI-MSIX 1-edge\
                          \x20virtio3-rx\n 42: 3047 0 PCI-MSIX 2-edge virtio3-tx\n 43: 9 9 x eth0-TxRx-0\n\
                          \x2044: 9 9 x eth01\n";

#[test]
fn interrupts_of_the_device_on_one_core_could_be_spread() {
    let judge = |tx: &str| {
        let (_scratch, files) = machine(&[
            ("proc/interrupts", INTERRUPTS),
            ("sys/class/net/eth0/device/msi_irqs/41", "msix"),
            ("sys/class/net/eth0/device/msi_irqs/42", "msix"),
            ("proc/irq/41/effective_affinity_list", "0\n"),
            ("proc/irq/42/effective_affinity_list", tx),
            ("proc/irq/43/smp_affinity_list", "0\n"),
        ]);
        find(&findings(&files, "eth0", &facts()), "interrupts")
    };
    let (verdict, seen, mend) = judge("0");
    assert_eq!(verdict, Verdict::CouldBeBetter);
    assert_eq!(seen, format!("virtio3-rx, virtio3-tx, eth0-TxRx-0 on core 0 ({})", count(4_644)));
    assert_eq!(mend.as_deref(), Some("echo CORE > /proc/irq/42/smp_affinity_list"));
    assert_eq!(judge("1").0, Verdict::Good);
}

#[test]
fn a_program_at_the_device_is_named_and_the_guard_is_known() {
    let of = |name: Option<&str>| {
        let program = XdpProgram { id: 7, name: name.map(str::to_owned) };
        let finding = program_of(Some(Some(program)));
        (finding.verdict, finding.seen)
    };
    assert_eq!(of(Some("guard")), (Verdict::Good, "evenkeel guard (program 7)".to_owned()));
    let taken = |name| (Verdict::CouldBeBetter, format!("taken by program 7 ({name})"));
    assert_eq!(of(Some("katran")), taken("katran"));
    assert_eq!(of(None), taken("name not shown"));
    assert_eq!(program_of(Some(None)).verdict, Verdict::Good);
}

fn program_of(found: Option<Option<XdpProgram>>) -> Finding {
    program("eth0", &DeviceFacts { program: found, ..facts() })
}
