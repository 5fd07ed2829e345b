//! `cargo xtask licences`: licences and sources of everything that the tree depends on.
//!
//! The rules are those of `deny.toml`. `cargo deny` checks more by them, but has to be installed: it reads
//! the texts of licences, and knows the advisories.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use serde::Deserialize;

use crate::metadata::{Metadata, Package};

/// The parts of `deny.toml` that are checked here.
#[derive(Debug, Deserialize)]
struct Rules {
    licenses: Licences,
    sources: Sources,
}

#[derive(Debug, Deserialize)]
struct Licences {
    allow: BTreeSet<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    allow_registry: BTreeSet<String>,
}

/// Prints the packages that break a rule. Returns whether there are none.
pub(crate) fn check(root: &Path) -> io::Result<bool> {
    let rules = fs::read_to_string(root.join("deny.toml"))?;
    let rules: Rules = toml::from_str(&rules).map_err(io::Error::other)?;
    let metadata = Metadata::read(root)?;
    let findings: Vec<_> = metadata.packages.iter().filter_map(|package| rules.finding(package)).collect();
    for finding in &findings {
        println!("{finding}");
    }
    println!("licences and sources of {} packages: {} findings", metadata.packages.len(), findings.len());
    Ok(findings.is_empty())
}

impl Rules {
    /// Returns the rule that a package breaks, if any.
    fn finding(&self, package: &Package) -> Option<String> {
        let Package { name, version, license, source, .. } = package;
        let registry = source.as_deref().map(|source| source.trim_start_matches("registry+"));
        if let Some(source) = registry.filter(|source| !self.sources.allow_registry.contains(*source)) {
            return Some(format!("{name} {version} is from {source}"));
        }
        let Some(license) = license else { return Some(format!("{name} {version} names no licence")) };
        let refused = !is_allowed(license, &self.licenses.allow);
        refused.then(|| format!("{name} {version} is under {license}"))
    }
}

/// Returns whether an SPDX expression is met by the allowed licences. `AND` binds more strongly than `OR`,
/// and the older `/` means `OR`.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    parts(expression, " OR ").iter().flat_map(|part| parts(part, "/")).any(|choice| {
        let all = parts(choice, " AND ");
        match all[..] {
            [one] => match one.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')) {
                Some(inner) => is_allowed(inner, allowed),
                None => allowed.contains(one),
            },
            _ => all.iter().all(|part| is_allowed(part, allowed)),
        }
    })
}

/// Returns the parts of an expression between the separators that are not in parentheses.
fn parts<'a>(expression: &'a str, separator: &str) -> Vec<&'a str> {
    let (mut parts, mut begin) = (Vec::new(), 0);
    for (at, _) in expression.match_indices(separator) {
        let before = &expression[..at];
        if before.matches('(').count() == before.matches(')').count() {
            parts.push(expression[begin..at].trim());
            begin = at + separator.len();
        }
    }
    parts.push(expression[begin..].trim());
    parts
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_met_or_not() {
        let allowed = ["MIT", "Apache-2.0", "Unicode-3.0"].map(str::to_owned).into();
        for met in [
            "MIT",
            "MIT OR GPL-3.0",
            "GPL-3.0 OR MIT AND Apache-2.0",
            "Unlicense/MIT",
            "(MIT OR GPL-3.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR MIT",
        ] {
            assert!(is_allowed(met, &allowed), "{met}");
        }
        for refused in [
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "GPL-3.0 OR MIT AND ISC",
            "(MIT OR ISC) AND GPL-3.0",
            "MIT WITH a-restriction",
            "",
        ] {
            assert!(!is_allowed(refused, &allowed), "{refused}");
        }
    }

    #[test]
    fn a_package_of_elsewhere_or_without_a_licence_is_found() {
        let rules = "[licenses]\nallow = ['MIT']\n[sources]\nallow-registry = ['https://crates.example']\n";
        let rules: Rules = toml::from_str(rules).unwrap();
        let package = |source: &str, license: &str| -> Package {
            let text = format!(
                r#"{{"name":"a","version":"1.0.0","license":{license},"source":{source},"rust_version":null,
                "categories":[],"manifest_path":"/a/Cargo.toml","publish":null}}"#
            );
            serde_json::from_str(&text).unwrap()
        };
        let registry = r#""registry+https://crates.example""#;
        assert_eq!(rules.finding(&package(registry, r#""MIT""#)), None);
        assert_eq!(rules.finding(&package("null", r#""MIT""#)), None);
        for (source, license) in [
            (registry, "null"),
            (registry, r#""GPL-3.0""#),
            (r#""git+https://example.org/a""#, r#""MIT""#),
            (r#""registry+https://other.example""#, r#""MIT""#),
        ] {
            assert!(rules.finding(&package(source, license)).is_some(), "{source} {license}");
        }
    }
}
