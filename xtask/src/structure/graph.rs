//! Which file of a crate imports from which, and the circles in that.
//!
//! An arrow runs from a file to the file that *defines* what it names: `use crate::Error` is an arrow to `error.rs` when
//! `lib.rs` only says `pub use error::Error`. Three kinds of use make an arrow: a private `use`, a path in the code, and
//! a call of `self.name()` or `Self::name()` where another file has that part of the type's `impl`. Calls on other values
//! make none, because their types are not known here; a type that is used has mostly been named somewhere.

use std::collections::{BTreeMap, BTreeSet};

use super::syntax::{self, Module, Path};
use crate::workspace::Workspace;

/// How many names may be re-exports of re-exports; only a circle of `use` comes to this.
const MAX_DEPTH: usize = 8;

/// The files of a library or command, and their arrows.
#[derive(Default)]
pub struct Graph {
    /// Paths below the workspace's root.
    pub files: Vec<String>,
    /// From a file to another; both are indices into `files`.
    pub arrows: BTreeSet<(usize, usize)>,
    /// Arrows to the file of an ancestor module.
    pub back_up: BTreeSet<(usize, usize)>,
    /// Why files could not be read.
    pub errors: Vec<String>,
}

struct Located {
    file: usize,
    module: Module,
}

/// The modules of one crate by their paths below its root.
#[derive(Default)]
struct Tree {
    modules: BTreeMap<Path, Located>,
}

impl Graph {
    /// Reads the modules that are reached from `root`, a `lib.rs` or `main.rs`.
    pub fn read(workspace: &Workspace, root: &str) -> Graph {
        let mut graph = Graph::default();
        let mut tree = Tree::default();
        graph.add(workspace, &mut tree, root, Path::new());
        let methods = tree.methods();
        for (path, located) in &tree.modules {
            for (target, defined) in tree.targets(path, &located.module, &methods) {
                if target == located.file {
                    continue;
                }
                graph.arrows.insert((located.file, target));
                if defined.len() < path.len() && path.starts_with(&defined) {
                    graph.back_up.insert((located.file, target));
                }
            }
        }
        graph
    }

    fn add(&mut self, workspace: &Workspace, tree: &mut Tree, file: &str, path: Path) {
        let source = match syntax::read(workspace.text(file)) {
            Ok(source) => source,
            Err(message) => return self.errors.push(format!("{file}: {message}")),
        };
        let index = self.files.len();
        self.files.push(file.to_owned());
        for module in source.modules {
            let own: Path = path.iter().chain(&module.inside).cloned().collect();
            for name in &module.files {
                let folder = folder_of_children(file, &path, &module.inside);
                let candidates = [format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")];
                if let Some(child) = candidates.iter().find(|it| workspace.files.contains_key(*it)) {
                    let child_path = own.iter().chain([name]).cloned().collect();
                    self.add(workspace, tree, child, child_path);
                }
            }
            tree.modules.insert(own, Located { file: index, module });
        }
    }

    /// The sets of files that reach one another, the largest first; single files are left out.
    pub fn circles(&self) -> Vec<Vec<usize>> {
        let reached: Vec<BTreeSet<usize>> = (0..self.files.len()).map(|from| self.reached_from(from)).collect();
        let mut circles: BTreeSet<Vec<usize>> = BTreeSet::new();
        for from in 0..self.files.len() {
            let circle: Vec<usize> = reached[from].iter().copied().filter(|to| reached[*to].contains(&from)).collect();
            if circle.len() > 1 {
                circles.insert(circle);
            }
        }
        let mut circles: Vec<Vec<usize>> = circles.into_iter().collect();
        circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
        circles
    }

    fn reached_from(&self, from: usize) -> BTreeSet<usize> {
        let mut reached = BTreeSet::new();
        let mut pending = vec![from];
        while let Some(file) = pending.pop() {
            for (_, to) in self.arrows.range((file, 0)..(file + 1, 0)) {
                if reached.insert(*to) {
                    pending.push(*to);
                }
            }
        }
        reached
    }
}

/// Where the files of a file's modules are.
fn folder_of_children(file: &str, path: &[String], inside: &[String]) -> String {
    let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
    let is_folder = path.is_empty() || file.ends_with("/mod.rs");
    let own = if is_folder { None } else { path.last() };
    [folder].into_iter().chain(own.into_iter().chain(inside).map(String::as_str)).collect::<Vec<_>>().join("/")
}

/// Where each type's methods are: the type's module and name, then the method's name.
type Methods = BTreeMap<(Path, String), BTreeMap<String, Path>>;

impl Tree {
    /// The files that a module's code names, each with the path of the module that defines the name.
    fn targets(&self, at: &Path, module: &Module, methods: &Methods) -> Vec<(usize, Path)> {
        let private = module.imports.iter().filter(|import| !import.public && import.name != "*");
        let named = private.map(|import| &import.target).chain(&module.paths);
        let named = named.filter_map(|path| self.find(at, path, MAX_DEPTH)).map(|(defined, _)| defined);
        let calls = module.self_calls.iter().filter_map(|(of, name)| {
            let of = self.find(at, of, MAX_DEPTH)?;
            methods.get(&of)?.get(name).cloned()
        });
        named.chain(calls).map(|path| (self.modules[&path].file, path)).collect()
    }

    fn methods(&self) -> Methods {
        let mut methods = Methods::new();
        for (at, located) in &self.modules {
            for (of, name) in &located.module.methods {
                if let Some(of) = self.find(at, of, MAX_DEPTH) {
                    methods.entry(of).or_default().insert(name.clone(), at.clone());
                }
            }
        }
        methods
    }

    /// The module that defines what `path` names in the module `at`, and the name there. `None` for what is not of this
    /// crate, and for modules themselves.
    fn find(&self, at: &Path, path: &[String], depth: usize) -> Option<(Path, String)> {
        let depth = depth.checked_sub(1)?;
        let (module, rest) = self.walk(at, path)?;
        let (name, after) = rest.split_first()?;
        let here = &self.modules.get(&module)?.module;
        if here.items.contains(name) {
            return Some((module, name.clone()));
        }
        let mut bound = here.imports.iter().filter(|import| import.name == *name);
        let found = bound.find_map(|import| self.find(&module, &[&import.target, after].concat(), depth));
        let mut globs = here.imports.iter().filter(|import| import.name == "*");
        found.or_else(|| {
            globs.find_map(|import| {
                let (from, rest) = self.walk(&module, &import.target)?;
                if rest.is_empty() { self.find(&from, &path[path.len() - after.len() - 1..], depth) } else { None }
            })
        })
    }

    /// Follows the modules that a path begins with. The last name is left, unless it can only be a module.
    fn walk<'a>(&self, at: &Path, path: &'a [String]) -> Option<(Path, &'a [String])> {
        let mut module = at.clone();
        let mut rest = path;
        while let [first, after @ ..] = rest {
            match first.as_str() {
                "crate" => module.clear(),
                "self" => {}
                "super" => {
                    module.pop()?;
                }
                _ => {
                    module.push(first.clone());
                    let is_item = |it: &Located| it.module.items.contains(first);
                    let shadowed =
                        after.is_empty() && self.modules.get(&module[..module.len() - 1]).is_some_and(is_item);
                    if shadowed || !self.modules.contains_key(&module) {
                        module.pop();
                        break;
                    }
                }
            }
            rest = after;
        }
        Some((module, rest))
    }
}
