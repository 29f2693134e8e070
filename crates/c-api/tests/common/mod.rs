//! What the tests of embedding share: where the workspace is, its cargo, and a C compiler.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The folder of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The folder that this test was built into: `target/debug`.
pub fn target() -> PathBuf {
    let here = std::env::current_exe().expect("this test is a file");
    here.ancestors().nth(2).expect("target/debug/deps").to_owned()
}

/// The cargo that runs this test, in the workspace, without what it says of this package: build scripts that look at it
/// would run again, and all that depends on them would be built again.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let own = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(own)) {
        command.env_remove(name);
    }
    command.current_dir(root());
    command
}

/// The first of these commands that runs.
pub fn first_of(names: &[&'static str]) -> Option<&'static str> {
    let runs = |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success());
    names.iter().copied().find(runs)
}

/// What a command printed, if it succeeds.
pub fn succeeds(command: &mut Command, what: &str) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap_or_else(|error| panic!("{what}: {error}"));
    let printed = String::from_utf8_lossy(&stdout).into_owned();
    assert!(status.success(), "{what}: {printed}{}", String::from_utf8_lossy(&stderr));
    printed
}
