//! Interrupted commands, by the signals that a terminal's Ctrl-C and a service manager send.

use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, Stdio};
use std::time::{Duration, Instant};

use crate::world::{Folder, SOON, corpus_object, kiln};

fn start(folder: &Folder, object: &Path) -> Child {
    Process::new(env!("CARGO_BIN_EXE_kiln"))
        .arg("optimize")
        .arg(object)
        .arg("-o")
        .arg(folder.path("out.o"))
        .args(["--offline", "--budget", "3600"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("kiln starts")
}

fn interrupt(child: &Child) {
    signal(child, "INT");
}

fn signal(child: &Child, name: &str) {
    // The shell's own `kill`: the command of that name is in a package that a small machine lacks.
    let sent = Process::new("sh").args(["-c", &format!("kill -{name} {}", child.id())]).status().expect("sh");
    assert!(sent.success(), "the command has ended already");
}

/// An object that keeps the search busy for seconds.
fn busy_object() -> Option<PathBuf> {
    corpus_object("xdp-tools/xdpfilt_alw_all.o")
}

#[test]
fn once_keeps_the_best_so_far() {
    keeps_the_best_so_far("INT");
}

#[test]
fn a_request_to_end_is_like_ctrl_c() {
    keeps_the_best_so_far("TERM");
}

fn keeps_the_best_so_far(name: &str) {
    let Some(object) = busy_object() else { return };
    // A search may end by itself before the signal, and on a busy machine the signal may come before anybody listens.
    for delay_ms in [300, 150, 80, 40, 600, 1200, 2400, 4800, 9600, 19200, 38400] {
        let folder = Folder::with(&[]);
        let child = start(&folder, &object);
        std::thread::sleep(Duration::from_millis(delay_ms));
        signal(&child, name);
        let begun = Instant::now();
        let output = child.wait_with_output().expect("kiln ends");
        if output.status.code().is_none() {
            continue;
        }
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(begun.elapsed() < SOON, "took {:?} to stop", begun.elapsed());
        assert_eq!(folder.names(), ["out.o"]);
        kiln().arg("check").arg(folder.path("out.o")).assert().code(0);
        if said.contains("the best so far") {
            return;
        }
    }
    panic!("no search could be interrupted");
}

#[test]
fn a_search_ends_with_what_it_has() {
    // The passes are through with it in a second or two, on a machine that has nothing else to do; on another one, the
    // signal comes later.
    let Some(object) = corpus_object("samples-6.1/xdp_fwd_kern.o") else { return };
    for delay_s in [4, 8, 16, 32, 64, 128, 256] {
        let folder = Folder::with(&[]);
        let child = start(&folder, &object);
        std::thread::sleep(Duration::from_secs(delay_s));
        interrupt(&child);
        let begun = Instant::now();
        let output = child.wait_with_output().expect("kiln ends");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(begun.elapsed() < SOON, "took {:?} to stop", begun.elapsed());
        assert_eq!(folder.names(), ["out.o"]);
        let size = |path: &Path| std::fs::metadata(path).expect("a file").len();
        if size(&folder.path("out.o")) != size(&object) {
            return;
        }
    }
    panic!("nothing of what was found by then was kept");
}

/// SQLite would take up to 10 s for this answer.
#[test]
fn a_query_ends_while_its_answer_is_computed() {
    let sql = "SELECT count(*) FROM errno a, errno b, errno c, errno d, errno e";
    for delay_ms in [1000, 2000, 4000] {
        let mut query = Process::new(env!("CARGO_BIN_EXE_kiln"));
        let child =
            query.args(["query", sql]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("kiln starts");
        std::thread::sleep(Duration::from_millis(delay_ms));
        interrupt(&child);
        let begun = Instant::now();
        let output = child.wait_with_output().expect("kiln ends");
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.code().is_none() {
            continue;
        }
        assert!(said.contains("the query was stopped while it computed an answer"), "{said}");
        assert!(begun.elapsed() < SOON, "took {:?} to stop", begun.elapsed());
        return;
    }
    panic!("nobody ever listened");
}

#[test]
fn twice_leaves_nothing() {
    let Some(object) = busy_object() else { return };
    for delay_ms in [300, 600, 1200, 2400, 4800, 9600] {
        let folder = Folder::with(&[]);
        let child = start(&folder, &object);
        std::thread::sleep(Duration::from_millis(delay_ms));
        interrupt(&child);
        std::thread::sleep(Duration::from_millis(20));
        interrupt(&child);
        let output = child.wait_with_output().expect("kiln ends");
        match output.status.code() {
            Some(130) => assert_eq!(folder.names(), [""; 0]),
            // It was quicker than the second signal.
            Some(0) => assert_eq!(folder.names(), ["out.o"]),
            // The first came before anybody listened.
            None => continue,
            other => panic!("{other:?}: {}", String::from_utf8_lossy(&output.stderr)),
        }
        return;
    }
    panic!("nobody ever listened");
}
