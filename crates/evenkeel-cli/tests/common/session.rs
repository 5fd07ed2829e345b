//! Running commands, and the directory of the sockets on which they serve their figures.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};

use serde_json::Value;

use super::{command, pause, report, signal};

/// A directory for sockets, as a session has it.
pub struct Session(PathBuf);

impl Session {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("evenkeel-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Returns the directory, for the variable XDG_RUNTIME_DIR.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Runs a command to its end.
    pub fn run(&self, arguments: &[&str]) -> Output {
        command(arguments).env("XDG_RUNTIME_DIR", &self.0).output().unwrap()
    }

    /// Starts a command, and waits for its socket.
    pub fn start(&self, arguments: &[&str]) -> Running<'_> {
        let mut command = command(arguments);
        command.env("XDG_RUNTIME_DIR", &self.0).stdout(Stdio::null()).stderr(Stdio::null());
        let running = Running { child: command.spawn().unwrap(), session: self };
        let is_there = || {
            running.socket().exists() || {
                pause();
                false
            }
        };
        assert!((0..200).any(|_| is_there()), "{arguments:?}: no socket");
        running
    }

    /// Returns the processes in the report, which must be as its schema describes it.
    pub fn stats(&self, arguments: &[&str]) -> Vec<Value> {
        let arguments = [&["stats"], arguments, &["--json"]].concat();
        let output = self.run(&arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        report(&arguments, output.stdout)["processes"].as_array().unwrap().clone()
    }

    /// Returns the names of the sockets.
    pub fn sockets(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.join("evenkeel")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A command that runs until the test ends it.
pub struct Running<'a> {
    pub child: Child,
    session: &'a Session,
}

impl Running<'_> {
    pub fn pid(&self) -> String {
        self.child.id().to_string()
    }

    pub fn socket(&self) -> PathBuf {
        self.session.0.join("evenkeel").join(self.pid())
    }

    /// Ends the command as Ctrl-C does, and asserts that it succeeds.
    pub fn end(mut self) {
        signal(&self.child, "INT");
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
