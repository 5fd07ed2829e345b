//! The knowledge of `evenkeel top`: the processes, the last answer of each, and the rates since the answer
//! before.
//!
//! The model reads no clock and does no I/O. Its caller says which processes there are, what they answer, and
//! what time it is.

use std::collections::{BTreeMap, VecDeque};

use evenkeel::metrics::{Guarded, Published, Snapshot};
use evenkeel::raw::time::{Duration, Instant};

use super::guard_rates::GuardRates;
use super::rates::HostRates;

/// The number of intervals in a history: one for each column of a very wide terminal.
const HISTORY: usize = 512;
/// The time after which a process that owes an answer counts as silent. A process whose host nobody runs
/// answers without it after a second.
const PATIENCE: Duration = Duration::from_secs(2);

/// All processes that are followed, by number.
#[derive(Debug, Clone, Default)]
pub(super) struct Model {
    pub(super) processes: BTreeMap<u32, Process>,
}

/// A process that serves its figures.
#[derive(Debug, Clone, Default)]
pub(super) struct Process {
    /// The program, as it calls itself; empty before its first answer.
    pub(super) program: String,
    pub(super) hosts: Vec<Host>,
    pub(super) guards: Vec<Guard>,
    pub(super) state: State,
    /// Whether a question is on its way.
    is_asked: bool,
    /// The time of the first question since the last answer.
    asked: Option<Instant>,
    /// The time of the last answer.
    answered: Option<Instant>,
}

/// The way in which a process answers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum State {
    /// The first question was sent not long ago.
    #[default]
    New,
    Answers,
    /// A question has had no answer for this time.
    Silent(Duration),
    /// The answer cannot be read, for this reason.
    Unreadable(String),
}

/// The result of a question to a process.
#[derive(Debug)]
pub(super) enum Answer {
    Figures(Published),
    /// No answer came in time. The process may be asked again.
    Late,
    Unreadable(String),
    /// The process is gone.
    Gone,
}

/// A host of a process.
#[derive(Debug, Clone)]
pub(super) struct Host {
    last: Snapshot,
    /// The rates of the last interval; `None` before the second answer.
    pub(super) rates: Option<HostRates>,
    pub(super) best: Best,
    pub(super) offered: History,
    pub(super) served: History,
}

/// A guard of a process in front of the kernel's own sockets.
#[derive(Debug, Clone)]
pub(super) struct Guard {
    last: Guarded,
    /// The rates of the last interval; `None` before the second answer.
    pub(super) rates: Option<GuardRates>,
}

/// The interval with the highest rate of served frames so far.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Best {
    pub(super) served_pps: f64,
    /// The rate of offered frames in that interval.
    pub(super) offered_pps: f64,
}

/// The rates of the last intervals in whole frames a second, the newest last.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct History(VecDeque<u64>);

impl Model {
    /// Follows these processes, and no others.
    pub(super) fn follow(&mut self, pids: &[u32]) {
        self.processes.retain(|pid, _| pids.contains(pid));
        for &pid in pids {
            self.processes.entry(pid).or_default();
        }
    }

    /// Returns the processes to ask now: those without a question on its way whose last answer is at least
    /// `pause` old. After a late answer the next question waits, so that no interval is too short for a rate.
    pub(super) fn ask(&mut self, now: Instant, pause: Duration) -> Vec<u32> {
        let is_due = |process: &Process| {
            !process.is_asked && process.answered.is_none_or(|then| now.since(then) >= pause)
        };
        let mut due = Vec::new();
        for (&pid, process) in self.processes.iter_mut().filter(|(_, process)| is_due(process)) {
            process.is_asked = true;
            process.asked.get_or_insert(now);
            due.push(pid);
        }
        due
    }

    /// Returns whether the answer to a question is not there yet.
    pub(super) fn is_waiting(&self) -> bool {
        self.processes.values().any(|process| process.is_asked)
    }

    /// Records what came of the question to the process `pid`.
    pub(super) fn take(&mut self, pid: u32, answer: Answer, now: Instant) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        process.is_asked = false;
        match answer {
            Answer::Figures(published) => process.take(published, now),
            Answer::Late => {}
            Answer::Unreadable(why) => process.state = State::Unreadable(why),
            Answer::Gone => _ = self.processes.remove(&pid),
        }
    }

    /// Records which processes have been silent for too long.
    pub(super) fn look(&mut self, now: Instant) {
        for process in self.processes.values_mut() {
            let owed = process.asked.map(|asked| now.since(asked));
            if let Some(owed) = owed.filter(|owed| *owed > PATIENCE) {
                process.state = State::Silent(owed);
            }
        }
    }
}

impl Process {
    fn take(&mut self, published: Published, now: Instant) {
        (self.asked, self.answered) = (None, Some(now));
        self.state = State::Answers;
        self.program = published.program;
        let continues = self.hosts.len() == published.hosts.len()
            && self.hosts.iter().zip(&published.hosts).all(|(host, now)| host.continues_in(now));
        if continues {
            self.hosts.iter_mut().zip(published.hosts).for_each(|(host, now)| host.take(now));
        } else {
            self.hosts = published.hosts.into_iter().map(Host::new).collect();
        }
        self.take_guards(published.guards);
    }

    /// Records the accounts of guards. Like hosts, they are known by their places.
    fn take_guards(&mut self, now: Vec<Guarded>) {
        let continues = self.guards.len() == now.len()
            && self.guards.iter().zip(&now).all(|(guard, now)| guard.continues_in(now));
        if continues {
            self.guards.iter_mut().zip(now).for_each(|(guard, now)| guard.take(now));
        } else {
            self.guards = now.into_iter().map(|last| Guard { last, rates: None }).collect();
        }
    }

    /// Returns the number of hosts and guards.
    pub(super) fn subjects(&self) -> usize {
        self.hosts.len() + self.guards.len()
    }
}

impl Guard {
    /// Returns whether `now` may be a later account of this guard.
    fn continues_in(&self, now: &Guarded) -> bool {
        let is_later = self.last.seconds <= now.seconds && self.last.passed <= now.passed;
        is_later && self.last.interfaces == now.interfaces
    }

    fn take(&mut self, now: Guarded) {
        if let Some(rates) = GuardRates::of(&now.since(&self.last)) {
            self.rates = Some(rates);
            self.last = now;
        }
    }
}

impl Host {
    fn new(last: Snapshot) -> Self {
        let (best, offered, served) = (Best::default(), History::default(), History::default());
        Self { last, rates: None, best, offered, served }
    }

    /// Returns whether `now` may be a later snapshot of this host. Answers do not name their hosts. So a host
    /// is known by its place, and another process with the same number by counters that are lower.
    fn continues_in(&self, now: &Snapshot) -> bool {
        let figures = |of: &Snapshot| [of.frames.received, of.frames.delivered, of.frames.transmitted];
        let names = |of: &Snapshot| of.interfaces.iter().map(|it| it.name.clone()).collect::<Vec<_>>();
        let counts_on = figures(&self.last).iter().zip(figures(now)).all(|(before, now)| *before <= now);
        self.last.elapsed <= now.elapsed && counts_on && names(&self.last) == names(now)
    }

    fn take(&mut self, now: Snapshot) {
        if let Some(rates) = HostRates::of(&now.since(&self.last)) {
            self.offered.push(rates.frames.offered_pps);
            self.served.push(rates.frames.served_pps);
            self.best = self.best.or_better(&rates);
            self.rates = Some(rates);
            self.last = now;
        }
    }

    /// Returns the rate of served frames as a share of the best one; `None` if none was served yet.
    pub(super) fn retention(&self) -> Option<f64> {
        let served = self.rates.as_ref()?.frames.served_pps;
        (self.best.served_pps > 0.0).then(|| served / self.best.served_pps)
    }
}

impl Best {
    fn or_better(self, rates: &HostRates) -> Self {
        let now = Self { served_pps: rates.frames.served_pps, offered_pps: rates.frames.offered_pps };
        if now.served_pps > self.served_pps { now } else { self }
    }
}

impl History {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rates are above 0")]
    fn push(&mut self, rate: f64) {
        if self.0.len() == HISTORY {
            self.0.pop_front();
        }
        self.0.push_back(rate.round() as u64);
    }

    /// Returns the last rates, at most `count`.
    pub(super) fn last(&self, count: usize) -> Vec<u64> {
        self.0.iter().skip(self.0.len().saturating_sub(count)).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::top::samples::{at, feed, flood, flooded, guarding, published};

    fn echo(seconds: u64, offered: u64, served: u64) -> Published {
        published(7, "evenkeel echo", vec![flooded(seconds, offered, served)])
    }

    fn model(answers: &[Published]) -> Model {
        let mut model = Model::default();
        for (second, answer) in (1..).zip(answers) {
            feed(&mut model, &vec![(7, Some(answer.clone()))], at(second));
        }
        model
    }

    #[test]
    fn rates_need_two_answers() {
        let first = model(&[echo(1, 20_000, 5_000)]);
        assert_eq!(first.processes[&7].hosts[0].rates, None);
        let second = model(&[echo(1, 20_000, 5_000), echo(3, 220_000, 95_000)]);
        assert_eq!(second.processes[&7].hosts[0].rates.as_ref().unwrap().frames.served_pps, 45_000.0);
    }

    #[test]
    fn the_best_interval_stays_the_best() {
        let served = [1_000, 31_000, 91_000, 121_000];
        let answers: Vec<_> =
            (1..).zip(served).map(|(second, served)| echo(second, 4 * served, served)).collect();
        let model = model(&answers);
        let host = &model.processes[&7].hosts[0];
        assert_eq!(host.best, Best { served_pps: 60_000.0, offered_pps: 240_000.0 });
        assert_eq!(host.retention(), Some(0.5));
        assert_eq!(host.served.last(9), [30_000, 60_000, 30_000]);
        assert_eq!(host.offered.last(2), [240_000, 120_000]);
    }

    #[test]
    fn a_process_of_the_same_number_begins_again() {
        let model = model(&[echo(5, 90_000, 9_000), echo(6, 190_000, 19_000), echo(1, 2_000, 500)]);
        let host = &model.processes[&7].hosts[0];
        assert_eq!((host.rates.as_ref(), host.best), (None, Best::default()));
    }

    /// Its place is its name, so the figures of no host are taken for those of another.
    #[test]
    fn a_host_that_did_not_answer_makes_all_begin_again() {
        let hosts = |seconds| vec![flooded(seconds, 90_000 * seconds, 9_000 * seconds); 2];
        let mut one_less = hosts(3);
        one_less.pop();
        let answers = [hosts(1), hosts(2), one_less].map(|hosts| published(7, "evenkeel route", hosts));
        assert!(model(&answers[..2]).processes[&7].hosts.iter().all(|host| host.rates.is_some()));
        assert!(model(&answers).processes[&7].hosts.iter().all(|host| host.rates.is_none()));
    }

    #[test]
    fn processes_come_and_go() {
        let mut model = Model::default();
        model.follow(&[1, 2]);
        assert_eq!(model.ask(at(1), Duration::ZERO), [1, 2]);
        model.follow(&[2, 3]);
        assert_eq!(model.processes.keys().copied().collect::<Vec<_>>(), [2, 3]);
        model.take(2, Answer::Gone, at(1));
        model.take(1, Answer::Late, at(1));
        assert_eq!(model.processes.keys().copied().collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn a_process_is_asked_again_only_after_its_answer() {
        let mut model = Model::default();
        model.follow(&[7]);
        let half = Duration::from_millis(500);
        assert_eq!(model.ask(at(1), half), [7]);
        assert_eq!(model.ask(at(2), half), [0; 0]);
        assert!(model.is_waiting());
        let late = at(3) - Instant::ZERO - Duration::from_millis(100);
        model.take(7, Answer::Figures(echo(1, 20_000, 5_000)), Instant::ZERO + late);
        assert!(!model.is_waiting());
        assert_eq!(model.ask(at(3), half), [0; 0], "too short an interval");
        assert_eq!(model.ask(at(4), half), [7]);
    }

    #[test]
    fn silence_begins_with_the_first_question_without_an_answer() {
        let mut model = model(&[echo(1, 20_000, 5_000), echo(2, 220_000, 95_000)]);
        for second in 3..9 {
            feed(&mut model, &vec![(7, None)], at(second));
            let is_silent = second > 5;
            let silent = State::Silent(Duration::from_secs(second - 3));
            assert_eq!(model.processes[&7].state, if is_silent { silent } else { State::Answers });
        }
        assert!(model.processes[&7].hosts[0].rates.is_some(), "the old figures are kept");
        feed(&mut model, &vec![(7, Some(echo(9, 920_000, 195_000)))], at(9));
        assert_eq!(model.processes[&7].state, State::Answers);
    }

    #[test]
    fn guards_have_rates_from_their_second_answer_on() {
        let mut model = Model::default();
        for second in 1..4 {
            feed(&mut model, &vec![(9, Some(guarding(second, 1_000, 500)))], at(second));
            let rates = &model.processes[&9].guards[0].rates;
            assert_eq!(rates.as_ref().map(|rates| rates.dropped_pps), (second > 1).then_some(1_000.0));
        }
        // Another guard with the number of the process.
        feed(&mut model, &vec![(9, Some(guarding(1, 9_000, 500)))], at(5));
        assert!(model.processes[&9].guards[0].rates.is_none());
        assert_eq!(model.processes[&9].subjects(), 1);
    }

    #[test]
    fn a_history_has_a_bound() {
        let mut history = History::default();
        (0..2 * HISTORY).for_each(|rate| history.push(rate as f64));
        assert_eq!(history.last(usize::MAX).len(), HISTORY);
        assert_eq!(history.last(1), [2 * HISTORY as u64 - 1]);
        assert_eq!(flood().processes[&101].hosts[0].served.last(99).len(), 10);
    }
}
