//! Real samples of the kernel's files, and such as no kernel writes.

use super::*;

#[test]
fn a_release_has_two_numbers() {
    assert_eq!(release("6.18.44-fc-v782\n"), Some((6, 18)));
    assert_eq!(release("5.15-generic"), Some((5, 15)));
    for bad in ["", "6", "six.two", "99999999999.1"] {
        assert_eq!(release(bad), None, "{bad}");
    }
}

#[test]
fn capabilities_are_the_effective_ones() {
    let status = "Name:\tevenkeel\nCapPrm:\t0000000000000000\nCapEff:\t000001fffeffffff\nCapBnd:\t0\n";
    assert_eq!(capabilities(status), Some(0x1ff_feff_ffff));
    assert_eq!(capabilities("CapEff:\t\n"), None);
    assert_eq!(capabilities("CapEff:\tnone"), None);
}

#[test]
fn a_limit_is_the_soft_one() {
    let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                  Max open files            20000                524288               files     \n\
                  Max locked memory         unlimited            unlimited            bytes     \n\
                  Max nice priority";
    assert_eq!(limit(limits, "Max open files"), Some(20_000));
    assert_eq!(limit(limits, "Max locked memory"), Some(u64::MAX));
    assert_eq!(limit(limits, "Max nice priority"), None);
    assert_eq!(limit(limits, "Max processes"), None);
}

#[test]
fn drops_and_squeezes_are_hexadecimal_and_name_their_processor() {
    let text = "0000000d 0000000a 00000001 00000000 00000000 00000000 00000000 00000000 00000000 00000000 \
                00000000 00000000 00000000 00000000 00000000\n\
                0000199d 00000000 000000ff 00000000 00000000 00000000 00000000 00000000 00000000 00000000 \
                00000000 00000000 00000007 00000000 00000000\n";
    let [first, second] = softnet(text)[..] else { panic!() };
    assert_eq!(first, Softnet { cpu: 0, dropped: 10, squeezed: 1 });
    assert_eq!(second, Softnet { cpu: 7, dropped: 0, squeezed: 255 });
    // An old kernel has fewer fields, and a cut line too few.
    assert_eq!(softnet("1 2 3 4\n1 2\nx y z\n"), [Softnet { cpu: 0, dropped: 2, squeezed: 3 }]);
    assert!(softnet("").is_empty());
}

#[test]
fn counters_are_found_by_their_names() {
    let snmp = "Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors\n\
                Udp: 55 0 7 56 6 0\nUdpLite: InDatagrams RcvbufErrors\nUdpLite: 0 9\n";
    assert_eq!(counter(snmp, "Udp", "RcvbufErrors"), Some(6));
    assert_eq!(counter(snmp, "UdpLite", "RcvbufErrors"), Some(9));
    assert_eq!(counter(snmp, "Udp", "MemErrors"), None);
    assert_eq!(counter(snmp, "Tcp", "InSegs"), None);
    // The numbers are cut off, or are none.
    assert_eq!(counter("Udp: A B\nUdp: 1", "Udp", "B"), None);
    assert_eq!(counter("Udp: A\nUdp: -1", "Udp", "A"), None);
    assert_eq!(counter("Udp: A\n", "Udp", "A"), None);
}

#[test]
fn counters_of_ipv6_have_a_line_each() {
    let snmp6 = "Udp6InDatagrams                 \t4\nUdp6RcvbufErrors                \t3\nUdp6\n";
    assert_eq!(counter6(snmp6, "Udp6RcvbufErrors"), Some(3));
    assert_eq!(counter6(snmp6, "Udp6"), None);
}

const UDP: &str = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid \
                   \x20timeout inode ref pointer drops            \n \
                   1234: 0100007F:270F 00000000:0000 07 00000000:00033900 00:00000000 00000000     0        \
                   0 31337 2 00000000deadbeef 4760         \n";
const UDP6: &str = "  sl  local_address                         remote_address                        st \
                    tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n  \
                    77: 00000000000000000000000001000000:0035 00000000000000000000000000000000:0000 07 \
                    00000000:00000000 00:00000000 00000000   101        0 555 2 0000000000000000 0\n";

/// The samples are of a machine whose lowest byte comes first.
#[cfg(target_endian = "little")]
#[test]
fn sockets_have_addresses_and_drops() {
    let [socket] = udp_sockets(UDP)[..] else { panic!() };
    let expected = UdpSocket {
        address: "127.0.0.1:9999".parse().unwrap(),
        waiting_bytes: 0x33900,
        inode: 31_337,
        drops: 4_760,
    };
    assert_eq!(socket, expected);
    let [socket] = udp_sockets(UDP6)[..] else { panic!() };
    assert_eq!((socket.address, socket.inode), ("[::1]:53".parse().unwrap(), 555));
}

#[test]
fn a_line_that_is_cut_anywhere_is_no_socket_or_has_fewer_drops() {
    let line = UDP.lines().nth(1).unwrap().trim_end();
    for len in 0..line.len() - 3 {
        assert_eq!(udp_socket(&line[..len]), None, "{len}");
    }
    for bad in ["zz00007F:0035", "7F:0035", "0100007F", "0100007F:zz", "0100007F00:35", "ééééé:1", ":"] {
        assert_eq!(address(bad), None, "{bad}");
    }
}

#[test]
fn an_inode_is_in_the_name_of_a_socket() {
    assert_eq!(socket_inode("socket:[31337]"), Some(31_337));
    for other in ["pipe:[7]", "socket:[", "socket:[x]", "/dev/null"] {
        assert_eq!(socket_inode(other), None, "{other}");
    }
}

#[test]
fn lists_and_masks_of_processors() {
    assert_eq!(cpu_list("0-2,8\n"), [0, 1, 2, 8]);
    assert_eq!(cpu_list("3"), [3]);
    for none in ["", "x", "3-1", "0-18446744073709551615", "-"] {
        assert!(cpu_list(none).is_empty(), "{none}");
    }
    assert_eq!(cpu_mask("2\n"), [1]);
    assert_eq!(cpu_mask("00000001,80000003"), [0, 1, 31, 32]);
    assert!(cpu_mask("0").is_empty() && cpu_mask("").is_empty() && cpu_mask("xyz").is_empty());
}

#[test]
fn interrupts_have_a_count_and_the_name_at_the_end() {
    let text = "           CPU0       CPU1       \n \
                24:          1          0  IO-APIC   5-edge      ACPI:Ged\n \
                38:          0       4933 PCI-MSIX-0000:00:03.0   1-edge      virtio2-input.0\n \
                39:          5\n\
                LOC:      59359      65453   Local timer interrupts\nERR:          0\n";
    let of = |number, count, name: &str| Interrupt { number, count, name: name.to_owned() };
    assert_eq!(interrupts(text), [of(24, 1, "ACPI:Ged"), of(38, 4_933, "virtio2-input.0")]);
    assert!(interrupts("").is_empty());
}

#[test]
fn devices_are_named_before_the_colon() {
    let text = "Inter-|   Receive |  Transmit\n face |bytes packets|bytes\n    lo: 1 2 3\n  eth0:4 5\n";
    assert_eq!(device_names(text), ["lo", "eth0"]);
}

#[test]
fn a_group_of_processors_is_of_either_version() {
    let mixed = "4:memory:/m\n3:cpu,cpuacct:/service\n0::/other\n";
    assert_eq!(cpu_group(mixed), Some(CpuGroup::V1("/service".to_owned())));
    let unified = "0::/system.slice/a:b.service\n";
    assert_eq!(cpu_group(unified), Some(CpuGroup::Unified("/system.slice/a:b.service".to_owned())));
    assert_eq!(cpu_group("9:cpuacct:/\n"), None);
    assert_eq!(cpu_group(""), None);
}

#[test]
fn a_quota_is_a_share_of_a_processor() {
    assert_eq!(cpu_max("50000 100000"), Some(Some(0.5)));
    assert_eq!(cpu_max("max 100000"), Some(None));
    for bad in ["", "max", "5 0", "x 100000", "-1 100000"] {
        assert_eq!(cpu_max(bad), None, "{bad}");
    }
    assert_eq!((share(-1, 100_000), share(200_000, 100_000)), (None, Some(2.0)));
}
