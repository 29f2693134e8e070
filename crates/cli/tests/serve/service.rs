//! A service that tests began, ended with the test.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value as Json;

/// Exit code of what cannot run here.
pub const UNSUPPORTED: i32 = 3;
/// Time that one condition may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A service with a page.
pub struct Service {
    pub child: Child,
    pub socket: PathBuf,
    /// The page's address, and its key.
    pub page: (String, String),
    lines: Receiver<String>,
    _folder: tempfile::TempDir,
}

/// What `kiln serve` does with these arguments.
pub fn serve(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kiln"));
    command.arg("serve").args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// What a command said on standard error.
pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

impl Service {
    /// Begins one; nothing where queries cannot run.
    pub fn begin(arguments: &[&str]) -> Option<Service> {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("kiln.sock");
        let mut command = serve(&["--listen", "127.0.0.1:0", "--socket"]);
        let mut child = command.arg(&socket).args(arguments).spawn().expect("kiln runs");
        let (sender, lines) = channel();
        let errors = BufReader::new(child.stderr.take().expect("a pipe"));
        std::thread::spawn(move || errors.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let first = lines.recv().unwrap_or_default();
        if !first.starts_with("queries are installed at ") {
            assert_eq!(child.wait().expect("it ends").code(), Some(UNSUPPORTED), "{first}");
            println!("skipped: {first}");
            return None;
        }
        let page = lines.recv().expect("the page's address");
        let (page, key) = page.strip_prefix("the page: ").and_then(|page| page.split_once("/#")).expect("a key");
        let page = (page.to_owned(), key.to_owned());
        Some(Service { child, socket, page, lines, _folder: folder })
    }

    /// The rest of the next line that it says with this beginning.
    pub fn line(&self, beginning: &str) -> String {
        let lines = std::iter::from_fn(|| self.lines.recv_timeout(TIMEOUT).ok());
        let found = lines.into_iter().find_map(|line| line.strip_prefix(beginning).map(ToOwned::to_owned));
        found.unwrap_or_else(|| panic!("it does not say {beginning}"))
    }

    /// Asks the service by the command.
    pub fn ask(&self, arguments: &[&str]) -> Output {
        serve(arguments).arg("--socket").arg(&self.socket).output().expect("kiln runs")
    }

    /// Asks the service by the command, which must succeed with a document.
    pub fn document(&self, arguments: &[&str]) -> Json {
        let output = self.ask(&[arguments, &["--format", "json"]].concat());
        assert!(output.status.success(), "{arguments:?}: {}", said(&output));
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// Asks the service by the command, which must be refused with exit code `code` and these words.
    pub fn refuses(&self, arguments: &[&str], code: i32, words: &str) {
        let output = self.ask(arguments);
        let said = said(&output);
        assert!(
            output.status.code() == Some(code) && said.contains(words),
            "{arguments:?}: {:?}: {said}",
            output.status
        );
    }

    /// Waits until a query's document is as wanted.
    pub fn until(&self, name: &str, wanted: impl Fn(&Json) -> bool) -> Json {
        let begun = Instant::now();
        loop {
            let document = self.document(&["show", name]);
            if wanted(&document) {
                return document;
            }
            assert!(begun.elapsed() < TIMEOUT, "{name}: {document}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The status and the body of a request to the page's address; `headers` end with line breaks.
    pub fn raw(&self, method: &str, path: &str, headers: &str) -> (u16, String) {
        let address = self.page.0.strip_prefix("http://").expect("an address");
        let mut stream = TcpStream::connect(address).expect("the page's door");
        write!(stream, "{method} {path} HTTP/1.0\r\n{headers}\r\n").expect("it is sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        (head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status"), body.to_owned())
    }

    /// Sends the service a signal and waits for its end. Returns its exit code, and what it said.
    pub fn signal(&mut self, signal: &str) -> (Option<i32>, Vec<String>) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().expect("kill runs").success());
        let code = self.child.wait().expect("it ends").code();
        (code, self.lines.iter().collect())
    }

    /// The programs that the service's process holds, by their numbers in the kernel.
    pub fn programs(&self) -> Vec<u32> {
        let folder = format!("/proc/{}/fdinfo", self.child.id());
        let files = std::fs::read_dir(folder).expect("its files").flatten();
        let texts = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
        let number = |text: String| text.lines().find_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok());
        let mut programs: Vec<u32> = texts.filter_map(number).collect();
        programs.sort_unstable();
        programs.dedup();
        programs
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A shell whose name is markup, and which forks all the time until it is dropped.
pub struct Work(Child);

impl Work {
    pub fn begin() -> Work {
        let script = "printf '<script>a=1' >/proc/$$/comm; while :; do /bin/true; sleep 0.02; done";
        Work(Command::new("sh").args(["-c", script]).spawn().expect("a shell"))
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
