//! Sends the same bytes by quinn over a path of 20 ms, with tokio's timers, with soft timers, and with soft
//! timers that pace each datagram; prints how many packets leave at a time, and what the sender's thread
//! takes.
//!
//! `cargo run --release -p evenkeel-soft-timers-quinn --example quinn_paced -- [Mbit/s] [megabytes]`
//!
//! Congestion control is fixed at the rate of the path, so that only pacing differs. The path is a thread
//! that holds each datagram for half of the round trip; all of it is in this process, on the loopback
//! interface.
#![allow(clippy::print_stdout, reason = "it prints a table")]

mod path;
mod recorded;

use std::any::Any;
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use evenkeel_soft_timers::{Options, SoftClock};
use evenkeel_soft_timers_quinn::{SoftRuntime, Spacing};
use quinn::congestion::{Controller, ControllerFactory};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::rustls::RootCertStore;
use quinn::rustls::pki_types::PrivatePkcs8KeyDer;
use quinn::{ClientConfig, Endpoint, EndpointConfig, Runtime, ServerConfig, TokioRuntime, TransportConfig};
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Builder;

use crate::recorded::{Log, Recorded};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const ROUND_TRIP: Duration = Duration::from_millis(20);
/// Of a datagram, as quinn sends it before it has found out more.
const DATAGRAM: u64 = 1_200;

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1).filter_map(|argument| argument.parse::<u64>().ok());
    let (megabits, megabytes) = (arguments.next().unwrap_or(50), arguments.next().unwrap_or(10));
    let target = Duration::from_nanos(DATAGRAM * 8 * 1_000 / megabits);
    println!("{megabytes} MB at {megabits} Mbit/s, so a datagram every {target:?}, over {ROUND_TRIP:?}\n");
    println!(
        "{:<34}{:>9}{:>9}{:>8}{:>8}{:>8}{:>10}{:>9}",
        "", "Mbit/s", "CPU (ms)", "burst", "90 %", "most", "gap (us)", "99 %"
    );
    for kind in [Kind::Tokio, Kind::Soft, Kind::Paced] {
        let sent = transfer(kind, megabits, megabytes, target)?;
        sent.print(kind.name(), target);
    }
    println!(
        "\nburst: packets less than half of that apart, at the median; gap: between packets, at the median."
    );
    Ok(())
}

/// Whose timers quinn has.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Tokio,
    Soft,
    Paced,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Tokio => "tokio's timers",
            Self::Soft => "soft timers",
            Self::Paced => "soft timers, each datagram paced",
        }
    }

    fn runtime(self, clock: &SoftClock, target: Duration) -> Arc<dyn Runtime> {
        let spacing = Spacing { target, minimum: target / 2, credit: Duration::from_millis(1) };
        match self {
            Self::Tokio => Arc::new(TokioRuntime),
            Self::Soft => Arc::new(SoftRuntime::new(clock)),
            Self::Paced => Arc::new(SoftRuntime::paced(clock, spacing)),
        }
    }
}

/// The measurements of a transfer.
struct Sent {
    /// The time at which each packet left, in nanoseconds.
    times: Vec<u64>,
    bytes: u64,
    took: Duration,
    cpu: Duration,
}

impl Sent {
    fn print(&self, name: &str, target: Duration) {
        let near = target.as_nanos() as u64 / 2;
        let gaps: Vec<u64> = self.times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let bursts: Vec<u64> = gaps.split(|gap| *gap >= near).map(|burst| burst.len() as u64 + 1).collect();
        let quantile = |of: &[u64], q: f64| {
            let mut of = of.to_vec();
            of.sort_unstable();
            of.get(((of.len() - 1) as f64 * q) as usize).copied().unwrap_or(0)
        };
        let [half, most, all] = [0.5, 0.9, 1.0].map(|q| quantile(&bursts, q));
        let [gap, long] = [0.5, 0.99].map(|q| quantile(&gaps, q) as f64 / 1e3);
        let rate = self.bytes as f64 * 8.0 / self.took.as_secs_f64() / 1e6;
        let cpu = self.cpu.as_secs_f64() * 1e3;
        println!("{name:<34}{rate:>9.1}{cpu:>9.0}{half:>8}{most:>8}{all:>8}{gap:>10.1}{long:>9.0}");
    }
}

fn transfer(kind: Kind, megabits: u64, megabytes: u64, target: Duration) -> Outcome<Sent> {
    let (server_config, client_config) = configs(megabits)?;
    let (address, server) = receive(server_config)?;
    let path = path::between(address, ROUND_TRIP / 2)?;
    let clock = SoftClock::start(Options::default())?;
    let runtime = clock.drive(&mut Builder::new_current_thread()).enable_all().build()?;
    let bytes = megabytes * 1_000_000;
    let log = Log::default();
    let sending = async {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        let quinn = kind.runtime(&clock, target);
        let socket = Arc::new(Recorded::new(quinn.wrap_udp_socket(socket)?, &clock, log.clone()));
        let endpoint = Endpoint::new_with_abstract_socket(EndpointConfig::default(), None, socket, quinn)?;
        let connection = endpoint.connect_with(client_config, path, "localhost")?.await?;
        let mut stream = connection.open_uni().await?;
        // What came before is no part of it.
        log.take();
        let (began, cpu) = (now(), cpu_time());
        for _ in 0..bytes / CHUNK.len() as u64 {
            stream.write_all(&CHUNK).await?;
        }
        stream.finish()?;
        stream.stopped().await?;
        let (took, cpu) = (now() - began, cpu_time() - cpu);
        connection.close(0_u32.into(), b"");
        endpoint.wait_idle().await;
        Outcome::Ok((took, cpu))
    };
    let (took, cpu) = match kind {
        Kind::Tokio => runtime.block_on(sending)?,
        Kind::Soft | Kind::Paced => clock.block_on(&runtime, sending)?,
    };
    server.join().map_err(|_| "the receiver panicked")??;
    Ok(Sent { times: log.take(), bytes, took, cpu })
}

static CHUNK: [u8; 10_000] = [7; 10_000];

/// Takes what comes, on a thread and a runtime of its own, which knows nothing of soft timers.
fn receive(config: ServerConfig) -> Outcome<(SocketAddr, thread::JoinHandle<Outcome<()>>)> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let endpoint = {
        let _entered = runtime.enter();
        Endpoint::server(config, (Ipv4Addr::LOCALHOST, 0).into())?
    };
    let address = endpoint.local_addr()?;
    let receiving = async move {
        let connection = endpoint.accept().await.ok_or("nobody came")?.await?;
        let mut stream = connection.accept_uni().await?;
        let mut buffer = vec![0; 1 << 16];
        while stream.read(&mut buffer).await?.is_some() {}
        // Until the sender has heard of it.
        connection.closed().await;
        Ok(())
    };
    Ok((address, thread::spawn(move || runtime.block_on(receiving))))
}

fn configs(megabits: u64) -> Outcome<(ServerConfig, ClientConfig)> {
    let own = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
    let key = PrivatePkcs8KeyDer::from(own.signing_key.serialize_der());
    let server = ServerConfig::with_single_cert(vec![own.cert.der().clone()], key.into())?;
    let mut roots = RootCertStore::empty();
    roots.add(own.cert.der().clone())?;
    let provider = Arc::new(quinn::rustls::crypto::ring::default_provider());
    let crypto = quinn::rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&quinn::rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut client = ClientConfig::new(Arc::new(QuicClientConfig::try_from(crypto)?));
    let window = megabits as f64 * 1e6 / 8.0 * ROUND_TRIP.as_secs_f64();
    let mut transport = TransportConfig::default();
    transport
        .mtu_discovery_config(None)
        .initial_rtt(ROUND_TRIP)
        .send_window(4 * window as u64)
        .congestion_controller_factory(Arc::new(Fixed(window as u64)));
    client.transport_config(Arc::new(transport));
    Ok((server, client))
}

/// A window that stays as it is.
#[derive(Debug, Clone, Copy)]
struct Fixed(u64);

impl ControllerFactory for Fixed {
    fn build(self: Arc<Self>, _: Instant, _: u16) -> Box<dyn Controller> {
        Box::new(*self)
    }
}

impl Controller for Fixed {
    fn on_congestion_event(&mut self, _: Instant, _: Instant, _: bool, _: u64) {}

    fn on_mtu_update(&mut self, _: u16) {}

    fn window(&self) -> u64 {
        self.0
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(*self)
    }

    fn initial_window(&self) -> u64 {
        self.0
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

fn now() -> Duration {
    read(ClockId::Monotonic)
}

/// Returns the CPU time of the calling thread.
fn cpu_time() -> Duration {
    read(ClockId::ThreadCPUTime)
}

fn read(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
