//! The options for TCP's sending, for all commands that have streams.

use std::sync::Arc;

use clap::{Args, ValueEnum};
use evenkeel::raw::host::Config;
use evenkeel::raw::tcp::Rate;
use evenkeel::raw::tcp::congestion::Algorithm;
use evenkeel::raw::tcp::recovery::{self, RecoveryConfig};

use crate::{quantity, suggest};

/// The heading of all these options.
pub(crate) const HEADING: &str = "Sending over TCP";

#[derive(Debug, Clone, Args)]
pub(crate) struct Sending {
    /// Send at most RATE on each connection, such as 50mbit, headers included.
    #[arg(long, help_heading = HEADING, value_name = "RATE", value_parser = rate)]
    limit_rate: Option<Rate>,
    /// Control congestion with this algorithm.
    #[arg(long, help_heading = HEADING, value_name = "NAME", value_enum, default_value_t = Congestion::Cubic)]
    congestion: Congestion,
    /// Start connections in this way: slow-start; known=RATE, such as known=50mbit, if this connection has a
    /// path of that capacity to itself; remembered, at half the rate of an earlier connection to the same
    /// peer; or estimated, at half the rate of the first acknowledgments.
    #[arg(
        long, help_heading = HEADING, value_name = "HOW", default_value = "slow-start",
        value_parser = suggest::with(start, ["slow-start", "known=", "remembered", "estimated"]),
        hide_possible_values = true
    )]
    start: Start,
    /// Continue after an idle time in this way.
    #[arg(
        long, help_heading = HEADING, value_name = "HOW", value_enum, default_value_t = Restart::SlowStart
    )]
    restart: Restart,
    /// Spread packets over the round trip, one packet at each event of a timer [default: only if another
    /// option needs it].
    #[arg(long, help_heading = HEADING)]
    pacing: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Congestion {
    /// NewReno (RFC 5681 and 6582).
    Newreno,
    /// CUBIC (RFC 9438).
    Cubic,
    /// BBR, a model of the path, and pacing (draft-ietf-ccwg-bbr).
    Bbr,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Restart {
    /// Use the initial window (RFC 5681, 4.1).
    SlowStart,
    /// Keep the previous window, paced at the previous rate (RFC 7661).
    LastRate,
}

/// A [`recovery::Start`] in the form of the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Start(recovery::Start);

fn rate(text: &str) -> Result<Rate, String> {
    quantity::bit_rate(text).map(Rate::bits_per_s)
}

fn start(text: &str) -> Result<Start, String> {
    let start = match text.split_once('=') {
        Some(("known", text)) => recovery::Start::At(rate(text)?),
        None if text == "slow-start" => recovery::Start::SlowStart,
        None if text == "remembered" => recovery::Start::Remembered,
        None if text == "estimated" => recovery::Start::Estimated,
        _ => return Err("expected slow-start, known=RATE, remembered or estimated".to_owned()),
    };
    Ok(Start(start))
}

impl Sending {
    /// Returns the name of an option that differs from its default, if any does.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let options = [
            (self.limit_rate.is_some(), "--limit-rate"),
            (self.congestion != Congestion::Cubic, "--congestion"),
            (self.start.0 != recovery::Start::SlowStart, "--start"),
            (self.restart != Restart::SlowStart, "--restart"),
            (self.pacing, "--pacing"),
        ];
        options.into_iter().find_map(|(given, name)| given.then_some(name))
    }

    /// Applies these options to the connections of a host.
    pub(crate) fn apply(&self, config: &mut Config) {
        let connection = Arc::make_mut(&mut config.tcp.connection);
        let recovery = RecoveryConfig {
            algorithm: match self.congestion {
                Congestion::Newreno => Algorithm::NewReno,
                Congestion::Cubic => Algorithm::Cubic,
                Congestion::Bbr => Algorithm::Bbr,
            },
            start: self.start.0,
            restart: match self.restart {
                Restart::SlowStart => recovery::Restart::SlowStart,
                Restart::LastRate => recovery::Restart::LastRate,
            },
            rate_max: self.limit_rate,
            pacing: self.pacing,
            ..(*connection.recovery).clone()
        };
        connection.recovery = Arc::new(recovery);
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use evenkeel::raw::receive::Architecture;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        sending: Sending,
    }

    /// Returns the recovery settings that `options` (separated by spaces) lead to, and the first option that
    /// was given.
    fn applied(options: &str) -> (RecoveryConfig, Option<&'static str>) {
        let line = Line::try_parse_from(format!("test {options}").split_whitespace()).unwrap();
        let mut config = Config::of(Architecture::SoftLrp);
        line.sending.apply(&mut config);
        ((*config.tcp.connection.recovery).clone(), line.sending.given())
    }

    #[test]
    fn each_option_changes_its_own_setting_and_no_other() {
        let mut plain = (*Config::of(Architecture::SoftLrp).tcp.connection.recovery).clone();
        plain.algorithm = Algorithm::Cubic;
        assert_eq!(applied(""), (plain.clone(), None));
        let with = |change: fn(&mut RecoveryConfig)| {
            let mut changed = plain.clone();
            change(&mut changed);
            changed
        };
        let rate = Rate::bits_per_s(5_000_000);
        for (options, option, expected) in [
            ("--limit-rate 5mbit", "--limit-rate", RecoveryConfig { rate_max: Some(rate), ..plain.clone() }),
            ("--congestion newreno", "--congestion", with(|to| to.algorithm = Algorithm::NewReno)),
            ("--congestion bbr", "--congestion", with(|to| to.algorithm = Algorithm::Bbr)),
            ("--start remembered", "--start", with(|to| to.start = recovery::Start::Remembered)),
            ("--restart last-rate", "--restart", with(|to| to.restart = recovery::Restart::LastRate)),
            ("--pacing", "--pacing", with(|to| to.pacing = true)),
        ] {
            assert_eq!(applied(options), (expected, Some(option)), "{options}");
        }
    }

    #[test]
    fn a_start_is_one_of_four() {
        let mbit = |n: u64| Rate::bits_per_s(n * 1_000_000);
        for (text, expected) in [
            ("slow-start", recovery::Start::SlowStart),
            ("known=50mbit", recovery::Start::At(mbit(50))),
            ("known=1gbit", recovery::Start::At(mbit(1_000))),
            ("remembered", recovery::Start::Remembered),
            ("estimated", recovery::Start::Estimated),
        ] {
            assert_eq!(start(text), Ok(Start(expected)));
        }
        for text in ["", "known", "known=", "known=fast", "known=0mbit", "remembered=5mbit", "50mbit"] {
            assert!(start(text).is_err(), "{text}");
        }
    }
}
