//! The choices of the user: a host, a part of its lines, an order; and the meaning of each key.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::model::Model;
use super::text::Order;

/// A process, and the place of a host in it, or behind the hosts of a guard, if it has one.
pub(super) type Subject = (u32, usize);

/// The choices of the user: what is shown, and how.
#[derive(Debug, Default)]
pub(super) struct Choice {
    subject: Option<Subject>,
    pub(super) order: Order,
    /// The number of lines above the first one that is shown.
    pub(super) scrolled: usize,
    /// The number of lines that the terminal showed last, and of those that it did not show.
    pub(super) page: usize,
    pub(super) hidden: usize,
    pub(super) has_help: bool,
    /// The model as it was when the user paused.
    pub(super) paused: Option<Model>,
}

/// The request of a key to the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    Continue,
    Quit,
}

/// Returns all that can be chosen, in the order of the terminal: each host, each guard, and each process
/// without one.
pub(super) fn subjects(model: &Model) -> Vec<Subject> {
    let of = |(&pid, count): (&u32, usize)| (0..count.max(1)).map(move |place| (pid, place));
    model.processes.iter().map(|(pid, process)| (pid, process.subjects())).flat_map(of).collect()
}

impl Choice {
    /// Returns the number of the chosen subject among `subjects`. If the chosen one is gone, the next one is
    /// chosen, or the last.
    pub(super) fn chosen(&self, subjects: &[Subject]) -> usize {
        let wanted = self.subject.unwrap_or_default();
        let next = subjects.iter().position(|subject| *subject >= wanted);
        next.unwrap_or(subjects.len().saturating_sub(1))
    }

    /// Does what a key means, while the terminal shows `model`.
    pub(super) fn key(&mut self, key: KeyEvent, model: &Model) -> Wish {
        let is_ctrl_c = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            _ if key.kind == KeyEventKind::Release => {}
            _ if is_ctrl_c => return Wish::Quit,
            KeyCode::Char('q') => return Wish::Quit,
            KeyCode::Esc if !self.has_help => return Wish::Quit,
            KeyCode::Esc => self.has_help = false,
            KeyCode::Char('?' | 'h') => self.has_help = !self.has_help,
            KeyCode::Char('p' | ' ') => self.pause(model),
            KeyCode::Char('s') => self.order = self.order.next(),
            KeyCode::Char(digit @ '1'..='9') => self.choose(model, |_, _| usize::from(digit as u8 - b'1')),
            KeyCode::Tab => self.choose(model, |now, count| (now + 1) % count),
            KeyCode::BackTab => self.choose(model, |now, count| (now + count - 1) % count),
            code => self.scroll(code),
        }
        Wish::Continue
    }

    fn pause(&mut self, model: &Model) {
        self.paused = if self.paused.is_some() { None } else { Some(model.clone()) };
    }

    /// Chooses the subject with the number that `next` makes of the present one and of their count.
    fn choose(&mut self, model: &Model, next: impl Fn(usize, usize) -> usize) {
        let shown = self.paused.as_ref().unwrap_or(model);
        let subjects = subjects(shown);
        if let Some(subject) = subjects.get(next(self.chosen(&subjects), subjects.len().max(1))) {
            self.subject = Some(*subject);
            self.scrolled = 0;
        }
    }

    fn scroll(&mut self, code: KeyCode) {
        let page = self.page.max(2) - 1;
        self.scrolled = match code {
            KeyCode::Up => self.scrolled.saturating_sub(1),
            KeyCode::Down => self.scrolled + 1,
            KeyCode::PageUp => self.scrolled.saturating_sub(page),
            KeyCode::PageDown => self.scrolled + page,
            KeyCode::Home => 0,
            KeyCode::End => usize::MAX,
            _ => return,
        };
        self.scrolled = self.scrolled.min(self.hidden);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::top::samples::many;

    fn press(choice: &mut Choice, code: KeyCode, model: &Model) -> Wish {
        choice.key(KeyEvent::new(code, KeyModifiers::NONE), model)
    }

    #[test]
    fn tab_and_numbers_choose_a_host() {
        let (mut choice, model) = (Choice::default(), many(12));
        let subjects = subjects(&model);
        let expected =
            [(KeyCode::Tab, 1), (KeyCode::Char('9'), 8), (KeyCode::BackTab, 7), (KeyCode::Char('1'), 0)];
        for (key, chosen) in expected.into_iter().chain([(KeyCode::BackTab, 11), (KeyCode::Tab, 0)]) {
            press(&mut choice, key, &model);
            assert_eq!(choice.chosen(&subjects), chosen, "{key}");
        }
    }

    #[test]
    fn if_the_chosen_process_is_gone_the_next_one_is_chosen() {
        let (mut choice, mut model) = (Choice::default(), many(3));
        press(&mut choice, KeyCode::Char('2'), &model);
        model.follow(&[1000, 1002]);
        assert_eq!(choice.chosen(&subjects(&model)), 1);
        model.follow(&[1000]);
        assert_eq!(choice.chosen(&subjects(&model)), 0);
        model.follow(&[]);
        assert_eq!(press(&mut choice, KeyCode::Tab, &model), Wish::Continue);
        assert_eq!(subjects(&model), []);
    }

    #[test]
    fn scrolling_stops_at_both_ends() {
        let (mut choice, model) = (Choice { page: 10, hidden: 15, ..Choice::default() }, many(1));
        let keys = [
            (KeyCode::Up, 0),
            (KeyCode::Down, 1),
            (KeyCode::PageDown, 10),
            (KeyCode::PageDown, 15),
            (KeyCode::Home, 0),
            (KeyCode::End, 15),
            (KeyCode::PageUp, 6),
        ];
        for (key, scrolled) in keys {
            press(&mut choice, key, &model);
            assert_eq!(choice.scrolled, scrolled, "{key}");
        }
    }

    #[test]
    fn escape_closes_the_help_before_it_quits() {
        let (mut choice, model) = (Choice::default(), many(1));
        press(&mut choice, KeyCode::Char('?'), &model);
        assert!(choice.has_help);
        assert_eq!(press(&mut choice, KeyCode::Esc, &model), Wish::Continue);
        assert!(!choice.has_help);
        assert_eq!(press(&mut choice, KeyCode::Esc, &model), Wish::Quit);
        assert_eq!(press(&mut choice, KeyCode::Char('c'), &model), Wish::Continue);
        let ctrl_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(choice.key(ctrl_c, &model), Wish::Quit);
    }

    #[test]
    fn a_paused_picture_keeps_its_model() {
        let (mut choice, mut model) = (Choice::default(), many(3));
        press(&mut choice, KeyCode::Char('p'), &model);
        model.follow(&[1000]);
        assert_eq!(choice.paused.as_ref().unwrap().processes.len(), 3);
        press(&mut choice, KeyCode::Char('p'), &model);
        assert!(choice.paused.is_none());
    }
}
