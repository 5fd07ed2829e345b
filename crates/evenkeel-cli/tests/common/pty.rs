//! A command in a terminal of its own, and the picture that it draws there.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::{iter, str, thread};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

use super::pause;

/// A pseudo-terminal with the command that runs in it.
pub struct Terminal {
    /// The end that a terminal emulator has.
    near: Option<File>,
    /// The end that the command has, too.
    far: File,
    pub child: Child,
    written: Arc<Mutex<Vec<u8>>>,
    modes_before: Termios,
}

impl Terminal {
    /// Starts `command` as the leader of a session whose terminal has `columns` and `rows`.
    pub fn start(command: &Command, columns: u16, rows: u16) -> Self {
        let near = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&near).unwrap();
        unlockpt(&near).unwrap();
        let near = File::from(near);
        let name = ptsname(&near, Vec::new()).unwrap().into_string().unwrap();
        let far = OpenOptions::new().read(true).write(true).open(name).unwrap();
        resize(&near, columns, rows);
        let modes_before = tcgetattr(&far).unwrap();
        let child = in_session(command, &far).spawn().unwrap();
        let written = Arc::default();
        let (mut reader, to) = (near.try_clone().unwrap(), Arc::clone(&written));
        thread::spawn(move || record(&mut reader, &to));
        Self { near: Some(near), far, child, written, modes_before }
    }

    /// Types keys, as the bytes that a terminal sends for them.
    pub fn types(&mut self, keys: &str) {
        self.near.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    pub fn resize(&self, columns: u16, rows: u16) {
        resize(self.near.as_ref().unwrap(), columns, rows);
    }

    /// Closes the terminal's end, as when its window is closed.
    pub fn close(&mut self) {
        self.near = None;
    }

    /// Returns what the command has written since the start.
    pub fn written(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().unwrap()).into_owned()
    }

    /// Returns the lines of the picture.
    pub fn picture(&self) -> Vec<String> {
        picture(&self.written())
    }

    /// Waits for a picture that `is_wanted`, for ten seconds at least, and returns it.
    pub fn shows(&mut self, what: &str, is_wanted: impl Fn(&[String]) -> bool) -> Vec<String> {
        for _ in 0..200 {
            let picture = self.picture();
            if is_wanted(&picture) {
                return picture;
            }
            assert!(self.child.try_wait().unwrap().is_none(), "ended before {what}: {}", self.written());
            pause();
        }
        panic!("no picture of {what}:\n{}", self.picture().join("\n"));
    }

    /// Waits for a picture with this text.
    pub fn shows_text(&mut self, text: &str) -> Vec<String> {
        self.shows(text, |lines| lines.iter().any(|line| line.contains(text)))
    }

    /// Waits until the command ends, and returns its exit code.
    pub fn end(&mut self) -> Option<i32> {
        let ended = (0..200).any(|_| {
            self.child.try_wait().unwrap().is_some() || {
                pause();
                false
            }
        });
        assert!(ended, "it goes on: {}", self.picture().join("\n"));
        self.child.wait().unwrap().code()
    }

    /// Asserts that the terminal is as it was before the command: its modes, its first screen, its cursor.
    pub fn assert_restored(&self) {
        let (now, before) = (tcgetattr(&self.far).unwrap(), &self.modes_before);
        assert_eq!(
            (now.input_modes, now.output_modes, now.control_modes, now.local_modes),
            (before.input_modes, before.output_modes, before.control_modes, before.local_modes)
        );
        // The last bytes may still be on their way.
        let is_restored = || {
            is_off(&self.written(), "\x1b[?1049h", "\x1b[?1049l")
                && is_off(&self.written(), "\x1b[?25l", "\x1b[?25h")
        };
        let restored = (0..200).any(|_| {
            is_restored() || {
                pause();
                false
            }
        });
        assert!(restored, "{:?}", self.written());
    }
}

/// Returns whether what `on` began has ended with `off`.
fn is_off(written: &str, on: &str, off: &str) -> bool {
    written.contains(on) && written.rfind(off) > written.rfind(on)
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the command as one whose controlling terminal is `far`, so that the kernel signals it.
fn in_session(command: &Command, far: &File) -> Command {
    let mut session = Command::new("setsid");
    session.arg("--ctty").arg(command.get_program()).args(command.get_args());
    session.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    session.env("TERM", "xterm-256color").env_remove("NO_COLOR");
    let end = || far.try_clone().unwrap();
    session.stdin(end()).stdout(end()).stderr(end());
    session
}

fn resize(near: &File, columns: u16, rows: u16) {
    let size = Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(near, size).unwrap();
}

/// Keeps all that the command writes, until nobody has its end open.
fn record(near: &mut File, to: &Mutex<Vec<u8>>) {
    let mut bytes = [0; 4096];
    while let Ok(count @ 1..) = near.read(&mut bytes) {
        to.lock().unwrap().extend_from_slice(&bytes[..count]);
    }
}

/// Returns the lines of the picture that `written` leaves: text at the places of the cursor, without colours.
fn picture(written: &str) -> Vec<String> {
    let (mut cells, mut row, mut column) = (Vec::<Vec<char>>::new(), 0, 0);
    let mut rest = written.chars();
    while let Some(c) = rest.next() {
        match c {
            '\x1b' => match sequence(&mut rest) {
                (places, 'H') => (row, column) = place(&places),
                (_, 'J') => cells.clear(),
                _ => {}
            },
            '\r' => column = 0,
            '\n' => row += 1,
            c => {
                put(&mut cells, row, column, c);
                column += 1;
            }
        }
    }
    let line = |cells: Vec<char>| cells.into_iter().collect::<String>().trim_end().to_owned();
    cells.into_iter().map(line).collect()
}

/// Takes the rest of an escape sequence, and returns its parameters and its last character.
fn sequence(rest: &mut str::Chars<'_>) -> (String, char) {
    let first = rest.next().unwrap_or_default();
    if first != '[' {
        return (String::new(), first);
    }
    let mut parameters = String::new();
    for c in rest {
        if c.is_ascii_alphabetic() {
            return (parameters, c);
        }
        parameters.push(c);
    }
    (parameters, '\0')
}

/// Returns row and column, from 0 on, that the parameters of a cursor's move name.
fn place(parameters: &str) -> (usize, usize) {
    let mut numbers = parameters.split(';').map(|number| number.parse().unwrap_or(1) - 1);
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn put(cells: &mut Vec<Vec<char>>, row: usize, column: usize, c: char) {
    let rows = cells.len().max(row + 1);
    cells.resize_with(rows, Vec::new);
    let line = &mut cells[row];
    line.extend(iter::repeat_n(' ', (column + 1).saturating_sub(line.len())));
    line[column] = c;
}
