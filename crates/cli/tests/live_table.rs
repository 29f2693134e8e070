//! The live table on a pseudo-terminal, which `script` of util-linux makes.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// The whole alternate screen, begun and ended.
const BEGIN: &str = "\x1b[?1049h";
const END: &str = "\x1b[?1049l";

/// Runs `kiln query` on a terminal of 100 columns and 24 lines, and presses keys once the second text was seen. Returns
/// everything that was written to it; nothing where it cannot run.
fn on_terminal(sql: &str, until: &str, keys: &str) -> Option<String> {
    let kiln = env!("CARGO_BIN_EXE_kiln");
    let line = format!("stty rows 24 cols 100; TERM=xterm {kiln} query \"{sql}\"; echo code $?; stty -a");
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else {
        println!("skipped: no script is installed (util-linux)");
        return None;
    };
    let mut input = child.stdin.take().expect("a pipe");
    let mut output = child.stdout.take().expect("a pipe");
    let (sender, pieces) = channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = output.read(&mut buffer) {
            if sender.send(buffer[..length].to_vec()).is_err() {
                break;
            }
        }
    });
    let (mut seen, mut is_pressed, begun) = (Vec::new(), false, Instant::now());
    while let Ok(piece) = pieces.recv_timeout(Duration::from_secs(60)) {
        seen.extend(piece);
        let text = String::from_utf8_lossy(&seen);
        if !is_pressed && text.contains(BEGIN) && text.contains(until) {
            is_pressed = true;
            input.write_all(keys.as_bytes()).expect("the terminal listens");
            input.flush().expect("the terminal listens");
        }
        if text.contains("code 3") {
            println!("skipped: {text}");
            break;
        }
        // The last of what `stty -a` prints.
        if text.contains("extproc") {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{text}");
    }
    // It has ended, or is ended.
    let _ = child.kill();
    let _ = child.wait();
    let text = String::from_utf8_lossy(&seen).into_owned();
    (!text.contains("code 3")).then_some(text)
}

#[test]
fn the_live_table_comes_and_goes() {
    let sql = "SELECT comm, count(*) AS n, histogram(latency_ns) AS h FROM syscalls GROUP BY comm WINDOW 200 MS";
    for (keys, what) in [("q", "a key"), ("\x03", "Ctrl-C")] {
        let Some(seen) = on_terminal(sql, "filter", keys) else { return };
        let (before, after) = seen.split_once(END).unwrap_or_else(|| panic!("{what}: no end: {seen}"));
        assert!(before.contains(BEGIN) && before.contains("SELECT comm"), "{what}: {seen}");
        assert!(after.contains("code 0") && after.contains("of one CPU"), "{what}: {after}");
        // The terminal is as it was: it echoes, and makes lines of what is typed.
        assert!(after.contains(" echo ") && after.contains(" icanon "), "{what}: {after}");
    }
}

#[test]
fn an_error_gives_the_terminal_back() {
    let sql = "SELECT count(*) FROM syscalls WINDOW 100 MS\" --record \"/dev/full";
    let Some(seen) = on_terminal(sql, "filter", "q") else { return };
    let (_, after) = seen.split_once(END).unwrap_or_else(|| panic!("no end: {seen}"));
    assert!(after.contains("code 1") && after.contains("/dev/full") && after.contains(" icanon "), "{after}");
}
