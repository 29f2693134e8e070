//! What is in the binary, as a CycloneDX 1.5 document: Rust packages by `cargo tree`, C and C++ libraries by name.
//!
//! The document is five fields a component, so serde_json writes it. The libraries for it would add 25 packages to the
//! build of the tasks, which every test run needs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::files::{file_error, output_of, version};
use crate::command::{Failure, cargo};

/// Libraries that are linked in from outside of Rust, with what brings them. A static binary has all of them.
const LINKED: [(&str, &str, &str); 5] = [
    ("z3", "MIT", "z3-sys"),
    ("libbpf", "LGPL-2.1-only OR BSD-2-Clause", "libbpf-sys"),
    ("libelf", "GPL-2.0-or-later OR LGPL-3.0-or-later", "libbpf-sys"),
    ("zlib", "Zlib", "libbpf-sys"),
    ("glibc", "LGPL-2.1-or-later", "libc"),
];

/// Writes the document for a build with these features.
pub fn write(features: &str, output: &Path) -> Result<PathBuf, Failure> {
    let mut command = cargo();
    command.args(["tree", "--locked", "-p", "kiln-cli", "--no-default-features", "--features", features]);
    command.args(["-e", "normal", "--prefix", "none", "--format", "{p}|{l}|{r}"]);
    let tree = String::from_utf8_lossy(&output_of(&mut command)?).into_owned();
    let document = document(&tree);
    let file = output.join(format!("kiln-{}.cdx.json", version()));
    std::fs::write(&file, format!("{document:#}\n")).map_err(file_error(&file))?;
    Ok(file)
}

/// The document of a tree: lines of `name vVERSION (...)|license|repository`.
fn document(tree: &str) -> Value {
    let lines: BTreeSet<(&str, &str, &str, &str)> = tree.lines().filter_map(package).collect();
    let rust = lines.iter().map(|(name, version, license, repository)| {
        let purl = format!("pkg:cargo/{name}@{version}");
        let mut component = component(name, Some(version), license, &purl);
        component["purl"] = purl.into();
        if !repository.is_empty() {
            component["externalReferences"] = json!([{ "type": "vcs", "url": repository }]);
        }
        component
    });
    let has = |package: &str| lines.iter().any(|(name, ..)| *name == package);
    let linked = LINKED.iter().filter(|(.., by)| has(by));
    let linked = linked.map(|(name, license, _)| component(name, None, license, &format!("library:{name}")));
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": {
            "type": "application", "bom-ref": "kiln", "name": "kiln", "version": version(),
            "licenses": [{ "expression": "Apache-2.0 OR MIT" }],
        } },
        "components": rust.chain(linked).collect::<Vec<_>>(),
    })
}

fn component(name: &str, version: Option<&str>, license: &str, reference: &str) -> Value {
    let mut component = json!({ "type": "library", "bom-ref": reference, "name": name });
    if let Some(version) = version {
        component["version"] = version.into();
    }
    if !license.is_empty() {
        // Some packages still separate with a slash, which is no expression.
        component["licenses"] = json!([{ "expression": license.replace('/', " OR ") }]);
    }
    component
}

fn package(line: &str) -> Option<(&str, &str, &str, &str)> {
    // Repeated packages end with a star.
    let mut fields = line.trim().trim_end_matches(" (*)").split('|');
    let (package, license, repository) = (fields.next()?, fields.next()?, fields.next()?);
    let (name, rest) = package.split_once(" v")?;
    let version = rest.split(' ').next()?;
    Some((name, version, license, repository.trim_end_matches(" (*)")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_and_libraries() {
        let tree = "kiln-cli v0.1.0 (a/b)|Apache-2.0 OR MIT|\nz3-sys v0.14.1|MIT|https://a.example/z3\n\
                    z3-sys v0.14.1|MIT|https://a.example/z3 (*)\nold v1.0.0|MIT/Apache-2.0|\n";
        let document = document(tree);
        let components = document["components"].as_array().expect("a list");
        let names: Vec<&str> = components.iter().filter_map(|it| it["name"].as_str()).collect();
        assert_eq!(names, ["kiln-cli", "old", "z3-sys", "z3"]);
        assert_eq!(components[1]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(components[2]["purl"], "pkg:cargo/z3-sys@0.14.1");
        assert_eq!(components[2]["externalReferences"][0]["url"], "https://a.example/z3");
    }
}
