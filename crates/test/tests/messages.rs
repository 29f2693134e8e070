//! `docs/reference/messages.md` is what Kiln prints now, beside the recorded words of kernels; `BLESS=1` (or `cargo xtask
//! messages`) writes it.

use std::path::{Path, PathBuf};

use kiln_test::{corpus, messages};

/// Lines of one rejection that are too many.
const TOO_LONG: usize = 40;

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/messages.md")
}

#[test]
fn the_page_is_current() {
    let objects = tempfile::tempdir().expect("a temporary folder");
    for group in ["mistakes", "helps"] {
        let folder = objects.path().join(group);
        std::fs::create_dir(&folder).expect("a folder");
        if !messages::compile(group, &folder).expect("it compiles") {
            eprintln!("skipped: clang: no clang-19");
            return;
        }
    }
    let selftests = corpus::folder().join("selftests-6.12");
    if corpus::objects().is_empty() || !selftests.is_dir() {
        return;
    }
    std::os::unix::fs::symlink(&selftests, objects.path().join("selftests-6.12")).expect("a link");
    let [new, old] = ["7.3", "6.18"].map(|series| messages::recorded(series).expect("the recorded words"));
    let (text, longest) = messages::page(&new, &old, objects.path());
    assert!(longest < TOO_LONG, "a text of {longest} lines");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(page(), &text).expect("the page is written");
        return;
    }
    let now = std::fs::read_to_string(page()).unwrap_or_default();
    let first = text.lines().zip(now.lines()).find(|(new, old)| new != old);
    assert!(text == now, "docs/reference/messages.md is not current; run `cargo xtask messages`: {first:?}");
}

#[test]
fn a_field_that_the_kernel_lacks_has_a_near_name() {
    let objects = tempfile::tempdir().expect("a temporary folder");
    if !messages::compile("helps", objects.path()).expect("it compiles") {
        eprintln!("skipped: clang: no clang-19");
        return;
    }
    let mut input = kiln_driver::input::open(&objects.path().join("field-not-there.o"), &[]).expect("an object");
    input.resolve_for_running_kernel().expect("it is relocated");
    if input.kernel_types.is_none() {
        eprintln!("skipped: kernel: no BTF");
        return;
    }
    let programs: Vec<_> = input.object.programs.iter().collect();
    let checked = kiln_driver::check::check(&input, &programs);
    let text = format!("{:?}", checked[0].verdict);
    assert!(text.contains("did you mean `pid` of struct task_struct?"), "{text}");
}
