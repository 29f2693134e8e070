//! Compares the bytes of frames that are reported with the kernel's log. A frame with a private stack has a depth there, though
//! it is no part of the chain's sum.
//!
//! ```text
//!   long own[63] in a tracepoint's program   kernel: stack depth 504   Kiln: frame_bytes 504, stack_bytes 0
//! ```

use std::path::Path;
use std::process::Command;

use kiln_driver::check::{self, Verdict};
use kiln_driver::{Input, input, kernel};
use kiln_test::engine::kernel_available;

/// Compiles a program that uses the lowest byte of a frame of `bytes`.
fn compiled(folder: &Path, section: &str, bytes: u32) -> Input {
    let words = bytes / 8;
    let source = format!(
        "__attribute__((section(\"{section}\"), used)) int program(void *context)\n\
         {{ long own[{words}]; own[0] = 1; asm volatile(\"\" : : \"r\"(own) : \"memory\"); return own[0] - 1; }}\n\
         __attribute__((section(\"license\"), used)) char licensed[] = \"GPL\";\n"
    );
    let (file, object) = (folder.join("a.bpf.c"), folder.join("a.o"));
    std::fs::write(&file, source).expect("the source");
    let mut clang = Command::new("clang-19");
    clang.args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-c"]).arg(&file).arg("-o").arg(&object);
    let output = clang.output().expect("clang-19 starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    input::open(&object, &[]).expect("an object")
}

/// The bytes of the program's frame, by the kernel's log.
fn depth(input: &Input) -> u32 {
    let program = &input.object.programs[0];
    let loaded = kernel::load_with_statistics(&input.bytes, &input.object, program).expect("the kernel accepts it");
    let mut lines = loaded.object.logs.iter().flat_map(|log| log.log.lines());
    let depths = lines.find_map(|line| line.strip_prefix("stack depth ")).expect("the log has the depth");
    depths.split('+').next().and_then(|first| first.trim().parse().ok()).expect("a number")
}

#[test]
fn frames_are_as_deep_as_the_kernel_says() {
    if let Err(why) = kernel_available() {
        println!("skipped: {why}");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for (section, is_tracing) in [("tracepoint/syscalls/sys_enter_nanosleep", true), ("xdp", false)] {
        for bytes in [8, 64, 504] {
            let input = compiled(folder.path(), section, bytes);
            let checked = check::check(&input, &[&input.object.programs[0]]).remove(0);
            let Verdict::Accepted { stack_bytes, frame_bytes, .. } = checked.verdict else { panic!("{checked:?}") };
            assert_eq!((frame_bytes, bytes), (depth(&input), frame_bytes), "{section}");
            let is_private = is_tracing && bytes >= 64;
            assert_eq!(stack_bytes == 0, is_private, "{section}, {bytes} bytes: {stack_bytes}");
        }
    }
}
