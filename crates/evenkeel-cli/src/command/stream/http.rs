//! `evenkeel http`: runs a web server with one document.

use std::time::Duration;

use clap::Args;
use evenkeel::raw::time::Clock;
use evenkeel_apps::http::Document;
use evenkeel_apps::stream::{Ask, Web};

use super::serve::{Run, Task, TcpArguments};
use crate::command::hosting::HostArguments;
use crate::failure::Failure;
use crate::manual::guide::{Example, Group, Guide};
use crate::manual::texts;
use crate::quantity;
use crate::receiving::Receiving;

/// Serve one made-up document over HTTP/1.x (for measurements, browsers and curl).
///
/// GET and HEAD of / return the document. Connections are kept, and requests may be pipelined.
#[derive(Debug, Args)]
#[command(mut_arg("limit_rate", |limit| limit.visible_alias("rate")))]
pub(crate) struct Arguments {
    #[command(flatten)]
    host: HostArguments,
    /// Listen on this port.
    #[arg(
        long, value_name = "PORT", default_value_t = 80, value_parser = clap::value_parser!(u16).range(1..)
    )]
    port: u16,
    /// Serve a document of N bytes, such as 1300, 64k or 1G.
    #[arg(long, value_name = "N", default_value = "1300", value_parser = quantity::count)]
    size: u64,
    /// Compute for TIME on each read, such as 100us.
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = quantity::time)]
    work: Duration,
    /// Close a connection that stays idle, or leaves an answer unread, for TIME.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = quantity::period)]
    timeout: Duration,
    /// Stop after N connections.
    #[arg(long, value_name = "N", value_parser = quantity::count)]
    count: Option<u64>,
    #[command(flatten)]
    streams: TcpArguments,
    #[command(flatten)]
    receiving: Receiving,
}

pub(crate) const GUIDE: Guide = Guide {
    groups: &[
        texts::HOST_ADDRESSES,
        Group { heading: "Service", first: &["size", "port"], others: &["work", "timeout"] },
        Group { heading: "Load on cable", first: &[], others: &["clients"] },
        texts::TCP,
        texts::RUN,
        texts::HOST_OUTPUT,
    ],
    sections: &[texts::HOST_LINKS],
    examples: &[
        Example {
            says: "Serve a small document to 64 clients in memory for five seconds.",
            command: "evenkeel http cable --size 1300 --clients 64",
        },
        Example {
            says: "As root, serve 1 GB to the programs of this machine, with BBR.",
            command: "evenkeel http tap:keel0 --kernel-address 10.77.0.1/24 --size 1G \\\n\
                      \x20   --congestion bbr",
        },
        Example { says: "In another terminal, fetch it.", command: "curl -o document http://10.77.0.2/" },
    ],
    exit_status: texts::EXIT_STATUS,
    signals: texts::SIGNALS,
    files: &[texts::TUN_FILE],
    see_also: &["load", "echo", "help receiving", "help sending"],
};

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { host, port, size, work, timeout, count, streams, receiving } = arguments;
    let text = b"GET / HTTP/1.1\r\nHost: evenkeel\r\nConnection: close\r\n\r\n";
    let ask = Ask::Request { text: text.as_slice().into(), answer: *size };
    let task = Task { port: *port, work: *work, count: *count, ask };
    let web = Web::new(Document::new(*size)).with_date(Clock::start()).with_timeout(*timeout);
    Run { host, receiving, streams, udp: None, tcp: Some(task) }.serve(web)
}
