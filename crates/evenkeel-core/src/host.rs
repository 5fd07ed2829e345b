//! A host: one core's network subsystem, and the choice of what runs next on that core.
//!
//! All work is cut into work items (units). Every work item runs at a level; the highest level that has work
//! runs first. The driver of the host makes time pass: a real core while the work item runs, a simulated one
//! afterwards, according to its machine model. The order of calls is [`Host::turn`], [`Host::charge`] (in
//! parts if need be), [`Host::finish`]; when `turn` finds nothing, [`Host::halt`].

use crate::capture::CaptureCounters;
use crate::channel;
use crate::deadline::{Deadline, Due, Sleepers};
use crate::id::{Fd, InterfaceId, ProcessId, SocketId};
use crate::interface::Interface;
use crate::ledger::{Imbalance, Ledger};
use crate::net::Net;
use crate::poll::{FeedbackBy, Resumes};
use crate::process::{Bill, Body, Process, Program, Protocol, Sleep, SleepsOn, Step, is_attached};
use crate::receive::Plan;
use crate::schedule::Scheduler;
use crate::socket::{self, Descriptor};
use crate::stack::{AddressConflict, FirstHop, Neighbor, NeighborError, NeighborUpdate, Route, RouteError};
use crate::tcp::{self, Secret};
use crate::time::{Duration, Instant};
use crate::trigger::{Within, pass_state};
use crate::wire::{EthernetAddress, IpAddress, IpCidr};
use crate::work::{Work, WorkLog};

pub use crate::config::{Config, PaperPolicies, Transmit, TransmitService};
pub use crate::frame::PoolLimit;
pub use crate::link::{AddInterfaceError, Traffic};
pub use crate::process::NotAttached;
pub use crate::system::System;
pub use crate::trigger::{Trigger, TriggerState};

/// The levels at which units run, highest first. A level runs only when those above it have nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Device and clock interrupts.
    Interrupt,
    /// The software interrupt: eager protocol input.
    SoftInterrupt,
    /// The polling thread, above all processes.
    PollingThread,
    /// Processes, in the scheduler's order.
    Process,
    /// The idle level: there is nothing else to do.
    Idle,
}

impl Level {
    /// All levels, highest first.
    pub const ALL: [Self; 5] =
        [Self::Interrupt, Self::SoftInterrupt, Self::PollingThread, Self::Process, Self::Idle];

    /// Returns the name used in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "interrupt",
            Self::SoftInterrupt => "soft-interrupt",
            Self::PollingThread => "polling-thread",
            Self::Process => "process",
            Self::Idle => "idle",
        }
    }
}

/// A unit of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Clock,
    Device(usize),
    ChannelInterrupt,
    SoftInterrupt,
    /// Segments that earlier units have left to send.
    Segments,
    /// A transmit interrupt at a lower level than receive interrupts.
    Transmitted(usize),
    Poll,
    Process(ProcessId),
    /// Batched frames leave, as nothing adds to them.
    Transmit,
    Idle,
}

impl Unit {
    const fn level(self) -> Level {
        match self {
            Self::Clock | Self::Device(_) | Self::ChannelInterrupt => Level::Interrupt,
            Self::SoftInterrupt | Self::Segments | Self::Transmitted(_) | Self::Transmit => {
                Level::SoftInterrupt
            }
            Self::Poll => Level::PollingThread,
            Self::Process(_) => Level::Process,
            Self::Idle => Level::Idle,
        }
    }
}

/// The work item that would run next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Next {
    /// The level of the work item.
    pub level: Level,
    /// The process, at process level.
    pub process: Option<ProcessId>,
    /// The process is in the middle of a step: the driver goes on with it, and does not call [`Host::turn`].
    pub resuming: bool,
}

/// A unit that has been run: its effects are done, its time passes now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ran {
    /// The level at which the work item ran.
    pub level: Level,
    /// The process whose step it was, at process level.
    pub process: Option<ProcessId>,
    /// The process that is charged: `process`, or the one that an interrupt happened to hit.
    pub payer: Option<ProcessId>,
    /// Whether it counts against the cycle limit.
    pub limited: bool,
    /// It was protocol processing for the process, not a step of its program.
    pub protocol: bool,
}

/// One core's network subsystem. See the [module's description](self) for the order of calls.
///
/// Time never goes back: every `now` is at least the one before.
#[derive(Debug)]
pub struct Host {
    net: Net,
    processes: Vec<Option<Process>>,
    scheduler: Scheduler,
    /// Processes that sleep until a certain time.
    sleepers: Sleepers,
    /// The process that ran last, and goes on unless another comes before it.
    current: Option<ProcessId>,
    /// A software interrupt is being served: further frames need no new dispatch.
    in_soft_interrupt: bool,
    cpu: [Duration; Level::ALL.len()],
}

impl Host {
    /// Creates a host with no interface and no program.
    ///
    /// # Errors
    /// [`PoolLimit`] if `config.memory_pkts` does not even allow the host's own queues.
    pub fn new(config: Config) -> Result<Self, PoolLimit> {
        let scheduler = Scheduler::new(config.scheduler);
        let mut host = Self {
            net: Net::new(config)?,
            processes: Vec::new(),
            scheduler,
            sleepers: Sleepers::new(),
            current: None,
            in_soft_interrupt: false,
            cpu: [Duration::ZERO; Level::ALL.len()],
        };
        let daemons: Vec<_> = host.net.rx.daemons(&host.net.config, host.net.plan.is_lazy()).collect();
        for (name, nice, channel) in daemons {
            let process = host.admit(name, nice, Body::Daemon(channel));
            host.net.rx.channels.set_reader(channel, process);
        }
        Ok(host)
    }

    /// Sets the host's secret, as in [`Config::secret`], and returns whether it could. A secret that was
    /// configured stays. So does that of a host which has used TCP: numbers and cookies that the host has
    /// sent depend on it.
    pub fn set_secret(&mut self, secret: Secret) -> bool {
        self.net.set_secret(secret)
    }

    /// Adds an interface, with the host's addresses on it. An IPv6 link-local address is added
    /// automatically.
    ///
    /// Its frames are received according to the host's architecture. Under both lazy architectures, an
    /// interface that demultiplexes does so itself, and for any other the host does. Both kinds may share a
    /// host.
    ///
    /// # Errors
    /// [`AddInterfaceError`] says what to change.
    pub fn add_interface(
        &mut self,
        interface: Box<dyn Interface>,
        addresses: &[IpCidr],
        now: Instant,
    ) -> Result<InterfaceId, AddInterfaceError> {
        self.add_interface_as(interface, addresses, None, now)
    }

    /// Adds an interface with a receive path of its own, `plan`. Interfaces with other receive paths may
    /// share the host. A lazy receive path needs a lazy host.
    ///
    /// # Errors
    /// [`AddInterfaceError`]; nothing is changed then.
    pub fn add_interface_with(
        &mut self,
        interface: Box<dyn Interface>,
        addresses: &[IpCidr],
        plan: Plan,
        now: Instant,
    ) -> Result<InterfaceId, AddInterfaceError> {
        self.add_interface_as(interface, addresses, Some(plan), now)
    }

    /// Adds an interface whose driver cannot poll. Its device work is done in the interrupt, with the shared
    /// IP queue, as in 4.2BSD; other interfaces of the host may be polled. It can still livelock the host.
    ///
    /// # Errors
    /// [`AddInterfaceError`]
    pub fn add_legacy_interface(
        &mut self,
        interface: Box<dyn Interface>,
        addresses: &[IpCidr],
        now: Instant,
    ) -> Result<InterfaceId, AddInterfaceError> {
        self.add_interface_as(interface, addresses, Some(Plan::LEGACY), now)
    }

    fn add_interface_as(
        &mut self,
        interface: Box<dyn Interface>,
        addresses: &[IpCidr],
        plan: Option<Plan>,
        now: Instant,
    ) -> Result<InterfaceId, AddInterfaceError> {
        let id = self.net.add_interface(interface, addresses, plan, now)?;
        self.net.output(now).transmit();
        Ok(id)
    }

    /// Puts another device in the place of an interface's, which is gone: addresses, routes, queues and
    /// limits stay. The hardware address and the MTU are the new one's, and all addresses are announced
    /// again.
    ///
    /// # Errors
    /// [`AddInterfaceError`]; the earlier one stays.
    pub fn replace_interface(
        &mut self,
        id: InterfaceId,
        interface: Box<dyn Interface>,
        now: Instant,
    ) -> Result<(), AddInterfaceError> {
        self.net.replace_interface(id, interface, now)?;
        self.net.output(now).transmit();
        Ok(())
    }

    /// Adds a static route; `0.0.0.0/0` and `::/0` for the default gateway.
    ///
    /// # Errors
    /// [`RouteError`]; nothing is changed then.
    pub fn add_route(
        &mut self,
        to: IpCidr,
        gateway: IpAddress,
        interface: InterfaceId,
    ) -> Result<(), RouteError> {
        self.net.stack.add_route(to, gateway, interface)
    }

    /// Adds a route, or replaces the one with the same prefix, interface and metric. It holds from the next
    /// packet on.
    ///
    /// # Errors
    /// [`RouteError`]; nothing is changed then.
    pub fn set_route(&mut self, route: Route) -> Result<(), RouteError> {
        self.net.stack.set_route(route)
    }

    /// Removes the route with the prefix, interface and metric of `route`. Returns whether there was one.
    pub fn remove_route(&mut self, route: &Route) -> bool {
        self.net.stack.remove_route(route)
    }

    /// Returns the number of routes, those of the host's own prefixes included.
    #[must_use]
    pub fn route_count(&self) -> usize {
        self.net.stack.route_count()
    }

    /// Returns an iterator over all routes, those of the host's own prefixes included.
    pub fn routes(&self) -> impl Iterator<Item = Route> {
        self.net.stack.routes()
    }

    /// Sets a permanent hardware address of a neighbour: the host never asks for it, and never forgets it.
    ///
    /// # Errors
    /// [`NeighborError`]; nothing is changed then.
    pub fn set_neighbor(
        &mut self,
        interface: InterfaceId,
        address: IpAddress,
        hardware: EthernetAddress,
        now: Instant,
    ) -> Result<(), NeighborError> {
        let set = self.net.with_stack(now, |stack, io| stack.set_neighbor(interface, address, hardware, io));
        self.net.output(now).transmit();
        set
    }

    /// Removes the entry of a neighbour. Returns whether there was one. Packets that wait for it are
    /// dropped.
    pub fn remove_neighbor(&mut self, interface: InterfaceId, address: IpAddress, now: Instant) -> bool {
        self.net.with_stack(now, |stack, io| stack.remove_neighbor(interface, address, io))
    }

    /// Returns an iterator over the neighbours that are known or asked for, in their state at `now`.
    pub fn neighbors(&self, now: Instant) -> impl Iterator<Item = Neighbor> {
        self.net.stack.neighbors(now)
    }

    /// Removes and returns the oldest neighbour update that has not been passed on to the other hosts that
    /// share this host's interfaces. Updates are kept only if [`crate::stack::Config::neighbor_updates`] is
    /// set.
    pub fn next_neighbor_update(&mut self) -> Option<NeighborUpdate> {
        self.net.stack.next_neighbor_update()
    }

    /// Removes and returns the oldest unreported claim of another host on an address of this one.
    pub fn next_conflict(&mut self) -> Option<AddressConflict> {
        self.net.stack.next_conflict()
    }

    /// Brings what is known of neighbours in sync with another host that has the same interfaces, in the same
    /// order, and the same addresses.
    pub fn sync_neighbor(&mut self, update: NeighborUpdate, now: Instant) {
        self.net.with_stack(now, |stack, io| stack.sync_neighbor(update, io));
        self.net.output(now).transmit();
    }

    /// Gives an interface one more address; its prefix is on-link from now on.
    pub fn add_address(&mut self, interface: InterfaceId, address: IpCidr, now: Instant) {
        self.net.add_address(interface, address, now);
        self.net.output(now).transmit();
    }

    /// Removes an address from an interface. Returns whether the interface had it.
    pub fn remove_address(&mut self, interface: InterfaceId, address: IpCidr) -> bool {
        self.net.remove_address(interface, address)
    }

    /// Sets the largest IP packet that leaves by an interface: 576 to 1906 bytes.
    pub fn set_mtu(&mut self, interface: InterfaceId, mtu: usize) {
        self.net.stack.set_mtu(interface, mtu);
    }

    /// Starts a program. `nice` from -20 to 20, as in UNIX.
    pub fn spawn(&mut self, name: &str, nice: i8, program: Box<dyn Program>) -> ProcessId {
        self.admit(name, nice, Body::Program(program))
    }

    /// Admits a process whose program is a thread outside: it enters the host to make its calls
    /// ([`Host::enter`]), and leaves again. It has sockets, a share of the core for its protocol processing,
    /// and a bill, as any other. [`Host::kill`] ends it.
    pub fn attach(&mut self, name: &str, nice: i8, now: Instant) -> ProcessId {
        let id = self.admit(name, nice, Body::Attached);
        self.put_to_sleep(id, Sleep { on: SleepsOn::Nothing, until: Instant::NEVER }, now);
        id
    }

    /// Makes calls, for a thread outside, as the process that it was [attached](Host::attach) as. Segments
    /// that have arrived for that process are processed first, at most one work item of them. Frames that
    /// result from the calls leave before this returns.
    ///
    /// To be called between two work items. [`Host::charge_process`] charges the time it took.
    ///
    /// # Errors
    /// [`NotAttached`]: nothing was called.
    pub fn enter<T>(
        &mut self,
        process: ProcessId,
        now: Instant,
        call: impl FnOnce(&mut System<'_>) -> T,
    ) -> Result<T, NotAttached> {
        self.enter_with(process, now, None, call)
    }

    /// Makes calls as [`Host::enter`] does, with trigger states at the ends of calls.
    ///
    /// # Errors
    /// [`NotAttached`]: nothing was called.
    pub fn enter_with<T>(
        &mut self,
        process: ProcessId,
        now: Instant,
        trigger: Option<&mut dyn Trigger>,
        call: impl FnOnce(&mut System<'_>) -> T,
    ) -> Result<T, NotAttached> {
        if !is_attached(&self.processes, process) {
            return Err(NotAttached);
        }
        self.net.work.clear();
        if self.net.tcp.has_segments(process) {
            self.net.process_segments(process, now);
            self.net.notify_programs();
        }
        let Self { net, processes, .. } = self;
        let mut within = trigger.and_then(|trigger| Within::if_pending(trigger, net, processes));
        let mut system = System::new(net, process, now, within.as_mut());
        let result = call(&mut system);
        let now = system.now();
        self.net.sockets.last_read = None;
        self.after_calls(now);
        Ok(result)
    }

    /// Handles a trigger state between two work items: handlers of soft events that are due make calls, and
    /// paced segments that are due leave. Resulting frames leave before this returns.
    ///
    /// A program may be in the middle of a step, whose effects are done and whose time is not over.
    pub fn trigger(&mut self, now: Instant, trigger: &mut dyn Trigger) {
        pass_state(trigger, &mut self.net, &self.processes, now);
        self.after_calls(now);
    }

    /// Completes calls that were not part of a program's step: notifies programs, sends what TCP and the
    /// interfaces have to send, and wakes processes.
    fn after_calls(&mut self, now: Instant) {
        self.net.notify_programs();
        self.net.send_tcp(now);
        self.net.output(now).transmit();
        self.wake(now);
    }

    /// Charges a process for time that it has used outside of units: in [`Host::enter`].
    pub fn charge_process(&mut self, process: ProcessId, elapsed: Duration) {
        self.cpu[Level::Process as usize] += elapsed;
        self.scheduler.charge(process, elapsed);
        if let Some(Some(process)) = self.processes.get_mut(process.0 as usize) {
            process.bill.charged += elapsed;
            process.bill.used += elapsed;
        }
    }

    fn admit(&mut self, name: &str, nice: i8, body: Body) -> ProcessId {
        let process = Process {
            name: name.to_owned(),
            body,
            bill: Bill::default(),
            sleep: None,
            stepping: None,
            reads: None,
            protocol: Protocol::default(),
        };
        let index = self.processes.len();
        self.processes.push(Some(process));
        let id = ProcessId(index as u32);
        self.scheduler.admit(id, nice);
        id
    }

    // --- What runs next ---

    /// Returns the work item that runs next. Calling it has no effect on what runs or in which order.
    fn select(&self, now: Instant) -> Option<Unit> {
        if now >= self.next_deadline() {
            return Some(Unit::Clock);
        }
        if self.net.rx.channels.has_interrupt() || self.net.links.has_channel_interrupt() {
            return Some(Unit::ChannelInterrupt);
        }
        if let Some(port) = self.net.links.interrupting_port(&self.net.poller) {
            return Some(Unit::Device(port));
        }
        if !self.net.rx.ip_queue.is_empty() {
            return Some(Unit::SoftInterrupt);
        }
        if self.net.has_segments_to_send() {
            return Some(Unit::Segments);
        }
        if let Some(port) = self.net.links.low_interrupting_port(&self.net.poller) {
            return Some(Unit::Transmitted(port));
        }
        if self.net.poller.is_runnable() {
            return Some(Unit::Poll);
        }
        if let Some(process) = self.scheduler.pick(self.current) {
            return Some(Unit::Process(process));
        }
        if self.net.links.gathers() {
            return Some(Unit::Transmit);
        }
        if self.net.poller.is_runnable_when_idle() {
            return Some(Unit::Poll);
        }
        self.net.rx.channels.has_listed().then_some(Unit::Idle)
    }

    /// Returns the work item of an interface that the host polls while it is idle, once there is no other.
    #[inline]
    fn select_when_idle(&self) -> Option<Unit> {
        self.net.links.interrupting_port_when_idle(&self.net.poller).map(Unit::Device)
    }

    /// Returns the work item that runs next, and begins or ends the polling of idle time.
    #[inline]
    fn select_and_settle(&mut self, now: Instant) -> Option<Unit> {
        let mut unit = self.select(now);
        if unit.is_none() && self.net.links.enter_idle() {
            unit = self.select(now);
        }
        if unit.is_some() {
            self.net.links.leave_idle(now);
        }
        unit
    }

    /// Returns the time at which usage next decays, if a process is runnable; else [`Instant::NEVER`].
    fn decay_deadline(&self) -> Instant {
        if self.scheduler.has_runnable() { self.scheduler.next_deadline() } else { Instant::NEVER }
    }

    /// Asks all that wait for a time until when they do, but for processes.
    #[inline]
    fn each_deadline(&self, mut hear: impl FnMut(Deadline, Instant)) {
        self.net.each_deadline(&mut hear);
        hear(Deadline::Decay, self.decay_deadline());
    }

    /// Returns the work item that [`Host::turn`] would run, with its level; `None` if there is nothing to
    /// do.
    ///
    /// Looking changes nothing. It is exact once [deadlines are](Host::settle_deadlines).
    #[must_use]
    pub fn peek(&self, now: Instant) -> Option<Next> {
        let unit = self.select(now).or_else(|| self.select_when_idle())?;
        let process = if let Unit::Process(process) = unit { Some(process) } else { None };
        let resuming = process.is_some_and(|p| self.is_resuming(p));
        Some(Next { level: unit.level(), process, resuming })
    }

    /// Returns whether a process continues a step that has already begun.
    fn is_resuming(&self, id: ProcessId) -> bool {
        let Some(process) = self.process(id) else { return false };
        process.protocol.stepping || process.stepping.is_some() && !self.is_protocol_next(id)
    }

    /// Returns whether a process would do protocol processing next.
    fn is_protocol_next(&self, id: ProcessId) -> bool {
        self.net.tcp.has_segments(id) && self.process(id).is_some_and(Process::prefers_protocol)
    }

    /// Runs one work item of the highest level that has work. Its effects happen now; [`Host::work`] then
    /// lists what it did.
    ///
    /// Returns `None` if there is nothing to do, or only a suspended step to continue.
    pub fn turn(&mut self, now: Instant) -> Option<Ran> {
        self.turn_with(now, None)
    }

    /// Runs one work item as [`Host::turn`] does, with trigger states at the ends of the calls that a
    /// program makes.
    pub fn turn_with(&mut self, now: Instant, trigger: Option<&mut dyn Trigger>) -> Option<Ran> {
        self.net.tcp.settle_due(now);
        let unit = self.select_and_settle(now)?;
        self.net.work.clear();
        self.net.poller.roll(now);
        if !self.scheduler.has_runnable()
            && (unit == Unit::Idle || unit == Unit::Poll && !self.net.poller.is_runnable())
        {
            self.net.poller.idle();
        }
        let level = unit.level();
        // An interrupt is on the bill of whoever it happens to hit.
        let payer = match unit {
            Unit::Process(process) => Some(process),
            _ if level <= Level::SoftInterrupt => self.current.filter(|&p| self.scheduler.is_runnable(p)),
            _ => None,
        };
        let mut now = now;
        match unit {
            Unit::Clock => self.clock(now),
            Unit::Device(port) | Unit::Transmitted(port) => self.net.device_interrupt(port, now),
            Unit::ChannelInterrupt => self.net.channel_interrupt(),
            // What there is to send leaves at the end of this unit, as of every other.
            Unit::Segments => {}
            Unit::SoftInterrupt => {
                let dispatch = !core::mem::replace(&mut self.in_soft_interrupt, true);
                self.net.soft_interrupt(dispatch, now);
            }
            Unit::Poll => self.net.poll(now),
            Unit::Process(process) => now = self.step(process, now, trigger)?,
            Unit::Transmit => self.net.output(now).start(),
            Unit::Idle => self.net.idle_input(now),
        }
        self.net.notify_programs();
        self.send_segments(unit, now);
        self.net.output(now).transmit_gathering();
        self.wake(now);
        let process = if let Unit::Process(p) = unit { Some(p) } else { None };
        let protocol = process.and_then(|p| self.process(p)).is_some_and(|p| p.protocol.stepping);
        Some(Ran { level, process, payer, limited: self.is_limited(unit), protocol })
    }

    /// Sends what TCP has to send, unless it may soon be sent together with more.
    ///
    /// Protocol processing that wakes its own program is followed by that program's step, which will often
    /// answer, or close, or make room in its window: the acknowledgment then goes with it (RFC 9293 3.8.6.3,
    /// RFC 1122 4.2.3.2). It waits for that step, if it comes within a few units.
    #[inline]
    fn send_segments(&mut self, unit: Unit, now: Instant) {
        if !self.net.tcp.is_pending() {
            return;
        }
        if self.may_be_answered_soon(unit) && self.net.tcp.may_hold_segments() {
            self.net.tcp.hold_segments();
        } else {
            self.net.send_tcp(now);
        }
    }

    /// Returns whether a process has done protocol processing that ends its own sleep, and its program has
    /// not run a step since.
    fn may_be_answered_soon(&self, unit: Unit) -> bool {
        let held = self.net.tcp.holds_segments();
        let Unit::Process(id) = unit else { return held };
        let Some(process) = self.process(id).filter(|process| process.protocol.stepping) else {
            return false;
        };
        held || process.sleep.is_some() && self.net.sockets.ready.wakeups.has_process(id)
    }

    /// Continues a suspended step, which [`Host::peek`] has announced: the process is the current one again.
    /// [`Host::work`] then shows whether that took a switch.
    pub fn resume(&mut self, process: ProcessId) {
        self.net.work.clear();
        self.switch_to(process);
    }

    /// Returns the log of the last work item.
    #[must_use]
    pub fn work(&self) -> &WorkLog {
        &self.net.work
    }

    fn switch_to(&mut self, id: ProcessId) {
        self.scheduler.dispatch(self.current);
        if self.current != Some(id) {
            self.net.work.add(Work::Switch);
            self.current = Some(id);
        }
    }

    /// Runs a step of a process: its protocol processing or its program. Returns the time of the last
    /// trigger state in the step that had something to do, or else `now`; `None` if the process had no step
    /// to begin.
    fn step(&mut self, id: ProcessId, now: Instant, trigger: Option<&mut dyn Trigger>) -> Option<Instant> {
        if self.current != Some(id) && self.net.links.gathers() {
            // What one process has sent does not wait for another.
            self.net.output(now).start();
        }
        self.switch_to(id);
        let protocol = self.is_protocol_next(id);
        let process = self.processes.get_mut(id.0 as usize)?.as_mut()?;
        if process.protocol.stepping {
            return None;
        }
        if protocol {
            process.protocol.stepping = true;
            self.scheduler.ran(id);
            self.net.process_segments(id, now);
            return Some(now);
        }
        if process.sleep.is_some() {
            // What it was to process, another has.
            self.scheduler.sleep(id, now);
            return None;
        }
        if process.stepping.is_some() {
            return None;
        }
        self.scheduler.ran(id);
        let mut body = core::mem::replace(&mut process.body, Body::Running);
        let mut end = now;
        let step = match &mut body {
            Body::Program(program) => {
                let Self { net, processes, .. } = self;
                let mut within = trigger.and_then(|trigger| Within::if_pending(trigger, net, processes));
                let mut system = System::new(net, id, now, within.as_mut());
                let step = program.step(&mut system);
                end = system.now();
                step
            }
            Body::Daemon(channel) => {
                self.net.daemon_step(*channel, now);
                Step::Again
            }
            Body::Attached | Body::Running => Step::Exit,
        };
        let read = self.net.sockets.last_read.take();
        let process = self.processes.get_mut(id.0 as usize)?.as_mut()?;
        process.reads = read.or(process.reads);
        process.body = body;
        process.stepping = Some(step);
        Some(end)
    }

    /// Handles the clock interrupt: runs the parts, and wakes the processes, whose deadlines have come.
    fn clock(&mut self, now: Instant) {
        let mut due = Due::default();
        self.each_deadline(|who, deadline| {
            if deadline <= now {
                due.insert(who);
            }
        });
        self.net.clock(due, now);
        // It may be overdue because nobody wanted the core for a while: then nobody waits for it.
        self.scheduler.tick(now);
        while let Some(process) = self.sleepers.poll_expired(now) {
            self.net.sockets.ready.wakeups.wake_process(process);
        }
    }

    fn wake(&mut self, now: Instant) {
        self.wake_protocol(now);
        (0..self.net.sockets.ready.wakeups.take_count()).for_each(|_| self.net.work.add(Work::Wakeup));
        self.net.sockets.ready.wakeups.wake_outside();
        while let Some(id) = self.net.sockets.ready.wakeups.next_process() {
            let Some(Some(process)) = self.processes.get_mut(id.0 as usize) else { continue };
            // A thread outside is woken by its own waker.
            if matches!(process.body, Body::Attached) {
                continue;
            }
            if let Some(sleep) = process.sleep.take() {
                self.sleepers.cancel(id);
                match sleep.on {
                    SleepsOn::Nothing => {}
                    SleepsOn::Socket(socket) => self.net.sockets.ready.forget_process(socket, id),
                    SleepsOn::Call => self.net.sockets.ready.end_sleep(id),
                }
                self.scheduler.wake(id, now);
            }
        }
    }

    /// Makes processes run that have segments to process, whatever their programs wait for.
    fn wake_protocol(&mut self, now: Instant) {
        while let Some(id) = self.net.tcp.called.pop() {
            if self.process(id).is_some() {
                if !self.scheduler.is_runnable(id) {
                    self.net.work.add(Work::Wakeup);
                }
                self.scheduler.wake(id, now);
            }
        }
    }

    /// Wakes a process from outside of the host: what it waits for has come by a way the host knows nothing
    /// of.
    pub fn wake_process(&mut self, process: ProcessId, now: Instant) {
        self.net.sockets.ready.wakeups.wake_process(process);
        self.wake(now);
    }

    /// Returns whether a work item is part of taking packets in, and so counts against the cycle limit.
    fn is_limited(&self, unit: Unit) -> bool {
        let PaperPolicies { limit_interrupts, limit_counts_interrupts, .. } = self.net.config.paper_policies;
        match unit {
            Unit::Poll => true,
            Unit::Device(port) => {
                limit_interrupts || (limit_counts_interrupts && self.net.links.is_polled(port))
            }
            Unit::Clock
            | Unit::ChannelInterrupt
            | Unit::SoftInterrupt
            | Unit::Segments
            | Unit::Transmitted(_)
            | Unit::Transmit => limit_interrupts,
            Unit::Process(_) | Unit::Idle => false,
        }
    }

    /// Charges the time that a work item has taken to its level, and to the process that pays for it.
    pub fn charge(&mut self, ran: &Ran, elapsed: Duration) {
        self.cpu[ran.level as usize] += elapsed;
        self.net.poller.charge(elapsed, ran.limited);
        if ran.level == Level::PollingThread {
            self.net.poller.charge_callback(elapsed);
            self.charge_discards(elapsed);
        }
        let Some(payer) = ran.payer else { return };
        self.scheduler.charge(payer, self.by_queue_length(payer, elapsed));
        let both = ran.protocol || self.net.tcp.has_segments(payer);
        if let Some(Some(process)) = self.processes.get_mut(payer.0 as usize) {
            process.bill.charged += elapsed;
            if ran.process == ran.payer {
                process.bill.used += elapsed;
                if both {
                    process.balance(ran.protocol, elapsed);
                }
            }
        }
    }

    /// Charges time of the polling thread: what of it went to frames that were discarded. The process that
    /// they were for pays what exceeds the share that discarding has.
    fn charge_discards(&mut self, elapsed: Duration) {
        let Some((source, spent, receiver)) = self.net.spent_on_discards(elapsed) else { return };
        let fair_percent = self.scheduler.fair_percent(receiver);
        let pays = self.net.poller.charge_discards(source, spent, fair_percent);
        // One that sleeps wants nothing of the core, so there is nothing to pay with.
        let receiver =
            receiver.filter(|&receiver| pays > Duration::ZERO && self.scheduler.is_runnable(receiver));
        let Some(receiver) = receiver else { return };
        self.scheduler.charge(receiver, pays);
        if let Some(Some(process)) = self.processes.get_mut(receiver.0 as usize) {
            process.bill.charged += pays;
        }
    }

    /// Charges time that was spent on the host's behalf outside of its units: to the level of processes, and
    /// to none of them.
    pub fn charge_control(&mut self, elapsed: Duration) {
        self.cpu[Level::Process as usize] += elapsed;
    }

    /// Returns the time that the scheduler charges for `elapsed` time of a process: all of it; or, with
    /// feedback by queue length, the less the fuller the queue is that the process reads.
    fn by_queue_length(&self, process: ProcessId, elapsed: Duration) -> Duration {
        if self.net.config.feedback.is_none_or(|f| f.by != FeedbackBy::Length) {
            return elapsed;
        }
        let filled_percent = match self.process(process) {
            Some(Process { body: Body::Daemon(channel), .. }) => {
                self.net.rx.channels.filled_percent(*channel)
            }
            Some(Process { reads: Some(queue), .. }) => {
                self.net.sockets.filled_percent(*queue, &self.net.rx.channels)
            }
            _ => 0,
        };
        elapsed * 100 / (100 + 3 * u32::from(filled_percent))
    }

    /// Ends a work item. A process that asked to sleep does so now, unless the event that it waits for has
    /// come meanwhile.
    pub fn finish(&mut self, ran: &Ran, now: Instant) {
        if ran.level == Level::SoftInterrupt {
            // It returns when the IP queue is empty; while it is not, frames that come meanwhile need no new
            // dispatch.
            self.in_soft_interrupt = !self.net.rx.ip_queue.is_empty();
        }
        if ran.level == Level::PollingThread {
            self.net.links.finish_poll(&mut self.net.poller, now);
        }
        self.net.links.finish_interrupt();
        let Some(id) = ran.process else { return };
        if ran.protocol {
            return self.finish_protocol(id, now);
        }
        let Some(process) = self.processes.get_mut(id.0 as usize).and_then(Option::as_mut) else { return };
        let daemon = if let Body::Daemon(channel) = process.body { Some(channel) } else { None };
        let step = process.stepping.take();
        if !matches!(step, Some(Step::Block(_))) {
            self.net.sockets.ready.leave_call(id);
        }
        match (step, daemon) {
            (Some(Step::Again), None) | (None, _) => {}
            (Some(Step::Wait(fd)), _) => self.wait_for(id, fd, Instant::NEVER, now),
            (Some(Step::WaitUntil(fd, until)), _) => self.wait_for(id, fd, until, now),
            (Some(Step::Block(until)), _) => self.block(id, until, now),
            (Some(Step::Sleep(until)), _) => {
                if until > now {
                    self.put_to_sleep(id, Sleep { on: SleepsOn::Nothing, until }, now);
                }
            }
            (Some(Step::Exit), None) => self.exit(id, now),
            (Some(Step::Again | Step::Exit), Some(channel)) => {
                if !self.net.sockets.arm_daemon(channel, &mut self.net.rx.channels) {
                    self.put_to_sleep(id, Sleep { on: SleepsOn::Nothing, until: Instant::NEVER }, now);
                }
            }
        }
    }

    /// Ends a step of protocol processing. If it was the last, the process continues as its program does.
    fn finish_protocol(&mut self, id: ProcessId, now: Instant) {
        let more = self.net.tcp.has_segments(id);
        let Some(Some(process)) = self.processes.get_mut(id.0 as usize) else { return };
        process.protocol.stepping = false;
        if more {
            return;
        }
        process.protocol.ahead = 0;
        if process.sleep.is_some() {
            self.scheduler.sleep(id, now);
        }
    }

    fn wait_for(&mut self, id: ProcessId, fd: Fd, until: Instant, now: Instant) {
        if until > now
            && let Some(socket) = self.net.readiness().arm_descriptor(fd, id)
        {
            self.put_to_sleep(id, Sleep { on: SleepsOn::Socket(socket), until }, now);
        }
    }

    /// Puts a process to sleep in its call, unless that call would find something by now.
    fn block(&mut self, id: ProcessId, until: Instant, now: Instant) {
        if until > now && !self.net.sockets.ready.is_call_over(id) {
            self.put_to_sleep(id, Sleep { on: SleepsOn::Call, until }, now);
        }
    }

    fn put_to_sleep(&mut self, id: ProcessId, sleep: Sleep, now: Instant) {
        self.sleepers.set(id, sleep.until);
        if let Some(Some(process)) = self.processes.get_mut(id.0 as usize) {
            process.sleep = Some(sleep);
            process.protocol.ahead = 0;
        }
        if !self.net.tcp.has_segments(id) {
            self.scheduler.sleep(id, now);
        }
    }

    /// Ends a process; its sockets are closed, and what waited in them is counted.
    pub fn kill(&mut self, process: ProcessId, now: Instant) {
        self.exit(process, now);
    }

    fn exit(&mut self, id: ProcessId, now: Instant) {
        for socket in self.net.sockets.descriptors.of(id).collect::<Vec<_>>() {
            crate::system::close(&mut self.net, socket, now);
        }
        self.net.sockets.ready.exit(id);
        self.net.activation().end_processing(id);
        self.net.notify_programs();
        self.net.send_tcp(now);
        self.net.output(now).transmit();
        self.scheduler.retire(id);
        self.sleepers.forget(id);
        if let Some(process) = self.processes.get_mut(id.0 as usize) {
            *process = None;
        }
        // Closing may have woken others, and no unit need follow.
        self.wake(now);
    }

    /// Finds out exactly when there will be something to do, which a busy host does not keep up to date. So
    /// it is until the next unit or call.
    pub fn settle_deadlines(&mut self) {
        self.net.tcp.settle_deadline();
    }

    /// Returns the time at which there will be something to do even if nothing arrives. Exact once the host
    /// has [halted](Host::halt), or its deadlines have been [settled](Host::settle_deadlines). Before that
    /// it may be too early: [`Host::turn`] then finds nothing to do.
    #[must_use]
    #[inline]
    pub fn next_deadline(&self) -> Instant {
        self.sleepers.next_deadline().min(self.net.next_deadline()).min(self.decay_deadline())
    }

    /// Returns the earliest of the deadlines that must be met exactly: when a paced segment is to leave.
    /// Other deadlines may be late by the time it takes to wake a core that has halted. As exact as
    /// [`Host::next_deadline`], which is no later.
    #[must_use]
    #[inline]
    pub const fn exact_deadline(&self) -> Instant {
        self.net.tcp.next_paced()
    }

    /// Returns an iterator over all deadlines: the part or process that waits, its name in reports, and its
    /// time. In no particular order.
    pub fn deadlines(&self) -> impl Iterator<Item = (Deadline, &str, Instant)> {
        let mut parts = Vec::new();
        self.each_deadline(|who, deadline| parts.push((who, who.name(), deadline)));
        let processes = self.sleepers.iter().map(|(id, deadline)| {
            let name = self.process(id).map(|process| process.name.as_str());
            let who = Deadline::Process(id);
            (who, name.unwrap_or(who.name()), deadline)
        });
        parts.into_iter().filter(|&(_, _, deadline)| deadline != Instant::NEVER).chain(processes)
    }

    /// Sends the frames that are batched while one work item follows another, for a driver that is about to
    /// do something else.
    pub fn start_output(&mut self, now: Instant) {
        if self.net.links.gathers() {
            self.net.output(now).start();
        }
    }

    /// Enables the interrupts of all interfaces before halting. Returns false if something is pending after
    /// all.
    pub fn halt(&mut self, now: Instant) -> bool {
        if !self.scheduler.has_runnable() {
            self.net.poller.idle();
        }
        self.net.links.enter_idle();
        let pending = self.net.arm();
        self.wake_protocol(now);
        self.net.tcp.settle_deadline();
        !pending && self.select(now).is_none()
    }

    // --- Counters and bills ---

    /// Returns the counters of what became of every frame.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.net.ledger
    }

    /// Balances the counters.
    ///
    /// # Errors
    /// [`Imbalance`]: a bug.
    pub fn check(&self) -> Result<(), Imbalance> {
        self.net.ledger.check(self.net.queued(), self.net.stack.held() + self.net.links.output_queued())
    }

    /// Frames queued on the way up.
    #[must_use]
    pub fn queued(&self) -> u64 {
        self.net.queued()
    }

    /// Frames on the way out: they wait for a neighbour's address or in an output queue, or have left and
    /// their buffers have not been taken back.
    #[must_use]
    pub fn waiting_to_leave(&self) -> u64 {
        self.net.stack.held() + self.net.links.output_queued() + self.net.links.unreclaimed()
    }

    /// Returns the frame counters of an interface.
    #[must_use]
    pub fn traffic(&self, interface: InterfaceId) -> Option<Traffic> {
        self.net.links.traffic(interface)
    }

    /// Stops forwarding of packets that no process has screened. Without this call only the first process
    /// that screens stops it, and packets may pass before that process first runs.
    pub fn require_screening(&mut self) {
        self.net.sockets.screened = true;
    }

    /// Returns the counters of messages that change how to send and were processed ahead of frames that came
    /// after them. They also count how often this was not done because too many messages had come.
    #[must_use]
    pub fn ahead_counters(&self) -> channel::AheadCounters {
        self.net.rx.ahead.counters
    }

    /// Returns the number of packets that wait for the process that screens.
    #[must_use]
    pub fn waiting_for_verdict(&self) -> u64 {
        self.net.sockets.waiting_for_verdict(&self.net.rx.channels)
    }

    /// Returns the number of device interrupts taken.
    #[must_use]
    pub fn interrupts(&self) -> u64 {
        self.net.links.interrupts()
    }

    /// Frames that one callback of the polling thread may take at present; `usize::MAX` without a quota.
    #[must_use]
    pub fn quota_pkts(&self) -> usize {
        self.net.poller.quota_pkts()
    }

    /// Frames in the interfaces' receive rings: not taken yet, and so not in the ledger.
    #[must_use]
    pub fn in_rings(&self) -> u64 {
        self.net.in_rings()
    }

    /// Returns the number of frames that receive rings have and hide for a few milliseconds
    /// ([`crate::interface::RxCounters::buffered`]).
    #[must_use]
    pub fn buffered(&self) -> u64 {
        self.net.links.buffered()
    }

    /// Returns the CPU time spent at a level.
    #[must_use]
    pub fn cpu(&self, level: Level) -> Duration {
        self.cpu[level as usize]
    }

    /// Returns the CPU time of a process; `None` once it has ended.
    #[must_use]
    pub fn bill(&self, process: ProcessId) -> Option<Bill> {
        Some(self.process(process)?.bill)
    }

    /// Returns an iterator over the living processes, daemons included: id, name, bill.
    pub fn processes(&self) -> impl Iterator<Item = (ProcessId, &str, Bill)> {
        let all = self.processes.iter().enumerate();
        all.filter_map(|(i, p)| p.as_ref().map(|p| (ProcessId(i as u32), p.name.as_str(), p.bill)))
    }

    fn process(&self, id: ProcessId) -> Option<&Process> {
        self.processes.get(id.0 as usize)?.as_ref()
    }

    /// Counters of a UDP socket, or of the screening queue.
    #[must_use]
    pub fn socket_counters(&self, socket: SocketId) -> Option<socket::SocketCounters> {
        match self.net.sockets.descriptors.get(socket)? {
            Descriptor::Udp(socket) => Some(socket.counters),
            Descriptor::Screen(screen) => Some(screen.counters),
            _ => None,
        }
    }

    /// Returns the socket that a descriptor of a process refers to, for use with the host's other queries.
    #[must_use]
    pub fn socket_of(&self, process: ProcessId, fd: Fd) -> Option<SocketId> {
        self.net.sockets.ready.resolve(process, fd)
    }

    /// Returns the number of items that wait in a queue that a process reads: datagrams, packets to be
    /// screened, captured frames.
    #[must_use]
    pub fn waiting_in(&self, socket: SocketId) -> Option<usize> {
        Some(self.net.sockets.descriptors.get(socket)?.len())
    }

    /// Counters of a capture queue.
    #[must_use]
    pub fn capture_counters(&self, capture: SocketId) -> Option<CaptureCounters> {
        self.net.sockets.capture_counters(capture)
    }

    /// Counters of a socket's own channel; of a listener, that of SYNs.
    #[must_use]
    pub fn channel_counters(&self, socket: SocketId) -> Option<channel::ChannelCounters> {
        let own = match self.net.sockets.descriptors.get(socket)? {
            Descriptor::Udp(socket) => socket.channels.first()?.0,
            Descriptor::Listener(listener) => listener.syns?,
            _ => return None,
        };
        Some(self.net.rx.channels.get(own)?.counters())
    }

    /// Returns the number of channels, those included that are empty and wait to be reused.
    #[must_use]
    pub fn channel_count(&self) -> usize {
        self.net.rx.channels.len()
    }

    /// Returns TCP's counters for the whole host.
    #[must_use]
    pub fn tcp_counters(&self) -> &tcp::Counters {
        self.net.tcp.endpoint.counters()
    }

    /// Returns TCP of this host for inspection: how many connections there are, and each of them.
    #[must_use]
    pub fn tcp(&self) -> &tcp::Endpoint<FirstHop> {
        &self.net.tcp.endpoint
    }

    /// Returns the process that owns a connection, and the connection's socket if it is open.
    #[must_use]
    pub fn owner_of(&self, connection: tcp::table::Id) -> (Option<ProcessId>, Option<SocketId>) {
        self.net.tcp.owner_of(connection)
    }

    /// Segments that wait in the channels of connections.
    #[must_use]
    pub fn segments_waiting(&self) -> usize {
        self.net.tcp.segments.held_pkts()
    }

    /// Returns the sockets of a process.
    #[must_use]
    pub fn sockets_of(&self, process: ProcessId) -> Vec<SocketId> {
        self.net.sockets.descriptors.of(process).collect::<Vec<_>>()
    }

    /// Returns the counts of why the polling thread resumed input.
    #[must_use]
    pub fn resumes(&self) -> Resumes {
        self.net.poller.resumes()
    }

    /// Returns the numbers of free frame buffers, and of all reserved ones.
    #[must_use]
    pub fn pool(&self) -> (usize, usize) {
        (self.net.pool.available(), self.net.pool.capacity())
    }

    /// Returns an iterator over the host's interfaces.
    pub fn interfaces(&self) -> impl Iterator<Item = &dyn Interface> {
        self.net.links.iter()
    }

    /// Returns an interface, for its driver's own calls.
    pub fn interface_mut(&mut self, id: InterfaceId) -> Option<&mut (dyn Interface + 'static)> {
        self.net.links.interface_mut(id)
    }

    /// Returns the host's settings in effect.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.net.config
    }
}

#[cfg(test)]
mod vectors;
