//! `evenkeel send`: sends a file or standard input over TCP.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use evenkeel::raw::device::{Address, DeviceSpec, LinkSpec};
use evenkeel::raw::host::Config;
use evenkeel::raw::receive::Architecture;
use evenkeel::raw::tcp::ListenerConfig;
use evenkeel::raw::wire::{IpAddress, IpCidr, IpEndpoint};
use evenkeel_apps::captures::Embedded;
use evenkeel_apps::host_setup::{HostSetup, Occasion};
use evenkeel_apps::quantity::{count, three_digits};
use evenkeel_apps::sending::{self, Errand, Place, Sent, Way};
use evenkeel_apps::stream::{Drain, Options, Pattern, Source, Stdio};
use schemars::JsonSchema;
use serde::Serialize;

use super::serve::FAST_OPEN_WAITING;
use super::show::{self, Moved, Telling};
use crate::command::account;
use crate::failure::Failure;
use crate::manual::guide::{Block, Example, Group, Guide, Section};
use crate::manual::texts;
use crate::receiving::Receiving;
use crate::sending::Sending;
use crate::{address, published, quantity, suggest, terminal};

/// Send a file or standard input over one TCP connection, and write what comes back.
///
/// With --bytes the command sends made-up bytes, and compares what comes back. After the last byte it closes
/// its direction (half-close), and receives to the end of the peer's. TCP, IP, ARP and neighbour discovery
/// are evenkeel's; the kernel only moves frames.
#[derive(Debug, Args)]
#[command(mut_arg("limit_rate", |limit| limit.visible_alias("rate")))]
pub(crate) struct Arguments {
    /// Send frames through LINK: cable, tap:NAME, packet:NAME or xdp:NAME.
    #[arg(value_name = "LINK", value_parser = suggest::link(), hide_possible_values = true)]
    link: LinkSpec,
    /// Send FILE; `-` for standard input [default: standard input].
    #[arg(value_name = "FILE", conflicts_with = "bytes")]
    file: Option<PathBuf>,
    /// Send N made-up bytes, such as 1000, 64k or 1G; equal for equal --seed.
    #[arg(long, value_name = "N", value_parser = quantity::count)]
    bytes: Option<u64>,
    /// Write what comes back to FILE; `-` for standard output [default: standard output; with --bytes or
    /// --json it is only counted].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Connect to ADDRESS:PORT. On cable this is the server's address and port.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "10.77.0.1:7", value_parser = address::endpoint)]
    to: IpEndpoint,
    /// Send from ADDRESS with its prefix length [default: 10.77.0.2/24, or fd77::2/64 if --to is IPv6].
    #[arg(long, value_name = "ADDRESS/LENGTH", value_parser = address::cidr)]
    from: Option<IpCidr>,
    /// On tap: give ADDRESS to the kernel's end; repeat for more.
    #[arg(long, value_name = "ADDRESS/LENGTH", value_parser = address::cidr)]
    kernel_address: Vec<IpCidr>,
    /// Reach other networks through the router at ADDRESS.
    #[arg(long, value_name = "ADDRESS", value_parser = address::host)]
    gateway: Option<IpAddress>,
    /// Use this hardware address: own, device (that of packet:NAME), random, or one such as 02:00:00:00:00:09
    /// [default: own].
    #[arg(
        long, value_name = "ADDRESS", value_parser = suggest::mac(), hide_possible_values = true
    )]
    mac: Option<Address>,
    /// On cable: the peer receives and sends nothing back.
    #[arg(long)]
    sink: bool,
    /// Send the first bytes with the SYN, which saves a round trip (TCP Fast Open, RFC 7413). A first
    /// connection without data fetches the server's cookie for that. The server may get those bytes twice, so
    /// send only what does no harm twice. If the network drops such SYNs, the command continues without Fast
    /// Open.
    #[arg(long)]
    fast_open: bool,
    /// Give up if there is no connection after TIME [default: 3m]. If a peer or router on the link does not
    /// answer ARP or neighbour discovery, give up after 3 s.
    #[arg(long, value_name = "TIME", value_parser = quantity::period)]
    connect_timeout: Option<Duration>,
    /// Stop after TIME [default: when both sides have closed].
    #[arg(long, value_name = "TIME", value_parser = quantity::time)]
    duration: Option<Duration>,
    /// Write every incoming and outgoing frame to a capture file; not on cable.
    #[arg(long, value_name = "FILE.pcapng")]
    dump: Option<PathBuf>,
    /// Write incoming and outgoing frames to a pcapng file; see `evenkeel echo --help`.
    #[arg(
        long, value_name = "FILE[,snaplen=N][,filter=EXPRESSION]",
        value_parser = crate::command::capture::inside,
        value_hint = clap::ValueHint::FilePath
    )]
    capture: Option<Embedded>,
    /// Report progress and the state of the connection on standard error every TIME [default: on a terminal
    /// all the time].
    #[arg(long, value_name = "TIME", value_parser = quantity::period)]
    stats_interval: Option<Duration>,
    /// Seed everything made up with SEED.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// Print the result as one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    sending: Sending,
    #[command(flatten)]
    receiving: Receiving,
}

pub(crate) const GUIDE: Guide = Guide {
    groups: &[
        Group { heading: "Data", first: &["bytes", "output"], others: &["sink", "seed"] },
        texts::PEER_ADDRESSES,
        Group { heading: "TCP", first: &[], others: &["fast_open", "connect_timeout"] },
        Group { heading: "Run", first: &["duration"], others: &[] },
        texts::HOST_OUTPUT,
    ],
    sections: &[Section {
        heading: "Output",
        blocks: &[Block::Text(
            "Received bytes go to standard output, and the report to standard error. With --bytes, --json or \
             --output FILE the report goes to standard output. On cable \
             the peer is an evenkeel host that sends all bytes back, or with --sink only receives them.",
        )],
    }],
    examples: &[
        Example {
            says: "Send 1 GB to an echo service in memory, and compare what comes back.",
            command: "evenkeel send cable --bytes 1G",
        },
        Example {
            says: "Send standard input, and print what comes back.",
            command: "echo hello | evenkeel send cable",
        },
        Example {
            says: "As root, send a file to a server on this machine, such as `nc -l 9000 > got`.",
            command: "evenkeel send tap:keel0 --kernel-address 10.77.0.1/24 \\\n\
                      \x20   --to 10.77.0.1:9000 some-file",
        },
        Example {
            says: "As root, send a file through a network card, on a path of known capacity.",
            command: "evenkeel send packet:eth1 --from 192.0.2.7/24 --to 192.0.2.9:9000 \\\n    \
                      --start known=50mbit some-file",
        },
    ],
    exit_status: &[
        ("0", "Both sides have sent all and closed."),
        (
            "1",
            "Not so: there was no connection or it failed, something could not be read or written, or a \
             signal or --duration ended it.",
        ),
        ("2", texts::BAD_ARGUMENTS),
    ],
    signals: texts::SIGNALS,
    files: &[texts::TUN_FILE],
    see_also: &["echo", "sink", "help receiving", "help sending", "nc(1)"],
};

/// The report that `send --json` prints.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Send")]
pub(crate) struct Output<'a> {
    /// The link, as given on the command line.
    link: String,
    /// The receive architecture of the host.
    architecture: &'static str,
    /// The address and port of the peer.
    to: String,
    #[serde(flatten)]
    sent: &'a Sent,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let to_stdout = arguments.writes_to_stdout();
    if to_stdout && arguments.json {
        let line = "--json and what comes back cannot both go to standard output; use --output FILE";
        return Err(Failure::Usage(line.to_owned()));
    }
    let setup = arguments.setup()?;
    let place = arguments.place(&setup)?;
    let outside = Stdio::new().map_err(|e| Failure::machine("cannot read and write", e))?;
    let source = arguments.source(&outside)?;
    let drain = arguments.drain(&outside)?;
    let (to, fast_open, capture) = (arguments.to, arguments.fast_open, arguments.capture.clone());
    let errand = Errand { to, fast_open, source, drain, outside, capture };
    // A live line must not disturb a user who types or reads at the terminal.
    let typed = arguments.reads_stdin() && io::stdin().is_terminal();
    let quiet = arguments.json || typed || to_stdout && io::stdout().is_terminal();
    let mut telling = Telling::new(arguments.stats_interval, quiet);
    let every = telling.every(arguments.stats_interval);
    let limits = published::limits(arguments.duration, every)?;
    let sent = sending::send(&setup, place, errand, limits, |occasion, sent| match occasion {
        Occasion::Interval => {
            let connection: String = sent.connection.iter().map(show::connection).collect();
            telling.show(moved(sent), |moved| line(sent, moved), &connection);
        }
        Occasion::Request => {
            telling.clear();
            // The error is ignored: if the reader has gone, the final report fails, too.
            let _ = arguments.print(sent, to_stdout);
        }
    });
    telling.clear();
    let sent = sent?;
    arguments.print(&sent, to_stdout)?;
    arguments.judge(&sent)
}

impl Arguments {
    fn is_v6(&self) -> bool {
        matches!(IpAddr::from(self.to.addr), IpAddr::V6(_))
    }

    fn is_on_cable(&self) -> bool {
        matches!(self.link, LinkSpec::Cable { .. })
    }

    fn reads_stdin(&self) -> bool {
        self.bytes.is_none() && self.file.as_deref().is_none_or(|file| file == Path::new("-"))
    }

    fn writes_to_stdout(&self) -> bool {
        match self.output.as_deref() {
            Some(file) => file == Path::new("-"),
            None => self.bytes.is_none() && !self.json,
        }
    }

    fn our_address(&self) -> Result<IpCidr, Failure> {
        let default = if self.is_v6() { "fd77::2/64" } else { "10.77.0.2/24" };
        self.from.map_or_else(|| address::cidr(default).map_err(Failure::Usage), Ok)
    }

    /// Returns the setup of the sender's host.
    ///
    /// # Errors
    /// The arguments do not fit the link or each other.
    fn setup(&self) -> Result<HostSetup, Failure> {
        if let LinkSpec::Device(DeviceSpec::Pcap(_)) = self.link {
            let line = "nobody answers from a capture; use cable, tap:NAME or packet:NAME";
            return Err(Failure::Usage(line.to_owned()));
        }
        if self.sink && !self.is_on_cable() {
            return Err(Failure::Usage("--sink is for cable only".to_owned()));
        }
        crate::command::refuse_if_shared(&self.link, self.from.is_some(), "--from")?;
        let from = self.our_address()?;
        if matches!(from, IpCidr::Ipv6(_)) != self.is_v6() {
            let line = format!("--from {from} and --to {} are of different families", self.to);
            return Err(Failure::Usage(line));
        }
        let gateways = self.gateway.into_iter().collect();
        let mut config = self.receiving.on(Some(&self.link)).config(self.seed);
        self.sending.apply(&mut config);
        if let Some(timeout) = self.connect_timeout {
            Arc::make_mut(&mut config.tcp.connection).connect_timeout = timeout;
        }
        Ok(HostSetup { addresses: vec![from], gateways, config })
    }

    fn place(&self, setup: &HostSetup) -> Result<Place, Failure> {
        let place = crate::command::place(
            &self.link,
            &setup.addresses,
            &self.kernel_address,
            self.gateway.as_slice(),
            self.mac,
            self.dump.as_ref(),
        )?;
        let queues = match place {
            crate::command::Place::Device(at) => return Ok(Place::Device(at)),
            crate::command::Place::Cable { queues } => queues,
        };
        let [from, ..] = setup.addresses[..] else { return Err(Failure::Usage("no address".to_owned())) };
        let to = IpCidr::new(self.to.addr, from.prefix_len());
        let other = HostSetup {
            addresses: vec![to],
            gateways: Vec::new(),
            config: Config { seed: self.seed.wrapping_add(1), ..Config::of(Architecture::SoftLrp) },
        };
        let fast_open = if self.fast_open { FAST_OPEN_WAITING as usize } else { 0 };
        let listener = ListenerConfig { fast_open, ..ListenerConfig::default() };
        let options = Options { port: self.to.port, listener, work: Duration::ZERO, count: None };
        Ok(Place::Cable { queues, other: Box::new(other), options, echoes: !self.sink })
    }

    fn source(&self, outside: &Stdio) -> Result<Source, Failure> {
        if let Some(bytes) = self.bytes {
            return Ok(Source::Pattern { pattern: Pattern::new(self.seed), bytes });
        }
        let from: Box<dyn Read + Send> = match &self.file {
            Some(file) if file != Path::new("-") => Box::new(
                open(file).map_err(|e| Failure::machine(format!("cannot read {}", file.display()), e))?,
            ),
            _ => Box::new(io::stdin()),
        };
        let input = outside.input(from).map_err(|e| Failure::machine("cannot read", e))?;
        Ok(Source::Input(input))
    }

    fn drain(&self, outside: &Stdio) -> Result<Drain, Failure> {
        let output = match &self.output {
            _ if self.writes_to_stdout() => outside.output(io::stdout()),
            Some(file) => {
                let created = File::create(file)
                    .map_err(|e| Failure::machine(format!("cannot write {}", file.display()), e))?;
                outside.output(created)
            }
            None => return Ok(Drain::Count),
        };
        output.map(Drain::Output).map_err(|e| Failure::machine("cannot write", e))
    }

    fn print(&self, sent: &Sent, to_stdout: bool) -> Result<(), Failure> {
        if self.json {
            let architecture = self.receiving.on(Some(&self.link)).architecture().name();
            let (link, to) = (self.link.to_string(), self.to.to_string());
            return terminal::print_json(&Output { link, architecture, to, sent });
        }
        let text = describe(sent);
        if to_stdout {
            eprint!("{text}");
            return Ok(());
        }
        terminal::print(&text)
    }

    /// Fails if the run was not complete, or if its input, output, device, capture or counters failed.
    fn judge(&self, sent: &Sent) -> Result<(), Failure> {
        match &sent.outside {
            Some((Way::Out, error)) => return Err(Failure::machine("cannot write what came back", error)),
            Some((Way::In, error)) => return Err(Failure::machine("cannot read what is to be sent", error)),
            None => {}
        }
        Failure::of_device(sent.device_failed.as_ref())?;
        if let Some(error) = &sent.error {
            return Err(self.broken(sent, error));
        }
        let server = sent.server.as_ref().is_none_or(|server| server.counters.conserved);
        if !(sent.counters.conserved && server) {
            return Err(Failure::unbalanced());
        }
        crate::command::capture::judge(sent.capture.as_ref())?;
        if !self.sink && self.is_on_cable() && sent.as_sent == Some(false) {
            return Err(Failure::Machine("what came back is not what was sent".to_owned()));
        }
        if sent.complete { Ok(()) } else { Err(self.unfinished(sent)) }
    }

    /// Returns the error that explains why there was no connection, or why the connection ended.
    fn broken(&self, sent: &Sent, error: &str) -> Failure {
        if sent.unreachable && sent.connection.as_ref().is_none_or(|connection| connection.segments_in == 0) {
            let next_hop = self.next_hop();
            return Failure::machine(
                SocketAddr::from(self.to),
                format!("no connection: {next_hop} does not answer on this link"),
            );
        }
        Failure::machine(SocketAddr::from(self.to), error)
    }

    /// Returns the error about a run that was ended early, with the bytes that were acknowledged.
    fn unfinished(&self, sent: &Sent) -> Failure {
        let after = three_digits(sent.seconds);
        Failure::Machine(if sent.connected {
            let (acked, out) = (count(sent.bytes_acked), count(sent.bytes_out));
            format!(
                "{}: ended after {after} s, not complete: {acked} of {out} bytes acknowledged",
                SocketAddr::from(self.to)
            )
        } else {
            format!("{}: ended after {after} s: no connection so far", SocketAddr::from(self.to))
        })
    }

    /// Returns the address of the next hop: the destination if it is on the link, else the gateway if given.
    fn next_hop(&self) -> IpAddress {
        let on_link = self.our_address().is_ok_and(|from| from.contains_addr(&self.to.addr));
        self.gateway.filter(|_| !on_link).unwrap_or(self.to.addr)
    }
}

/// Returns the progress of a run. Sent bytes count only once the peer has acknowledged them.
const fn moved(sent: &Sent) -> Moved {
    let Sent { seconds, bytes_in, bytes_acked, .. } = *sent;
    Moved { seconds, bytes_in, bytes_out: bytes_acked }
}

/// Returns the progress line of a sending run.
fn line(sent: &Sent, moved: &str) -> String {
    let standing = if !sent.connected {
        "not connected"
    } else if sent.complete {
        "complete"
    } else if sent.error.is_some() || sent.outside.is_some() {
        "not complete"
    } else {
        "connected"
    };
    format!("{:>8} s  {standing}; {moved}", three_digits(sent.seconds))
}

/// Returns the report of a sending run as text.
fn describe(sent: &Sent) -> String {
    let all = show::moved(moved(sent), Moved::default());
    let mut text = format!("{}\n", line(sent, &all));
    if sent.bytes_acked < sent.bytes_out {
        let rest = count(sent.bytes_out - sent.bytes_acked);
        text.push_str(&format!("  {rest} bytes more were to be sent and are not acknowledged\n"));
    }
    match sent.as_sent {
        Some(true) if sent.bytes_in > 0 => text.push_str("  what came back is what was sent\n"),
        Some(false) => text.push_str("  something else came back than was sent\n"),
        _ => {}
    }
    text.push_str(&(show::segments(&sent.tcp) + &account::drops(&sent.counters)));
    text.push_str(&account::interfaces(&sent.counters));
    if let Some(connection) = &sent.connection {
        text.push_str(&show::connection(connection));
    }
    if let Some(captured) = &sent.capture {
        text.push_str(&crate::command::capture::line(captured));
    }
    text
}
/// Opens a file to read it. A directory can be opened, too, and is refused here.
fn open(file: &Path) -> io::Result<File> {
    let opened = File::open(file)?;
    if opened.metadata()?.is_dir() { Err(io::ErrorKind::IsADirectory.into()) } else { Ok(opened) }
}
