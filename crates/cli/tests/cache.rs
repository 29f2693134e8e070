//! `kiln check` keeps the verdicts of many objects: the same answers again, and only those that this user made.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use predicates::prelude::*;
use predicates::str::contains;
use serde_json::Value;

const PASS: &str = "; program xdp\n  r0 = 2\n  exit\n";
const UNSAFE: &str = "; program xdp name bad\n  r2 = *(u32 *)(r1 + 0)\n  r0 = *(u8 *)(r2 + 0)\n  exit\n";

/// A folder `build` with a program that is accepted and one that is not.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("build")).expect("a folder");
    fs::write(folder.path().join("build/pass.bpf"), PASS).expect("a file");
    fs::write(folder.path().join("build/unsafe.bpf"), UNSAFE).expect("a file");
    folder
}

/// `kiln check` of a user whose cache is in `user`.
fn check(folder: &Path, user: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    command.current_dir(folder).env_remove("KILN_CACHE").env_remove("KILN_CACHE_KEY");
    command.env("XDG_CACHE_HOME", folder.join(user)).arg("check").args(arguments);
    command
}

fn output(command: &mut Command) -> String {
    String::from_utf8(command.output().expect("kiln runs").stdout).expect("text")
}

/// The files of a user's kept verdicts.
fn entries(folder: &Path, user: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(folder.join(user).join("kiln/verdicts")).expect("a folder");
    files.map(|file| file.expect("a file").path()).collect()
}

const AGAIN: &str = "2 from the cache\n";

#[test]
fn a_second_check_says_what_the_first_said() {
    let filetests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/filetests/verifier");
    let folder = folder();
    let objects = filetests.to_str().expect("a path");
    for arguments in [
        &["--format", "json", "--lint", "--deny", "all"][..],
        &["--format", "json", "--kernel", "5.15,6.12"],
        &["--format", "sarif"],
        &["--unprivileged"],
        &["-q"],
    ] {
        let arguments = [&[objects][..], arguments].concat();
        let run = || check(folder.path(), "own", &arguments).output().expect("kiln runs");
        let (first, second) = (run(), run());
        assert_eq!((first.status, &first.stderr), (second.status, &second.stderr), "{arguments:?}");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (first, mut second) = (text(&first.stdout), text(&second.stdout));
        if arguments.contains(&"json") {
            let [mut first, mut second] =
                [&first, &second].map(|text| serde_json::from_str::<Value>(text).expect("JSON"));
            let cached = [&mut first, &mut second].map(|document| document["summary"]["cached"].take());
            assert_eq!(cached[0], 0);
            assert!(cached[1].as_u64().is_some_and(|cached| cached > 100), "{} {arguments:?}", cached[1]);
            assert!(first == second, "{arguments:?}");
            continue;
        }
        if !arguments.contains(&"sarif") {
            let (before, _) = second.rsplit_once("; ").expect("a summary");
            assert!(second.ends_with(" from the cache\n"), "{arguments:?}");
            second = format!("{before}\n");
        }
        assert!(first == second, "{arguments:?}");
    }
}

#[test]
fn whatever_a_verdict_depends_on_asks_again() {
    let folder = folder();
    let at = folder.path();
    let said = |arguments: &[&str]| output(&mut check(at, "own", &[&["build", "-q"][..], arguments].concat()));
    assert!(!said(&[]).contains("cache") && said(&[]).ends_with(AGAIN));
    for arguments in [&["--unprivileged"][..], &["--kernel", "6.1"], &["--lint"], &["--type", "xdp"], &["-p", "bad"]] {
        assert!(!said(arguments).contains("cache"), "{arguments:?}");
        assert!(said(arguments).ends_with(AGAIN), "{arguments:?}");
    }
    // What asks the running kernel is never kept, and nothing is with --no-cache.
    for arguments in [&["--profile"][..], &["--no-cache"]] {
        assert!(!said(arguments).contains("cache") && !said(arguments).contains("cache"), "{arguments:?}");
    }
    fs::write(at.join("build/pass.bpf"), UNSAFE).expect("a file");
    let changed = check(at, "own", &["build", "-q"]).assert().code(1);
    changed.stdout(contains("2 rejected; 1 from the cache"));
    // A document of known problems: what it knows is left out, from the cache, too.
    fs::write(at.join("known.json"), said(&["--format", "json"])).expect("a file");
    for cached in [false, true] {
        let known = check(at, "own", &["build", "-q", "--baseline", "known.json"]).assert().code(0);
        known.stdout(contains("from the cache").eval_as(cached).and(contains("error").not()));
    }
    // One object is checked each time.
    let one = check(at, "own", &["build/pass.bpf"]).assert().code(1);
    one.stdout(contains("cache").not());
}

/// `contains(...)` or its opposite.
trait EvalAs: Predicate<str> + Sized {
    fn eval_as(self, wanted: bool) -> predicates::BoxPredicate<str>;
}

impl<P: Predicate<str> + Send + Sync + 'static> EvalAs for P {
    fn eval_as(self, wanted: bool) -> predicates::BoxPredicate<str> {
        if wanted { self.boxed() } else { self.not().boxed() }
    }
}

#[test]
fn what_others_put_there_is_checked_again() {
    let folder = folder();
    let at = folder.path();
    let expected = output(&mut check(at, "own", &["build", "-q"]));
    let again = |what: &str| {
        let said = output(&mut check(at, "own", &["build", "-q"]));
        assert_eq!(said, expected, "{what}");
        assert!(output(&mut check(at, "own", &["build", "-q"])).ends_with(AGAIN), "{what}");
    };
    // The verdicts of somebody else: the same question, another key. Also what an attacker says in their own words.
    fs::write(at.join("build/unsafe.bpf"), PASS).expect("a file");
    output(&mut check(at, "other", &["build", "-q"]));
    fs::write(at.join("build/unsafe.bpf"), UNSAFE).expect("a file");
    output(&mut check(at, "other", &["build", "-q"]));
    let forged = fs::read(&entries(at, "other")[0]).expect("an entry");
    for entry in entries(at, "own") {
        let name = entry.file_name().expect("a name");
        fs::copy(at.join("other/kiln/verdicts").join(name), &entry).expect("an entry");
    }
    again("another user's entries");
    let hostile: [&dyn Fn(&Path); 5] = [
        &|path| fs::write(path, &forged).expect("an entry"),
        &|path| fs::write(path, vec![0; 1 << 20]).expect("an entry"),
        &|path| fs::write(path, "").expect("an entry"),
        &|path| drop(std::process::Command::new("mkfifo").arg(path).status()),
        &|path| std::os::unix::fs::symlink("/dev/zero", path).expect("a link"),
    ];
    for (at_index, make) in hostile.iter().enumerate() {
        for entry in entries(at, "own") {
            fs::remove_file(&entry).expect("removed");
            make(&entry);
        }
        again(&format!("hostile entry {at_index}"));
    }
    // A key that others can read is no secret: nothing is kept with it.
    let key = at.join("own/kiln/verdicts.key");
    fs::set_permissions(&key, Permissions::from_mode(0o644)).expect("a mode");
    assert!(!output(&mut check(at, "own", &["build", "-q"])).contains("cache"));
    fs::set_permissions(&key, Permissions::from_mode(0o600)).expect("a mode");
    fs::write(&key, "short").expect("a key");
    assert!(!output(&mut check(at, "own", &["build", "-q"])).contains("cache"));
}

#[test]
fn a_folder_that_is_named_is_shared_by_those_who_have_the_secret() {
    let folder = folder();
    let at = folder.path();
    let said = |user: &str, secret: &str| {
        let mut command = check(at, user, &["build", "-q", "--cache", "shared"]);
        output(command.env("KILN_CACHE_KEY", secret))
    };
    let secret = "a secret of this project";
    assert!(!said("one", secret).contains("cache"));
    assert!(said("other", secret).ends_with(AGAIN));
    assert!(!said("other", "not the project's secret").contains("cache"));
    let short = check(at, "one", &["build", "--cache", "shared"]).env("KILN_CACHE_KEY", "short").assert().code(2);
    short.stderr(contains("at least 16 letters"));
    check(at, "one", &["build", "--cache", "build/pass.bpf/x"]).assert().code(2).stderr(contains("pass.bpf/x"));
    // Without a home there is no cache, and no error.
    let mut homeless = check(at, "one", &["build", "-q"]);
    homeless.env_remove("XDG_CACHE_HOME").env_remove("HOME");
    homeless.assert().code(1).stdout(contains("1 rejected\n"));
}

#[test]
fn runs_at_the_same_time_share_it() {
    let folder = folder();
    for at in 0..40 {
        fs::write(folder.path().join(format!("build/{at}.bpf")), PASS.replace("= 2", &format!("= {at}")))
            .expect("a file");
    }
    let run = || output(&mut check(folder.path(), "own", &["build", "-q", "-j", "2"]));
    let said: Vec<String> = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..6).map(|_| scope.spawn(run)).collect();
        runs.into_iter().map(|run| run.join().expect("a run")).collect()
    });
    for said in said {
        assert!(said.contains("42 objects, 42 programs: 41 accepted, 1 rejected"), "{said}");
    }
    assert!(run().ends_with("42 from the cache\n"));
    assert_eq!(entries(folder.path(), "own").len(), 42, "nothing unfinished stays");
}
