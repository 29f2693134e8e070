//! The ratchet on circles of imports: a file can be understood without the others only if they do not all need it.

use super::finding::Finding;
use crate::structure::{self, Structure};
use crate::workspace::{Package, Workspace};

/// Files that a circle may have.
const MAX_CIRCLE: usize = 3;

/// Crates with a larger circle, and its size, which may not grow. `cargo xtask structure` names the files.
const LARGER: &[(&str, usize)] = &[
    ("verifier", 41),
];

/// No circle has more than [`MAX_CIRCLE`] files, or what [`LARGER`] says.
pub fn circles(workspace: &Workspace) -> Vec<Finding> {
    let finding = |package: &Package| against(package, &structure::circles(workspace, package), LARGER);
    workspace.packages.iter().filter_map(finding).collect()
}

fn against(package: &Package, structure: &Structure, larger: &[(&str, usize)]) -> Option<Finding> {
    let listed = larger.iter().find(|(room, _)| *room == structure.room);
    let allowed = listed.map_or(MAX_CIRCLE, |(_, size)| *size);
    let circle = structure.circles.first().filter(|circle| circle.len() > allowed)?;
    let files: Vec<&str> = circle.iter().map(|path| path.trim_start_matches(&package.folder)).collect();
    let message = format!("a circle of {} files; {allowed} is the most here: {}", files.len(), files.join(", "));
    Some(Finding::file(&package.folder, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_may_not_grow() {
        let names: Vec<String> = (0..5).map(|at| format!("m{at}")).collect();
        let lib: String = names.iter().map(|name| format!("mod {name};")).collect();
        let mut files = vec![("crates/a/src/lib.rs".to_owned(), lib)];
        for (at, name) in names.iter().enumerate() {
            let text = format!("use crate::m{}::f; pub fn f() {{}}", (at + 1) % 5);
            files.push((format!("crates/a/src/{name}.rs"), text));
        }
        let package = Package {
            name: "kiln-a".to_owned(),
            folder: "crates/a".to_owned(),
            roots: vec!["crates/a/src/lib.rs".to_owned()],
            dependencies: Vec::new(),
        };
        let files = files.into_iter().map(|(path, text)| (path, text.into_bytes()));
        let workspace = Workspace { files: files.collect(), packages: Vec::new() };
        let structure = structure::circles(&workspace, &package);
        let message = |listed: &[(&str, usize)]| against(&package, &structure, listed).map(|it| it.message);
        assert!(message(&[]).unwrap().contains("m4.rs"));
        assert!(message(&[("a", 4)]).unwrap().contains("a circle of 5 files"));
        assert_eq!(message(&[("a", 5)]), None);
    }
}
