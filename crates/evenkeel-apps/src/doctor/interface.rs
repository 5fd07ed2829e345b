//! Network interfaces: how frames come in, and which cores work on them.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel::raw::device::DeviceFacts;

use super::files::{Files, Unread};
use super::finding::{Check, Finding, Verdict};
use super::parse::{self, Interrupt};
use crate::quantity::{self, count};

const KERNEL: &str = "the kernel's answer";
const ETHTOOL: &str = "ethtool's answer";
/// The name that the guard's program has in the kernel.
const GUARD: &str = "guard";

/// Returns the interfaces that are examined if none is named: those of hardware and veth pairs that are up.
pub(super) fn usual(files: &Files) -> Vec<String> {
    let names = files.text("/proc/self/net/dev").map(|text| parse::device_names(&text)).unwrap_or_default();
    let is_usual = |name: &String| {
        let is_hardware = files.link(&format!("/sys/class/net/{name}/device")).is_ok();
        let facts = DeviceFacts::read(name);
        facts.is_ok_and(|facts| facts.is_up && (is_hardware || facts.driver.as_deref() == Some("veth")))
    };
    names.into_iter().filter(is_usual).collect()
}

/// Returns the findings about an interface.
pub(super) fn findings(files: &Files, name: &str, facts: &DeviceFacts) -> Vec<Finding> {
    let at = Place::new(files, name, facts);
    let mut found = vec![
        state(name, facts),
        queues(name, facts),
        native_xdp(facts),
        program(name, facts),
        offloads(name, facts),
    ];
    found.extend([threaded(&at, name, facts), rps(&at), interrupts(&at), deferral(&at)]);
    found.into_iter().map(|finding| finding.of_interface(name)).collect()
}

/// The files of an interface.
struct Place<'a> {
    files: &'a Files,
    /// The folder, or the reason why it is not this interface's.
    folder: Result<String, String>,
    path: String,
}

impl<'a> Place<'a> {
    fn new(files: &'a Files, name: &str, facts: &DeviceFacts) -> Self {
        let path = format!("/sys/class/net/{name}");
        let folder = match files.number::<u32>(&format!("{path}/ifindex")) {
            Ok(index) if index == facts.index => Ok(path.clone()),
            Ok(_) | Err(Unread::Absent) => Err("/sys shows another network namespace".to_owned()),
            Err(why) => Err(why.to_string()),
        };
        Self { files, folder, path }
    }

    /// Returns what `find` finds, or the finding that it could not be seen.
    fn check(&self, check: Check, file: &str, find: impl FnOnce(&str) -> Result<Finding, Unread>) -> Finding {
        let source = format!("{}/{file}", self.path);
        match &self.folder {
            Ok(_) => find(&source).unwrap_or_else(|why| check.unseen(why, source)),
            Err(why) => check.unseen(why, source),
        }
    }
}

fn state(name: &str, facts: &DeviceFacts) -> Finding {
    let driver = facts.driver.as_deref().unwrap_or("unknown");
    let (verdict, state) = match (facts.is_up, facts.has_carrier) {
        (true, true) => (Verdict::Good, "up"),
        (true, false) => (Verdict::CouldBeBetter, "up, without a carrier"),
        (false, _) => (Verdict::CouldBeBetter, "down"),
    };
    let found = Check::STATE.finds(verdict, format!("{state}, MTU {}, driver {driver}", facts.mtu), KERNEL);
    if facts.is_up { found } else { found.mended_by(format!("ip link set {name} up")) }
}

fn queues(name: &str, facts: &DeviceFacts) -> Finding {
    let (Some(used), Some(max)) = (facts.rx_queues, facts.rx_queues_max) else {
        return Check::QUEUES.unseen("the driver does not tell", ETHTOOL);
    };
    let verdict = Verdict::good_if(used > 1, Verdict::CouldBeBetter);
    let noun = if used == 1 { "receive queue" } else { "receive queues" };
    let found = Check::QUEUES.finds(verdict, format!("{used} {noun}, at most {max}"), ETHTOOL);
    if max > used { found.mended_by(format!("ethtool -L {name} combined {max}")) } else { found }
}

fn native_xdp(facts: &DeviceFacts) -> Finding {
    let (verdict, seen) = match (facts.native_xdp, facts.zero_copy) {
        (Some(true), Some(true)) => (Verdict::Good, "in the driver, without a copy to AF_XDP"),
        (Some(true), _) => (Verdict::Good, "in the driver; frames to AF_XDP are copied"),
        (Some(false), _) => (Verdict::CouldBeBetter, "behind the driver only"),
        (None, _) => return Check::NATIVE_XDP.unseen("kernels before Linux 6.3 do not tell", KERNEL),
    };
    Check::NATIVE_XDP.finds(verdict, seen, KERNEL)
}

fn program(name: &str, facts: &DeviceFacts) -> Finding {
    let Some(program) = &facts.program else {
        return Check::PROGRAM.unseen("the kernel does not tell", KERNEL);
    };
    let Some(program) = program else {
        return Check::PROGRAM.finds(Verdict::Good, "none: the place is free", KERNEL);
    };
    let id = program.id;
    match program.name.as_deref() {
        Some(GUARD) => Check::PROGRAM.finds(Verdict::Good, format!("evenkeel guard (program {id})"), KERNEL),
        called => {
            let called = called.unwrap_or("name not shown");
            let seen = format!("taken by program {id} ({called})");
            let found = Check::PROGRAM.finds(Verdict::CouldBeBetter, seen, KERNEL);
            found.mended_by(format!("ip link set {name} xdp off"))
        }
    }
}

fn offloads(name: &str, facts: &DeviceFacts) -> Finding {
    let (Some(gro), Some(lro)) = (facts.gro, facts.lro) else {
        return Check::OFFLOADS.unseen("the driver does not tell", ETHTOOL);
    };
    let word = |is_on| if is_on { "on" } else { "off" };
    let seen = format!("LRO {}, GRO {}", word(lro), word(gro));
    let found = Check::OFFLOADS.finds(Verdict::good_if(!lro, Verdict::CouldBeBetter), seen, ETHTOOL);
    found.mended_by(format!("ethtool -K {name} lro off"))
}

fn threaded(at: &Place<'_>, name: &str, facts: &DeviceFacts) -> Finding {
    // A veth device has NAPI only with GRO or an XDP program. Without, it refuses the setting.
    let is_bare = facts.driver.as_deref() == Some("veth") && facts.gro == Some(false);
    let first = if is_bare { format!("ethtool -K {name} gro on && ") } else { String::new() };
    at.check(Check::THREADED, "threaded", |source| {
        let is_threaded = at.files.number::<u32>(source)? != 0;
        let seen = if is_threaded { "on: NAPI threads" } else { "off: softirqs" };
        let found =
            Check::THREADED.finds(Verdict::good_if(is_threaded, Verdict::CouldBeBetter), seen, source);
        Ok(found.mended_by(format!("{first}echo 1 > {source}")))
    })
}

fn rps(at: &Place<'_>) -> Finding {
    at.check(Check::RPS, "queues/rx-*/rps_cpus", |source| {
        let (mut steered, mut cpus) = (Vec::new(), BTreeSet::new());
        for queue in at.files.names(&format!("{}/queues", at.path))? {
            let file = format!("{}/queues/{queue}/rps_cpus", at.path);
            if let Ok(mask) = at.files.text(&file)
                && !parse::cpu_mask(&mask).is_empty()
            {
                cpus.extend(parse::cpu_mask(&mask));
                steered.push(file);
            }
        }
        if steered.is_empty() {
            return Ok(Check::RPS.finds(Verdict::Good, "off", source));
        }
        let seen = format!("frames are steered to {}", cores(&cpus));
        let found = Check::RPS.finds(Verdict::CouldBeBetter, seen, source);
        Ok(found.mended_by(format!("echo 0 | tee {}", steered.join(" "))))
    })
}

fn interrupts(at: &Place<'_>) -> Finding {
    const TABLE: &str = "/proc/interrupts";
    at.check(Check::INTERRUPTS, "device", |device| {
        let numbers = of_device(at.files, device);
        let name = at.path.rsplit('/').next().unwrap_or_default();
        let all = parse::interrupts(&at.files.text(TABLE)?);
        let is_own = |it: &&Interrupt| {
            let is_named =
                it.name == name || it.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'));
            numbers.contains(&it.number) || is_named
        };
        let own: Vec<&Interrupt> = all.iter().filter(is_own).collect();
        if own.is_empty() {
            return Ok(Check::INTERRUPTS.finds(Verdict::Good, "the device has none", TABLE));
        }
        Ok(placed(at.files, &own))
    })
}

/// Returns the numbers of a device's interrupts. A virtio device has those of the PCI device around it.
fn of_device(files: &Files, device: &str) -> BTreeSet<u32> {
    let folders = ["msi_irqs", "../msi_irqs"].map(|folder| files.names(&format!("{device}/{folder}")));
    let names = folders.into_iter().filter_map(Result::ok).flatten();
    names.filter_map(|name| name.parse().ok()).collect()
}

/// Judges the cores of a device's interrupts.
fn placed(files: &Files, own: &[&Interrupt]) -> Finding {
    let mut by_cores: BTreeMap<String, (Vec<&str>, u64)> = BTreeMap::new();
    let (mut cpus, mut busy) = (BTreeSet::new(), 0);
    for interrupt in own {
        let list = cpus_of(files, interrupt.number);
        if interrupt.count > 0 {
            busy += 1;
            cpus.extend(list.iter().copied());
        }
        let (names, sum) = by_cores.entry(cores(&list)).or_default();
        names.push(&interrupt.name);
        *sum += interrupt.count;
    }
    let seen: Vec<String> = by_cores
        .iter()
        .map(|(cores, (names, sum))| format!("{} on {cores} ({})", names.join(", "), count(*sum)))
        .collect();
    let verdict = Verdict::good_if(busy < 2 || cpus.len() != 1, Verdict::CouldBeBetter);
    let found = Check::INTERRUPTS.finds(verdict, seen.join("; "), "/proc/interrupts, /proc/irq/*");
    let number = own.iter().max_by_key(|interrupt| interrupt.count).map_or(0, |interrupt| interrupt.number);
    found.mended_by(format!("echo CORE > /proc/irq/{number}/smp_affinity_list"))
}

/// Returns the cores that really get an interrupt, or if the kernel does not tell those that may.
fn cpus_of(files: &Files, number: u32) -> BTreeSet<usize> {
    let files_of = ["effective_affinity_list", "smp_affinity_list"];
    let lists = files_of.iter().filter_map(|file| files.text(&format!("/proc/irq/{number}/{file}")).ok());
    lists.map(|list| parse::cpu_list(&list)).find(|list| !list.is_empty()).into_iter().flatten().collect()
}

/// Returns the names of cores.
fn cores(cpus: &BTreeSet<usize>) -> String {
    let numbers: Vec<String> = cpus.iter().map(usize::to_string).collect();
    match numbers.len() {
        0 => "cores that are not shown".to_owned(),
        1 => format!("core {}", numbers[0]),
        _ => format!("cores {}", numbers.join(", ")),
    }
}

fn deferral(at: &Place<'_>) -> Finding {
    at.check(Check::DEFERRAL, "gro_flush_timeout", |source| {
        let flush_ns: u64 = at.files.number(source)?;
        let polls: u64 = at.files.number(&format!("{}/napi_defer_hard_irqs", at.path))?;
        if flush_ns == 0 || polls == 0 {
            let seen = format!("off (gro_flush_timeout {flush_ns}, napi_defer_hard_irqs {polls})");
            return Ok(Check::DEFERRAL.finds(Verdict::Good, seen, source));
        }
        let seen = format!("polled every {} instead of by interrupts", quantity::time(flush_ns));
        let found = Check::DEFERRAL.finds(Verdict::CouldBeBetter, seen, source);
        Ok(found.mended_by(format!("echo 0 > {}/napi_defer_hard_irqs", at.path)))
    })
}

#[cfg(test)]
mod tests;
