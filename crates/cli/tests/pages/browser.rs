//! A headless Chromium, driven over DevTools' pipe: JSON messages that end with a zero byte, on its file descriptors 3
//! (commands) and 4 (answers). A shell puts our pipes there, so that no WebSocket and no unsafe code is needed.

use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Time that one command or one condition may take.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A browser with one page.
pub struct Browser {
    child: Child,
    commands: ChildStdin,
    answers: Receiver<Value>,
    session: Value,
    next: u64,
    /// What the page's scripts threw, and what its policy refused.
    pub complaints: Vec<String>,
    _profile: tempfile::TempDir,
}

/// Colours of a theme and the width of the window, in pixels.
#[derive(Clone, Copy)]
pub struct Look {
    /// `light` or `dark`, as the system would prefer it.
    pub theme: &'static str,
    /// The window's width.
    pub width: u32,
}

/// Two widths in both themes.
pub const LOOKS: [Look; 4] = [
    Look { theme: "light", width: 1280 },
    Look { theme: "dark", width: 1280 },
    Look { theme: "light", width: 400 },
    Look { theme: "dark", width: 400 },
];

/// Where screenshots are kept.
pub fn screenshots() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a target folder").join("screenshots");
    std::fs::create_dir_all(&folder).expect("a folder for screenshots");
    folder
}

impl Browser {
    /// Starts the browser, if one is installed.
    pub fn start() -> Option<Browser> {
        let names = ["chromium", "chromium-headless-shell", "google-chrome"];
        let runs =
            |name: &&&str| Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success());
        let Some(name) = names.iter().find(runs) else {
            eprintln!("skipped: no chromium is installed (scripts/setup --tests)");
            return None;
        };
        let profile = tempfile::tempdir().expect("a folder");
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>/dev/null", name]);
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--hide-scrollbars"]);
        command.args([
            "--no-first-run",
            "--disable-dev-shm-usage",
            "--disable-extensions",
            "--disable-background-networking",
        ]);
        command.arg(format!("--user-data-dir={}", profile.path().display())).arg("about:blank");
        // A group of its own: it starts processes, which end with it.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a browser");
        let commands = child.stdin.take().expect("a pipe");
        let mut output = child.stdout.take().expect("a pipe");
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            let mut pending = Vec::new();
            let mut buffer = vec![0; 1 << 16];
            while let Ok(length @ 1..) = output.read(&mut buffer) {
                pending.extend_from_slice(&buffer[..length]);
                while let Some(end) = pending.iter().position(|byte| *byte == 0) {
                    let message: Vec<u8> = pending.drain(..=end).collect();
                    let message = serde_json::from_slice(&message[..end]).unwrap_or(Value::Null);
                    if sender.send(message).is_err() {
                        return;
                    }
                }
            }
        });
        let session = Value::Null;
        let mut browser =
            Browser { child, commands, answers, session, next: 0, complaints: Vec::new(), _profile: profile };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attached = browser.call("Target.attachToTarget", json!({"targetId": target["targetId"], "flatten": true}));
        browser.session = attached["sessionId"].clone();
        for domain in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// Sends a command and waits for its result.
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.next += 1;
        let mut message = json!({"id": self.next, "method": method, "params": parameters});
        if !self.session.is_null() {
            message["sessionId"] = self.session.clone();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.commands.write_all(&bytes).expect("the browser listens");
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let answer = match self.answers.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(answer) => answer,
                Err(RecvTimeoutError::Timeout) => panic!("{method}: no answer in {TIMEOUT:?}"),
                Err(RecvTimeoutError::Disconnected) => panic!("{method}: the browser ended"),
            };
            match answer["method"].as_str() {
                Some("Runtime.exceptionThrown") => {
                    self.complaints.push(answer["params"]["exceptionDetails"].to_string())
                }
                Some("Log.entryAdded") if answer["params"]["entry"]["level"] == "error" => {
                    self.complaints.push(answer["params"]["entry"]["text"].to_string());
                }
                _ => {}
            }
            if answer["id"] == self.next {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
        }
    }

    /// Opens a file of this machine.
    pub fn open(&mut self, path: &Path) {
        let path = path.canonicalize().expect("a file");
        let url = format!("file://{}", path.display());
        self.call("Page.navigate", json!({"url": url}));
        self.until("document.readyState === 'complete' && location.protocol === 'file:'");
    }

    /// Opens an address.
    pub fn open_url(&mut self, url: &str) {
        self.call("Page.navigate", json!({"url": url}));
        self.until(&format!("document.readyState === 'complete' && location.href.startsWith('{url}')"));
    }

    /// The value of an expression, awaited if it is a promise.
    pub fn value(&mut self, expression: &str) -> Value {
        let parameters = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let answer = self.call("Runtime.evaluate", parameters);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub fn until(&mut self, expression: &str) {
        let deadline = Instant::now() + TIMEOUT;
        while self.value(expression) != true {
            assert!(Instant::now() < deadline, "not within {TIMEOUT:?}: {expression}");
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// Sets theme and width.
    pub fn look(&mut self, look: Look) {
        let metrics = json!({"width": look.width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", metrics);
        let feature = json!([{"name": "prefers-color-scheme", "value": look.theme}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": feature}));
    }

    /// Keeps a picture of what is seen, `NAME-THEME-WIDTH.png`.
    pub fn picture(&mut self, name: &str, look: Look) {
        let picture = self.call("Page.captureScreenshot", json!({"format": "png"}));
        let picture = base64(picture["data"].as_str().expect("a picture"));
        assert!(picture.starts_with(b"\x89PNG"));
        let path = screenshots().join(format!("{name}-{}-{}.png", look.theme, look.width));
        std::fs::write(path, picture).expect("a screenshot is kept");
    }

    /// Puts a file into an `<input type=file>`.
    pub fn choose_file(&mut self, selector: &str, path: &Path) {
        let root = self.call("DOM.getDocument", json!({}));
        let node = self.call("DOM.querySelector", json!({"nodeId": root["root"]["nodeId"], "selector": selector}));
        let path = path.canonicalize().expect("a file");
        self.call("DOM.setFileInputFiles", json!({"nodeId": node["nodeId"], "files": [path]}));
    }

    /// Checks that the page is not wider than the window and that its text can be read: a contrast of 4.5, as WCAG 2.2
    /// (1.4.3) asks.
    pub fn check_readable(&mut self, what: &str) {
        let wide = self.value("document.documentElement.scrollWidth - innerWidth");
        assert!(wide.as_i64().is_some_and(|beyond| beyond <= 0), "{what}: {wide} pixels too wide");
        let faint = self.value(CONTRAST);
        assert_eq!(faint, json!([]), "{what}: text that is hard to read");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The group was made for this browser and holds nothing else.
        let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", self.child.id())]).status();
        let _ = self.child.wait();
    }
}

fn base64(text: &str) -> Vec<u8> {
    base64::Engine::decode(&base64::engine::general_purpose::STANDARD, text).expect("base64")
}

/// Visible texts with a contrast of less than 4.5 to what is behind them. Colours are drawn onto a canvas, so that every
/// notation counts. In SVG the background is the frame's rectangle.
const CONTRAST: &str = include_str!("contrast.js");
