//! Circles of imports stay small: a file can be understood without the others only if they do not all need it.

use super::finding::Finding;
use crate::structure;
use crate::workspace::Workspace;

/// Files that a circle may have.
const MAX_CIRCLE: usize = 3;

/// No circle of imports has more than [`MAX_CIRCLE`] files. `cargo xtask structure` lists all circles.
pub fn circles(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &workspace.packages {
        for circle in structure::circles(workspace, package).circles.iter().filter(|it| it.len() > MAX_CIRCLE) {
            let files: Vec<&str> = circle.iter().map(|path| path.trim_start_matches(&package.folder)).collect();
            let message = format!("a circle of {} files; {MAX_CIRCLE} is the most: {}", files.len(), files.join(", "));
            findings.push(Finding::file(&package.folder, message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Package;

    /// A crate whose modules import one another in a ring.
    fn ring(size: usize) -> Workspace {
        let lib: String = (0..size).map(|at| format!("mod m{at};")).collect();
        let mut files = vec![("crates/a/src/lib.rs".to_owned(), lib)];
        for at in 0..size {
            let text = format!("use crate::m{}::f; pub fn f() {{}}", (at + 1) % size);
            files.push((format!("crates/a/src/m{at}.rs"), text));
        }
        let package = Package {
            name: "kiln-a".to_owned(),
            folder: "crates/a".to_owned(),
            roots: vec!["crates/a/src/lib.rs".to_owned()],
            dependencies: Vec::new(),
        };
        let files = files.into_iter().map(|(path, text)| (path, text.into_bytes()));
        Workspace { files: files.collect(), packages: vec![package] }
    }

    #[test]
    fn a_circle_of_four_is_found() {
        assert_eq!(circles(&ring(3)), []);
        let found = circles(&ring(4));
        assert_eq!(found.len(), 1);
        assert!(found[0].message.contains("a circle of 4 files") && found[0].message.contains("m3.rs"));
    }
}
