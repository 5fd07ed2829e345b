//! `cargo xtask dist`: what users download, in `target/dist`.
//!
//! | file | contents |
//! | --- | --- |
//! | `evenkeel-VERSION-linux-ARCH` | the program alone, linked statically (musl) |
//! | `evenkeel_VERSION-1_ARCH.deb` | a Debian package with the program linked to the system's libc |
//! | `evenkeel-VERSION-oci.tar` | a container image of the static program, in the OCI layout |

mod debian;
mod image;
mod tree;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::metadata::{cargo, succeeds};

/// The processor and the system of the static program.
const STATIC_TARGET: &str = "x86_64-unknown-linux-musl";
/// The name of the program.
const PROGRAM: &str = "evenkeel";

/// Options of `cargo xtask dist`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Packages this program instead of building one
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Uses this static program instead of building one
    #[arg(long, value_name = "FILE")]
    static_program: Option<PathBuf>,
}

/// Builds everything. Returns whether all of it succeeded.
pub(crate) fn build(root: &Path, options: &Options) -> io::Result<bool> {
    let dist = root.join("target/dist");
    fs::create_dir_all(&dist)?;
    let Some(program) = given_or_built(root, options.program.as_ref(), None)? else { return Ok(false) };
    let package = debian::Package { root, program: &program, version: env!("CARGO_PKG_VERSION") };
    print(&package.build(&dist)?)?;
    let given = options.static_program.as_ref();
    let Some(program) = given_or_built(root, given, Some(STATIC_TARGET))? else {
        eprintln!(
            "the static program needs `rustup target add {STATIC_TARGET}`, and musl-gcc (apt: musl-tools)"
        );
        return Ok(false);
    };
    let alone = dist.join(format!("{PROGRAM}-{}-linux-x86_64", env!("CARGO_PKG_VERSION")));
    fs::copy(&program, &alone)?;
    print(&alone)?;
    print(&image::build(root, &program, env!("CARGO_PKG_VERSION"), &dist)?)?;
    Ok(true)
}

/// Prints the path of a file, from the working directory if the file is below that.
fn print(path: &Path) -> io::Result<()> {
    let here = std::env::current_dir()?;
    println!("{}", path.strip_prefix(&here).unwrap_or(path).display());
    Ok(())
}

/// Returns the given program, or builds it for a target; `None` if that fails.
fn given_or_built(root: &Path, given: Option<&PathBuf>, target: Option<&str>) -> io::Result<Option<PathBuf>> {
    if let Some(given) = given {
        return given.canonicalize().map(Some);
    }
    let mut build = cargo();
    build.current_dir(root).args(["build", "--release", "--locked", "-p", "evenkeel-cli"]);
    let mut path = match std::env::var_os("CARGO_TARGET_DIR") {
        Some(directory) => root.join(directory),
        None => root.join("target"),
    };
    if let Some(target) = target {
        build.args(["--target", target]);
        path.push(target);
    }
    path.extend(["release", PROGRAM]);
    Ok(succeeds(&mut build)?.then_some(path))
}

/// Runs a command in `directory` and returns what it prints.
///
/// # Errors
/// The command cannot be run or fails; the error has its name.
fn output(directory: &Path, program: &str, arguments: &[&str]) -> io::Result<Vec<u8>> {
    let failed = |why: String| io::Error::other(format!("{program} {}: {why}", arguments.join(" ")));
    let mut command = std::process::Command::new(program);
    let output =
        command.args(arguments).current_dir(directory).output().map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::Command;

    use super::*;

    pub(super) fn root() -> PathBuf {
        crate::root()
    }

    /// Returns whether a program is there. If not, records that the test did not run.
    pub(super) fn has(program: &str, package: &str) -> bool {
        let is_there = Command::new(program).arg("--version").output().is_ok();
        if !is_there {
            let test = std::thread::current();
            let lack = evenkeel_skip::Lack::Program { program, package };
            evenkeel_skip::skip(test.name().unwrap_or("a test"), &lack);
        }
        is_there
    }

    /// Writes a program that prints pages and completions as evenkeel does, without building that.
    pub(super) fn fake(directory: &Path) -> PathBuf {
        let path = directory.join("fake");
        let script = "#!/bin/sh\ncase $1 in\nman) mkdir $3; echo page > $3/evenkeel.1 ;;\n\
                      completions) echo $2 ;;\nesac\n";
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }
}
