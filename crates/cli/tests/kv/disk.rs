//! `kiln kv --data` on a disk that is full, does not take what it has taken already, or takes a part: nothing is lost silently.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::data::start;
use super::{Client, Server, lossy};

const VALUE_BYTES: usize = 60_000;

/// A server whose directory is `data` after a script, in a mount namespace of its own.
fn on_a_disk(script: &str, data: &Path) -> Result<Server, String> {
    let mut command = Command::new("unshare");
    let (data, kiln) = (data.to_str().expect("text"), env!("CARGO_BIN_EXE_kiln"));
    let server =
        format!("exec {kiln} kv redis --format json --listen 127.0.0.1:0 --data {data} --sync always --threads 2");
    command.args(["-m", "sh", "-c", &format!("{{ {script}; }} >&2 && {server}")]);
    Server::start_command(&mut command).map(|(server, _)| server)
}

/// Whether a script works in a mount namespace of its own.
fn can(script: &str) -> bool {
    let output = Command::new("unshare").args(["-m", "sh", "-c", script]).output();
    output.is_ok_and(|output| output.status.success())
}

/// Stores values until one is refused: how many were acknowledged.
fn fill(server: &Server, why: &str) -> usize {
    let (address, large) = (server.address(), "x".repeat(VALUE_BYTES));
    let mut client = Client::connect(&address);
    let (mut stored, mut asked) = (0, 0);
    let refusal = loop {
        asked += 1;
        assert!(asked < 400, "the disk is never full: {stored}");
        match client.try_ask(format!("SET k{stored} {large}\r\n").as_bytes()) {
            Some(reply) if reply == "+OK\r\n" => stored += 1,
            Some(reply) => break reply,
            // Whether this one is stored is not known. The next one is refused.
            None => client = Client::connect(&address),
        }
    };
    assert!(refusal.starts_with("-MISCONF Errors writing to the AOF file") && refusal.contains(why), "{refusal}");
    assert!(stored > 3);
    assert_eq!(client.ask(b"STRLEN k0\r\n", "\r\n"), ":60000\r\n", "reads go on");
    let failing = client.ask(b"INFO persistence\r\n", "\r\n\r\n");
    assert!(failing.contains("aof_last_write_status:err"), "{failing}");
    stored
}

/// Waits until changes are served again.
fn goes_on(server: &Server) {
    let (begun, mut client) = (Instant::now(), Client::connect(&server.address()));
    while client.try_ask(b"SET more 1\r\n").is_none_or(|reply| reply != "+OK\r\n") {
        assert!(begun.elapsed() < Duration::from_secs(20), "it does not go on");
        std::thread::sleep(Duration::from_millis(50));
        client = Client::connect(&server.address());
    }
}

/// Kills a server with a log in `data`, as it sees that: another one finds all that was acknowledged.
fn nothing_is_lost(server: Server, data: &Path, stored: usize) {
    let copy = tempfile::tempdir().expect("a folder");
    let seen = format!("/proc/{}/root{}/appendonlydir", server.child.id(), data.display());
    let copied = Command::new("cp").args(["-r", &seen]).arg(copy.path()).status();
    assert!(copied.expect("cp").success());
    drop(server);
    let server = start("redis", copy.path(), &[]).expect("it starts again");
    let mut client = Client::connect(&server.address());
    for number in 0..stored {
        let told = client.ask(format!("STRLEN k{number}\r\n").as_bytes(), "\r\n");
        assert_eq!(told, format!(":{VALUE_BYTES}\r\n"), "k{number} is lost");
    }
    assert_eq!(client.ask(b"GET more\r\n", "1\r\n"), "$1\r\n1\r\n");
}

#[test]
fn a_full_disk_is_said_and_nothing_is_lost_silently() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path();
    let mount = |options: &str| format!("mount -t tmpfs -o {options} none {}", data.display());
    if !can(&mount("size=1m")) {
        return println!("skipped: no mount namespaces here");
    }
    let refused = on_a_disk(&mount("ro,size=3m"), data).err().expect("nothing can be written");
    assert!(refused.contains("appendonlydir") && refused.contains("Read-only"), "{refused}");
    let filler = format!("head -c 1000000 /dev/zero > {}/filler", data.display());
    let server = on_a_disk(&format!("{} && {filler}", mount("size=3m")), data).expect("it starts");
    let stored = fill(&server, "No space");
    // Room again, and it goes on.
    let disk = format!("/proc/{}/root{}", server.child.id(), data.display());
    std::fs::remove_file(format!("{disk}/filler")).expect("is removed");
    goes_on(&server);
    nothing_is_lost(server, data, stored);
}

#[test]
fn what_a_disk_has_not_kept_is_written_again() {
    let folder = tempfile::tempdir().expect("a folder");
    // A file system of 64 MiB on a device of 6: writes succeed, `fsync` fails, and the kernel drops the pages.
    let (below, data) = (folder.path().join("below"), folder.path().join("data"));
    std::fs::create_dir_all(&below).and_then(|()| std::fs::create_dir(&data)).expect("folders");
    let (image, below, shown) = (below.join("image"), below.display(), data.display());
    let image = image.display();
    let script = format!(
        "mount -t tmpfs -o size=6m none {below} && truncate -s 64m {image} && mkfs.ext4 -q -O ^has_journal {image} && \
         mount -o loop {image} {shown}"
    );
    if !can(&script) {
        return println!("skipped: no loop devices here, or no mkfs.ext4");
    }
    let server = on_a_disk(&script, &data).expect("it starts");
    let stored = fill(&server, "os error");
    let remount = format!("mount -o remount,size=64m none {below}");
    let pid = server.child.id().to_string();
    let grown = Command::new("nsenter").args(["-m", "-t", &pid, "sh", "-c", &remount]).output().expect("nsenter");
    assert!(grown.status.success(), "{}", lossy(&grown.stderr));
    goes_on(&server);
    let mut client = Client::connect(&server.address());
    assert!(!client.ask(b"INFO persistence\r\n", "\r\n\r\n").contains("aof_rewrites:0"), "only a rewrite helps");
    nothing_is_lost(server, &data, stored);
}

#[test]
fn a_part_of_a_record_that_was_written_is_taken_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path();
    let (shown, kiln) = (data.to_str().expect("text"), env!("CARGO_BIN_EXE_kiln"));
    // Files end at 1,000 blocks of 512 bytes: in the middle of a value, so that a write is short.
    let script = format!(
        "trap '' XFSZ; ulimit -S -f 1000; \
         exec {kiln} kv redis --format json --listen 127.0.0.1:0 --data {shown} --sync always"
    );
    let (server, _) = Server::start_command(Command::new("sh").args(["-c", &script])).expect("it starts");
    let stored = fill(&server, "File too large");
    assert!(stored < 9, "{stored}");
    let pid = server.child.id().to_string();
    match Command::new("prlimit").args(["--pid", &pid, "--fsize=unlimited"]).status() {
        Ok(status) => assert!(status.success()),
        Err(_) => return println!("skipped the rest: prlimit is not installed"),
    }
    goes_on(&server);
    nothing_is_lost(server, data, stored);
}
