//! Counting instructions under callgrind, and comparing them with figures that are kept in the tree.
//!
//! Instructions are the same whatever else the machine is doing. So that they are also the same in every
//! directory and for every user, the program is started with an environment of its own, by its name in its
//! own directory. They do depend on the compiler and on which string functions the C library picks for the
//! processor.

pub(crate) mod kept;

use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The argument with which a program starts itself under callgrind. The arguments that follow name what is
/// to be counted.
pub(crate) const COUNT_FLAG: &str = "--count";

/// The reason why something was not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Uncounted {
    NoValgrind,
    Failed,
}

impl Uncounted {
    pub(crate) const fn why(self) -> &'static str {
        match self {
            Self::NoValgrind => "valgrind is not installed",
            Self::Failed => "valgrind failed",
        }
    }
}

/// Runs this program again, under callgrind, and counts the instructions of the functions whose name
/// contains `function`. Divides by the number of things that the program prints it has handled.
pub(crate) fn count(function: &str, arguments: &[&str]) -> Result<f64, Uncounted> {
    let program = env::current_exe().map_err(|_| Uncounted::Failed)?;
    let (Some(directory), Some(name)) = (program.parent(), program.file_name()) else {
        return Err(Uncounted::Failed);
    };
    let output = Command::new(valgrind().ok_or(Uncounted::NoValgrind)?)
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(format!("--toggle-collect=*{function}*"))
        .arg(PathBuf::from(".").join(name))
        .arg(COUNT_FLAG)
        .args(arguments)
        .current_dir(directory)
        // Where variables end on the stack, and so how things on it are aligned, depends on how many there
        // are.
        .env_clear()
        // A string instruction would count once for each byte that it moves.
        .env(
            "GLIBC_TUNABLES",
            "glibc.cpu.x86_rep_movsb_threshold=1000000000:glibc.cpu.x86_rep_stosb_threshold=1000000000",
        )
        .stdin(Stdio::null())
        .output()
        .map_err(|_| Uncounted::Failed)?;
    let (printed, report) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // The line is `==1234== Collected : 5678`.
    let collected =
        report.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse::<f64>().ok());
    let handled = printed.trim().parse::<f64>().ok();
    match (collected, handled) {
        (Some(instructions @ 1.0..), Some(things @ 1.0..)) => Ok(instructions / things),
        _ => Err(Uncounted::Failed),
    }
}

fn valgrind() -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|place| place.join("valgrind")).find(|path| path.is_file())
}
