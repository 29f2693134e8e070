//! What users do, played from a clean shell: `tests/users/play`.

use std::path::Path;
use std::process::Command;

#[test]
fn what_users_do_works_from_a_clean_shell() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/users/play");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut play = Command::new("bash");
    play.arg(script).arg(folder.path()).env_clear().env("PATH", path).env("KILN", env!("CARGO_BIN_EXE_kiln"));
    let output = play.output().expect("bash runs");
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().filter(|line| line.starts_with("skipped: ")).for_each(|line| eprintln!("{line}"));
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.lines().filter(|line| line.starts_with("ok ")).count() >= 20, "{text}");
}
