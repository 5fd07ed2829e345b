//! `cargo xtask oldest`: the published crates compile with the oldest compiler that their manifests name, and
//! those that name the category `no-std` for a target without the standard library.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::metadata::{Metadata, Package, cargo_of, has_toolchain, succeeds};

/// A target that has no standard library.
const BARE: &str = "x86_64-unknown-none";

/// Checks each published crate by itself, so that no other crate's features hide a missing one. Returns
/// whether all compile. A compiler that cannot be installed is reported, and its crates are left out.
pub(crate) fn check(root: &Path) -> io::Result<bool> {
    let mut all = true;
    for package in Metadata::read(root)?.published() {
        all &= compiles(root, package)?;
    }
    Ok(all)
}

fn compiles(root: &Path, package: &Package) -> io::Result<bool> {
    let Package { name, rust_version, .. } = package;
    let Some(version) = rust_version else {
        println!("{name}: NO rust-version");
        return Ok(false);
    };
    // A toolchain's name has three parts.
    let toolchain = if version.matches('.').count() == 1 { format!("{version}.0") } else { version.clone() };
    let target = package.is_no_std().then_some(BARE);
    if !is_installed(&toolchain, target) {
        println!(
            "{name}: NOT CHECKED, because Rust {toolchain} for {target:?} is missing and cannot be installed"
        );
        return Ok(true);
    }
    let mut command = cargo_of(&toolchain);
    command.current_dir(root).args(["check", "--quiet", "--locked", "--lib", "--all-features", "-p", name]);
    command.args(target.iter().flat_map(|target| ["--target", target]));
    let compiles = succeeds(&mut command)?;
    let verdict = if compiles { "compiles" } else { "DOES NOT COMPILE" };
    println!("{name}: {verdict} with Rust {toolchain}, {}", target.unwrap_or("with the standard library"));
    Ok(compiles)
}

/// Returns whether the toolchain has what it takes. Installs what is missing.
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
