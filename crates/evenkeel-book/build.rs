//! Lists the pages whose snippets are compiled: a page that is written is never forgotten.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

fn main() -> io::Result<()> {
    let crate_folder = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default();
    let root = crate_folder.ancestors().nth(2).unwrap_or(&crate_folder);
    let mut pages = vec![root.join("README.md"), root.join("CONTRIBUTING.md")];
    add_pages(&root.join("docs"), &mut pages)?;
    pages.sort();
    let out = std::env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    let mut modules = String::new();
    for page in &pages {
        println!("cargo::rerun-if-changed={}", page.display());
        let name = page.strip_prefix(root).unwrap_or(page).with_extension("").display().to_string();
        let name = name.to_lowercase().replace(['/', '-', '.'], "_");
        // In a file of its own, the lines of failures are those of the page.
        fs::write(out.join(format!("{name}.rs")), format!("#![doc = include_str!({page:?})]\n"))?;
        let _ = writeln!(modules, "#[path = {:?}]\nmod {name};", out.join(format!("{name}.rs")));
    }
    fs::write(out.join("pages.rs"), modules)
}

/// Adds all Markdown files below a folder. Cargo is to look at the folder again if a file comes or goes.
fn add_pages(folder: &Path, pages: &mut Vec<PathBuf>) -> io::Result<()> {
    println!("cargo::rerun-if-changed={}", folder.display());
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            add_pages(&path, pages)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
    Ok(())
}
