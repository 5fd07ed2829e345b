//! The rules in force. The screening process of each host reads them, and another thread replaces them
//! without a gap between packets.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evenkeel::raw::ip::InterfaceId;
use evenkeel::raw::screen::{FlowHits, FlowScope, Screened, Verdict};
use evenkeel::raw::time::Instant;
use evenkeel_base::SplitMix64;
use schemars::JsonSchema;
use serde::Serialize;

use super::flow_accounts::{Account, Accounts, Reason};
use super::log::SharedLog;
use super::rules::{Compiled, Counters, Decision, Flows, Rule, RuleSet, Surroundings};
use super::screen::Screener;
use super::text_error::TextError;
use crate::text::read_text;

/// A set of rules with the counters of one reader.
#[derive(Debug)]
struct Chapter {
    edition: Arc<Edition>,
    tally: Counters,
    /// For each rule of the previous set, the rule of this set that continues its counters.
    succession: Vec<Option<usize>>,
}

/// A set of rules as a reader gets it.
#[derive(Debug)]
struct Edition {
    rules: Compiled,
    /// For each rule, the log's comment for its packets.
    remarks: Vec<String>,
    /// The rules about flows, if readers decide about these.
    flows: Option<Flows>,
}

/// A cheap, cloneable handle to the rules in force.
///
/// All readers share one set of rules. Each reader switches to a new set on its own, between two packets,
/// and has its own counters.
#[derive(Debug, Clone)]
pub struct ActiveRules(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    links: Vec<String>,
    /// Whether readers decide about flows.
    about_flows: bool,
    /// The newest rules. A thread holds the lock while it gives them to readers or adds the readers'
    /// counters. Readers never hold it.
    newest: Mutex<Arc<Edition>>,
    readers: Vec<Arc<Reader>>,
    replaced: AtomicU64,
}

/// A reader of rules, and the set that it uses.
#[derive(Debug)]
struct Reader {
    /// Whether there are rules that the screening process does not use yet.
    is_fresh: AtomicBool,
    next: Mutex<Option<Arc<Chapter>>>,
    current: Mutex<Arc<Chapter>>,
    /// Rules that are not used any more. Freeing large tables takes time, which the screening process must
    /// not spend.
    past: Mutex<Vec<Arc<Chapter>>>,
    accounts: Mutex<Accounts>,
}

/// A rule and its counters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RuleCount {
    /// The rule, as it was parsed.
    pub rule: String,
    /// The file that contains the rule.
    pub file: String,
    /// The line in which the rule begins.
    pub line: usize,
    /// The label of the rule.
    pub label: Option<String>,
    /// Packets that were compared with the rule.
    pub evaluations: u64,
    /// Packets that the rule decided; for a `match` rule, packets that it matched.
    pub packets: u64,
    /// Bytes in these packets, from the IP header on.
    pub bytes: u64,
}

/// Rules as text, with the name of their file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// The path of the file.
    pub file: PathBuf,
    /// The text of the rules.
    pub text: String,
}

impl Text {
    fn read(&self, links: &[String], about_flows: bool) -> Result<Edition, TextError> {
        let file = self.file.display().to_string();
        let mut rules = RuleSet::parse_with(&file, &self.text, &|path| self.beside(path))?;
        let links: Vec<&str> = links.iter().map(String::as_str).collect();
        rules.bind(&links)?;
        let remark = |(index, rule): (usize, &Rule)| {
            let text = rules.text(index).unwrap_or_default();
            let (file, line) = rules.place(rule);
            format!("rule {} at {file}:{line}: {text}", index + 1)
        };
        let remarks = rules.rules.iter().enumerate().map(remark).collect();
        let flows = about_flows.then(|| Flows::new(&rules));
        Ok(Edition { rules: Compiled::new(rules), remarks, flows })
    }

    /// Reads a file that the rules name, relative to their own directory.
    fn beside(&self, path: &str) -> Result<(String, String), String> {
        let path = self.file.parent().map_or_else(|| PathBuf::from(path), |folder| folder.join(path));
        let shown = path.display().to_string();
        match read_text(&path) {
            Ok(text) => Ok((shown, text)),
            Err(error) => Err(format!("cannot read {shown}: {error}")),
        }
    }
}

impl ActiveRules {
    /// Opens a rule set with rules about links of these names, in the order of their interfaces, for this
    /// many readers.
    ///
    /// # Errors
    /// [`TextError`]
    pub fn open(text: &Text, links: Vec<String>, readers: usize) -> Result<Self, TextError> {
        Self::opened(text, links, readers, false)
    }

    /// Opens a rule set as [`ActiveRules::open`] does, for readers that also decide about flows. Rules take
    /// about twice the memory and time to read.
    ///
    /// # Errors
    /// [`TextError`]
    pub fn open_about_flows(text: &Text, links: Vec<String>, readers: usize) -> Result<Self, TextError> {
        Self::opened(text, links, readers, true)
    }

    fn opened(text: &Text, links: Vec<String>, readers: usize, about_flows: bool) -> Result<Self, TextError> {
        let edition = Arc::new(text.read(&links, about_flows)?);
        let readers = (0..readers).map(|_| Arc::new(Reader::new(&edition))).collect();
        let newest = Mutex::new(edition);
        Ok(Self(Arc::new(Shared { links, about_flows, newest, readers, replaced: AtomicU64::new(0) })))
    }

    /// Replaces the rules: from some packet on the new rules decide. Unchanged rules keep their counters.
    /// Returns the number of new rules. Only one thread may call this.
    ///
    /// # Errors
    /// [`TextError`]; the old rules stay.
    pub fn replace(&self, text: &Text) -> Result<usize, TextError> {
        let shared = &self.0;
        for reader in &shared.readers {
            drop(core::mem::take(&mut *lock(&reader.past)));
        }
        let new = Arc::new(text.read(&shared.links, shared.about_flows)?);
        let mut newest = lock(&shared.newest);
        shared.readers.iter().for_each(|reader| reader.give(&new));
        // The earlier rules are freed with their last reader, or here.
        *newest = Arc::clone(&new);
        shared.replaced.fetch_add(1, Ordering::Relaxed);
        Ok(new.rules.set().rules.len())
    }

    /// Returns the rules in force with their tables, as they were parsed.
    #[must_use]
    pub fn text(&self) -> String {
        lock(&self.0.newest).rules.set().to_string()
    }

    /// Returns remarks about rules that are accepted, but hardly do what was meant.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        lock(&self.0.newest).rules.set().notes.0.clone()
    }

    /// Returns how often the rules have been replaced.
    #[must_use]
    pub fn replaced(&self) -> u64 {
        self.0.replaced.load(Ordering::Relaxed)
    }

    /// Returns the counters of each rule, for all readers together.
    #[must_use]
    pub fn counts(&self) -> Vec<RuleCount> {
        let newest = lock(&self.0.newest);
        let rules = newest.rules.set();
        let counts = self.tally(rules).counts().into_iter().zip(&rules.rules).enumerate();
        counts
            .map(|(index, (count, rule))| RuleCount {
                rule: rules.text(index).unwrap_or_default(),
                file: rules.place(rule).0.to_owned(),
                line: rule.line.number,
                label: rule.label.clone(),
                evaluations: count.evaluations,
                packets: count.packets,
                bytes: count.bytes,
            })
            .collect()
    }

    /// Returns the numbers of packets that no rule matched, and of packets with malformed headers.
    #[must_use]
    pub fn others(&self) -> (u64, u64) {
        let tally = self.tally(lock(&self.0.newest).rules.set());
        (tally.unmatched(), tally.malformed())
    }

    /// Returns the sum of the readers' counters in terms of the newest rules. It includes readers that have
    /// not seen a packet since.
    fn tally(&self, rules: &RuleSet) -> Counters {
        let sum = Counters::new(rules);
        self.0.readers.iter().for_each(|reader| reader.add_to(&sum));
        sum
    }

    /// Returns the screeners of this rule set, one for each reader. They log packets as the rules require.
    /// `seed` seeds the random numbers of `probability`.
    pub fn screeners(&self, log: Option<SharedLog>, seed: u64) -> impl Iterator<Item = RuleScreener> {
        self.0.readers.iter().zip(0..).map(move |(reader, number)| RuleScreener {
            current: Arc::clone(&lock(&reader.current)),
            reader: Arc::clone(reader),
            log: log.clone(),
            random: SplitMix64::new(seed ^ (number << 48)),
            is_new: true,
        })
    }
}

impl Reader {
    fn new(edition: &Arc<Edition>) -> Self {
        let tally = Counters::new(edition.rules.set());
        let current = Arc::new(Chapter { edition: Arc::clone(edition), tally, succession: Vec::new() });
        Self {
            is_fresh: AtomicBool::new(false),
            next: Mutex::new(None),
            current: Mutex::new(current),
            past: Mutex::default(),
            accounts: Mutex::default(),
        }
    }

    fn give(&self, edition: &Arc<Edition>) {
        // A set that no packet has used is replaced before it was in force; counters continue from the set
        // that is.
        let mut next = lock(&self.next);
        let succession = edition.rules.set().succession(lock(&self.current).edition.rules.set());
        *next = Some(Arc::new(Chapter {
            tally: Counters::new(edition.rules.set()),
            edition: Arc::clone(edition),
            succession,
        }));
        self.is_fresh.store(true, Ordering::Release);
    }

    /// Adds its counters to those of the newest rules.
    fn add_to(&self, sum: &Counters) {
        // While this lock is held, the reader does not switch.
        let next = lock(&self.next);
        let current = lock(&self.current);
        match &*next {
            Some(next) => sum.carry(&current.tally, &next.succession),
            None => {
                let same: Vec<_> = (0..current.edition.rules.set().rules.len()).map(Some).collect();
                sum.carry(&current.tally, &same);
            }
        }
    }
}

/// A handle to a screener's counters of flows about which interfaces have decided by themselves.
#[derive(Debug, Clone)]
pub(super) struct FlowCounters {
    reader: Arc<Reader>,
    /// The packets of flows that passed, and of flows that were dropped.
    pub(super) passed: u64,
    pub(super) dropped: u64,
}

impl FlowCounters {
    /// Counts what `each` passes on: packets of flows, by account. Only the thread of the screener's host may
    /// call it.
    pub(super) fn count(&mut self, each: impl FnOnce(&mut dyn FnMut(u16, FlowHits))) {
        let mut accounts = lock(&self.reader.accounts);
        let current = lock(&self.reader.current);
        let (mut passed, mut dropped) = (0, 0);
        each(&mut |place, hits| {
            let Some(Account { reason, passes }) = accounts.get(place) else { return };
            *(if passes { &mut passed } else { &mut dropped }) += hits.packets;
            match reason {
                Some(Reason::Rule(rule)) => current.tally.count_flow(Some(rule), hits),
                Some(Reason::Unmatched) => current.tally.count_flow(None, hits),
                Some(Reason::Skipped) => current.tally.count_skipped_flow(hits),
                None => {}
            }
        });
        accounts.close_gone();
        self.passed += passed;
        self.dropped += dropped;
    }
}

/// Locks a mutex. No holder of these locks panics.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A screener that decides by the rules in force.
#[derive(Debug)]
pub struct RuleScreener {
    current: Arc<Chapter>,
    reader: Arc<Reader>,
    log: Option<SharedLog>,
    random: SplitMix64,
    /// Whether nobody knows yet on what its decisions depend.
    is_new: bool,
}

/// The host's tables, and chance.
struct Around<'a, 'b> {
    screened: &'a Screened<'b>,
    random: &'a mut SplitMix64,
}

impl Surroundings for Around<'_, '_> {
    fn is_routed(&self, address: IpAddr) -> bool {
        self.screened.is_routed(&address.into())
    }

    fn leads_back(&self, source: IpAddr) -> bool {
        self.screened.leads_back(&source.into())
    }

    fn interfaces(&self) -> u8 {
        u8::try_from(self.screened.interfaces()).unwrap_or(u8::MAX)
    }

    fn addresses(&self, interface: u8) -> impl Iterator<Item = (IpAddr, u8)> {
        let all = self.screened.addresses(InterfaceId(interface));
        all.map(|cidr| (cidr.address().into(), cidr.prefix_len()))
    }

    fn random(&mut self) -> u32 {
        (self.random.next_u64() >> 32) as u32
    }
}

impl RuleScreener {
    /// Returns its counters of flows.
    pub(super) fn flow_counters(&self) -> FlowCounters {
        FlowCounters { reader: Arc::clone(&self.reader), passed: 0, dropped: 0 }
    }

    /// Switches to the new rules.
    #[cold]
    fn turn(&mut self) {
        let reader = &self.reader;
        // The other thread holds the lock while it compares two sets; the next step tries again.
        let Ok(mut next) = reader.next.try_lock() else { return };
        reader.is_fresh.store(false, Ordering::Relaxed);
        let Some(next) = next.take() else { return };
        next.tally.carry(&self.current.tally, &next.succession);
        lock(&reader.accounts).follow(&next.succession);
        self.is_new = true;
        *lock(&reader.current) = Arc::clone(&next);
        let past = core::mem::replace(&mut self.current, next);
        lock(&reader.past).push(past);
    }
}

impl RuleScreener {
    /// Returns the account of packets about which a decision is made.
    fn account(&self, decision: &Decision, rules: &RuleSet, interface: u8) -> Option<u16> {
        let reason = match decision.rule {
            Some(rule) => Reason::Rule(rule),
            None if rules.skips(interface) => Reason::Skipped,
            None => Reason::Unmatched,
        };
        lock(&self.reader.accounts).open(reason, decision.verdict() == Verdict::Pass)
    }
}

impl Screener for RuleScreener {
    fn screen(&mut self, screened: &mut Screened<'_>, now: Instant) -> Verdict {
        let Chapter { edition, tally, .. } = &*self.current;
        let Edition { rules, remarks, flows } = &**edition;
        let (packet, interface) = (screened.transit().packet(), screened.transit().interface().0);
        let mut around = Around { screened, random: &mut self.random };
        let decision = rules.decide(packet, interface, &mut around, tally);
        let settled =
            flows.as_ref().filter(|flows| screened.is_due() && flows.holds(packet, interface, &mut around));
        let account = settled.and_then(|_| self.account(&decision, rules.set(), interface));
        if let (Some(rule), Some(log)) = (decision.log, &self.log) {
            log.record(screened.transit(), now, remarks.get(rule).map_or("", String::as_str));
        }
        let verdict = decision.verdict();
        if verdict == Verdict::Pass && !decision.changes.is_none() {
            decision.changes.apply(screened.packet_mut());
        }
        if let Some(account) = account {
            screened.settle(account);
        }
        verdict
    }

    fn renew(&mut self) -> Option<FlowScope> {
        if self.reader.is_fresh.load(Ordering::Acquire) {
            self.turn();
        }
        let is_new = core::mem::take(&mut self.is_new);
        self.current.edition.flows.as_ref().filter(|_| is_new).map(Flows::scope)
    }

    fn idle(&mut self) -> bool {
        if let Some(log) = &self.log {
            log.hand_over();
        }
        self.reader.is_fresh.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A router without routes and links.
    struct Nowhere;

    impl Surroundings for Nowhere {
        fn is_routed(&self, _address: IpAddr) -> bool {
            false
        }
        fn leads_back(&self, _source: IpAddr) -> bool {
            false
        }
        fn interfaces(&self) -> u8 {
            0
        }
        fn addresses(&self, _interface: u8) -> impl Iterator<Item = (IpAddr, u8)> {
            std::iter::empty()
        }
        fn random(&mut self) -> u32 {
            0
        }
    }

    fn text(text: &str) -> Text {
        Text { file: "r".into(), text: text.into() }
    }

    #[test]
    fn broken_rules_leave_the_old_ones_in_force() {
        let active = ActiveRules::open(&text("block all"), vec!["a".into()], 1).unwrap();
        assert!(
            active
                .replace(&text("blok all"))
                .is_err_and(|m| m.to_string().starts_with("r:1:1: expected `pass`"))
        );
        assert!(active.replace(&text("block on b")).is_err_and(|m| m.what.contains("no link is called `b`")));
        assert!(!active.0.readers[0].is_fresh.load(Ordering::Relaxed));
        assert_eq!(active.replace(&text("pass\nblock all")), Ok(2));
    }

    #[test]
    fn the_screener_turns_to_new_rules_and_counters_go_on() {
        let active =
            ActiveRules::open(&text("block proto udp\npass quick all"), vec!["a".into()], 1).unwrap();
        let mut screener = active.screeners(None, 0).next().unwrap();
        screener.current.edition.rules.decide(&[0x45], 0, &mut Nowhere, &screener.current.tally);
        let packet = [&[0x45, 0, 0, 20, 0, 0, 0, 0, 64, 2, 0, 0][..], &[1; 8]].concat();
        screener.current.edition.rules.decide(&packet, 0, &mut Nowhere, &screener.current.tally);
        active.replace(&text("pass")).unwrap();
        active.replace(&text("pass quick all\nblock to 1.2.3.4")).unwrap();
        screener.turn();
        assert_eq!(active.counts().iter().map(|c| c.packets).collect::<Vec<_>>(), [1, 0]);
        assert_eq!(active.others(), (0, 1));
        assert_eq!(active.counts()[0].rule, "pass in quick all");
        assert_eq!(lock(&active.0.readers[0].past).len(), 1, "what is over is left to the other thread");
    }

    /// The counters are right even while only one reader uses the new rules, and for any order of rules.
    #[test]
    fn readers_count_for_themselves_and_together() {
        let packet = [&[0x45, 0, 0, 20, 0, 0, 0, 0, 64, 99, 0, 0][..], &[1; 8]].concat();
        let active = ActiveRules::open(&text("block all\npass proto 99"), vec!["a".into()], 2).unwrap();
        let mut screeners: Vec<_> = active.screeners(None, 0).collect();
        let mut screen = |reader: usize| {
            let Chapter { edition, tally, .. } = &*screeners[reader].current;
            edition.rules.decide(&packet, 0, &mut Nowhere, tally);
            screeners[reader].turn();
        };
        let packets = || active.counts().iter().map(|c| c.packets).collect::<Vec<_>>();
        [0, 1, 1].into_iter().for_each(&mut screen);
        assert_eq!(packets(), [0, 3]);
        active.replace(&text("pass proto 99\nblock all")).unwrap();
        assert_eq!(packets(), [3, 0]);
        screen(0);
        assert_eq!(packets(), [4, 0], "by the old rules, and then it turned");
        [0, 1].into_iter().for_each(&mut screen);
        assert_eq!(packets(), [5, 1]);
        active.replace(&text("pass proto 99")).unwrap();
        assert_eq!(packets(), [5]);
    }
}
