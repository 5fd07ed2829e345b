//! The share of processors that a program of this session gets.

use super::files::{Files, Unread};
use super::finding::{Check, Finding, Verdict};
use super::parse::{self, CpuGroup};
use crate::quantity::decimals_at_most;

const GROUPS: &str = "/proc/self/cgroup";
const MOUNT: &str = "/sys/fs/cgroup";

/// Checks how processors are divided.
pub(super) fn findings(files: &Files) -> Vec<Finding> {
    vec![cpu_group(files), autogroup(files), real_time(files)]
}

fn cpu_group(files: &Files) -> Finding {
    let group = match files.parsed(GROUPS, parse::cpu_group) {
        Ok(group) => group,
        Err(why) => return Check::CGROUP.unseen(why, GROUPS),
    };
    let (folder, quota) = match &group {
        CpuGroup::Unified(path) => (path, tightest(path, |path| unified_quota(files, path))),
        CpuGroup::V1(path) => (path, tightest(path, |path| v1_quota(files, path))),
    };
    let weight = weight(files, &group).map_or_else(String::new, |weight| format!(", {weight}"));
    match quota {
        Some((quota, file)) => {
            let quota = decimals_at_most(quota, 2);
            let seen = format!("at most {quota} processors in {folder}{weight}");
            Check::CGROUP.finds(Verdict::CouldBeBetter, seen, file)
        }
        None => Check::CGROUP.finds(Verdict::Good, format!("no quota in {folder}{weight}"), GROUPS),
    }
}

/// Returns the least quota of a group and the groups around it, with its file.
fn tightest(path: &str, quota: impl Fn(&str) -> Option<(f64, String)>) -> Option<(f64, String)> {
    let ends = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
    ends.filter_map(|end| quota(path.get(..end)?)).min_by(|a, b| a.0.total_cmp(&b.0))
}

/// Returns the file of a group: below the mount, or where systemd mounts the unified hierarchy next to
/// others.
fn unified(files: &Files, path: &str, name: &str) -> Option<(String, String)> {
    let path = path.trim_end_matches('/');
    let places = [format!("{MOUNT}{path}/{name}"), format!("{MOUNT}/unified{path}/{name}")];
    places.into_iter().find_map(|file| Some((files.text(&file).ok()?, file)))
}

fn unified_quota(files: &Files, path: &str) -> Option<(f64, String)> {
    let (text, file) = unified(files, path, "cpu.max")?;
    Some((parse::cpu_max(&text)??, file))
}

fn v1(path: &str, name: &str) -> [String; 2] {
    ["cpu", "cpu,cpuacct"].map(|mount| format!("{MOUNT}/{mount}{}/{name}", path.trim_end_matches('/')))
}

fn v1_quota(files: &Files, path: &str) -> Option<(f64, String)> {
    let both = v1(path, "cpu.cfs_quota_us").into_iter().zip(v1(path, "cpu.cfs_period_us"));
    let read = |(quota, period): (String, String)| {
        Some((parse::share(files.number(&quota).ok()?, files.number(&period).ok()?)?, quota))
    };
    both.filter_map(read).next()
}

/// Returns the weight of a group against its neighbours.
fn weight(files: &Files, group: &CpuGroup) -> Option<String> {
    match group {
        CpuGroup::Unified(path) => {
            let (weight, _) = unified(files, path, "cpu.weight")?;
            Some(format!("weight {weight} (100 is usual)"))
        }
        CpuGroup::V1(path) => {
            let shares = v1(path, "cpu.shares").into_iter().find_map(|file| files.text(&file).ok())?;
            Some(format!("{shares} shares (1024 is usual)"))
        }
    }
}

fn autogroup(files: &Files) -> Finding {
    const SWITCH: &str = "/proc/sys/kernel/sched_autogroup_enabled";
    const OWN: &str = "/proc/self/autogroup";
    match files.number::<u32>(SWITCH) {
        Ok(0) => Check::AUTOGROUP.finds(Verdict::Good, "off", SWITCH),
        // A kernel without groups by session has no such file.
        Err(Unread::Absent) => Check::AUTOGROUP.finds(Verdict::Good, "this kernel has none", SWITCH),
        Err(why) => Check::AUTOGROUP.unseen(why, SWITCH),
        Ok(_) if is_in_group(files) => {
            let seen = "on, and without effect: this process is in a control group";
            Check::AUTOGROUP.finds(Verdict::Good, seen, GROUPS)
        }
        Ok(_) => {
            let own = files.text(OWN).unwrap_or_else(|_| "a group".to_owned());
            let seen = format!("on: this process is in {own}, with all of its session");
            let found = Check::AUTOGROUP.finds(Verdict::CouldBeBetter, seen, OWN);
            found.mended_by("setsid COMMAND")
        }
    }
}

/// Returns whether processors are divided by a control group, and so not by session.
fn is_in_group(files: &Files) -> bool {
    match files.parsed(GROUPS, parse::cpu_group) {
        Ok(CpuGroup::V1(path)) => path != "/",
        // A group without the controller is in that of its parent.
        Ok(CpuGroup::Unified(path)) => path != "/" && unified(files, &path, "cpu.weight").is_some(),
        Err(_) => false,
    }
}

fn real_time(files: &Files) -> Finding {
    const RUNTIME: &str = "/proc/sys/kernel/sched_rt_runtime_us";
    const PERIOD: &str = "/proc/sys/kernel/sched_rt_period_us";
    let check = Check::REALTIME;
    match (files.number::<i64>(RUNTIME), files.number::<i64>(PERIOD)) {
        (Ok(runtime), Ok(period)) => match parse::share(runtime, period) {
            Some(share) if share < 1.0 => {
                let seen = format!(
                    "real-time threads have at most {} % of a core",
                    decimals_at_most(share * 100.0, 1)
                );
                check.finds(Verdict::Good, seen, RUNTIME)
            }
            _ => check.finds(Verdict::CouldBeBetter, "no limit", RUNTIME),
        },
        (Err(why), _) | (_, Err(why)) => check.unseen(why, RUNTIME),
    }
    .mended_by("sysctl -w kernel.sched_rt_runtime_us=950000")
}

#[cfg(test)]
mod tests {
    use evenkeel_testing::Scratch;

    use super::*;

    fn found(state: &[(&str, &str)]) -> Vec<(Verdict, String)> {
        let scratch = Scratch::new();
        state.iter().for_each(|(file, text)| _ = scratch.write(file, text));
        let found = findings(&Files::below(scratch.file("")));
        found.into_iter().map(|finding| (finding.verdict, finding.seen)).collect()
    }

    #[test]
    fn the_tightest_quota_counts_also_of_a_group_around() {
        let group = found(&[
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/cpu.max", "50000 100000\n"),
            ("sys/fs/cgroup/a/b/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/a/b/cpu.weight", "200\n"),
        ]);
        let seen = "at most 0.5 processors in /a/b, weight 200 (100 is usual)";
        assert_eq!(group[0], (Verdict::CouldBeBetter, seen.to_owned()));
    }

    #[test]
    fn groups_of_version_1_have_shares_and_a_quota_that_may_be_negative() {
        let group = |quota| {
            let all = found(&[
                ("proc/self/cgroup", "3:cpu,cpuacct:/s\n0::/\n"),
                ("sys/fs/cgroup/cpu,cpuacct/s/cpu.cfs_quota_us", quota),
                ("sys/fs/cgroup/cpu,cpuacct/s/cpu.cfs_period_us", "100000\n"),
                ("sys/fs/cgroup/cpu,cpuacct/s/cpu.shares", "512\n"),
            ]);
            all[0].clone()
        };
        let seen = "no quota in /s, 512 shares (1024 is usual)";
        assert_eq!(group("-1\n"), (Verdict::Good, seen.to_owned()));
        assert_eq!(group("150000\n").0, Verdict::CouldBeBetter);
    }

    #[test]
    fn a_session_is_a_group_unless_a_control_group_is() {
        let with = |group: &str| {
            let all = found(&[
                ("proc/sys/kernel/sched_autogroup_enabled", "1\n"),
                ("proc/self/autogroup", "/autogroup-9 nice 0\n"),
                ("proc/self/cgroup", group),
            ]);
            all[1].clone()
        };
        let seen = "on: this process is in /autogroup-9 nice 0, with all of its session";
        assert_eq!(with("1:cpu:/\n"), (Verdict::CouldBeBetter, seen.to_owned()));
        assert_eq!(with("1:cpu:/service\n").0, Verdict::Good);
        assert_eq!(with("").0, Verdict::CouldBeBetter);
    }

    #[test]
    fn real_time_without_a_limit_could_be_better() {
        let with = |runtime| {
            let all = found(&[
                ("proc/sys/kernel/sched_rt_runtime_us", runtime),
                ("proc/sys/kernel/sched_rt_period_us", "1000000\n"),
            ]);
            all[2].clone()
        };
        let seen = "real-time threads have at most 95 % of a core";
        assert_eq!(with("950000\n"), (Verdict::Good, seen.to_owned()));
        assert_eq!(with("-1\n").0, Verdict::CouldBeBetter);
        assert_eq!(with("much\n").0, Verdict::Unknown);
    }
}
