//! The description of the machine that the demonstration runs on, and of the time.

use time::UtcDateTime;
use time::format_description::well_known::Rfc3339;

/// Returns the processor's name, if Linux gives one.
#[must_use]
pub fn processor() -> Option<String> {
    model_name(&std::fs::read_to_string("/proc/cpuinfo").ok()?).map(str::to_owned)
}

/// Returns the operating system and its release.
#[must_use]
pub(super) fn system() -> Option<String> {
    Some(format!("Linux {}", release()?))
}

/// Returns the release of the kernel.
#[must_use]
pub(super) fn release() -> Option<String> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    Some(release.trim().to_owned())
}

/// Returns a time, in nanoseconds since 1970, as of RFC 3339 in UTC and to the second.
#[must_use]
pub(super) fn utc(nanos: u64) -> Option<String> {
    let seconds = i64::try_from(nanos / 1_000_000_000).ok()?;
    UtcDateTime::from_unix_timestamp(seconds).ok()?.format(&Rfc3339).ok()
}

fn model_name(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, name)| name.trim()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_has_seconds_and_no_more() {
        assert_eq!(utc(1_767_323_045_999_999_999).as_deref(), Some("2026-01-02T03:04:05Z"));
    }

    #[test]
    fn the_first_processor_gives_the_name() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU @ 2.0 GHz\nmodel name\t: another\n";
        assert_eq!(model_name(cpuinfo), Some("Some CPU @ 2.0 GHz"));
        assert_eq!(model_name("processor\t: 0\nmodel name\t: \n"), None);
        assert_eq!(model_name("CPU implementer : 0x41\n"), None);
    }
}
