//! Sessions of an editor with the server, over a connection in memory.

use std::path::Path;
use std::time::Duration;

use lsp_server::{Connection, Message, Notification, Request, RequestId};
use serde_json::{Value, json};

const SOURCE: &str = r#"#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 8); __type(key, int); __type(value, long); } m SEC(".maps");
SEC("xdp") int counted(struct xdp_md *context) {
    int sum = 0;
    for (int i = 0; i < 50; i++)
        sum += bpf_get_prandom_u32() & 1;
    return sum ? XDP_PASS : XDP_DROP;
}
SEC("xdp") int lookup(struct xdp_md *context) {
    int key = 1;
    long *value = bpf_map_lookup_elem(&m, &key);
    return *value;
}
char _license[] SEC("license") = "GPL";
"#;

/// An editor.
struct Editor {
    connection: Connection,
    requests: i32,
    server: Option<std::thread::JoinHandle<u8>>,
    /// Notifications that came and were not asked for yet.
    told: Vec<Notification>,
}

impl Editor {
    fn begin() -> Editor {
        let (theirs, connection) = Connection::memory();
        let server = std::thread::spawn(move || kiln_lsp::serve(theirs).expect("it serves"));
        let mut editor = Editor { connection, requests: 0, server: Some(server), told: Vec::new() };
        let answer = editor.ask("initialize", json!({ "capabilities": {} })).expect("capabilities");
        assert_eq!(answer["serverInfo"]["name"], "kiln");
        editor.tell("initialized", json!({}));
        editor
    }

    fn tell(&self, method: &str, parameters: Value) {
        let told = Notification { method: method.to_owned(), params: parameters };
        self.connection.sender.send(Message::Notification(told)).expect("the server listens");
    }

    fn next(&self) -> Message {
        self.connection.receiver.recv_timeout(Duration::from_secs(60)).expect("the server says something")
    }

    fn ask(&mut self, method: &str, parameters: Value) -> Result<Value, String> {
        self.requests += 1;
        let id = RequestId::from(self.requests);
        let request = Request { id: id.clone(), method: method.to_owned(), params: parameters };
        self.connection.sender.send(Message::Request(request)).expect("the server listens");
        loop {
            match self.next() {
                Message::Response(answer) => {
                    assert_eq!(answer.id, id);
                    let answer = serde_json::to_value(answer).expect("JSON");
                    return match answer.get("error") {
                        Some(error) => Err(error["message"].as_str().expect("a message").to_owned()),
                        None => Ok(answer["result"].clone()),
                    };
                }
                Message::Notification(told) => self.told.push(told),
                Message::Request(request) => panic!("{request:?}"),
            }
        }
    }

    /// The parameters of the next notification of a kind.
    fn told(&mut self, method: &str) -> Value {
        loop {
            if let Some(at) = self.told.iter().position(|told| told.method == method) {
                return self.told.remove(at).params;
            }
            if let Message::Notification(told) = self.next() {
                self.told.push(told);
            }
        }
    }

    fn diagnostics(&mut self) -> Vec<Value> {
        let told = self.told("textDocument/publishDiagnostics");
        told["diagnostics"].as_array().expect("diagnostics").clone()
    }

    fn open(&self, uri: &str, text: &str) {
        let document = json!({ "uri": uri, "languageId": "c", "version": 1, "text": text });
        self.tell("textDocument/didOpen", json!({ "textDocument": document }));
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let Some(server) = self.server.take() else { return };
        self.ask("shutdown", Value::Null).expect("it shuts down");
        assert!(self.ask("textDocument/hover", json!({})).is_err_and(|error| error.contains("shut down")));
        self.tell("exit", Value::Null);
        assert_eq!(server.join().expect("it ends"), 0);
    }
}

#[test]
fn an_editor_that_only_says_exit_is_told_by_the_exit_code() {
    let mut editor = Editor::begin();
    editor.tell("exit", Value::Null);
    assert_eq!(editor.server.take().expect("a server").join().expect("it ends"), 1);
}

/// A folder with the source, and the source's address; `None`, with a message, without clang.
fn project(text: &str) -> Option<(tempfile::TempDir, String)> {
    if let Err(error) = std::process::Command::new(kiln_driver::clang::name()).arg("--version").output() {
        println!("skipped: clang: {error}");
        return None;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = std::fs::canonicalize(folder.path()).expect("a path").join("a b.bpf.c");
    std::fs::write(&path, text).expect("a file");
    let uri = format!("file://{}", path.display()).replace(' ', "%20");
    Some((folder, uri))
}

fn save(folder: &Path, editor: &Editor, uri: &str, text: &str) {
    std::fs::write(folder.join("a b.bpf.c"), text).expect("a file");
    editor.tell("textDocument/didSave", json!({ "textDocument": { "uri": uri } }));
}

#[test]
fn a_rejection_is_shown_with_its_story_and_goes_when_it_is_mended() {
    let Some((folder, uri)) = project(SOURCE) else { return };
    let mut editor = Editor::begin();
    editor.open(&uri, SOURCE);
    let diagnostics = editor.diagnostics();
    let [rejected] = &diagnostics[..] else { panic!("{diagnostics:?}") };
    assert_eq!((&rejected["code"], &rejected["severity"]), (&json!("possibly-null"), &json!(1)));
    assert_eq!(rejected["range"]["start"], json!({ "line": 12, "character": 11 }));
    let story = rejected["relatedInformation"].as_array().expect("a story");
    assert_eq!(story[0]["location"]["range"]["start"]["line"], 11);
    assert_eq!(story[0]["location"]["uri"], json!(uri));
    let document = json!({ "uri": uri });
    let lenses = editor.ask("textDocument/codeLens", json!({ "textDocument": document })).expect("lenses");
    let titles: Vec<&str> =
        lenses.as_array().expect("lenses").iter().filter_map(|lens| lens["command"]["title"].as_str()).collect();
    let [accepted, "optimize", "rejected: possibly-null"] = titles[..] else { panic!("{titles:?}") };
    assert!(accepted.starts_with("accepted: "), "{accepted}");
    let at = json!({ "textDocument": document, "position": { "line": 11, "character": 3 } });
    let hover = editor.ask("textDocument/hover", at).expect("a hover");
    let text = hover["contents"]["value"].as_str().expect("text");
    assert!(text.contains("**lookup**") && text.contains("map_lookup_elem"), "{text}");
    let everywhere = json!({ "start": { "line": 0, "character": 0 }, "end": { "line": 99, "character": 0 } });
    let asked = json!({ "textDocument": document, "range": everywhere });
    let hints = editor.ask("textDocument/inlayHint", asked).expect("hints");
    let looped = hints.as_array().expect("hints").iter().find(|hint| hint["position"]["line"] == 6);
    let label = looped.and_then(|hint| hint["label"].as_str()).expect("a hint in the loop");
    assert!(label.starts_with("50 times, "), "{label}");

    save(folder.path(), &editor, &uri, &SOURCE.replace("return *value", "return value ? *value : 0"));
    assert_eq!(editor.diagnostics(), Vec::<Value>::new());
    save(folder.path(), &editor, &uri, &SOURCE.replace("int sum = 0", "int sum = zero"));
    let diagnostics = editor.diagnostics();
    assert_eq!(diagnostics[0]["source"], "clang");
    assert_eq!(diagnostics[0]["range"]["start"], json!({ "line": 4, "character": 14 }));
    editor.tell("textDocument/didClose", json!({ "textDocument": document }));
    assert!(editor.diagnostics().is_empty());
}

#[test]
fn a_rejection_has_the_edit_that_mends_it() {
    let Some((folder, uri)) = project(SOURCE) else { return };
    let mut editor = Editor::begin();
    editor.open(&uri, SOURCE);
    assert_eq!(editor.diagnostics().len(), 1);
    let line = json!({ "start": { "line": 12, "character": 0 }, "end": { "line": 12, "character": 0 } });
    let asked = json!({ "textDocument": { "uri": uri }, "range": line, "context": { "diagnostics": [] } });
    // The edits are sought after the rejection is shown.
    let mut actions = Vec::new();
    for _ in 0..600 {
        let found = editor.ask("textDocument/codeAction", asked.clone()).expect("actions");
        actions = found.as_array().expect("actions").clone();
        if !actions.is_empty() {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let [action] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!((&action["kind"], &action["isPreferred"]), (&json!("quickfix"), &json!(true)));
    let edits = action["edit"]["changes"][&uri].as_array().expect("edits");
    let mut lines: Vec<String> = SOURCE.split_inclusive('\n').map(str::to_owned).collect();
    for edit in edits.iter().rev() {
        let line = |end: &str| edit["range"][end]["line"].as_u64().expect("a line") as usize;
        lines.splice(line("start")..line("end"), [edit["newText"].as_str().expect("a text").to_owned()]);
    }
    // Lines have moved: the edit would not land where it belongs.
    editor
        .tell("textDocument/didChange", json!({ "textDocument": { "uri": uri, "version": 2 }, "contentChanges": [] }));
    assert_eq!(editor.ask("textDocument/codeAction", asked), Ok(json!([])));
    save(folder.path(), &editor, &uri, &lines.concat());
    assert_eq!(editor.diagnostics(), Vec::<Value>::new());
}

#[test]
fn commands_answer_with_a_message() {
    let Some((_folder, uri)) = project(SOURCE) else { return };
    let mut editor = Editor::begin();
    let execute = |editor: &mut Editor, command: &str, arguments: Value| {
        editor.ask("workspace/executeCommand", json!({ "command": command, "arguments": arguments })).expect("begun");
        let told = editor.told("window/showMessage");
        told["message"].as_str().expect("a message").to_owned()
    };
    let said = execute(&mut editor, "kiln.check", json!([uri]));
    assert!(said.starts_with("a b.bpf.c: "), "{said}");
    let said = execute(&mut editor, "kiln.optimize", json!([uri, "counted"]));
    assert!(said.starts_with("counted: ") && said.ends_with("after kiln optimize"), "{said}");
    let said = execute(&mut editor, "kiln.optimize", json!([uri, "nobody"]));
    assert!(said.contains("nobody"), "{said}");
}

#[test]
fn what_is_not_understood_is_an_answer_and_not_the_end() {
    let mut editor = Editor::begin();
    assert!(editor.ask("textDocument/unheardOf", json!({})).is_err());
    assert!(editor.ask("textDocument/hover", json!({ "position": -1 })).is_err());
    editor.tell("textDocument/didSave", json!({ "textDocument": { "uri": "untitled:1" } }));
    editor.tell("textDocument/didSave", json!(7));
    editor.open("file:///none/of/these.bpf.c", "SEC(\"xdp\")");
    let said = editor.told("window/showMessage");
    assert!(said["message"].as_str().expect("a message").contains("No such file"), "{said}");
    // A source without programs is not compiled.
    editor.open("file:///none/of/those.c", "int main() {}");
    let hover = json!({ "textDocument": { "uri": "file:///none" }, "position": { "line": 0, "character": 0 } });
    assert_eq!(editor.ask("textDocument/hover", hover), Ok(Value::Null));
}

#[test]
fn what_cannot_be_read_to_its_end_is_not_read() {
    let Some((folder, uri)) = project(SOURCE) else { return };
    let path = |name: &str| folder.path().join(name);
    std::os::unix::fs::symlink("/dev/zero", path("endless.bpf.c")).expect("a link");
    std::os::unix::fs::symlink("itself.bpf.c", path("itself.bpf.c")).expect("a link");
    let made = std::process::Command::new("mkfifo").arg(path("silent.bpf.c")).status();
    assert!(made.expect("mkfifo runs").success());
    let mut editor = Editor::begin();
    for name in ["endless.bpf.c", "itself.bpf.c", "silent.bpf.c", "gone.bpf.c"] {
        let uri = format!("file://{}", path(name).display());
        editor.tell("textDocument/didSave", json!({ "textDocument": { "uri": uri } }));
    }
    editor.open(&format!("file://{}", path("silent.bpf.c").display()), SOURCE);
    let said = editor.told("window/showMessage");
    assert!(said["message"].as_str().expect("a message").contains("not a regular file"), "{said}");
    // The last line that there can be.
    save(folder.path(), &editor, &uri, SOURCE);
    assert!(!editor.diagnostics().is_empty());
    let at = json!({ "line": u32::MAX, "character": u32::MAX });
    let hover = editor.ask("textDocument/hover", json!({ "textDocument": { "uri": uri }, "position": at }));
    assert_eq!(hover, Ok(Value::Null));
}
