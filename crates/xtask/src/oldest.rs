//! `cargo xtask oldest`: the published crates compile with the oldest compiler that their manifests name, and
//! those that name the category `no-std` for targets without the standard library.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::metadata::{Metadata, Package, cargo_of, has_toolchain, succeeds};

/// Targets without the standard library. The second one has 32 bits, and no atomics of 64.
const BARE: [&str; 2] = ["x86_64-unknown-none", "thumbv7em-none-eabi"];

/// Checks each published crate by itself, so that no other crate's features hide a missing one. Returns
/// whether all compile. A compiler that cannot be installed is reported, and its crates are left out.
pub(crate) fn check(root: &Path) -> io::Result<bool> {
    let mut all = true;
    for package in Metadata::read(root)?.published() {
        let Some(version) = &package.rust_version else {
            println!("{}: NO rust-version", package.name);
            all = false;
            continue;
        };
        // A toolchain's name has three parts.
        let toolchain =
            if version.matches('.').count() == 1 { format!("{version}.0") } else { version.clone() };
        for target in package.targets() {
            all &= compiles(root, package, &toolchain, target)?;
        }
    }
    Ok(all)
}

impl Package {
    /// Returns the targets that the package is checked for; `None` is this machine.
    fn targets(&self) -> Vec<Option<&'static str>> {
        if self.is_no_std() { BARE.map(Some).to_vec() } else { vec![None] }
    }
}

fn compiles(root: &Path, package: &Package, toolchain: &str, target: Option<&str>) -> io::Result<bool> {
    let (name, on) = (&package.name, target.unwrap_or("this machine"));
    if !is_installed(toolchain, target) {
        println!("{name}: NOT CHECKED, because Rust {toolchain} for {on} cannot be installed");
        return Ok(true);
    }
    let mut command = cargo_of(toolchain);
    command.current_dir(root).args(["check", "--quiet", "--locked", "--lib", "--all-features", "-p", name]);
    command.args(target.iter().flat_map(|target| ["--target", target]));
    let compiles = succeeds(&mut command)?;
    let verdict = if compiles { "compiles" } else { "DOES NOT COMPILE" };
    println!("{name}: {verdict} with Rust {toolchain} for {on}");
    Ok(compiles)
}

/// Returns whether the toolchain and its target are there. Installs what is missing.
fn is_installed(toolchain: &str, target: Option<&str>) -> bool {
    let rustup = |arguments: &[&str]| {
        let mut command = Command::new("rustup");
        command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
        succeeds(&mut command).unwrap_or(false)
    };
    let has_compiler = has_toolchain(toolchain)
        || rustup(&["toolchain", "install", toolchain, "--profile", "minimal", "--no-self-update"]);
    has_compiler && target.is_none_or(|target| rustup(&["target", "add", target, "--toolchain", toolchain]))
}
