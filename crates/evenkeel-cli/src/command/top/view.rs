//! The picture in the terminal: a list of processes and hosts, and below it the chosen one.
//!
//! ```text
//! title                                     how many, how often
//! list                                      a line for each host
//! name of the chosen host
//! offered, served                           rates with their history
//! lines of the chosen host                  scrolled
//! keys
//! ```
//!
//! In a terminal that is too small the lower parts get what is left, and may get nothing.

use evenkeel_apps::quantity;
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line as Styled;
use ratatui::widgets::{Paragraph, Sparkline, Widget as _};

use super::choice::{Choice, Subject, subjects};
use super::guard_rates::GuardRates;
use super::model::{History, Host, Model, Process, State};
use super::rates::HostRates;
use super::text::{self, Line, Tone};
use crate::table::{self, rows};

/// The columns of a rate and its name, before its history.
const NAMED: u16 = 24;
/// The columns of what is said about a rate behind its history.
const SAID: u16 = 25;

/// The line about a host or a guard without rates.
const YOUNG: &str = "  the first interval is not over yet";

/// The lines of the help, which `?` shows.
const HELP: &[&str] = &[
    "",
    "  q  Esc  Ctrl-C     quit",
    "  p                  pause the picture; figures are still read",
    "  Tab  Shift-Tab     choose the next or the previous host",
    "  1 to 9             choose the host with this number",
    "  arrows  PgUp PgDn  scroll; Home and End go to the ends",
    "  s                  sort sockets by lost, delivered or waiting frames, or by name",
    "  ?                  close this help",
    "",
    "  offered   frames that came for the host, with those that interfaces dropped",
    "  served    frames that were delivered to programs or forwarded",
    "  kept      served now, as a share of the best interval that top has seen",
    "  !         flooded sockets: 1 % of their frames or more found the queue full",
    "  charged   core time on a process's bill, with interrupts and discards for it",
];

/// Draws what `model` knows, or knew when it was paused, as the user chose to see it. `title` says what is
/// watched and how often.
pub(super) fn draw(frame: &mut Frame<'_>, model: &Model, choice: &mut Choice, title: &str) {
    let (area, buffer, paused) = (frame.area(), frame.buffer_mut(), choice.paused.take());
    let list = subjects(paused.as_ref().unwrap_or(model)).len() + 1;
    let list = u16::try_from(list).unwrap_or(u16::MAX).min((area.height / 3).max(2));
    let parts = [Constraint::Length(1), Constraint::Length(list), Constraint::Min(0), Constraint::Length(1)];
    let [top, list, middle, bottom] = Layout::vertical(parts).areas(area);
    let state = if paused.is_some() { "  PAUSED" } else { "" };
    let style = Tone::Heading.style().add_modifier(Modifier::REVERSED);
    line(&format!("{title}{state}"), style, top, buffer);
    draw_model(paused.as_ref().unwrap_or(model), choice, list, middle, buffer);
    line(&keys(choice), Style::new().add_modifier(Modifier::DIM), bottom, buffer);
    choice.paused = paused;
}

/// Returns the line about the keys, with the number of lines below those that are shown.
fn keys(choice: &Choice) -> String {
    let more = match choice.hidden.saturating_sub(choice.scrolled) {
        0 => String::new(),
        more => format!(" ({more} more)"),
    };
    let order = choice.order.name();
    format!(" q quit  ? help  p pause  Tab next  arrows scroll{more}  s sort: {order}")
}

/// Draws the list, and below it the chosen subject or the help.
fn draw_model(model: &Model, choice: &mut Choice, list: Rect, below: Rect, buffer: &mut Buffer) {
    let subjects = subjects(model);
    choice.hidden = 0;
    draw_list(model, &subjects, choice, list, buffer);
    if choice.has_help {
        let help: Vec<_> = HELP.iter().map(|text| Styled::raw(*text)).collect();
        Paragraph::new(help).render(below, buffer);
    } else if let Some(&subject) = subjects.get(choice.chosen(&subjects)) {
        draw_subject(model, subject, choice, below, buffer);
    } else {
        line("  no running process serves its figures to this user", Style::new(), below, buffer);
    }
}

/// Draws a line that fills the width with its style.
fn line(text: &str, style: Style, area: Rect, buffer: &mut Buffer) {
    let area = Rect { height: area.height.min(1), ..area };
    Paragraph::new(text).style(style).render(area, buffer);
}

/// Draws the list, scrolled so far that the chosen line is in it.
fn draw_list(model: &Model, subjects: &[Subject], choice: &Choice, area: Rect, buffer: &mut Buffer) {
    let chosen = choice.chosen(subjects);
    let row = |(number, subject): (usize, &Subject)| overview(number, *subject, model);
    let heading = [" #     pid program", "state", "offered", "served", "kept", "dropped", "!", "idle"];
    let lines = table::lines(&rows(heading, subjects.iter().enumerate().map(row)));
    let shown = usize::from(area.height.saturating_sub(1));
    let above = (chosen + 1).saturating_sub(shown);
    let styled = |(number, text): (usize, &String)| {
        let style = match number {
            0 => Tone::Heading.style(),
            _ if number == chosen + 1 => Style::new().add_modifier(Modifier::REVERSED),
            _ => Style::new(),
        };
        Styled::styled(text.clone(), style)
    };
    let heading = lines.iter().enumerate().take(1);
    let lines = heading.chain(lines.iter().enumerate().skip(1 + above).take(shown)).map(styled);
    Paragraph::new(lines.collect::<Vec<_>>()).render(area, buffer);
}

/// Returns the line of a subject in the list.
fn overview(number: usize, (pid, place): Subject, model: &Model) -> [String; 8] {
    let process = &model.processes[&pid];
    let key = if number < 9 { (number + 1).to_string() } else { String::new() };
    let program = process.program.trim_start_matches("evenkeel ");
    let which = if process.subjects() > 1 { format!(" {}", place + 1) } else { String::new() };
    let name = format!("{key:>2} {pid:>7} {program}{which}");
    let [offered, served, kept, dropped, flooded, idle] = match guard_at(process, place) {
        Some(rates) => guard_figures(rates),
        None => figures(process.hosts.get(place)),
    };
    let state = text::state(&process.state, process.subjects());
    [name, state, offered, served, kept, dropped, flooded, idle]
}

/// Returns the figures of a host in the list, each `-` if it is not known.
fn figures(host: Option<&Host>) -> [String; 6] {
    let unknown = || "-".to_owned();
    let Some((host, rates)) = host.and_then(|host| Some((host, host.rates.as_ref()?))) else {
        return std::array::from_fn(|_| unknown());
    };
    let [offered, served, dropped] =
        [rates.frames.offered_pps, rates.frames.served_pps, rates.frames.dropped_pps].map(text::rate);
    let kept = host.retention().map_or_else(unknown, text::share);
    let flooded = rates.sockets.iter().filter(|socket| socket.flooded).count();
    let idle = rates.cpu.as_ref().map_or_else(unknown, |cpu| text::share(cpu.idle));
    [offered, served, kept, dropped, flooded.to_string(), idle]
}

/// Returns the rates of the guard at a place behind the hosts of a process, if it has them.
fn guard_at(process: &Process, place: usize) -> Option<&GuardRates> {
    process.guards.get(place.checked_sub(process.hosts.len())?)?.rates.as_ref()
}

/// Returns the figures of a guard in the list. It lets packets pass that the kernel serves.
fn guard_figures(rates: &GuardRates) -> [String; 6] {
    let [offered, passed, dropped] =
        [rates.offered_pps(), rates.passed_pps + rates.answered_pps, rates.dropped_pps].map(text::rate);
    let flooded = rates.ports.iter().filter(|port| port.is_flooded()).count();
    [offered, passed, "-".to_owned(), dropped, flooded.to_string(), "-".to_owned()]
}

/// Draws the chosen subject: its name and what is wrong with it, its history, and its lines.
fn draw_subject(model: &Model, (pid, host): Subject, choice: &mut Choice, area: Rect, buffer: &mut Buffer) {
    let process = &model.processes[&pid];
    let parts = [Constraint::Length(1), Constraint::Length(2), Constraint::Min(0)];
    let [name, history, lines] = Layout::vertical(parts).areas(area);
    line(&named(pid, host, process), Tone::Heading.style(), name, buffer);
    if let Some(rates) = guard_at(process, host) {
        let area = Rect { height: history.height + lines.height, ..history };
        return draw_lines(&text::guard(rates), choice, area, buffer);
    }
    let is_young = host < process.subjects() && process.hosts.get(host).is_none();
    if is_young {
        return line(YOUNG, Style::new(), history, buffer);
    }
    let Some(host) = process.hosts.get(host) else { return };
    let Some(rates) = &host.rates else {
        return line(YOUNG, Style::new(), history, buffer);
    };
    draw_history(host, rates, history, buffer);
    draw_lines(&text::host(rates, choice.order), choice, lines, buffer);
}

/// Returns the name of a subject, and a sentence if its figures are old or missing.
fn named(pid: u32, host: usize, process: &Process) -> String {
    let name = format!("{pid}: {}", process.program);
    let which = match (process.subjects(), process.guards.len()) {
        (0 | 1, _) => String::new(),
        (hosts, 0) => format!(", host {} of {hosts}", host + 1),
        (all, _) => format!(", {} of {all}", host + 1),
    };
    let state = match &process.state {
        State::New => ", has not answered yet".to_owned(),
        State::Answers if process.subjects() == 0 => ": no host answered".to_owned(),
        State::Answers => String::new(),
        State::Silent(time) => {
            format!(", has not answered for {:.0} s: these figures are old", time.as_secs_f64())
        }
        State::Unreadable(why) => format!(", cannot be read: {why}"),
    };
    format!("{name}{which}{state}")
}

/// Draws the rates of offered and served frames with their history, and the best interval.
fn draw_history(host: &Host, rates: &HostRates, area: Rect, buffer: &mut Buffer) {
    let [first, second] = Layout::vertical([Constraint::Length(1); 2]).areas(area);
    let kept = host.retention().map_or_else(|| "-".to_owned(), text::share);
    let best = format!("  {kept} of best {}", text::rate(host.best.served_pps));
    let then = format!("  at the best {}", text::rate(host.best.offered_pps));
    draw_rate("offered", rates.frames.offered_pps, &host.offered, &then, first, buffer);
    draw_rate("served", rates.frames.served_pps, &host.served, &best, second, buffer);
}

/// Draws a rate, its history with the newest interval at the right, and what is said about it.
fn draw_rate(name: &str, pps: f64, history: &History, said: &str, area: Rect, buffer: &mut Buffer) {
    let parts = [Constraint::Length(NAMED), Constraint::Fill(1), Constraint::Length(SAID)];
    let [named, past, behind] = Layout::horizontal(parts).areas(area);
    line(&format!("  {name:<8} {:>10}", quantity::pps(pps)), Style::new(), named, buffer);
    line(said, Style::new(), behind, buffer);
    let rates = history.last(usize::from(past.width));
    let free = past.width.saturating_sub(u16::try_from(rates.len()).unwrap_or(u16::MAX));
    let past = Rect { x: past.x + free, width: past.width - free, ..past };
    Sparkline::default().data(rates).style(Style::new().fg(Color::Cyan)).render(past, buffer);
}

/// Draws the part of the lines that is scrolled to. Records how much is shown, for the keys.
fn draw_lines(lines: &[Line], choice: &mut Choice, area: Rect, buffer: &mut Buffer) {
    choice.page = usize::from(area.height);
    choice.hidden = lines.len().saturating_sub(choice.page);
    choice.scrolled = choice.scrolled.min(choice.hidden);
    let shown = lines.iter().skip(choice.scrolled).take(choice.page);
    let styled = shown.map(|line| Styled::styled(line.text.as_str(), line.tone.style()));
    Paragraph::new(styled.collect::<Vec<_>>()).render(area, buffer);
}

impl Tone {
    const fn style(self) -> Style {
        match self {
            Self::Heading => Style::new().add_modifier(Modifier::BOLD),
            Self::Plain => Style::new(),
            Self::Alarm => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    use super::*;
    use crate::command::top::samples;

    /// Returns the lines of the picture in a terminal of this size.
    fn picture(model: &Model, choice: &mut Choice, (columns, rows): (u16, u16)) -> String {
        let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
        terminal.draw(|frame| draw(frame, model, choice, " evenkeel top   title")).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |row| (0..columns).map(|column| buffer[(column, row)].symbol()).collect::<String>();
        (0..rows).map(|row| line(row).trim_end().to_owned() + "\n").collect()
    }

    /// Asserts that a picture is the one in the file of this name.
    /// `UPDATE=1 cargo test -p evenkeel-cli --bin evenkeel pictures` writes the files again.
    fn assert_is(name: &str, picture: &str) {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/command/top/pictures");
        let file = Path::new(folder).join(name);
        if std::env::var_os("UPDATE").is_some() {
            return std::fs::write(file, picture).unwrap();
        }
        let wanted = std::fs::read_to_string(file).unwrap();
        assert!(picture == wanted, "{name} should be\n{wanted}\nand is\n{picture}");
    }

    fn press(choice: &mut Choice, model: &Model, code: KeyCode) {
        choice.key(KeyEvent::new(code, KeyModifiers::NONE), model);
    }

    #[test]
    fn pictures_of_a_flood_are_as_they_should_be() {
        let model = samples::flood();
        assert_is("80x24.txt", &picture(&model, &mut Choice::default(), (80, 24)));
        assert_is("120x40.txt", &picture(&model, &mut Choice::default(), (120, 40)));
        let mut choice = Choice::default();
        press(&mut choice, &model, KeyCode::Char('?'));
        assert_is("help.txt", &picture(&model, &mut choice, (80, 24)));
        let mut choice = Choice::default();
        press(&mut choice, &model, KeyCode::Char('2'));
        assert_is("silent.txt", &picture(&model, &mut choice, (80, 24)));
        let mut choice = Choice::default();
        assert_is("guard.txt", &picture(&samples::guarded(), &mut choice, (80, 14)));
        assert_is("nothing.txt", &picture(&Model::default(), &mut Choice::default(), (60, 6)));
    }

    #[test]
    fn every_line_can_be_scrolled_to_in_any_terminal() {
        let (model, mut choice) = (samples::flood(), Choice::default());
        for rows in 9..30 {
            choice.scrolled = 0;
            let mut seen = picture(&model, &mut choice, (100, rows));
            while choice.scrolled < choice.hidden {
                press(&mut choice, &model, KeyCode::Down);
                seen.push_str(&picture(&model, &mut choice, (100, rows)));
            }
            let host = model.processes[&101].hosts[0].rates.as_ref().unwrap();
            for line in text::host(host, choice.order) {
                assert!(seen.contains(&line.text), "{rows} rows lack {line:?}");
            }
        }
    }

    #[test]
    fn the_chosen_line_of_a_long_list_is_shown() {
        let (model, mut choice) = (samples::many(50), Choice::default());
        for number in 0..50 {
            let picture = picture(&model, &mut choice, (80, 12));
            let line = format!("{:>7} echo", 1000 + number);
            assert!(picture.contains(&line), "{number}: {picture}");
            press(&mut choice, &model, KeyCode::Tab);
        }
    }

    const SOME_KEYS: [KeyCode; 8] = [
        KeyCode::Tab,
        KeyCode::BackTab,
        KeyCode::Char('9'),
        KeyCode::Char('s'),
        KeyCode::Char('p'),
        KeyCode::Char('?'),
        KeyCode::PageDown,
        KeyCode::End,
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        /// Processes may say anything, and terminals may have any size.
        #[test]
        fn any_model_can_be_drawn_at_any_size(
            rounds in samples::rounds(),
            sizes in prop::collection::vec((1..150_u16, 1..50_u16), 1..6),
            keys in prop::collection::vec(prop::sample::select(&SOME_KEYS[..]), 1..12),
        ) {
            let (mut choice, mut model) = (Choice::default(), Model::default());
            let steps = (1..).zip(&rounds).flat_map(|round| keys.iter().map(move |key| (round, key)));
            for (((second, round), key), size) in steps.zip(sizes.iter().chain(&[(1, 1)]).cycle()) {
                samples::feed(&mut model, round, samples::at(second));
                press(&mut choice, &model, *key);
                prop_assert_eq!(picture(&model, &mut choice, *size).lines().count(), usize::from(size.1));
            }
        }
    }

    #[test]
    fn a_flood_can_be_drawn_at_every_small_size() {
        let model = samples::flood();
        let columns = [1, 2, 3, 5, 8, 13, 21, 34];
        for size in columns.into_iter().flat_map(|columns| (1..20).map(move |rows| (columns, rows))) {
            picture(&model, &mut Choice::default(), size);
        }
    }
}
