//! `docs/reference/mistakes.md` is what Kiln and the kernel print now; `BLESS=1` (or `cargo xtask mistakes`) writes it.
//!
//! Kiln's part is compared if there is clang. The kernel's part is compared if `bpf(2)` works, and otherwise copied
//! from the page.

use std::path::{Path, PathBuf};

use kiln_test::engine::kernel_available;
use kiln_test::mistakes::{self, HEAD, KERNEL, Mistake};

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/mistakes.md")
}

/// The kernel's part of a mistake's section in the current page.
fn kernels_part(page: &str, mistake: &Mistake) -> Option<String> {
    let head = mistake.section("", "").lines().next()?.to_owned();
    let section = page.split("\n## ").find(|section| format!("## {}", section.lines().next().unwrap_or("")) == head)?;
    let part = section.split(KERNEL).nth(1)?.split("```text\n").nth(1)?;
    Some(part.split("\n```").next()?.to_owned())
}

#[test]
fn the_page_says_what_is_printed() {
    let mistakes = mistakes::all().expect("tests/mistakes");
    assert!(mistakes.len() >= 20);
    let old = std::fs::read_to_string(page()).unwrap_or_default();
    let folder = tempfile::tempdir().expect("a temporary folder");
    if let Err(error) = mistakes[0].compile(folder.path())
        && error.contains("No such file")
    {
        eprintln!("skipped: clang: {error}");
        return;
    }
    let kernel = kernel_available();
    if let Err(reason) = &kernel {
        eprintln!("skipped: kernel: {reason}");
    }
    let mut text = HEAD.to_owned();
    let mut wrong = Vec::new();
    for mistake in &mistakes {
        let input = mistake.compile(folder.path()).expect("it compiles");
        let (code, ours) = mistake.ours(&input).expect("a verdict");
        if code != mistake.check {
            wrong.push(format!("{}: Kiln says {code}, the file {}", mistake.name, mistake.check));
        }
        let kernels = match kernel {
            Ok(_) => match mistake.kernels(&input).expect("the kernel's answer") {
                Some(lines) => {
                    if mistake.check == "accept" {
                        wrong.push(format!("{}: the kernel rejects it", mistake.name));
                    }
                    lines.join("\n")
                }
                None => {
                    if mistake.check != "accept" {
                        wrong.push(format!("{}: the kernel accepts it", mistake.name));
                    }
                    "accepted".to_owned()
                }
            },
            Err(_) => kernels_part(&old, mistake).unwrap_or_default(),
        };
        text.push_str(&mistake.section(&ours, &kernels));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(page(), &text).expect("the page is written");
        return;
    }
    let first = text.lines().zip(old.lines()).find(|(new, old)| new != old);
    assert!(
        first.is_none() && text.len() == old.len(),
        "docs/reference/mistakes.md is not current; run `cargo xtask mistakes`: {first:?}"
    );
}
