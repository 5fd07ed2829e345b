//! `evenkeel send`: sends a file or standard input over TCP.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use evenkeel::core::host::Config;
use evenkeel::core::receive::Architecture;
use evenkeel::core::stack::IpEndpoint;
use evenkeel::core::tcp::ListenerConfig;
use evenkeel::core::wire::{IpAddress, IpCidr};
use evenkeel::link::{Address, DeviceSpec, LinkSpec};
use evenkeel_apps::host_setup::{HostSetup, Limits, Occasion};
use evenkeel_apps::monitor::Embedded;
use evenkeel_apps::quantity::{count, three_digits};
use evenkeel_apps::stream::{self, Drain, Errand, Options, Pattern, Place, Sent, Source, Stdio, Way};
use serde::Serialize;

use super::serve::FAST_OPEN_WAITING;
use super::show::{self, Moved, Telling};
use crate::command::account;
use crate::failure::Failure;
use crate::receiving::Receiving;
use crate::sending::Sending;
use crate::{address, quantity, suggest, terminal};

/// Send over one TCP connection: standard input, a file, or made-up bytes; and write what comes back.
///
/// When all is sent, that is said to the peer (half-close), and what it still sends is received to its end.
/// TCP, IP, ARP and neighbour discovery are evenkeel's; the kernel only moves frames.
#[derive(Debug, Args)]
#[command(mut_arg("limit_rate", |limit| limit.visible_alias("rate")))]
#[command(after_long_help = "\
What comes back goes to standard output, and the report to standard error; with --bytes or --json,
or with --output FILE, the report goes to standard output. Made-up bytes are compared with the echo.

On cable an evenkeel host at the other end gives back all it gets, or with --sink takes it only.

Examples:
  evenkeel send cable --bytes 1G
  evenkeel send cable --bytes 10M --limit-rate 50mbit
  echo hello | evenkeel send cable
as root, in two terminals:
  nc -l 9000 > got
  evenkeel send tap:keel0 --kernel-address 10.77.0.1/24 --to 10.77.0.1:9000 some-file
  printf 'GET / HTTP/1.0\\r\\n\\r\\n' | evenkeel send packet:eth1 --from 192.0.2.7/24 --to 192.0.2.9:80
  evenkeel send packet:eth1 --from 192.0.2.7/24 --to 192.0.2.9:9000 --start known=50mbit some-file

Exit status: 0 when both sides have said all; 1 if they have not, because there was no connection
or it failed, something could not be read or written, or Ctrl-C or --duration ended it; 2 for bad
arguments. Bytes out are those that the peer has acknowledged.")]
pub(crate) struct Arguments {
    /// Where frames go: cable, tap:NAME or packet:NAME.
    #[arg(value_name = "LINK", value_parser = suggest::link(), hide_possible_values = true)]
    link: LinkSpec,
    /// What to send; `-` for standard input [default: standard input].
    #[arg(value_name = "FILE", conflicts_with = "bytes")]
    file: Option<PathBuf>,
    /// Send so many made-up bytes, such as 1000, 64k or 1G; the same for the same --seed.
    #[arg(long, value_name = "N", value_parser = quantity::count)]
    bytes: Option<u64>,
    /// Where what comes back is written; `-` for standard output [default: standard output; with --bytes or
    /// --json it is only counted].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Whom to connect to. On a cable this is the server's address and port.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "10.77.0.1:7", value_parser = address::endpoint)]
    to: IpEndpoint,
    /// Our own address with its prefix length [default: 10.77.0.2/24, or fd77::2/64 if --to is IPv6].
    #[arg(long, value_name = "ADDRESS/LENGTH", value_parser = address::cidr)]
    from: Option<IpCidr>,
    /// On tap: an address for the kernel's end; may be given more than once.
    #[arg(long, value_name = "ADDRESS/LENGTH", value_parser = address::cidr)]
    kernel_address: Vec<IpCidr>,
    /// Router for everything that is not on the link.
    #[arg(long, value_name = "ADDRESS", value_parser = address::host)]
    gateway: Option<IpAddress>,
    /// Our hardware address: own, device (that of packet:NAME), random, or one such as 02:00:00:00:00:09
    /// [default: own].
    #[arg(
        long, value_name = "ADDRESS", value_parser = suggest::mac(), hide_possible_values = true
    )]
    mac: Option<Address>,
    /// On a cable: the other end takes what it gets and gives nothing back.
    #[arg(long)]
    sink: bool,
    /// Send the first bytes along with the SYN, which saves a round trip (TCP Fast Open, RFC 7413). A first
    /// connection, which says nothing, brings the server's cookie for that. The server may get those bytes
    /// twice: let it be something that does no harm if done twice. Where such SYNs vanish, it goes on
    /// without.
    #[arg(long)]
    fast_open: bool,
    /// Give up if there is no connection after this long [default: 3m]. A peer or router on the link that
    /// does not answer at all is given up after 3 s.
    #[arg(long, value_name = "TIME", value_parser = quantity::period)]
    connect_timeout: Option<Duration>,
    /// Stop after this long [default: when both sides have said all].
    #[arg(long, value_name = "TIME", value_parser = quantity::time)]
    duration: Option<Duration>,
    /// Write every frame that comes or goes to a capture file; not on cable.
    #[arg(long, value_name = "FILE.pcapng")]
    dump: Option<PathBuf>,
    /// Write frames that come or go to a pcapng file, as `evenkeel echo --help` says.
    #[arg(
        long, value_name = "FILE[,snaplen=N][,filter=EXPRESSION]",
        value_parser = crate::command::capture::inside
    )]
    capture: Option<Embedded>,
    /// Say on standard error how it goes this often, and how the connection is [default: on a terminal all
    /// the time].
    #[arg(long, value_name = "TIME", value_parser = quantity::period)]
    stats_interval: Option<Duration>,
    /// Seed of what is made up.
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

/// The report that `send --json` prints.
#[derive(Serialize)]
struct Output<'a> {
    link: String,
    architecture: &'static str,
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
    // Who types or reads at the terminal is not to be disturbed.
    let typed = arguments.reads_stdin() && io::stdin().is_terminal();
    let quiet = arguments.json || typed || to_stdout && io::stdout().is_terminal();
    let mut telling = Telling::new(arguments.stats_interval, quiet);
    let every = telling.every(arguments.stats_interval);
    let limits = Limits { duration: arguments.duration, every, reports: terminal::reports()? };
    let sent = stream::send(&setup, place, errand, limits, |occasion, sent| match occasion {
        Occasion::Interval => {
            let connection: String = sent.connection.iter().map(show::connection).collect();
            telling.tell(moved(sent), |moved| line(sent, moved), &connection);
        }
        Occasion::Request => {
            telling.clear();
            // That the reader has gone shows at the end.
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
        let from = self.our_address()?;
        if matches!(from, IpCidr::Ipv6(_)) != self.is_v6() {
            let line = format!("--from {from} and --to {} are of different families", self.to);
            return Err(Failure::Usage(line));
        }
        let gateways = self.gateway.into_iter().collect();
        let mut config = self.receiving.config(self.seed);
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
            let architecture = self.receiving.architecture().name();
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
