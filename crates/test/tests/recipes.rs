//! The recipes of `docs/recipes` are followed: their diffs apply to a copy, which builds and passes its tests.
//!
//! ```text
//!   docs/recipes/add-a-law.md --diff blocks--> target/recipes/tree --sh blocks after <!-- recipe -->--> exit code 0
//! ```
//!
//! A block of `diff` has, for each file, a line `--- PATH` and hunks, with `@@` between them. The lines of a hunk without
//! `+` must stand in the file exactly once, in a row. A hunk of `+` lines alone makes a new file, or goes to the end of one.
//! Commands marked `<!-- recipe quick -->` run with the other tests; all of them with `-- --ignored` (`make test-recipes`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Marks before a block of `sh`: commands for every run of the tests, and commands that build much.
const QUICK: &str = "<!-- recipe quick -->";
const WHOLE: &str = "<!-- recipe -->";

/// A recipe, as its page has it.
struct Recipe {
    name: String,
    /// Each file's hunks.
    changes: BTreeMap<String, Vec<Vec<String>>>,
    quick: Vec<String>,
    whole: Vec<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

fn recipes() -> Vec<Recipe> {
    let folder = std::fs::read_dir(root().join("docs/recipes")).expect("the recipes");
    let mut paths: Vec<PathBuf> = folder.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths.iter().map(|path| recipe(path)).collect()
}

fn recipe(path: &Path) -> Recipe {
    let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
    let mut recipe = Recipe { name, changes: BTreeMap::new(), quick: Vec::new(), whole: Vec::new() };
    let page = std::fs::read_to_string(path).expect("a page");
    let (mut mark, mut lines) = ("", page.lines());
    while let Some(line) = lines.next() {
        let (indent, kind) = (line.len() - line.trim_start().len(), line.trim_start());
        let mut block = || -> Vec<String> {
            let inside = lines.by_ref().take_while(|line| line.trim_start() != "```");
            inside.map(|line| line.get(indent..).unwrap_or("").to_owned()).collect()
        };
        match kind {
            QUICK | WHOLE => mark = kind,
            "```diff" => add_changes(&mut recipe.changes, block()),
            "```sh" => match std::mem::take(&mut mark) {
                QUICK => recipe.quick.push(block().join("\n")),
                WHOLE => recipe.whole.push(block().join("\n")),
                _ => {}
            },
            _ => {}
        }
    }
    recipe
}

fn add_changes(changes: &mut BTreeMap<String, Vec<Vec<String>>>, block: Vec<String>) {
    let mut file = None;
    for line in block {
        if let Some(path) = line.strip_prefix("--- ") {
            file = Some(path.to_owned());
            changes.entry(path.to_owned()).or_default().push(Vec::new());
        } else {
            let hunks = changes.get_mut(file.as_ref().expect("a path before the lines")).expect("an entry");
            if line == "@@" { hunks.push(Vec::new()) } else { hunks.last_mut().expect("a hunk").push(line) }
        }
    }
}

/// A file with a hunk's lines changed.
fn changed(text: Option<&str>, hunk: &[String]) -> Result<String, String> {
    let lines = |sign: char| {
        let kept = hunk.iter().filter(|line| !line.starts_with(sign));
        kept.map(|line| line.get(1..).unwrap_or("")).collect::<Vec<_>>()
    };
    let (old, new) = (lines('+'), lines('-'));
    let before: Vec<&str> = text.unwrap_or("").lines().collect();
    if old.is_empty() {
        return Ok(before.into_iter().chain(new).map(|line| line.to_owned() + "\n").collect());
    }
    let places: Vec<usize> = (0..before.len()).filter(|at| before[*at..].starts_with(&old)).collect();
    let [at] = places[..] else { return Err(format!("{} places have\n{}", places.len(), old.join("\n"))) };
    let after = [&before[..at], &new, &before[at + old.len()..]].concat();
    Ok(after.into_iter().map(|line| line.to_owned() + "\n").collect())
}

/// The files that a recipe changes, as they are then.
fn applied(recipe: &Recipe) -> Result<BTreeMap<String, String>, String> {
    let mut files = BTreeMap::new();
    for (path, hunks) in &recipe.changes {
        let mut text = std::fs::read_to_string(root().join(path)).ok();
        for hunk in hunks {
            text = Some(changed(text.as_deref(), hunk).map_err(|error| format!("{}: {path}: {error}", recipe.name))?);
        }
        files.insert(path.clone(), text.unwrap_or_default());
    }
    Ok(files)
}

/// Removes the files below a folder that are not among these: the repository had them once.
fn remove_others(folder: &Path, kept: &BTreeSet<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.is_symlink() {
            remove_others(&path, kept);
        } else if !kept.contains(&path) {
            std::fs::remove_file(&path).expect("a file of a copy");
        }
    }
}

/// A copy of the repository in which recipes are followed. What is as it was keeps its time, so little is built again.
struct Tree(PathBuf);

impl Tree {
    fn new() -> Tree {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root().join("target"), PathBuf::from);
        let tree = Tree(target.join("recipes/tree"));
        let listed = Command::new("git").current_dir(root()).args(["ls-files", "-z"]).output().expect("git runs");
        assert!(listed.status.success(), "git ls-files fails");
        let listed = String::from_utf8(listed.stdout).expect("names of files");
        let listed: BTreeSet<&str> = listed.split('\0').filter(|path| !path.is_empty()).collect();
        remove_others(&tree.0, &listed.iter().map(|path| tree.0.join(path)).collect());
        for path in listed {
            let (from, to) = (root().join(path), tree.0.join(path));
            let Ok(text) = std::fs::read(&from) else { continue };
            if std::fs::read(&to).ok().as_ref() != Some(&text) {
                std::fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
                std::fs::copy(&from, &to).expect("a copy");
            }
        }
        tree
    }

    /// Changes the files, runs the scripts, and takes the changes back.
    fn follow(&self, files: &BTreeMap<String, String>, scripts: &[String]) -> Result<(), String> {
        for (path, text) in files {
            let path = self.0.join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, text).expect("a file");
        }
        let result = scripts.iter().try_for_each(|script| {
            let mut bash = Command::new("bash");
            bash.current_dir(&self.0).env("CARGO_TARGET_DIR", self.0.with_file_name("build"));
            bash.env_remove("BLESS").args(["-euo", "pipefail", "-c", script]);
            let output = bash.output().expect("bash runs");
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said);
            if output.status.success() { Ok(()) } else { Err(format!("{script}\n{said}")) }
        });
        for path in files.keys() {
            // New files go; the next copy brings back the others, and what a script wrote.
            std::fs::remove_file(self.0.join(path)).expect("a file that was written");
        }
        result
    }
}

/// Follows the recipes that have such scripts, and says how many.
fn follow(scripts: fn(&Recipe) -> Vec<String>) -> usize {
    let mut count = 0;
    for recipe in recipes() {
        let scripts = scripts(&recipe);
        if !scripts.is_empty() {
            let files = applied(&recipe).unwrap_or_else(|error| panic!("{error}"));
            Tree::new().follow(&files, &scripts).unwrap_or_else(|error| panic!("{}: {error}", recipe.name));
            count += 1;
        }
    }
    count
}

#[test]
fn the_diffs_apply() {
    let mut count = 0;
    for recipe in recipes() {
        let files = applied(&recipe).unwrap_or_else(|error| panic!("{error}"));
        count += files.len();
    }
    assert!(count >= 10, "only {count} files are changed");
}

#[test]
fn a_diff_that_does_not_fit_is_found() {
    let hunk = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    let text = Some("a\nb\na\n");
    assert_eq!(changed(text, &hunk(&[" b", "+c"])).as_deref(), Ok("a\nb\nc\na\n"));
    assert_eq!(changed(text, &hunk(&["-b", "+c"])).as_deref(), Ok("a\nc\na\n"));
    assert_eq!(changed(None, &hunk(&["+c"])).as_deref(), Ok("c\n"));
    assert!(changed(text, &hunk(&[" a", "+c"])).is_err() && changed(text, &hunk(&[" d", "+c"])).is_err());
}

#[test]
fn quick_recipes_build() {
    assert!(follow(|recipe| recipe.quick.clone()) >= 2);
}

#[test]
#[ignore = "builds most crates for each recipe: make test-recipes"]
fn all_recipes_build_and_pass() {
    assert!(follow(|recipe| [&recipe.quick[..], &recipe.whole[..]].concat()) >= 5);
}
