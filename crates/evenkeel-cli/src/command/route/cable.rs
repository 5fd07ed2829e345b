//! `evenkeel route cable`: floods a router in memory.

use std::time::Duration;

use evenkeel_apps::quantity::{count, percent, pps};
use evenkeel_apps::route::flood::{self, Flood, Flooded, News, Step};
use schemars::JsonSchema;
use serde::Serialize;

use super::Arguments;
use crate::command::account;
use crate::command::config_file::File;
use crate::failure::Failure;
use crate::quantity::Rate;
use crate::terminal;

/// Rates of the flood if none is given: each is twice the one before, and the last is the machine's maximum.
const RATES: [Option<u64>; 7] =
    [Some(100_000), Some(200_000), Some(400_000), Some(800_000), Some(1_600_000), Some(3_200_000), None];
const EACH: Duration = Duration::from_millis(300);
/// Columns of a bar.
const BAR: usize = 30;

/// The report that `route --json` prints for a demonstration on cables.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RouteOnCable")]
pub(crate) struct Output<'a> {
    /// The receive architecture of the router.
    architecture: &'static str,
    #[serde(flatten)]
    flooded: &'a Flooded,
}

pub(super) fn run(arguments: &Arguments, file: &File) -> Result<(), Failure> {
    if !arguments.link.is_empty() || arguments.kernel_routes {
        return Err(Failure::Usage("cable has its own links: neither --link nor --kernel-routes".to_owned()));
    }
    if arguments.offload {
        return Err(Failure::Usage("cable has no XDP: --offload is for xdp:NAME links".to_owned()));
    }
    if !arguments.cores.is_empty() {
        return Err(Failure::Usage(
            "cable is flooded on one core: --cores is for packet:NAME links".to_owned(),
        ));
    }
    let flood = Flood {
        config: arguments.config(),
        rules: arguments.changing()?.rules,
        packets: Vec::new(),
        screen_queue_pkts: arguments.screen_queue.into(),
        rates_pps: arguments.rate.map_or_else(|| RATES.to_vec(), |rate| vec![Rate::per_second(rate)]),
        each: arguments.duration.unwrap_or(EACH),
        reports: terminal::reports()?,
    };
    let mut progress = terminal::Progress::new();
    let architecture = arguments.receiving.architecture().name();
    let print = |flooded: &Flooded| {
        if arguments.json {
            terminal::print_json(&Output { architecture, flooded })
        } else {
            terminal::print(&describe(architecture, flooded))
        }
    };
    let flooded = flood::flood(&flood, |news| match news {
        News::Step(step) => progress.show(&format!("offered {}", pps(step.offered_pps))),
        News::Report(flooded) => {
            progress.clear();
            // The error is ignored: if the reader has gone, the final report fails, too.
            let _ = print(flooded);
        }
    });
    let flooded = flooded.map_err(|error| super::failure(file, error))?;
    progress.clear();
    print(&flooded)?;
    if flooded.conserved { Ok(()) } else { Err(Failure::unbalanced()) }
}

fn describe(architecture: &str, flooded: &Flooded) -> String {
    let mut text = format!("{:>12}  {:>12}\n", "offered", "forwarded");
    for step in &flooded.steps {
        text.push_str(&line(step, flooded.peak_pps));
    }
    let Some(last) = flooded.steps.last() else { return text };
    text.push_str(&format!(
        "{architecture} forwards {} when {} are offered: {} % of its peak\n",
        pps(last.forwarded_pps),
        pps(last.offered_pps),
        percent(flooded.retention)
    ));
    for rule in &last.rules {
        text.push_str(&format!("  {:>12}  {}\n", count(rule.packets), rule.rule));
    }
    text + &account::drops(&last.counters)
}

fn line(step: &Step, peak_pps: f64) -> String {
    let bar = terminal::bar(step.forwarded_pps / peak_pps.max(1.0), BAR);
    format!("{:>12}  {:>12}  {bar}\n", pps(step.offered_pps), pps(step.forwarded_pps))
}
