//! The container image: the static program alone, in the layout of the Open Container Initiative.
//!
//! The layout is a directory of files that are named for their SHA-256, and an index. `tar` and `sha256sum`
//! make it, so no builder of images is needed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::output;
use super::tree::{Scratch, Tree};

/// The types of the files, as the specification of images names them.
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// Options of tar with which equal files make equal archives.
const REPEATABLE: [&str; 5] = ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0"];

/// Builds the image of a static program into `dist`, and returns its path.
///
/// # Errors
/// `tar` or `sha256sum` is missing or fails.
pub(super) fn build(root: &Path, program: &Path, version: &str, dist: &Path) -> io::Result<PathBuf> {
    let scratch = Scratch::new("oci")?;
    contents(root, program)?.write(&scratch.0.join("rootfs"))?;
    archive(&scratch.0, "rootfs", "layer.tar")?;
    let mut layout = Layout::default();
    let layer = layout.add(&scratch.0, LAYER, fs::read(scratch.0.join("layer.tar"))?)?;
    let config = layout.add(&scratch.0, CONFIG, config(version, &layer).to_string())?;
    let manifest = json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer] });
    let mut manifest = layout.add(&scratch.0, MANIFEST, manifest.to_string())?;
    // Engines call the image so when they load it.
    manifest["annotations"] = json!({ "org.opencontainers.image.ref.name": format!("evenkeel:{version}") });
    let index = json!({ "schemaVersion": 2, "mediaType": INDEX, "manifests": [manifest] });
    layout.0.add("index.json", index.to_string());
    layout.0.add("oci-layout", json!({ "imageLayoutVersion": "1.0.0" }).to_string());
    layout.0.write(&scratch.0.join("layout"))?;
    let path = dist.join(format!("evenkeel-{version}-oci.tar"));
    archive(&scratch.0, "layout", &path.display().to_string())?;
    Ok(path)
}

/// Returns the files of the image.
fn contents(root: &Path, program: &Path) -> io::Result<Tree> {
    let mut tree = Tree::default();
    tree.add_program("usr/bin/evenkeel", fs::read(program)?);
    for file in ["passwd", "group"] {
        tree.add(format!("etc/{file}"), fs::read(root.join("packaging/container").join(file))?);
    }
    Ok(tree)
}

/// Returns the configuration of the image, whose only layer is not compressed.
fn config(version: &str, layer: &Value) -> Value {
    json!({
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "Entrypoint": ["/usr/bin/evenkeel"],
            "Cmd": ["--help"],
            "Labels": {
                "org.opencontainers.image.title": "evenkeel",
                "org.opencontainers.image.version": version,
                "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
                "org.opencontainers.image.source": "https://github.com/evenkeel/evenkeel",
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [layer["digest"]] },
    })
}

/// The files of a layout.
#[derive(Debug, Default)]
struct Layout(Tree);

impl Layout {
    /// Adds a file under the name of its digest. Returns its descriptor.
    fn add(&mut self, scratch: &Path, kind: &str, contents: impl Into<Vec<u8>>) -> io::Result<Value> {
        let contents = contents.into();
        fs::write(scratch.join("blob"), &contents)?;
        let printed = output(scratch, "sha256sum", &["blob"])?;
        let digest =
            String::from_utf8_lossy(&printed).split_whitespace().next().unwrap_or_default().to_owned();
        let descriptor =
            json!({ "mediaType": kind, "digest": format!("sha256:{digest}"), "size": contents.len() });
        self.0.add(format!("blobs/sha256/{digest}"), contents);
        Ok(descriptor)
    }
}

/// Archives the contents of a directory.
fn archive(scratch: &Path, directory: &str, to: &str) -> io::Result<()> {
    let mut arguments = vec!["-c", "--format=ustar"];
    arguments.extend(REPEATABLE);
    arguments.extend(["-f", to, "-C", directory, "."]);
    output(scratch, "tar", &arguments).map(drop)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may fail")]
mod tests {
    use super::super::tests::{fake, root};
    use super::*;

    /// Returns the file that a descriptor names; asserts its size and its digest.
    fn blob(layout: &Path, descriptor: &Value) -> Vec<u8> {
        let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        let path = format!("blobs/sha256/{digest}");
        let printed = String::from_utf8(output(layout, "sha256sum", &[&path]).unwrap()).unwrap();
        assert!(printed.starts_with(digest), "{printed}");
        let contents = fs::read(layout.join(path)).unwrap();
        assert_eq!(descriptor["size"], contents.len());
        contents
    }

    #[test]
    fn an_image_leads_from_its_index_to_the_program() {
        let scratch = Scratch::new("oci-test").unwrap();
        let program = fake(&scratch.0);
        let path = build(&root(), &program, "1.2.3", &scratch.0).unwrap();
        let again = scratch.0.join("again");
        fs::create_dir(&again).unwrap();
        let second = build(&root(), &program, "1.2.3", &again).unwrap();
        assert!(fs::read(&path).unwrap() == fs::read(second).unwrap(), "two images differ");
        let layout = scratch.0.join("layout");
        fs::create_dir(&layout).unwrap();
        output(&layout, "tar", &["-xf", &path.display().to_string()]).unwrap();
        let index: Value = serde_json::from_slice(&fs::read(layout.join("index.json")).unwrap()).unwrap();
        let name = &index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"];
        assert_eq!(name, "evenkeel:1.2.3");
        let manifest: Value = serde_json::from_slice(&blob(&layout, &index["manifests"][0])).unwrap();
        let config: Value = serde_json::from_slice(&blob(&layout, &manifest["config"])).unwrap();
        assert_eq!(config["config"]["Entrypoint"], json!(["/usr/bin/evenkeel"]));
        assert_eq!(config["rootfs"]["diff_ids"][0], manifest["layers"][0]["digest"]);
        fs::write(layout.join("layer.tar"), blob(&layout, &manifest["layers"][0])).unwrap();
        let inside = output(&layout, "tar", &["-xOf", "layer.tar", "./usr/bin/evenkeel"]).unwrap();
        assert_eq!(inside, fs::read(program).unwrap());
    }
}
