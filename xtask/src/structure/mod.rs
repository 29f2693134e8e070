//! How the sources are built: circles of imports, imports that run back up, long files and long functions.
//!
//! ```text
//!   crate       files  arrows  circles  largest  back up  long files  long functions
//!   verifier       57     312        2       30       41           4              12
//! ```
//!
//! - **Circle**: files that all reach one another by arrows (a strongly connected component). [`graph`] says what an
//!   arrow is. A library and each command are looked at by themselves.
//! - **Back up**: an arrow to the file of an ancestor module, `memory/mod.rs` or `lib.rs` seen from `memory/stack.rs`.
//!   To import from a sibling of the parent is no such arrow.
//! - **Long file**: more than [`FILE_LINES`] lines. A flat table is left out: a file that is for the greater part
//!   constants, statics and item macros.
//! - **Long function**: more than [`FUNCTION_LINES`] lines from `fn` to its brace. A flat table is left out: a body that is
//!   one `match` or one literal with short entries. So is a function with `// long: REASON` among the comments above it.
//!
//! Circles and arrows are those of the product's code; code under `#[cfg(test)]`, `tests/` and `examples/` is only
//! measured for length.

mod graph;
mod syntax;

use serde_json::{Value, json};

use crate::command::Failure;
use crate::workspace::{Package, Workspace};
use graph::Graph;
use syntax::{FILE_LINES, FUNCTION_LINES};

/// What a comment above a long function begins with when there is a reason for its length.
const REASON: &str = "// long: ";

/// What is measured of one package.
pub struct Structure {
    /// The package's name without `kiln-`.
    room: String,
    /// Sources of its library and commands.
    files: usize,
    /// Imports between them.
    arrows: usize,
    /// Files of each circle, the largest circle first.
    pub circles: Vec<Vec<String>>,
    /// Imports from a file to the file of an ancestor module.
    back_up: Vec<(String, String)>,
    /// Long files and their lines.
    long_files: Vec<(String, usize)>,
    /// Long functions: file, line, name, lines.
    long_functions: Vec<(String, usize, String, usize)>,
    /// Sources that could not be read.
    errors: Vec<String>,
}

impl Structure {
    /// Files in the largest circle; 0 where there is none.
    fn largest(&self) -> usize {
        self.circles.first().map_or(0, Vec::len)
    }
}

/// Circles and arrows of a package; lengths are left empty.
pub fn circles(workspace: &Workspace, package: &Package) -> Structure {
    let mut structure = Structure {
        room: package.room().to_owned(),
        files: 0,
        arrows: 0,
        circles: Vec::new(),
        back_up: Vec::new(),
        long_files: Vec::new(),
        long_functions: Vec::new(),
        errors: Vec::new(),
    };
    for root in package.roots.iter().filter(|root| workspace.files.contains_key(*root)) {
        let graph = Graph::read(workspace, root);
        let name = |file: &usize| graph.files[*file].clone();
        structure.files += graph.files.len();
        structure.arrows += graph.arrows.len();
        structure.circles.extend(graph.circles().iter().map(|circle| circle.iter().map(name).collect()));
        structure.back_up.extend(graph.back_up.iter().map(|(from, to)| (name(from), name(to))));
        structure.errors.extend(graph.errors.iter().cloned());
    }
    structure.circles.sort_by_key(|circle: &Vec<String>| std::cmp::Reverse(circle.len()));
    structure
}

fn measure(workspace: &Workspace, package: &Package) -> Structure {
    let mut structure = circles(workspace, package);
    let folder = format!("{}/", package.folder);
    for (path, text) in workspace.rust().filter(|(path, _)| path.starts_with(&folder)) {
        match syntax::read(text) {
            Ok(source) => add_lengths(&mut structure, path, text, &source),
            Err(message) => structure.errors.push(format!("{path}: {message}")),
        }
    }
    structure
}

fn add_lengths(structure: &mut Structure, path: &str, text: &str, source: &syntax::Source) {
    let lines: Vec<&str> = text.lines().collect();
    if lines.len() > FILE_LINES && source.table_lines * 2 <= lines.len() {
        structure.long_files.push((path.to_owned(), lines.len()));
    }
    for function in &source.functions {
        if function.lines > FUNCTION_LINES && !function.table && !has_reason(&lines, function.line) {
            structure.long_functions.push((path.to_owned(), function.line, function.name.clone(), function.lines));
        }
    }
}

/// Whether the comments and attributes above a line (from 1) give a reason.
fn has_reason(lines: &[&str], line: usize) -> bool {
    let above = lines[..line - 1].iter().rev().map(|line| line.trim());
    let mut above = above.take_while(|line| line.starts_with("//") || line.starts_with("#["));
    above.any(|line| line.len() > REASON.len() && line.starts_with(REASON))
}

/// `cargo xtask structure [--format json]`.
///
/// # Errors
/// Returns a failure on unknown arguments, and when a source cannot be read.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let as_json = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => false,
        ["--format", "json"] => true,
        _ => return Err(Failure::usage("usage: cargo xtask structure [--format json]")),
    };
    let workspace = Workspace::read()?;
    let all: Vec<Structure> = workspace.packages.iter().map(|package| measure(&workspace, package)).collect();
    if as_json {
        println!("{:#}", Value::Array(all.iter().map(to_json).collect()));
    } else {
        print!("{}", table(&all));
    }
    let errors: Vec<&str> = all.iter().flat_map(|it| &it.errors).map(String::as_str).collect();
    if errors.is_empty() { Ok(()) } else { Err(Failure::failed(errors.join("\n"))) }
}

fn to_json(structure: &Structure) -> Value {
    json!({
        "crate": structure.room,
        "files": structure.files,
        "arrows": structure.arrows,
        "circles": structure.circles,
        "back_up": structure.back_up.iter().map(|(from, to)| json!({"from": from, "to": to})).collect::<Vec<_>>(),
        "long_files": structure.long_files.iter().map(|(path, lines)| json!({"file": path, "lines": lines}))
            .collect::<Vec<_>>(),
        "long_functions": structure.long_functions.iter().map(|(path, line, name, lines)| {
            json!({"file": path, "line": line, "function": name, "lines": lines})
        }).collect::<Vec<_>>(),
    })
}

fn table(all: &[Structure]) -> String {
    let mut text = row("crate", ["files", "arrows", "circles", "largest", "back up", "long files", "long functions"]);
    let numbers = |it: &Structure| {
        let lengths = [it.long_files.len(), it.long_functions.len()];
        [it.files, it.arrows, it.circles.len(), it.largest(), it.back_up.len(), lengths[0], lengths[1]]
    };
    let mut sum = [0; 7];
    for structure in all {
        let own = numbers(structure);
        for (at, number) in own.into_iter().enumerate() {
            // The largest of all circles, and the sum of everything else.
            sum[at] = if at == 3 { sum[at].max(number) } else { sum[at] + number };
        }
        text += &row(&structure.room, own.map(|number| number.to_string()));
    }
    text += &row("all", sum.map(|number| number.to_string()));
    text + &details(all)
}

fn row(name: &str, cells: [impl AsRef<str>; 7]) -> String {
    let mut text = format!("{name:12}");
    for (cell, width) in cells.iter().zip([6, 8, 9, 9, 9, 12, 16]) {
        text += &format!("{:>width$}", cell.as_ref());
    }
    text + "\n"
}

fn details(all: &[Structure]) -> String {
    let mut text = String::new();
    for circle in all.iter().flat_map(|it| &it.circles) {
        text += &format!("\ncircle of {}:\n", circle.len());
        for file in circle {
            text += &format!("  {file}\n");
        }
    }
    text += "\nback up:\n";
    for (from, to) in all.iter().flat_map(|it| &it.back_up) {
        text += &format!("  {from} -> {to}\n");
    }
    text += &format!("\nfiles over {FILE_LINES} lines:\n");
    for (path, lines) in all.iter().flat_map(|it| &it.long_files) {
        text += &format!("  {path}: {lines}\n");
    }
    text += &format!("\nfunctions over {FUNCTION_LINES} lines:\n");
    for (path, line, name, lines) in all.iter().flat_map(|it| &it.long_functions) {
        text += &format!("  {path}:{line} {name}: {lines}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crate_of(files: &[(&str, &str)]) -> (Workspace, Package) {
        let files = files.iter().map(|(path, text)| (format!("crates/a/src/{path}"), text.as_bytes().to_vec()));
        let package = Package {
            name: "kiln-a".to_owned(),
            folder: "crates/a".to_owned(),
            roots: vec!["crates/a/src/lib.rs".to_owned()],
            dependencies: Vec::new(),
        };
        (Workspace { files: files.collect(), packages: Vec::new() }, package)
    }

    fn measured(files: &[(&str, &str)]) -> Structure {
        let (workspace, package) = crate_of(files);
        let structure = measure(&workspace, &package);
        assert_eq!(structure.errors, [""; 0]);
        structure
    }

    /// Files of the first circle, without their folder.
    fn circle(files: &[(&str, &str)]) -> Vec<String> {
        let circles = measured(files).circles;
        let first = circles.first().map(Vec::as_slice).unwrap_or_default();
        first.iter().map(|path| path.trim_start_matches("crates/a/src/").to_owned()).collect()
    }

    #[test]
    fn files_that_import_one_another_are_a_circle() {
        let both = [("lib.rs", "mod b; mod c;"), ("b.rs", "use crate::c::C; pub fn f() {}"), ("c.rs", "pub struct C;")];
        assert_eq!(circle(&both), [""; 0]);
        for back in
            ["use super::b::f;", "use crate::b::{f, g};", "fn g() { super::b::f() }", "fn g() { x!(crate::b::f()) }"]
        {
            let mut files = both;
            let text = format!("pub struct C; {back}");
            files[2].1 = &text;
            assert_eq!(circle(&files), ["b.rs", "c.rs"], "{back}");
        }
    }

    #[test]
    fn a_re_export_is_an_arrow_to_the_definition() {
        let files = [
            ("lib.rs", "mod b; pub mod c; pub use c::deep::*;"),
            ("b.rs", "use crate::D as E;"),
            ("c/mod.rs", "pub mod deep;"),
            ("c/deep.rs", "pub struct D; use crate::b;  fn f() -> b::T {}"),
        ];
        assert_eq!(circle(&files), [""; 0]);
        let mut files = files;
        files[1].1 = "use crate::D as E; pub type T = E;";
        assert_eq!(circle(&files), ["b.rs", "c/deep.rs"]);
    }

    #[test]
    fn a_type_whose_methods_are_spread_is_a_circle() {
        let files = [
            ("lib.rs", "mod b; mod c;"),
            ("b.rs", "pub struct B; impl B { fn f(&self) { self.g(); } }"),
            ("c.rs", "use crate::b::B; impl B { pub fn g(&self) { h(); } }"),
        ];
        assert_eq!(circle(&files), ["b.rs", "c.rs"]);
    }

    #[test]
    fn tests_make_no_arrows() {
        let files = [
            ("lib.rs", "mod b; mod c;"),
            ("b.rs", "use crate::c::C; pub fn f() {}"),
            ("c.rs", "pub struct C; #[cfg(test)] mod tests { use crate::b::f; }"),
        ];
        assert_eq!(circle(&files), [""; 0]);
    }

    #[test]
    fn only_arrows_to_ancestors_run_back_up() {
        let structure = measured(&[
            ("lib.rs", "mod b; mod c; pub struct Root; pub use c::C;"),
            ("b/mod.rs", "mod d; pub struct B;"),
            ("b/d.rs", "use super::B; use crate::C; fn f(_: crate::Root) {}"),
            ("c.rs", "pub struct C;"),
        ]);
        let up: Vec<&str> = structure.back_up.iter().map(|(_, to)| to.as_str()).collect();
        assert_eq!(up, ["crates/a/src/lib.rs", "crates/a/src/b/mod.rs"]);
        assert_eq!(structure.arrows, 3);
    }

    #[test]
    fn long_files_and_functions_are_found_but_tables_are_not() {
        let long = format!("fn f() {{\n{}}}\n", "    g();\n".repeat(FUNCTION_LINES - 1));
        let found = |text: &str| measured(&[("lib.rs", text)]).long_functions.len();
        assert_eq!(found(&long), 1);
        assert_eq!(found(&long.replacen("    g();\n", "", 1)), 0);
        assert_eq!(found(&format!("// long: one step per register\n#[inline]\n{long}")), 0);
        assert_eq!(found(&format!("// long: \n{long}")), 1);
        let table = format!("fn f() {{\n    match x {{\n{}    }}\n}}\n", "        1 => 2,\n".repeat(FUNCTION_LINES));
        assert_eq!(found(&table), 0);

        let files = |text: &str| measured(&[("lib.rs", text)]).long_files.len();
        assert_eq!(files(&"fn f() {}\n".repeat(FILE_LINES)), 0);
        assert_eq!(files(&"fn f() {}\n".repeat(FILE_LINES + 1)), 1);
        assert_eq!(files(&format!("const T: [u8; 0] = [\n{}];", "    1,\n".repeat(FILE_LINES))), 0);
    }

    /// Sources below `folder` that the newest library build of a crate read: the `.d` file that cargo leaves beside it.
    fn compiled(folder: &str, name: &str) -> Vec<String> {
        let program = std::env::current_exe().unwrap();
        let begin = format!("{}-", name.replace('-', "_"));
        let files = std::fs::read_dir(program.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
        let own = files.filter(|path| path.extension().is_some_and(|it| it == "d"));
        let own = own.filter(|path| path.file_name().is_some_and(|it| it.to_string_lossy().starts_with(&begin)));
        let texts =
            own.filter_map(|path| Some((path.metadata().ok()?.modified().ok()?, std::fs::read_to_string(path).ok()?)));
        // A library has an .rlib; a build of its tests has none, and reads more.
        let Some((_, text)) = texts.filter(|(_, text)| text.contains(".rlib:")).max_by_key(|(time, _)| *time) else {
            return Vec::new();
        };
        let line = text.lines().find(|line| line.contains(".rlib:")).unwrap();
        let sources = line.split_whitespace().skip(1).map(|path| path.trim_start_matches("./").to_owned());
        sources.filter(|path| path.starts_with(&format!("{folder}/src/")) && path.ends_with(".rs")).collect()
    }

    #[test]
    fn every_file_that_cargo_compiles_is_seen() {
        let workspace = Workspace::read().unwrap();
        let (mut compared, mut unseen) = (0, Vec::new());
        for package in &workspace.packages {
            let Some(root) = package.roots.iter().find(|root| root.ends_with("src/lib.rs")) else { continue };
            let seen = Graph::read(&workspace, root).files;
            let compiled = compiled(&package.folder, &package.name);
            // What was deleted since that build is not there to be seen.
            let compiled = compiled.into_iter().filter(|path| workspace.files.contains_key(path));
            let compiled: Vec<String> = compiled.inspect(|_| compared += 1).collect();
            unseen.extend(compiled.into_iter().filter(|path| !seen.contains(path)));
        }
        println!("{compared} files compared");
        assert_eq!(unseen, [""; 0], "a macro that writes `mod`, or a `#[path]`, hides them from this tool");
    }

    #[test]
    fn a_source_that_is_not_rust_is_named() {
        let (workspace, package) = crate_of(&[("lib.rs", "fn {")]);
        assert!(measure(&workspace, &package).errors[0].starts_with("crates/a/src/lib.rs: line 1"));
    }
}
