//! Prints the running kernel's verdict on every program of the corpora: one JSON object per line.
//!
//! ```text
//!   {"asking":"selftests-6.12/xdp_dummy.o"}
//!   {"program":"xdp_dummy.o:xdp_dummy_prog","group":"selftests-6.12","says":"accept","why":""}
//!   {"asked":"selftests-6.12/xdp_dummy.o"}
//! ```
//!
//! `scripts/other-kernel` runs it in a virtual machine. An object without its last line has stopped that machine. The
//! agreement test uses these verdicts where the running kernel could not be asked. Arguments are parts of object names
//! to select.

use kiln_driver::kernel::{Answer, ask, ask_unread};
use kiln_test::corpus::{self, CorpusObject};

fn print(entry: &CorpusObject, program: &str, answer: Answer) {
    let (says, why) = match answer {
        Answer::Accept => ("accept", String::new()),
        Answer::Reject(why) => ("reject", why),
        Answer::NotAsked(why) => ("not asked", why.to_string()),
    };
    let name = format!("{}:{program}", entry.file_name());
    println!("{}", serde_json::json!({ "program": name, "group": entry.group, "says": says, "why": why }));
}

fn answers(entry: &CorpusObject) {
    let Ok(mut input) = entry.read() else { return };
    let bytes = std::mem::take(&mut input.bytes);
    for program in input.object.programs.iter().filter(|program| program.program_type.is_some()) {
        print(entry, &program.name, ask(&bytes, &input.object, program, None));
    }
    for program in input.unreadable() {
        print(entry, &program.function, ask_unread(&bytes, &input.object.name, &program.function));
    }
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    for entry in corpus::objects() {
        let name = entry.file_name();
        if entry.refused().is_none() && (wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str()))) {
            let path = entry.path.to_string_lossy();
            println!("{}", serde_json::json!({ "asking": path }));
            answers(&entry);
            println!("{}", serde_json::json!({ "asked": path }));
        }
    }
}
