//! A solver does not outlive the process that asked it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use kiln_certificate::solver::{Process, Program, Solver as _};

/// In the environment of the process that asks: the solver to ask.
const ASKS: &str = "KILN_TEST_ASKS";
/// What the process waits for one answer; a solver that is left alone may take a little longer.
const TIMEOUT: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(60);

/// A product of two 64-bit numbers: factors that no solver finds in minutes.
const HARD: &str = "(set-logic QF_BV)\n(declare-fun x () (_ BitVec 128))\n(declare-fun y () (_ BitVec 128))\n\
    (assert (= (bvmul x y) #x9d2b31a9d2c3f4e7b5a6978877665543))\n(assert (bvult x #x00000000000000010000000000000000))\n\
    (assert (bvult y #x00000000000000010000000000000000))\n(assert (bvult #x00000000000000000000000000000001 x))\n\
    (assert (bvult x y))\n(check-sat)\n";

/// Only in the process that the other test starts.
#[test]
fn asks() {
    let Some(solver) = std::env::var_os(ASKS) else { return };
    let program = Program::find(solver.to_str(), TIMEOUT).expect("it is installed");
    let mut process = Process::new(&program, TIMEOUT);
    for _ in 0..1000 {
        let _ = process.ask(HARD);
    }
}

/// Whether a process is there and no zombie.
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next()).is_some_and(|state| state != "Z")
}

/// Waits until a condition holds.
fn until(condition: &mut dyn FnMut() -> bool) -> bool {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if condition() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    false
}

/// Writes a solver that notes its number for each process that is to answer queries.
fn noting_solver(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("cvc5");
    let script = "#!/bin/sh\n[ \"$1\" = --version ] || echo $$ >> \"${0%/*}/started\"\nexec /usr/bin/cvc5 \"$@\"\n";
    std::fs::write(&path, script).expect("a file");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("it may run");
    path
}

#[test]
fn a_solver_ends_when_its_parent_was_killed() {
    if !Path::new("/usr/bin/cvc5").exists() {
        println!("skipped: cvc5 is not installed");
        return;
    }
    let folder = std::env::temp_dir().join(format!("kiln-orphans-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", "asks"]).env(ASKS, noting_solver(&folder));
    let mut parent = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
    // The first is asked the simple questions, the second the hard one.
    let started = || std::fs::read_to_string(folder.join("started")).unwrap_or_default();
    let asked = until(&mut || started().lines().count() >= 2);
    std::thread::sleep(Duration::from_millis(300));
    parent.kill().expect("it is killed");
    parent.wait().expect("it ends");
    let solver = started().lines().nth(1).unwrap_or_default().to_owned();
    let worked = runs(&solver);
    let ended = until(&mut || !runs(&solver));
    std::fs::remove_dir_all(&folder).expect("it is removed");
    assert!(asked && worked, "it was not asked");
    assert!(ended, "solver {solver} still runs");
}
