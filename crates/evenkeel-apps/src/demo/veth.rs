//! UDP sockets under the same load on a veth pair, in a network namespace of its own: the kernel's, the same
//! behind the guard, and ours over AF_XDP.
//!
//! The veth's interface work runs on the generator's core, with our XDP program. So the results give the load
//! that was really offered.

use std::io;
use std::net::IpAddr;
use std::thread;

use evenkeel::net::{self, Net};
use evenkeel::raw::device::Address;
use evenkeel::raw::kernel::{self, Guard, GuardOptions};
use evenkeel::raw::time::Duration;
use evenkeel::raw::wire::{EthernetAddress, Ipv4Address};

use super::bench;
use super::loads::rising;
use super::machine;
use super::results::{self, OnVeth, VethPoint};
use crate::measure::undisturbed;
use crate::on_veth::{self, Flood, GENERATOR_MAC, PATIENCE, Pair, SERVED, SERVICE_PORT};

/// The addresses of our host.
const OUR_MAC: EthernetAddress = EthernetAddress([2, 0, 0, 0, 0, 3]);
const OUR_ADDRESS: Ipv4Address = Ipv4Address::new(10, 77, 0, 3);

/// The number of measurements for each that may be repeated because the machine disturbed it.
const REPEATS_SHARE: usize = 3;
/// The part of the generator's maximum that the lowest load is.
const LOWEST_PART: f64 = 25.0;

/// The host whose socket serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Served {
    ByKernel,
    BehindGuard,
    OverXdp,
}

impl Served {
    /// All, the kernel alone first.
    pub(super) const ALL: [Self; 3] = [Self::ByKernel, Self::BehindGuard, Self::OverXdp];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::ByKernel => results::KERNEL,
            Self::BehindGuard => results::GUARDED,
            Self::OverXdp => results::OVER_XDP,
        }
    }
}

/// The results of a socket, or the reason why it could not be measured.
pub(super) type Outcome = Result<OnVeth, String>;

/// The loads of a measurement.
#[derive(Debug, Clone, Copy)]
pub(super) enum Loads<'a> {
    /// These, lowest first, in pps.
    These(&'a [u64]),
    /// So many in equal ratios, up to what the generator can offer to the kernel's socket.
    UpToMaximum(usize),
}

/// Measures the sockets at each load, and calls `progress` after each. Repeats at most a third of the
/// measurements if the machine disturbed them, as with our own architectures. Returns an outcome for each.
///
/// # Errors
/// The reason why there is no veth pair.
pub(super) fn run(
    sockets: &[Served],
    loads: Loads<'_>,
    work: Duration,
    window: Duration,
    progress: impl FnMut(Served, &VethPoint) + Send,
) -> Result<Vec<Outcome>, String> {
    // A thread of its own: the namespace ends with it, and the veth pair with the namespace.
    thread::scope(|scope| {
        let measured = scope.spawn(|| {
            kernel::enter_new_network().map_err(|error| no_namespace(&error))?;
            let pair = Pair::set_up()?;
            let loads = match loads {
                Loads::These(loads) => loads.to_vec(),
                Loads::UpToMaximum(points) => up_to_maximum(pair, points, work).map_err(|e| e.to_string())?,
            };
            let mut run = Run { pair, work, window, repeats: loads.len() / REPEATS_SHARE, progress };
            // In the order of the sockets: with an XDP program, the kernel's own input is slower.
            Ok(sockets.iter().map(|served| run.over(*served, &loads)).collect())
        });
        measured.join().unwrap_or_else(|_| Err("the measuring thread panicked".to_owned()))
    })
}

/// Returns the reason why there is no network namespace for the pair.
fn no_namespace(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "no network namespace of its own: run as root".to_owned(),
        _ => format!("no network namespace of its own: {error}"),
    }
}

/// Returns loads in equal ratios up to what the generator can offer to the kernel's socket.
fn up_to_maximum(pair: Pair, points: usize, work: Duration) -> io::Result<Vec<u64>> {
    /// More than any generator offers.
    const MORE_PPS: u64 = 20_000_000;
    const WINDOW: Duration = Duration::from_millis(200);
    const TRIES: usize = 3;
    let mut maximum: f64 = 1_000.0;
    for _ in 0..TRIES {
        maximum = maximum.max(pair.measure_kernel(MORE_PPS, work, WINDOW)?.offered_pps);
    }
    Ok(rising(maximum / LOWEST_PART, maximum, points))
}

/// The conditions of all measurements on the pair.
struct Run<P> {
    pair: Pair,
    work: Duration,
    window: Duration,
    repeats: usize,
    progress: P,
}

impl<P: FnMut(Served, &VethPoint)> Run<P> {
    /// Measures one socket, up to the load that the generator cannot reach.
    fn over(&mut self, served: Served, loads: &[u64]) -> Result<OnVeth, String> {
        // One host for all loads: the kernel gives up the rings of an earlier one only after a while.
        let net = match served {
            Served::ByKernel | Served::BehindGuard => None,
            Served::OverXdp => Some(open_net().map_err(|e| e.to_string())?),
        };
        let guarded = GuardOptions { ports: vec![SERVICE_PORT], counts_only: false };
        let attach = || Guard::attach(&[SERVED.to_owned()], &guarded).map_err(|e| e.to_string());
        let _guard = if served == Served::BehindGuard { Some(attach()?) } else { None };
        let mut points = Vec::new();
        for &load in loads {
            let (pair, work, window) = (self.pair, self.work, self.window);
            let once = || measure(pair, net.as_ref(), load, work, window);
            let point = undisturbed(&mut self.repeats, |point: &VethPoint| point.core_share, once);
            let point = point.map_err(|e| e.to_string())?;
            (self.progress)(served, &point);
            // The generator has reached its maximum, so higher loads would give equal results.
            let saturated = point.offered_pps < load as f64 * 0.8;
            points.push(point);
            if saturated {
                break;
            }
        }
        Ok(OnVeth::from_points(machine::release().unwrap_or_else(|| "unknown".to_owned()), points))
    }
}

/// Opens our host over AF_XDP.
fn open_net() -> io::Result<Net> {
    let net = Net::builder().link(&format!("xdp:{SERVED}")).mac(Address::Fixed(OUR_MAC));
    net.address(&format!("{OUR_ADDRESS}/24")).open()
}

/// Measures a socket of `net`, or of the kernel.
fn measure(
    pair: Pair,
    net: Option<&Net>,
    load: u64,
    work: Duration,
    window: Duration,
) -> io::Result<VethPoint> {
    let served = match net {
        None => pair.measure_kernel(load, work, window)?,
        Some(net) => {
            let socket = net::UdpSocket::bind(net, (IpAddr::from(OUR_ADDRESS), SERVICE_PORT))?;
            socket.set_read_timeout(Some(PATIENCE))?;
            // Our host learns from it where answers go. The kernel has been told.
            let announcement = Some(bench::announcement(GENERATOR_MAC, OUR_ADDRESS).to_vec());
            let flood = Flood { hardware: OUR_MAC, address: OUR_ADDRESS, load, window, announcement };
            pair.measure(&socket, &flood, work)?
        }
    };
    let on_veth::Served { offered_pps, delivered_pps, core_share } = served;
    Ok(VethPoint { offered_pps, delivered_pps, core_share })
}
