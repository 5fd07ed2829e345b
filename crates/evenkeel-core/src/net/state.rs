//! The network side of a host: all that it owns, the clock interrupt, and what it halts for.

use super::offloads::Offloads;
use super::output::Output;
use super::tcp::{Activation, Segments, Tcp, TcpChannels};
use crate::channel::Channel;
use crate::config::Config;
use crate::context::Cx;
use crate::deadline::{Deadline, Due, Handler};
use crate::demux::Binding;
use crate::drop::Reason;
use crate::frame::{Frame, Pool, PoolLimit};
use crate::id::{InterfaceId, QueueId};
use crate::ledger::Ledger;
use crate::link::{Links, OUTPUT_PKTS, OutputRoom};
use crate::poll::{FeedbackBy, Poller};
use crate::queue::Queue;
use crate::receive::{AfterDevice, ReceivePath};
use crate::rx::{Channels, Receive};
use crate::socket::Descriptor;
use crate::sockets::{Readiness, Sockets};
use crate::stack::{Datagram, Io, Stack};
use crate::stray::Strays;
use crate::tcp::Secret;
use crate::time::{Duration, Instant};
use crate::timed::Timed;
use crate::work::{Work, WorkLog};

/// Fragments without their first part are looked at this often while the core is busy.
const FRAGMENT_PERIOD: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct Net {
    pub(crate) plan: ReceivePath,
    pub(crate) config: Config,
    pub(crate) pool: Pool,
    pub(crate) ledger: Ledger,
    pub(crate) stack: Timed<Stack>,
    pub(crate) work: WorkLog,
    pub(crate) poller: Poller<QueueId>,
    /// The socket floor.
    pub(crate) sockets: Sockets,
    pub(crate) links: Links,
    /// The receive floor.
    pub(crate) rx: Receive,
    pub(crate) tcp: Tcp,
    /// Packets for other hosts of the group.
    pub(crate) strays: Strays,
    /// The destinations whose packets interfaces forward by themselves.
    pub(crate) offloads: Offloads,
}

impl Net {
    pub(crate) fn new(config: Config) -> Result<Self, PoolLimit> {
        let plan = ReceivePath::of(config.architecture, config.device_work);
        let mut pool = Pool::with_limit(config.memory_pkts);
        pool.grow(config.ip_queue_pkts + OUTPUT_PKTS + Stack::frames_held_max(&config.stack))?;
        let mut net = Self {
            plan,
            pool,
            ledger: Ledger::default(),
            stack: Timed::new(Stack::new(config.stack.clone(), config.seed)),
            work: WorkLog::default(),
            poller: poller(&config),
            sockets: Sockets::new(&config),
            links: Links::new(&config),
            rx: Receive::new(&config),
            tcp: Tcp::new(&config),
            strays: Strays::default(),
            offloads: Offloads::default(),
            config,
        };
        if let Some(secret) = net.config.secret {
            net.stack.set_secret(secret);
            net.rx.table.set_secret(secret);
        }
        net.tcp_channels().adapt_endpoint();
        if plan.is_lazy() {
            net.channels().open_for_daemon(Binding::Neighbor)?;
            net.channels().open_for_daemon(Binding::Control)?;
            net.channels().open_for_daemon(Binding::PathMtu)?;
            net.channels().open_for_daemon(Binding::Fragment)?;
        }
        if net.config.stack.forwarding
            && matches!(plan.after_device, AfterDevice::Channel | AfterDevice::DemultiplexThenIpQueue)
        {
            net.channels().open_for_daemon(Binding::Forward)?;
        }
        if net.config.paper_policies.limit_interrupts {
            net.rx.ip_queue =
                Queue::new(net.config.ip_queue_pkts, net.rx.gate(net.config.ip_queue_pkts, &net.config));
        }
        Ok(net)
    }

    /// Sets the secret from which everything that others must not guess is derived. Returns whether it was
    /// set: it must be the first, and TCP must not have been used.
    pub(crate) fn set_secret(&mut self, secret: Secret) -> bool {
        let endpoint = &self.tcp.endpoint;
        let used = !endpoint.is_empty() || endpoint.waiting() > 0 || endpoint.listeners().next().is_some();
        if self.config.secret.is_some() || used || endpoint.counters().iter().any(|(_, count)| count > 0) {
            return false;
        }
        self.config.secret = Some(secret);
        self.stack.set_secret(secret);
        self.rx.table.set_secret(secret);
        self.tcp = Tcp::new(&self.config);
        self.tcp.endpoint.leave_strays(self.strays.may_hand_over());
        self.tcp_channels().adapt_endpoint();
        true
    }

    pub(crate) fn with_stack<T>(&mut self, now: Instant, f: impl FnOnce(&mut Stack, &mut Io<'_>) -> T) -> T {
        let mut io = Io { now, pool: &mut self.pool, ledger: &mut self.ledger, out: self.links.out() };
        f(&mut self.stack, &mut io)
    }

    /// Calls `f` with the stack for each interface.
    pub(crate) fn each_interface(
        &mut self,
        now: Instant,
        mut f: impl FnMut(&mut Stack, InterfaceId, &mut Io<'_>),
    ) {
        for index in 0..self.links.len() {
            self.with_stack(now, |stack, io| f(stack, InterfaceId(index as u8), io));
        }
    }

    // --- The floors ---

    /// Returns the links, and the context that their methods take.
    #[inline(always)]
    pub(super) fn links(&mut self, now: Instant) -> (&mut Links, Cx<'_>) {
        let Self { links, pool, ledger, work, poller, .. } = self;
        (links, Cx { now, pool, ledger, work, poller })
    }

    /// Returns the sockets, and the context that their methods take.
    #[inline(always)]
    pub(crate) fn sockets(&mut self, now: Instant) -> (&mut Sockets, Cx<'_>) {
        let Self { sockets, pool, ledger, work, poller, .. } = self;
        (sockets, Cx { now, pool, ledger, work, poller })
    }

    /// Returns the channels, to open and close some.
    pub(crate) fn channels(&mut self) -> Channels<'_> {
        let Self { rx, links, pool, config, plan, .. } = self;
        Channels { rx, links, pool, config, plan: *plan }
    }

    /// Returns the calls that say which descriptors are ready.
    #[inline(always)]
    pub(crate) fn readiness(&mut self) -> Readiness<'_> {
        let Self { sockets, rx, tcp, plan, work, .. } = self;
        Readiness { sockets, channels: &mut rx.channels, tcp: &tcp.endpoint, is_lazy: plan.is_lazy(), work }
    }

    /// Returns TCP with what decides who processes its segments.
    #[inline(always)]
    pub(crate) fn activation(&mut self) -> Activation<'_> {
        let Self { tcp, rx, sockets, poller, config, .. } = self;
        Activation { tcp, rx, sockets, poller, config }
    }

    /// Returns the way of segments, in and out.
    #[inline(always)]
    pub(in crate::net) fn segments(&mut self, now: Instant) -> Segments<'_> {
        let Self { tcp, stack, links, strays, pool, ledger, work, poller, .. } = self;
        Segments { tcp, stack, links, strays, cx: Cx { now, pool, ledger, work, poller } }
    }

    /// Returns the channels of TCP, to open and close some.
    #[inline(always)]
    pub(crate) fn tcp_channels(&mut self) -> TcpChannels<'_> {
        let Self { tcp, sockets, stack, poller, rx, links, pool, config, plan, .. } = self;
        TcpChannels { tcp, sockets, stack, poller, below: Channels { rx, links, pool, config, plan: *plan } }
    }

    /// Returns the way out, for the frames that the current work item sends.
    #[inline(always)]
    pub(crate) fn output(&mut self, now: Instant) -> Output<'_> {
        while let Some(update) = self.rx.sharing.next_resolved(&mut self.stack) {
            self.with_stack(now, |stack, io| stack.sync_neighbor(update, io));
        }
        let Self { links, sockets, config, pool, ledger, work, poller, .. } = self;
        Output { links, sockets, listen_only: config.listen_only, cx: Cx { now, pool, ledger, work, poller } }
    }

    // --- The ends of work items ---

    /// Returns whether TCP has segments left to send, because the last work item had no time for them or
    /// because their interface has room only now.
    pub(crate) fn has_segments_to_send(&self) -> bool {
        self.tcp.pending && self.tcp.held == 0 && {
            let OutputRoom { full, pkts } = self.links.output_room();
            pkts > 0 && self.tcp.endpoint.may_transmit(full, &*self.stack)
        }
    }

    /// Notifies programs of the events that TCP reported in this work item, and of buffers that it freed. To
    /// be called at the end of every work item.
    pub(crate) fn notify_programs(&mut self) {
        if !self.sockets.senders.is_empty() {
            self.sockets.unblock_senders(self.pool.available());
        }
        if !self.tcp.pending {
            return;
        }
        self.activation().notify_all();
        self.activation().resume_listeners();
    }

    /// Segments leave that follow from this unit. To be called at the end of every unit, or of a later one if
    /// they are [held](super::Tcp::hold_segments).
    pub(crate) fn send_tcp(&mut self, now: Instant) {
        if !self.tcp.pending {
            return;
        }
        self.tcp.held = 0;
        self.tcp.pending = !self.segments(now).send();
        // With its last acknowledgment a connection is over, and nothing else may ever happen to it.
        self.activation().notify_all();
        while let Some((id, tuple)) = self.tcp.endpoint.poll_ended() {
            self.tcp_channels().release_ring(id, tuple);
        }
        self.tcp.look_ahead();
    }

    // --- Time and counters ---

    /// Calls `hear` with the deadline of every part of a host, [`Instant::NEVER`] if it waits for none.
    #[inline]
    pub(crate) fn each_deadline(&self, mut hear: impl FnMut(Deadline, Instant)) {
        self.stack.each_deadline(&mut hear);
        self.each_other_deadline(hear);
    }

    /// Returns the next deadline of any part of the host. The stack remembers its own.
    #[inline]
    pub(crate) fn next_deadline(&self) -> Instant {
        let mut next = self.stack.deadline();
        self.each_other_deadline(|_, deadline| next = next.min(deadline));
        next
    }

    /// Calls `hear` with the deadline of every part but the stack's.
    #[inline(always)]
    fn each_other_deadline(&self, mut hear: impl FnMut(Deadline, Instant)) {
        hear(Deadline::ClockedInterrupts, self.links.next_tick());
        hear(Deadline::Transmit, self.links.next_start());
        hear(Deadline::Feedback, self.poller.feedback_deadline());
        hear(Deadline::Limit, self.poller.limit_deadline());
        hear(Deadline::Tcp, self.tcp.next_deadline());
        hear(Deadline::Fragments, self.rx.fragments_deadline());
        hear(Deadline::Timers, self.sockets.next_timer());
        hear(Deadline::Buffers, self.sockets.senders.next_look());
        hear(Deadline::Offload, self.offloads.deadline(&self.stack, self.sockets.screened));
    }

    /// Handles the clock interrupt: has every part act that is due.
    pub(crate) fn clock(&mut self, due: Due, now: Instant) {
        self.work.add(Work::Clock);
        for handler in due.handlers() {
            match handler {
                Handler::Poller => self.expire_inhibitions(now),
                Handler::Interfaces => self.links.tick(now),
                Handler::Transmit => self.output(now).start(),
                Handler::Stack => {
                    self.with_stack(now, |stack, io| stack.tick(io));
                    self.segments(now).take_unresolved();
                }
                Handler::Tcp => self.tcp.advance(now),
                Handler::Timers => self.sockets.expire_timers(now),
                Handler::Buffers => {
                    self.sockets.unblock_senders(self.pool.available());
                    self.sockets.senders.look_again(now);
                }
                Handler::Fragments => {
                    self.rx.next_fragment_look = now + FRAGMENT_PERIOD;
                    self.input_fragments(now);
                }
                Handler::Offload => self.offloads.look(&mut self.stack, self.sockets.screened, now),
                // The host has it tick at every clock interrupt.
                Handler::Scheduler => {}
            }
        }
    }

    /// Ends the inhibitions by full queues and limits that have lasted long enough.
    fn expire_inhibitions(&mut self, now: Instant) {
        while let Some((queue, sources)) = self.poller.expire(now) {
            if self.reopen(queue) {
                self.poller.grant(sources);
            }
        }
    }

    /// Reopens the gate of a queue. Returns whether its consumer hangs.
    pub(super) fn reopen(&mut self, queue: QueueId) -> bool {
        match queue {
            QueueId::Socket(id) => self.sockets.descriptors.get_mut(id).is_some_and(Descriptor::reopen),
            QueueId::Channel(id) => self.rx.channels.get_mut(id).is_some_and(Channel::reopen),
            QueueId::IpQueue => self.rx.ip_queue.reopen(),
            QueueId::Output(id) => self.links.reopen(id),
        }
    }

    /// Enables every interrupt. Returns whether something is pending after all, so that the core must not
    /// halt.
    pub(crate) fn arm(&mut self) -> bool {
        let mut pending = self.links.arm(&self.poller);
        let mut disarmed = self.rx.channels.take_disarmed();
        disarmed.retain(|&id| {
            let waiting = self.rx.channels.get_mut(id).is_some_and(Channel::arm);
            if waiting
                && let Some(segments_for) = self.rx.channels.get(id).and_then(|channel| channel.segments_for)
            {
                self.activation().activate(id, segments_for);
                pending = true;
                return false;
            }
            // Not listed while the idle level could not take anything: the core would go round and round
            // instead of halting.
            if waiting
                && self.rx.channels.daemons().reader(id).is_none()
                && self.sockets.have_room(id, &self.rx.channels)
            {
                self.rx.channels.list(id);
                pending = true;
            }
            waiting
        });
        self.rx.channels.put_disarmed(disarmed);
        pending
    }

    pub(crate) fn drop_input(&mut self, frame: Frame, reason: impl Into<Reason>) {
        self.ledger.drop_input(reason, 1);
        self.pool.recycle(frame);
    }

    /// Returns the number of frames queued on the way up.
    pub(crate) fn queued(&self) -> u64 {
        let descriptors: u64 =
            self.sockets.descriptors.iter().map(|(_, descriptor)| queued_in(descriptor)).sum();
        self.rx.ip_queue.len() as u64 + self.rx.channels.queued() + descriptors + self.stack.reassembling()
    }

    /// Returns the number of frames in receive rings and in channels on interfaces.
    pub(crate) fn in_rings(&self) -> u64 {
        (self.rx.channels.in_rings() + self.links.pending()) as u64
    }
}

/// Creates the polling thread with the policies that the configuration asks for.
fn poller(config: &Config) -> Poller<QueueId> {
    let timeout = config.feedback.map_or(Duration::MAX, |f| f.timeout);
    let mut poller = Poller::new(config.quota, timeout, config.cycle_limit)
        .with_inhibition(config.paper_policies.inhibition);
    if let Some(sampling) = config.paper_policies.tick_sampling {
        poller = poller.with_tick_sampling(sampling);
    }
    if config.feedback.is_some_and(|f| f.by == FeedbackBy::Length) {
        poller = poller.with_queue_lengths(timeout);
    }
    if let Some(feedback) = config.feedback {
        poller = poller.with_discards(feedback.discard_percent);
    }
    if let Some(weights) = config.paper_policies.real_time_tasks {
        poller = poller.with_tasks(weights);
    }
    poller
}

fn queued_in(descriptor: &Descriptor) -> u64 {
    match descriptor {
        Descriptor::Udp(socket) => socket.ready.iter().map(Datagram::frames).sum(),
        Descriptor::Screen(screen) => (screen.queue.len() + screen.judging.len()) as u64,
        Descriptor::Capture(capture) => capture.len() as u64,
        _ => 0,
    }
}
