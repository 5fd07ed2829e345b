//! `cargo xtask package`: the published crates, as their users get them.
//!
//! Each is packaged, and the package is built by itself. Then a workspace outside the tree has the packages
//! and a program that names three of them as dependencies. The program's output is compared, and the
//! packages' documentation is built as docs.rs does.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::metadata::{Metadata, Package, cargo, cargo_of, has_toolchain, succeeds};

/// The program that uses packages, and what it prints.
const PROGRAM: &str = include_str!("../outside/main.rs");
const PRINTS: &str = "3 clients have 15 bytes back after 40 ms\n";
/// The packages that it uses.
const USED: [&str; 3] = ["evenkeel-ready", "evenkeel-tcp", "evenkeel-timers"];
/// The size of a package in bytes, at most: what a user downloads.
const PACKAGE_BYTES: u64 = 256_000;

/// Packages, builds and runs everything. Returns whether all of it succeeded.
pub(crate) fn check(root: &Path) -> io::Result<bool> {
    let metadata = Metadata::read(root)?;
    let packages: Vec<&Package> = metadata.published().collect();
    // Cargo itself finds the order of dependence, and verifies each package with the packages before it.
    let mut package = cargo();
    package.current_dir(root).args(["package", "--quiet", "--locked", "--allow-dirty"]);
    package.args(packages.iter().flat_map(|package| ["-p", &package.name]));
    if !succeeds(&mut package)? {
        return Ok(false);
    }
    let outside = Outside::unpack(root, &metadata, &packages)?;
    let ok = outside.check();
    fs::remove_dir_all(&outside.folder)?;
    Ok(ok? && are_small(&metadata, &packages)?)
}

/// A workspace outside the tree.
struct Outside {
    folder: PathBuf,
    /// The folder of what is built, which stays for the next time.
    target: PathBuf,
}

impl Outside {
    /// Unpacks the packages into a new workspace, with the program and the versions that the tree has locked.
    fn unpack(root: &Path, metadata: &Metadata, packages: &[&Package]) -> io::Result<Self> {
        let folder = std::env::temp_dir().join(format!("evenkeel-packages-{}", std::process::id()));
        fs::create_dir_all(folder.join("program/src"))?;
        let mut workspace =
            "[workspace]\nresolver = \"3\"\nmembers = [\"*\"]\n\n[patch.crates-io]\n".to_owned();
        let mut program = "[package]\nname = \"program\"\nedition = \"2024\"\n\n[dependencies]\n".to_owned();
        for package in packages {
            let mut unpack = Command::new("tar");
            if !succeeds(unpack.arg("-xzf").arg(package.file(metadata)).arg("-C").arg(&folder))? {
                return Err(io::Error::other(format!("{} cannot be unpacked", package.name)));
            }
            let Package { name, version, .. } = package;
            // Writing to a string cannot fail.
            let _ = writeln!(workspace, "{name} = {{ path = \"{name}-{version}\" }}");
            if USED.contains(&name.as_str()) {
                let _ = writeln!(program, "{name} = \"{version}\"");
            }
        }
        fs::write(folder.join("Cargo.toml"), workspace)?;
        fs::write(folder.join("program/Cargo.toml"), program)?;
        fs::write(folder.join("program/src/main.rs"), PROGRAM)?;
        fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock"))?;
        Ok(Self { folder, target: metadata.target_directory.join("outside") })
    }

    fn command(&self, mut command: Command, arguments: &[&str]) -> Command {
        command.current_dir(&self.folder).env("CARGO_TARGET_DIR", &self.target);
        command.args(arguments).args(["--quiet", "--offline"]);
        command
    }

    fn check(&self) -> io::Result<bool> {
        Ok(self.program_runs()? && self.documents()?)
    }

    fn program_runs(&self) -> io::Result<bool> {
        let run = self.command(cargo(), &["run", "--package=program"]).output()?;
        let printed = String::from_utf8_lossy(&run.stdout);
        let runs = run.status.success() && printed == PRINTS;
        if runs {
            print!("a program of the packages {}: {printed}", USED.join(", "));
        } else {
            println!("THE PROGRAM OUTSIDE FAILED, or printed something else:\n{printed}");
            println!("{}", String::from_utf8_lossy(&run.stderr));
        }
        Ok(runs)
    }

    /// Builds the documentation of all packages as docs.rs does: with the nightly compiler and all features.
    fn documents(&self) -> io::Result<bool> {
        if !has_toolchain("nightly") {
            println!("NOT DOCUMENTED as docs.rs does, because there is no nightly toolchain");
            return Ok(true);
        }
        let arguments = ["doc", "--workspace", "--exclude=program", "--no-deps", "--all-features"];
        let mut doc = self.command(cargo_of("nightly"), &arguments);
        let built = succeeds(doc.env("RUSTDOCFLAGS", "--cfg docsrs -D warnings"))?;
        println!("documentation of the packages: {}", if built { "built" } else { "FAILED" });
        Ok(built)
    }
}

/// Prints the sizes of the packages. Returns whether none is too large.
fn are_small(metadata: &Metadata, packages: &[&Package]) -> io::Result<bool> {
    let mut all = true;
    for package in packages {
        let bytes = fs::metadata(package.file(metadata))?.len();
        let is_small = bytes <= PACKAGE_BYTES;
        println!("{}: {bytes} bytes{}", package.name, if is_small { "" } else { ", TOO LARGE" });
        all &= is_small;
    }
    Ok(all)
}

impl Package {
    /// Returns the file of the package, once it is packaged.
    fn file(&self, metadata: &Metadata) -> PathBuf {
        let Self { name, version, .. } = self;
        metadata.target_directory.join("package").join(format!("{name}-{version}.crate"))
    }
}
