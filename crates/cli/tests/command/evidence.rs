//! Evidence in a folder, checked by another solver.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Output};

use predicates::str::contains;

use crate::world::{Folder, PASS, corpus_object, kiln};

/// Evidence of real rewrites, and the solver that goes over it; `None`, said aloud, where either is missing.
fn evidence(folder: &Folder) -> Option<PathBuf> {
    let object = corpus_object("xdp-tools/xdpdump_xdp.o")?;
    if Process::new("cvc5").arg("--version").output().is_err() {
        eprintln!("skipped: cvc5 is not installed");
        return None;
    }
    let proofs = folder.path("proofs");
    let output = folder.path("out.o");
    kiln()
        .arg("optimize")
        .arg(object)
        .arg("-o")
        .arg(output)
        .arg("--offline")
        .arg("--evidence")
        .arg(&proofs)
        .assert()
        .code(0);
    Some(proofs)
}

fn recheck(proofs: &Path) -> (serde_json::Value, Option<i32>) {
    let mut command = kiln();
    let output = command.args(["verify-evidence", "--solver", "cvc5", "--format", "json"]).arg(proofs).output();
    let output = output.expect("kiln runs");
    let text = String::from_utf8_lossy(&output.stdout);
    (serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")), output.status.code())
}

/// Changes one file of some evidence and gives what the check then says.
fn with_altered(proofs: &Path, file: &str, alter: impl Fn(&[u8]) -> Vec<u8>) -> Output {
    let path = proofs.join(file);
    let bytes = std::fs::read(&path).expect("a file of the evidence");
    let altered = alter(&bytes);
    assert_ne!(altered, bytes, "{file} is as it was");
    std::fs::write(&path, altered).expect("it can be written");
    let output = kiln().args(["verify-evidence", "--solver", "cvc5"]).arg(proofs).output().expect("kiln runs");
    std::fs::write(&path, bytes).expect("it can be written");
    output
}

/// Another solver replays the certificate, which belongs to two objects and no others, and sees through what is forged.
#[test]
fn evidence_can_be_checked_again() {
    let folder = Folder::with(&[]);
    let Some(proofs) = evidence(&folder) else { return };
    let (report, code) = recheck(&proofs);
    assert!(report["proved"].as_u64() > Some(0) && code == Some(0), "{report}");
    assert_eq!(report["proved"].as_u64(), report["functions"].as_u64(), "{report}");
    assert_eq!(report["assumed_from_verifier"], 0, "{report}");
    let original = corpus_object("xdp-tools/xdpdump_xdp.o").expect("it was optimized");
    let verify = |first: &Path, last: &Path| {
        let mut command = kiln();
        command.args(["verify-evidence", "--solver", "cvc5"]).arg(&proofs);
        command.arg("--original").arg(first).arg("--object").arg(last);
        command
    };
    let optimized = folder.path("out.o");
    verify(&original, &optimized).assert().code(0).stdout(contains("is an end of the chain"));
    verify(&original, &optimized).assert().code(0).stdout(contains("compared with both objects"));
    let said = verify(&original, &original).assert().code(1).stdout(contains("is not what the evidence ends with"));
    said.stdout(contains("compared with the original only"));
    verify(&optimized, &optimized).assert().code(1).stdout(contains("is not what the evidence begins with"));
    // Damaged, cut off, exchanged.
    for file in ["certificate.gz", "original.bpf.gz", "optimized.bpf.gz"] {
        let cut = with_altered(&proofs, file, |bytes| bytes[..bytes.len() / 2].to_vec());
        assert_eq!(cut.status.code(), Some(2), "{cut:?}");
        let damaged = with_altered(&proofs, file, |bytes| {
            let mut bytes = bytes.to_vec();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 0x55;
            bytes
        });
        assert!(matches!(damaged.status.code(), Some(1 | 2)), "{damaged:?}");
    }
    // An original that was edited is not what the certificate is bound to, also if no object is given.
    let edited = with_altered(&proofs, "original.bpf.gz", |bytes| {
        let mut text = String::new();
        flate2::read::GzDecoder::new(bytes).read_to_string(&mut text).expect("a listing");
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(format!("; version 7\n{text}").as_bytes()).expect("it is compressed");
        encoder.finish().expect("it is compressed")
    });
    let text = String::from_utf8_lossy(&edited.stdout).into_owned();
    assert!(
        edited.status.code() == Some(1) && text.contains("not the listing that the certificate is bound to"),
        "{text}"
    );
    // What is compared with nothing is named.
    let said = kiln().args(["verify-evidence", "--solver", "cvc5"]).arg(&proofs).assert().code(0);
    assert_eq!(report["scope"], "listings-only");
    let said = said.stdout(contains("compared with no object"));
    said.stdout(contains("not bound: original-file")).stdout(contains("bound to original.bpf, SHA-256"));
    let other = std::fs::read(proofs.join("original.bpf.gz")).expect("a listing");
    let exchanged = with_altered(&proofs, "optimized.bpf.gz", |_| other.clone());
    assert_eq!(exchanged.status.code(), Some(1), "{exchanged:?}");
    let text = String::from_utf8_lossy(&exchanged.stdout).into_owned();
    assert!(text.contains("does not end at the optimized listing"), "{text}");
}

#[test]
fn evidence_that_cannot_be_checked_is_an_error() {
    let folder = Folder::with(&[("file", b"")]);
    let verify = |path: &Path| {
        let mut command = kiln();
        command.arg("verify-evidence").arg(path);
        command
    };
    verify(&folder.path("nothing")).assert().code(2).stderr(contains("is no folder"));
    verify(&folder.path("file")).assert().code(2).stderr(contains("is no folder"));
    verify(folder.0.path()).assert().code(2).stderr(contains("kiln optimize --evidence"));
    std::fs::write(folder.path("certificate.gz"), b"kiln certificate 2").expect("a file");
    verify(folder.0.path()).assert().code(2).stderr(contains("original.bpf.gz"));
    // What is there and is not evidence is not written over.
    let folder = Folder::with(&[("in.bpf", PASS.as_bytes())]);
    let optimize = |evidence: &Path| {
        let mut command = kiln();
        let (input, output) = (folder.path("in.bpf"), folder.path("out.bpf"));
        command.arg("optimize").arg(input).arg("--offline").arg("-o").arg(output).arg("--evidence").arg(evidence);
        command
    };
    optimize(folder.0.path()).assert().code(2).stderr(contains("holds other files"));
    let proofs = folder.path("proofs");
    optimize(&proofs).assert().code(0);
    verify(&proofs)
        .args(["--solver", "/bin/true"])
        .assert()
        .code(3)
        .stderr(contains("answers a simple question wrongly"));
    verify(&proofs).args(["--solver", "no-such-solver"]).assert().code(3).stderr(contains("cannot be run"));
}
