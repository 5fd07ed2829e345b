//! The Debian package: the program, its pages and completions, and the units of systemd.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::output;
use super::tree::{Scratch, Tree};

/// The revision of the package for one version of the program.
const REVISION: &str = "1";

/// The description, as Debian's control files have it.
const DESCRIPTION: &str = "network subsystem in user space, which floods do not stop\n \
    evenkeel decides early and cheaply which packets a program can still take,\n \
    and does the costly work only for those. It has servers, a router with\n \
    rules in the language of pf, a monitor that captures to pcapng, an emulator\n \
    of networks, and a guard for the sockets of the kernel.\n .\n \
    The units of systemd are installed, and none is enabled.";

/// A package to build.
pub(super) struct Package<'a> {
    /// The root of the source tree.
    pub(super) root: &'a Path,
    pub(super) program: &'a Path,
    pub(super) version: &'a str,
}

impl Package<'_> {
    /// Builds the package into `dist`, and returns its path.
    ///
    /// # Errors
    /// The program does not print its pages, or a program of dpkg is missing or fails.
    pub(super) fn build(&self, dist: &Path) -> io::Result<PathBuf> {
        let scratch = Scratch::new("deb")?;
        let (stage, tree) = (scratch.0.join("stage"), self.tree(&scratch.0)?);
        tree.write(&stage)?;
        let architecture = text(output(&scratch.0, "dpkg", &["--print-architecture"])?);
        let depends = self.dependencies(&scratch.0, &stage)?;
        self.control(&tree, &architecture, &depends)?.write(&stage.join("DEBIAN"))?;
        let name = format!("evenkeel_{}_{architecture}.deb", self.debian_version());
        let path = dist.join(name);
        output(&scratch.0, "dpkg-deb", &["--root-owner-group", "--build", "-Zxz", "stage", "deb"])?;
        // A package that is there is whole.
        fs::copy(scratch.0.join("deb"), &path)?;
        Ok(path)
    }

    fn debian_version(&self) -> String {
        format!("{}-{REVISION}", self.version)
    }

    /// Returns the files of the package.
    fn tree(&self, scratch: &Path) -> io::Result<Tree> {
        let (mut tree, packaging) = (Tree::default(), self.root.join("packaging"));
        tree.add_program("usr/bin/evenkeel", fs::read(self.program)?);
        let program = self.program.display().to_string();
        output(scratch, &program, &["man", "--dir", "man1"])?;
        for entry in fs::read_dir(scratch.join("man1"))? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            let page = compressed(scratch, &format!("man1/{name}"))?;
            tree.add(format!("usr/share/man/man1/{name}.gz"), page);
        }
        for (shell, path) in [
            ("bash", "usr/share/bash-completion/completions/evenkeel"),
            ("zsh", "usr/share/zsh/vendor-completions/_evenkeel"),
            ("fish", "usr/share/fish/vendor_completions.d/evenkeel.fish"),
        ] {
            tree.add(path, output(scratch, &program, &["completions", shell])?);
        }
        tree.add_all("lib/systemd/system", &packaging.join("systemd"))?;
        tree.add_all("etc/default", &packaging.join("default"))?;
        tree.add_all("etc/evenkeel", &packaging.join("evenkeel"))?;
        let overrides = fs::read(packaging.join("debian/lintian-overrides"))?;
        tree.add("usr/share/lintian/overrides/evenkeel", overrides);
        let doc = "usr/share/doc/evenkeel";
        tree.add(format!("{doc}/copyright"), fs::read(packaging.join("debian/copyright"))?);
        for (from, name) in
            [("packaging/debian/changelog", "changelog.Debian"), ("CHANGELOG.md", "changelog")]
        {
            fs::copy(self.root.join(from), scratch.join(name))?;
            tree.add(format!("{doc}/{name}.gz"), compressed(scratch, name)?);
        }
        Ok(tree)
    }

    /// Returns the packages of the libraries that the program is linked to. A script has none.
    fn dependencies(&self, scratch: &Path, stage: &Path) -> io::Result<String> {
        if !fs::read(self.program)?.starts_with(b"\x7fELF") {
            return Ok(String::new());
        }
        // The tool wants the tree of a source package around it.
        fs::create_dir_all(scratch.join("debian"))?;
        fs::write(
            scratch.join("debian/control"),
            "Source: evenkeel\n\nPackage: evenkeel\nArchitecture: any\n",
        )?;
        let program = stage.join("usr/bin/evenkeel").display().to_string();
        let printed = text(output(scratch, "dpkg-shlibdeps", &["-O", "--ignore-missing-info", &program])?);
        Ok(printed.trim_start_matches("shlibs:Depends=").to_owned())
    }

    /// Returns the files that dpkg reads.
    fn control(&self, tree: &Tree, architecture: &str, depends: &str) -> io::Result<Tree> {
        let (version, size) = (self.debian_version(), tree.bytes().div_ceil(1024));
        let depends = if depends.is_empty() { String::new() } else { format!("Depends: {depends}\n") };
        let mut control = Tree::default();
        control.add(
            "control",
            format!(
                "Package: evenkeel\nVersion: {version}\nArchitecture: {architecture}\n\
                 Maintainer: The evenkeel authors <evenkeel@users.noreply.github.com>\n\
                 Installed-Size: {size}\n{depends}Recommends: libpcap0.8\nSuggests: systemd (>= 246)\n\
                 Section: net\nPriority: optional\nHomepage: https://github.com/evenkeel/evenkeel\n\
                 Description: {DESCRIPTION}\n"
            ),
        );
        let conffiles = tree.below("etc").into_iter().map(|path| format!("/{}\n", path.display()));
        control.add("conffiles", conffiles.collect::<String>());
        for script in ["postinst", "prerm", "postrm"] {
            control.add_program(script, fs::read(self.root.join("packaging/debian").join(script))?);
        }
        Ok(control)
    }
}

fn compressed(directory: &Path, file: &str) -> io::Result<Vec<u8>> {
    output(directory, "gzip", &["-9nc", file])
}

fn text(printed: Vec<u8>) -> String {
    String::from_utf8_lossy(&printed).trim().to_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use super::super::tests::{fake, has, root};
    use super::*;

    #[test]
    fn a_package_has_the_program_its_pages_completions_and_units() {
        if !has("dpkg-deb", "dpkg") || !has("dpkg-shlibdeps", "dpkg-dev") {
            return;
        }
        let scratch = Scratch::new("deb-test").unwrap();
        let program = fake(&scratch.0);
        let package = Package { root: &root(), program: &program, version: "1.2.3" };
        let path = package.build(&scratch.0).unwrap().display().to_string();
        let listed = text(output(&scratch.0, "dpkg-deb", &["--contents", &path]).unwrap());
        for line in listed.lines() {
            assert_eq!(line.split_whitespace().nth(1), Some("root/root"), "{line}");
        }
        let mut expected: Vec<String> = [
            "/etc/default/evenkeel-monitor",
            "/etc/evenkeel/guard.toml",
            "/usr/bin/evenkeel",
            "/usr/share/bash-completion/completions/evenkeel",
            "/usr/share/doc/evenkeel/changelog.Debian.gz",
            "/usr/share/doc/evenkeel/changelog.gz",
            "/usr/share/doc/evenkeel/copyright",
            "/usr/share/fish/vendor_completions.d/evenkeel.fish",
            "/usr/share/lintian/overrides/evenkeel",
            "/usr/share/man/man1/evenkeel.1.gz",
            "/usr/share/zsh/vendor-completions/_evenkeel",
        ]
        .map(str::to_owned)
        .to_vec();
        let units = fs::read_dir(root().join("packaging/systemd")).unwrap();
        let units = units.map(|unit| unit.unwrap().file_name().into_string().unwrap());
        expected.extend(units.map(|unit| format!("/lib/systemd/system/{unit}")));
        expected.sort_unstable();
        let files = listed.lines().filter(|line| line.starts_with('-'));
        let mut files: Vec<_> = files
            .map(|line| line.split_whitespace().last().unwrap().trim_start_matches('.').to_owned())
            .collect();
        files.sort_unstable();
        assert_eq!(files, expected);
        let field = |name: &str| text(output(&scratch.0, "dpkg-deb", &["--field", &path, name]).unwrap());
        assert_eq!((field("Version").as_str(), field("Recommends").as_str()), ("1.2.3-1", "libpcap0.8"));
        let conffiles = output(&scratch.0, "dpkg-deb", &["--info", &path, "conffiles"]).unwrap();
        assert_eq!(text(conffiles), "/etc/default/evenkeel-monitor\n/etc/evenkeel/guard.toml");
    }

    #[test]
    fn the_changelog_is_of_this_version() {
        let changelog = fs::read_to_string(root().join("packaging/debian/changelog")).unwrap();
        let expected = format!("evenkeel ({}-{REVISION}) ", env!("CARGO_PKG_VERSION"));
        assert!(changelog.starts_with(&expected), "{changelog}");
    }
}
