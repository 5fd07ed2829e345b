//! The accounts on which interfaces count packets of flows that rules have decided about.

use std::collections::BTreeMap;

use evenkeel::raw::screen::ACCOUNTS;

/// The reason of a decision about a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reason {
    /// The rule with this place in the set.
    Rule(usize),
    /// No rule matches.
    Unmatched,
    /// Packets from the link are compared with no rule.
    Skipped,
}

/// An account in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Account {
    /// The reason of the decisions; `None` if it was a rule that does not exist any more.
    pub(super) reason: Option<Reason>,
    /// Whether the packets pass.
    pub(super) passes: bool,
}

/// The accounts of one reader of rules. All decisions of a rule have one account.
#[derive(Debug)]
pub(super) struct Accounts {
    all: Vec<Option<Account>>,
    places: BTreeMap<Reason, u16>,
}

impl Default for Accounts {
    fn default() -> Self {
        Self { all: vec![None; ACCOUNTS.into()], places: BTreeMap::new() }
    }
}

impl Accounts {
    /// Returns the account of decisions for a reason, and opens it if there is none; `None` if too many are
    /// open.
    pub(super) fn open(&mut self, reason: Reason, passes: bool) -> Option<u16> {
        if let Some(place) = self.places.get(&reason) {
            return Some(*place);
        }
        let (place, free) = (0..).zip(&mut self.all).find(|(_, account)| account.is_none())?;
        *free = Some(Account { reason: Some(reason), passes });
        self.places.insert(reason, place);
        Some(place)
    }

    /// Returns an account, if it is open.
    pub(super) fn get(&self, place: u16) -> Option<Account> {
        *self.all.get(usize::from(place))?
    }

    /// Follows rules to a set that replaces theirs. Accounts of rules that are gone stay open, as their last
    /// packets may not have been reported.
    pub(super) fn follow(&mut self, succession: &[Option<usize>]) {
        self.places.clear();
        for (place, account) in (0..).zip(&mut self.all) {
            let Some(account) = account else { continue };
            if let Some(Reason::Rule(rule)) = account.reason {
                account.reason = succession.get(rule).copied().flatten().map(Reason::Rule);
            }
            self.places.extend(account.reason.map(|reason| (reason, place)));
        }
    }

    /// Closes the accounts of rules that are gone, once everything has been reported.
    pub(super) fn close_gone(&mut self) {
        let is_gone = |account: &Option<Account>| account.is_some_and(|account| account.reason.is_none());
        self.all.iter_mut().filter(|account| is_gone(account)).for_each(|account| *account = None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_keeps_its_account_and_those_of_the_gone_are_used_again_once_reported() {
        let mut accounts = Accounts::default();
        let [first, second] = [0, 1].map(|rule| accounts.open(Reason::Rule(rule), rule == 1).unwrap());
        assert_eq!(accounts.open(Reason::Rule(0), false), Some(first));
        assert_eq!(accounts.open(Reason::Unmatched, true), Some(2));
        accounts.follow(&[None, Some(0)]);
        assert_eq!(accounts.open(Reason::Rule(0), true), Some(second));
        assert_eq!(accounts.get(first), Some(Account { reason: None, passes: false }));
        assert_eq!(accounts.open(Reason::Rule(1), true), Some(3));
        accounts.close_gone();
        assert_eq!(accounts.get(first), None);
        assert_eq!(accounts.open(Reason::Skipped, true), Some(first));
        for rule in 2..usize::from(ACCOUNTS) - 2 {
            assert!(accounts.open(Reason::Rule(rule), true).is_some());
        }
        assert_eq!(accounts.open(Reason::Rule(usize::from(ACCOUNTS)), true), None);
    }
}
