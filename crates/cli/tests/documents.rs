//! What the documents say about the command is so.
//!
//! - A `sh` block after `<!-- run -->` runs, in a folder of its own that has the repository's `tests`, `examples` and `bpf`.
//! - Every flag in a `kiln ...` command of any page is in that command's `--help`.
//! - Every figure of the README's table is on the page that it links to.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const MARK: &str = "<!-- run -->";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// The pages, by their paths in the repository.
fn pages() -> BTreeMap<String, String> {
    let mut pages = BTreeMap::new();
    let mut waiting = vec![root().join("docs")];
    for name in ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"] {
        pages.insert(name.to_owned(), std::fs::read_to_string(root().join(name)).expect("a page"));
    }
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                waiting.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                let name = path.strip_prefix(root()).expect("below the repository").to_string_lossy().into_owned();
                pages.insert(name, std::fs::read_to_string(&path).expect("a page"));
            }
        }
    }
    pages
}

/// The scripts of a page that are marked to be run.
fn marked(page: &str) -> Vec<String> {
    let parts = page.split(MARK).skip(1);
    parts
        .map(|part| {
            let (before, rest) = part.split_once("```sh\n").expect("a block of sh after the mark");
            assert!(before.trim().is_empty(), "a block of sh after the mark, not {before:?}");
            let (script, _) = rest.split_once("```").expect("the end of the block");
            script.lines().map(str::trim).collect::<Vec<_>>().join("\n")
        })
        .collect()
}

/// What a script needs and this machine lacks.
fn lacks(script: &str) -> Option<&'static str> {
    let clang = || Command::new("clang-19").arg("--version").output().is_ok();
    let types = || Path::new("/sys/kernel/btf/vmlinux").exists();
    if script.contains("kiln cc") && !clang() {
        return Some("clang-19");
    }
    (script.contains("kiln tables") && !types()).then_some("the kernel's BTF")
}

#[test]
fn marked_commands_run() {
    let kiln = Path::new(env!("CARGO_BIN_EXE_kiln")).parent().expect("a folder");
    let path = format!("{}:{}", kiln.display(), std::env::var("PATH").unwrap_or_default());
    let mut count = 0;
    for (name, page) in pages() {
        for script in marked(&page) {
            if let Some(lacking) = lacks(&script) {
                println!("skipped: {name}: {lacking} is not here");
                continue;
            }
            let folder = tempfile::tempdir().expect("a temporary folder");
            for shared in ["tests", "examples", "bpf"] {
                std::os::unix::fs::symlink(root().join(shared), folder.path().join(shared)).expect("a link");
            }
            let mut bash = Command::new("bash");
            bash.current_dir(folder.path()).env("PATH", &path).args(["-euo", "pipefail", "-c", &script]);
            let output = bash.output().expect("bash runs");
            let said = [output.stdout, output.stderr].concat();
            assert!(output.status.success(), "{name}:\n{script}\n{}", String::from_utf8_lossy(&said));
            count += 1;
        }
    }
    assert!(count >= 5, "only {count} blocks were run");
}

/// The commands of a page: lines of blocks and code in sentences that begin with `kiln`.
fn commands(page: &str) -> Vec<&str> {
    let mut commands = Vec::new();
    let mut fenced = false;
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if fenced || line.starts_with("    ") {
            commands.push(line.trim_start().trim_start_matches("$ "));
        } else {
            commands.extend(line.split('`').skip(1).step_by(2));
        }
    }
    commands.retain(|command| command.starts_with("kiln "));
    commands
}

/// The subcommand and the flags of a command, up to what belongs to another one.
fn flags(command: &str) -> Option<(&str, Vec<&str>)> {
    let words: Vec<&str> = command.split_whitespace().skip(1).collect();
    let subcommand =
        *words.first().filter(|word| word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'))?;
    let own = words.iter().take_while(|word| !["--", "|", "&&", "||", "#", ";"].contains(word));
    let flags = own
        .filter_map(|word| word.strip_prefix("--").filter(|flag| flag.starts_with(|c: char| c.is_ascii_lowercase())));
    let named = flags.map(|flag| flag.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').next().unwrap_or(flag));
    Some((subcommand, named.collect()))
}

#[test]
fn flags_on_the_pages_exist() {
    let mut helps: BTreeMap<String, String> = BTreeMap::new();
    let mut help = |subcommand: &str| {
        let known = helps.entry(subcommand.to_owned()).or_insert_with(|| {
            let output =
                Command::new(env!("CARGO_BIN_EXE_kiln")).args([subcommand, "--help"]).output().expect("kiln runs");
            if output.status.success() { String::from_utf8_lossy(&output.stdout).into_owned() } else { String::new() }
        });
        known.clone()
    };
    let (mut wrong, mut count) = (Vec::new(), 0);
    for (name, page) in pages() {
        for command in commands(&page) {
            let Some((subcommand, flags)) = flags(command) else { continue };
            let text = help(subcommand);
            if text.is_empty() {
                wrong.push(format!("{name}: there is no kiln {subcommand} ({command})"));
            }
            for flag in flags {
                count += 1;
                let ends = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '-');
                if !text.split(&format!("--{flag}")).skip(1).any(ends) {
                    wrong.push(format!("{name}: kiln {subcommand} has no --{flag} ({command})"));
                }
            }
        }
    }
    assert!(count > 80, "only {count} flags were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn figures_of_the_readme_are_measured() {
    let pages = pages();
    let readme = &pages["README.md"];
    assert!(readme.lines().count() <= 150, "the README has at most 150 lines");
    let rows: Vec<&str> = readme
        .lines()
        .skip_while(|line| !line.starts_with("| what | figure |"))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .collect();
    assert!(rows.len() >= 4, "{} figures", rows.len());
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [_, figure, link] = cells[..] else { panic!("{row}") };
        let target = link.split_once("](").and_then(|(_, rest)| rest.split_once(')')).expect("a link").0;
        let page = &pages[target.split_once('#').map_or(target, |(page, _)| page)];
        assert!(page.contains(figure), "{target} does not have {figure}");
    }
}

/// The recipes for build systems print whole files, which `make test-build-systems` builds.
#[test]
fn recipes_print_the_projects_that_are_built() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = |path: &str| std::fs::read_to_string(root.join(path)).expect("a file");
    let page = text("docs/recipes/build-systems.md");
    for path in ["cmake/CMakeLists.txt", "meson/meson.build", "bpf2go/main.go", "libbpf-rs/build.rs"] {
        let file = text(&format!("examples/build-systems/{path}"));
        assert!(page.contains(file.trim_end()), "docs/recipes/build-systems.md prints another {path}");
    }
}
