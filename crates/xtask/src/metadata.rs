//! The packages of the tree and of everything that it depends on, as `cargo metadata` lists them.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

/// The category of crates that need no standard library.
const NO_STD: &str = "no-std";

/// The packages of the tree, and those of all dependencies.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    pub(crate) target_directory: PathBuf,
}

/// A package, with the parts of its manifest that the commands use.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) license: Option<String>,
    /// `None` for a package of the tree.
    pub(crate) source: Option<String>,
    pub(crate) rust_version: Option<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) manifest_path: PathBuf,
    /// The registries that it may be published to; `None` for all.
    publish: Option<Vec<String>>,
}

impl Metadata {
    /// Reads the packages of the tree at `root` and of all dependencies.
    pub(crate) fn read(root: &Path) -> io::Result<Self> {
        let listing =
            cargo().current_dir(root).args(["metadata", "--format-version=1", "--locked"]).output()?;
        if !listing.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&listing.stderr)));
        }
        Ok(serde_json::from_slice(&listing.stdout)?)
    }

    /// Returns the packages of the tree that are published.
    pub(crate) fn published(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| package.source.is_none() && package.publish.is_none())
    }
}

impl Package {
    /// Returns whether the package needs no standard library.
    pub(crate) fn is_no_std(&self) -> bool {
        self.categories.iter().any(|category| category == NO_STD)
    }

    /// Returns the folder of the package.
    pub(crate) fn folder(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(&self.manifest_path)
    }
}

/// Returns a command of the cargo that runs this program.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()))
}

/// Returns a command of the cargo of another toolchain.
pub(crate) fn cargo_of(toolchain: &str) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", toolchain, "cargo"]);
    // This program's own cargo has set them for its own toolchain.
    for variable in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN", "RUSTFLAGS"] {
        command.env_remove(variable);
    }
    command
}

/// Returns whether a toolchain is installed.
pub(crate) fn has_toolchain(toolchain: &str) -> bool {
    cargo_of(toolchain).arg("--version").output().is_ok_and(|asked| asked.status.success())
}

/// Runs a command. Returns whether it succeeded.
pub(crate) fn succeeds(command: &mut Command) -> io::Result<bool> {
    Ok(command.status()?.success())
}
