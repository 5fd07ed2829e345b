//! The kernel's answers to `ip route get`.

use std::collections::BTreeMap;
use std::process::Command;

use evenkeel_core::wire::IpAddress;
use evenkeel_testing::Scratch;
use serde_json::Value;

/// Where the kernel sends packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// To one of these devices and gateways.
    Hops(Vec<(String, Option<IpAddress>)>),
    /// To itself.
    Kernel,
    Blackhole,
    Prohibit,
    Unreachable,
}

/// For each destination the next hop for a packet, and the whole route that it is from.
pub(super) fn answers(scratch: &Scratch, destinations: &[&str]) -> Vec<(IpAddress, Answer, Answer)> {
    let mut questions = String::new();
    for destination in destinations {
        let source = if destination.contains(':') { "fd00:66::2" } else { "10.0.66.2" };
        for how in ["", "fibmatch "] {
            questions.push_str(&format!("route get {how}{destination} from {source} iif in0\n"));
        }
    }
    let path = scratch.write("questions", &questions);
    let output = Command::new("ip").args(["-force", "-json", "-batch", &path]).output().unwrap();
    let (said, failed) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr).into_owned());
    let mut errors = BTreeMap::new();
    let lines: Vec<&str> = failed.lines().collect();
    for pair in lines.windows(2) {
        if let [why, place] = pair
            && let Some((_, line)) = place.rsplit_once(':')
            && place.starts_with("Command failed")
        {
            errors.insert(line.parse::<usize>().unwrap(), refusal(why));
        }
    }
    let mut said = said.lines().filter(|line| line.starts_with('['));
    let mut answer = |line| {
        errors.get(&line).cloned().unwrap_or_else(|| {
            let said: Value = serde_json::from_str(said.next().unwrap_or("[]")).unwrap();
            of_route(&said[0], &failed)
        })
    };
    let answers = destinations.iter().enumerate().map(|(place, destination)| {
        (destination.parse().unwrap(), answer(2 * place + 1), answer(2 * place + 2))
    });
    answers.collect()
}

fn refusal(why: &str) -> Answer {
    if why.contains("Invalid argument") {
        Answer::Blackhole
    } else if why.contains("Permission denied") {
        Answer::Prohibit
    } else {
        assert!(why.contains("unreachable") || why.contains("No route to host"), "{why}");
        Answer::Unreachable
    }
}

fn of_route(route: &Value, failed: &str) -> Answer {
    match route["type"].as_str() {
        None | Some("unicast") => {}
        Some("local" | "broadcast" | "anycast" | "multicast") => return Answer::Kernel,
        Some("blackhole") => return Answer::Blackhole,
        Some("prohibit") => return Answer::Prohibit,
        Some(_) => return Answer::Unreachable,
    }
    let hop = |hop: &Value| {
        let gateway = hop["gateway"].as_str().or(hop["via"]["host"].as_str());
        let device = hop["dev"].as_str().unwrap_or_else(|| panic!("{route}: {failed}"));
        (device.to_owned(), gateway.map(|gateway| gateway.parse().unwrap()))
    };
    let is_alive =
        |hop: &&Value| hop["flags"].as_array().is_none_or(|flags| flags.iter().all(|flag| flag != "dead"));
    match route["nexthops"].as_array() {
        Some(hops) => Answer::Hops(hops.iter().filter(is_alive).map(hop).collect()),
        // By the number of an object alone.
        None if route["dev"].is_null() => Answer::Unreachable,
        None => Answer::Hops(vec![hop(route)]),
    }
}
