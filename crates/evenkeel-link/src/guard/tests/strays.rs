//! Segments that are no SYNs, while there is a flood of strays: those of connections pass.

use std::io::{Read as _, Write as _};

use super::*;

/// Loads a guard that knows what the kernel refuses, and lets no stray pass; `None` if the test is skipped.
fn guard_under_strays() -> Option<(Ebpf, Guard, Alone)> {
    let (mut object, guard) = guard_of_test()?;
    let learning = learn_refusals_alone(&mut object);
    spend_limits(&mut object);
    flood_by_strays(&mut object);
    Some((object, guard, learning))
}

/// Returns what the guard has counted as strays: passed and dropped.
fn strays(guard: &Guard) -> [u64; 2] {
    let accounts = guard.accounts().unwrap();
    accounts.iter().find(|it| it.of == Judged::Strays).map_or([0; 2], |it| [it.passed, it.dropped])
}

/// The strays that the kernel refuses begin a flood when there are a thousand within a tenth of a second.
#[test]
fn many_refused_segments_are_a_flood() {
    with_addresses(|| {
        let Some((mut object, _guard)) = guard_of_test() else { return };
        let _learning = learn_refusals_alone(&mut object);
        let flood: Array<MapData, [u64; 3]> = take_map(&mut object, "stray_flood").unwrap();
        let _listener = listen((V4, IDLE).into());
        let mut is_flood = false;
        // Some machines take longer than a tenth of a second for all of them.
        for _ in 0..20 {
            assert_eq!(flood.get(&0, 0).unwrap()[2], 0);
            // The resets go to an address that nobody has, so nobody refuses them in turn.
            let source = Ipv4Addr::new(198, 51, 100, 1).into();
            (0..1_100).for_each(|_| send(Recipe { source, ..Recipe::stray(false, IDLE) }));
            let [_, refused, until] = flood.get(&0, 0).unwrap();
            is_flood = until > 0;
            assert!(is_flood || (1..1_000).contains(&refused), "{refused}");
            if is_flood {
                break;
            }
        }
        assert!(is_flood);
    });
}

/// A segment of an open connection, of one that is being opened, and of one that was closed are none.
#[test]
fn segments_of_connections_are_no_strays() {
    with_addresses(|| {
        let Some((object, guard, _learning)) = guard_under_strays() else { return };
        for is_v6 in [false, true] {
            let stray = Recipe::stray(is_v6, IDLE);
            let listener = listen(SocketAddr::new(stray.destination, IDLE));
            send(stray.clone());
            let mut client = TcpStream::connect(SocketAddr::new(stray.destination, IDLE)).unwrap();
            let (mut server, from) = listener.accept().unwrap();
            let connected = Recipe { source: from.ip(), source_port: from.port(), ..stray.clone() };
            // Nobody is there who would refuse the answer.
            let nobody =
                if is_v6 { IpAddr::from([0xfd00, 9, 0, 0, 0, 0, 0, 99]) } else { [198, 51, 100, 99].into() };
            let opening = Recipe { source: nobody, ..stray.clone() };
            send(Recipe { flags: 2, words: 6, ..opening.clone() });
            for judge in [in_xdp, behind_xdp] {
                for flags in [0x10, 0x11, 0x14, 0x04, 0x12, 0x18] {
                    let judged = |recipe: &Recipe| {
                        let frame = frame(&Recipe { flags, payload: 40, ..recipe.clone() });
                        judge(&object, &frame).unwrap().0
                    };
                    let before = strays(&guard);
                    assert_eq!([&connected, &opening].map(judged), [Some(Fate::Passes); 2]);
                    assert_eq!(strays(&guard), before);
                    assert_eq!(judged(&stray), Some(Fate::IsDropped), "{flags:#x}");
                    let elsewhere = Recipe { source_port: from.port() ^ 1, ..connected.clone() };
                    assert_eq!(judged(&elsewhere), Some(Fate::IsDropped), "{flags:#x}");
                    assert_eq!(strays(&guard), [before[0], before[1] + 2]);
                }
            }
            // Who closes first waits.
            server.write_all(b"bye").unwrap();
            drop(server);
            client.read_to_end(&mut Vec::new()).unwrap();
            drop(client);
            for judge in [in_xdp, behind_xdp] {
                let judged = judge(&object, &frame(&connected)).unwrap().0;
                assert_eq!(judged, Some(Fate::Passes));
            }
        }
    });
}

/// The ACK of a cookie opens a connection that nobody knows yet.
#[test]
fn the_acknowledgement_of_a_cookie_is_no_stray() {
    with_addresses(|| {
        let Some((object, guard, _learning)) = guard_under_strays() else { return };
        let _listener = listen((V4, FLOODED).into());
        Sockets::flood();
        let stray = Recipe { source_port: 8_000, ..Recipe::stray(false, FLOODED) };
        send(Recipe { source_port: 8_001, ..stray.clone() });
        let (fate, answer) =
            in_xdp(&object, &frame(&Recipe { flags: 2, words: 6, ..stray.clone() })).unwrap();
        assert_eq!(fate, Some(Fate::IsAnswered));
        let cookie = u32::from_be_bytes(answer[38..42].try_into().unwrap());
        let acknowledging = |number: u32| {
            let mut frame = frame(&stray);
            // The number behind that of the SYN.
            frame[38..42].copy_from_slice(&0x0102_0305_u32.to_be_bytes());
            frame[42..46].copy_from_slice(&number.to_be_bytes());
            frame
        };
        for judge in [in_xdp, behind_xdp] {
            let before = strays(&guard);
            // The lowest numbers of a cookie stand for maximum segment sizes.
            let wrong = judge(&object, &acknowledging(cookie.wrapping_add(100))).unwrap().0;
            assert_eq!((wrong, strays(&guard)), (Some(Fate::IsDropped), [before[0], before[1] + 1]));
            let right = judge(&object, &acknowledging(cookie.wrapping_add(1))).unwrap().0;
            assert_eq!((right, strays(&guard)), (Some(Fate::Passes), [before[0], before[1] + 1]));
        }
    });
}
