//! The kernel's answers to `ip route get`.

use std::collections::BTreeMap;
use std::process::Command;

use evenkeel_core::wire::IpAddress;
use evenkeel_testing::Scratch;
use serde_json::Value;

/// The destination to which the kernel sends packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// The kernel sends packets to one of these devices and gateways.
    Hops(Vec<Hop>),
    /// The kernel keeps the packets.
    Kernel,
    Blackhole,
    Prohibit,
    Unreachable,
}

/// A next hop: the device and the gateway.
pub(super) type Hop = (String, Option<IpAddress>);

/// The answers for a destination.
pub(super) struct Answered {
    pub(super) destination: IpAddress,
    /// The next hop for a packet.
    pub(super) plain: Answer,
    /// The whole route of that next hop.
    pub(super) whole: Answer,
    /// The next hops of that route that are out of use.
    pub(super) dead: Vec<Hop>,
}

/// Asks the kernel for the route of packets to each destination.
pub(super) fn answers(scratch: &Scratch, destinations: &[&str]) -> Vec<Answered> {
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
        errors.get(&line).map(|error| (error.clone(), vec![])).unwrap_or_else(|| {
            let said: Value = serde_json::from_str(said.next().unwrap_or("[]")).unwrap();
            of_route(&said[0], &failed)
        })
    };
    let answers = destinations.iter().enumerate().map(|(place, destination)| {
        let ((plain, _), (whole, dead)) = (answer(2 * place + 1), answer(2 * place + 2));
        Answered { destination: destination.parse().unwrap(), plain, whole, dead }
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

/// Returns the destination of a route, and those of its next hops that are out of use.
fn of_route(route: &Value, failed: &str) -> (Answer, Vec<Hop>) {
    let other = match route["type"].as_str() {
        None | Some("unicast") => None,
        Some("local" | "broadcast" | "anycast" | "multicast") => Some(Answer::Kernel),
        Some("blackhole") => Some(Answer::Blackhole),
        Some("prohibit") => Some(Answer::Prohibit),
        Some(_) => Some(Answer::Unreachable),
    };
    if let Some(other) = other {
        return (other, vec![]);
    }
    let hop = |hop: &Value| {
        let gateway = hop["gateway"].as_str().or(hop["via"]["host"].as_str());
        let device = hop["dev"].as_str().unwrap_or_else(|| panic!("{route}: {failed}"));
        (device.to_owned(), gateway.map(|gateway| gateway.parse().unwrap()))
    };
    let is_alive =
        |hop: &&Value| hop["flags"].as_array().is_none_or(|flags| flags.iter().all(|flag| flag != "dead"));
    match route["nexthops"].as_array() {
        Some(hops) => {
            let (alive, dead): (Vec<_>, _) = hops.iter().partition(is_alive);
            let all = |hops: Vec<&Value>| hops.into_iter().map(hop).collect();
            (Answer::Hops(all(alive)), all(dead))
        }
        // The answer has only the number of an object.
        None if route["dev"].is_null() => (Answer::Unreachable, vec![]),
        None => (Answer::Hops(vec![hop(route)]), vec![]),
    }
}
