//! `tap:NAME`: a TAP device. Its one end is a network device of the kernel, the other one is ours.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use evenkeel_core::frame::{Frame, Metadata, Pool, PoolLimit};
use evenkeel_core::interface::{Burst, Demultiplexer, Interface, RxQueue, Seen};
use evenkeel_core::tcp::FourTuple;
use evenkeel_core::wire::{EthernetAddress, IpCidr};
use rustix::io::Errno;

use crate::device::{Device, DeviceState, IN_TRANSIT_PKTS, Status, usable_mtu};
use crate::error::LinkError;
use crate::hardware::Address;
use crate::netdev::{DeviceName, KernelCounters, NetDevice};
use crate::sys;

/// How a TAP is opened.
#[derive(Debug, Clone, Default)]
pub struct TapOptions {
    /// Addresses for the kernel's side, so that its programs reach us without further commands. Only for a
    /// TAP that does not exist yet.
    pub kernel_addresses: Vec<IpCidr>,
    /// Our hardware address. [`Address::Device`] is the kernel's at the other end, and so of no use here.
    pub address: Address,
}

/// A TAP device, as an interface with one receive ring.
///
/// A device that did not exist is created, and goes away when this is dropped. A persistent one (`ip tuntap
/// add`) is used and left as it was. The ring is the device's queue in the kernel (`txqueuelen`, 500 frames);
/// a frame is read straight into its buffer, at one system call each. The kernel segments and completes
/// checksums before we see a frame.
#[derive(Debug)]
pub struct Tap {
    device: NetDevice,
    /// The kernel's number for the device.
    index: u32,
    address: EthernetAddress,
    mtu: usize,
    queue: TapQueue,
    undo: Undo,
}

/// What dropping it has to do besides closing the descriptor.
#[derive(Debug, PartialEq, Eq)]
enum Undo {
    Nothing,
    BringDown,
}

#[derive(Debug)]
struct TapQueue {
    fd: Arc<OwnedFd>,
    status: Status,
    /// Whether a read is worth trying: set when the system says so, cleared when a read finds nothing.
    readable: bool,
    /// The kernel took no frame when last asked, and does not say when it will.
    blocked: bool,
    /// Frames larger than a buffer.
    oversized: u64,
    counters: KernelCounters,
    counted_before: u64,
}

impl Tap {
    /// Opens or creates the TAP called `name` and brings it up.
    ///
    /// # Errors
    /// Each says what to do; nothing is left behind.
    pub fn open(name: &str, options: &TapOptions) -> Result<Self, LinkError> {
        let (fd, name, persistent) = attach(&DeviceName::new(name)?)?;
        let device = NetDevice::open(&name)?;
        if let (true, Some(address)) = (persistent, options.kernel_addresses.first()) {
            return Err(LinkError::AddressOfExisting { name, address: address.to_string() });
        }
        let mtu = usable_mtu(&name, device.mtu()?)?;
        for &address in &options.kernel_addresses {
            device.set_ip(address)?;
        }
        let was_up = device.is_up()?;
        device.set_up(true)?;
        let undo = if persistent && !was_up { Undo::BringDown } else { Undo::Nothing };
        let address = options.address.on(&name, device.address()?).map_err(LinkError::random)?;
        let index = device.index()?.unsigned_abs();
        Ok(Self { device, index, address, mtu, queue: TapQueue::new(fd, &name), undo })
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        if self.undo == Undo::BringDown {
            // It may be gone already, and then there is nothing to undo.
            let _ = self.device.set_up(false);
        }
    }
}

impl Interface for Tap {
    fn name(&self) -> &str {
        self.device.name()
    }

    fn address(&self) -> EthernetAddress {
        self.address
    }

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn attach(&mut self, pool: &mut Pool) -> Result<(), PoolLimit> {
        pool.grow(IN_TRANSIT_PKTS)
    }

    fn detach(&mut self, pool: &mut Pool) {
        pool.shrink(IN_TRANSIT_PKTS);
    }

    fn receives(&self, _flow: &FourTuple) -> bool {
        true
    }

    fn queues(&self) -> usize {
        1
    }

    fn queue(&self, _index: usize) -> &dyn RxQueue {
        &self.queue
    }

    fn queue_mut(&mut self, _index: usize) -> &mut dyn RxQueue {
        &mut self.queue
    }

    fn transmit(&mut self, frame: Frame, pool: &mut Pool) -> Result<(), Frame> {
        self.queue.write(frame, pool)
    }

    fn stalled(&self) -> bool {
        self.queue.blocked
    }

    fn set_readable(&mut self) {
        self.queue.readable = self.queue.status.state() == DeviceState::Running;
    }

    fn flush(&mut self) {}

    fn reports_sent(&self) -> bool {
        false
    }

    fn unreclaimed(&self) -> usize {
        0
    }

    fn reclaim(&mut self, _pool: &mut Pool, _limit_pkts: usize) -> usize {
        0
    }

    fn channel_interrupts(&self) -> bool {
        false
    }

    fn demultiplexer(&mut self) -> Option<&mut dyn Demultiplexer> {
        None
    }
}

impl Device for Tap {
    fn fd(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.queue.fd)
    }

    fn status(&self) -> Status {
        self.queue.status.clone()
    }

    fn index(&self) -> Option<u32> {
        Some(self.index)
    }
}

impl TapQueue {
    fn new(fd: OwnedFd, name: &str) -> Self {
        let counters = KernelCounters::open(name);
        let counted_before = counters.tx_dropped();
        let status = Status::default();
        // Readable to begin with: frames may have come since the device was brought up.
        Self {
            fd: Arc::new(fd),
            status,
            readable: true,
            blocked: false,
            oversized: 0,
            counters,
            counted_before,
        }
    }

    /// Reads one frame into `frame`; false if there is none, or none that fits.
    fn read(&mut self, frame: &mut Frame) -> bool {
        loop {
            let room = frame.capacity();
            if !frame.resize(room) {
                return false;
            }
            match rustix::io::read(&*self.fd, frame.bytes_mut()) {
                // The kernel cuts a frame off where the buffer ends and does not say so; one that fills it is
                // taken to be longer.
                Ok(len) if len < room => return frame.resize(len),
                Ok(_) => self.oversized += 1,
                Err(Errno::INTR) => {}
                Err(error) => {
                    self.readable = false;
                    self.note(error);
                    return false;
                }
            }
        }
    }

    /// Writes one frame. The device takes it, or the kernel has no memory, or the device is down: either way
    /// it is done with.
    fn write(&mut self, frame: Frame, pool: &mut Pool) -> Result<(), Frame> {
        loop {
            match rustix::io::write(&*self.fd, frame.bytes()) {
                Ok(_) => break,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.blocked = true;
                    return Err(frame);
                }
                Err(error) => {
                    self.status.count_refused(1);
                    self.note(error);
                    break;
                }
            }
        }
        self.blocked = false;
        pool.recycle(frame);
        Ok(())
    }

    fn note(&self, error: Errno) {
        if error == Errno::BADFD {
            self.status.fail("the device was removed".to_owned());
        }
    }
}

impl RxQueue for TapQueue {
    fn pending(&self) -> usize {
        usize::from(self.readable)
    }

    fn receive(&mut self, limit: usize, burst: &mut dyn Burst) -> usize {
        let (mut done, mut spare) = (0, None);
        while self.readable && done < limit {
            // The buffer of one that was discarded takes the next.
            let Some(mut frame) = spare.take().or_else(|| burst.pool().take()) else { break };
            if !self.read(&mut frame) {
                spare = Some(frame);
                break;
            }
            done += 1;
            let goes_on = match burst.see(frame.bytes(), &Metadata::NONE) {
                Seen::Take => burst.take(frame),
                seen => {
                    spare = Some(frame);
                    seen == Seen::Discard
                }
            };
            if !goes_on {
                break;
            }
        }
        if let Some(frame) = spare {
            burst.pool().recycle(frame);
        }
        done
    }

    fn arm(&mut self) -> bool {
        // The descriptor is level-triggered: a frame that has come since the last read ends the sleep at
        // once.
        self.readable
    }

    /// Reads the kernel's table of devices: for reports.
    fn missed(&self) -> u64 {
        self.counters.tx_dropped().saturating_sub(self.counted_before) + self.oversized
    }

    fn buffered(&self) -> u64 {
        0
    }
}

/// Attaches to the TAP called `name`, creating it if need be. Returns its real name (`name` may hold a `%d`)
/// and whether it is persistent.
fn attach(name: &DeviceName) -> Result<(OwnedFd, String, bool), LinkError> {
    use rustix::fs::{Mode, OFlags, open};
    let fd = match open("/dev/net/tun", OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()) {
        Ok(fd) => fd,
        Err(Errno::NOENT | Errno::NXIO | Errno::NODEV) => return Err(LinkError::NoTun),
        Err(error) => {
            return Err(LinkError::of_device(
                name.as_str(),
                "open /dev/net/tun for",
                "CAP_NET_ADMIN",
                error.into(),
            ));
        }
    };
    let mut request = name.request();
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
    sys::ioctl(fd.as_fd(), libc::TUNSETIFF, &mut request).map_err(|error| refusal(name.as_str(), error))?;
    let real_name = sys::ifreq_name(&request);
    sys::ioctl(fd.as_fd(), libc::TUNGETIFF, &mut request).map_err(|error| refusal(name.as_str(), error))?;
    // SAFETY: TUNGETIFF filled this member of the union; any bit pattern is an integer.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    Ok((fd, real_name, flags & libc::IFF_PERSIST as libc::c_short != 0))
}

fn refusal(name: &str, error: io::Error) -> LinkError {
    match error.raw_os_error() {
        Some(libc::EINVAL) => {
            LinkError::WrongKind { name: name.to_owned(), wanted: "a TAP device with one queue" }
        }
        _ => LinkError::of_device(name, "open the TAP device", "CAP_NET_ADMIN", error),
    }
}
