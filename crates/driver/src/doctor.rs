//! What this machine can do, and the command that mends what it cannot.

use std::path::Path;
use std::process::Command;

use serde::Serialize;

/// One thing looked at.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub what: String,
    /// How it is.
    pub state: State,
    /// What was found.
    pub detail: String,
    /// What needs it.
    pub needed_for: String,
    /// The command or setting that mends it; empty when nothing is wrong.
    pub mend: String,
}

/// How a thing is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// There and working.
    Ok,
    /// Missing; what needs it is skipped.
    Missing,
}

/// Looks at everything Kiln can make use of. Changes nothing.
pub fn examine() -> Vec<Finding> {
    let mut findings = vec![bpf_syscall(), kernel_jit(), kernel_btf(), executable_memory()];
    findings.extend(TOOLS.iter().map(tool));
    findings.extend(FILES.iter().map(file));
    findings
}

/// A command that some task needs.
struct Tool {
    command: &'static str,
    package: &'static str,
    needed_for: &'static str,
}

const TOOLS: &[Tool] = &[
    Tool { command: "clang-19", package: "clang-19", needed_for: "make test, make demo: compiling the corpora" },
    Tool { command: "llvm-objdump-19", package: "llvm-19", needed_for: "make test: the disassembler's oracle" },
    Tool { command: "llvm-mc-19", package: "llvm-19", needed_for: "make test: the assembler's oracle" },
    Tool { command: "z3", package: "z3", needed_for: "re-checking evidence outside Kiln" },
    Tool { command: "bpftool", package: "bpftool", needed_for: "make test: vmlinux.h for the corpora" },
];

/// A file or folder that some task needs.
struct File {
    what: &'static str,
    paths: &'static [&'static str],
    package: &'static str,
    needed_for: &'static str,
}

const FILES: &[File] = &[
    File {
        what: "xdp-tools objects",
        paths: &[
            "/usr/lib/x86_64-linux-gnu/bpf/xdpfilt_alw_all.o",
            "/usr/lib/aarch64-linux-gnu/bpf/xdpfilt_alw_all.o",
        ],
        package: "xdp-tools",
        needed_for: "make demo, make test: real objects",
    },
    File {
        what: "Linux 6.1 sources",
        paths: &["/usr/src/linux-source-6.1.tar.xz"],
        package: "linux-source-6.1",
        needed_for: "make demo, make test: samples/bpf",
    },
    File {
        what: "Linux 6.12 sources",
        paths: &["/usr/src/linux-source-6.12.tar.xz"],
        package: "linux-source-6.12",
        needed_for: "make test: the kernel's selftests",
    },
];

fn ok(what: &str, detail: String, needed_for: &str) -> Finding {
    let (what, needed_for) = (what.to_owned(), needed_for.to_owned());
    Finding { what, state: State::Ok, detail, needed_for, mend: String::new() }
}

fn missing(what: &str, detail: String, needed_for: &str, mend: &str) -> Finding {
    let (what, needed_for, mend) = (what.to_owned(), needed_for.to_owned(), mend.to_owned());
    Finding { what, state: State::Missing, detail, needed_for, mend }
}

fn bpf_syscall() -> Finding {
    let (what, needed_for) = ("bpf(2)", "kiln run --in kernel, the kernel's column of kiln bench");
    match kiln_linux::available() {
        Ok(()) => ok(what, format!("a program loads (Linux {})", kernel_release()), needed_for),
        Err(error) if error.is_privilege() => {
            missing(what, error.to_string(), needed_for, "run as root: sudo kiln ...")
        }
        Err(error) => missing(what, error.to_string(), needed_for, "boot a kernel with CONFIG_BPF_SYSCALL=y"),
    }
}

fn kernel_release() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned()
}

fn kernel_jit() -> Finding {
    let (what, needed_for) = ("the kernel's JIT", "comparing speed with the kernel");
    let mend = "sysctl net.core.bpf_jit_enable=1";
    match std::fs::read_to_string("/proc/sys/net/core/bpf_jit_enable") {
        Ok(text) if text.trim() != "0" => ok(what, "enabled".to_owned(), needed_for),
        Ok(_) => missing(what, "disabled".to_owned(), needed_for, mend),
        Err(error) => missing(what, error.to_string(), needed_for, mend),
    }
}

fn kernel_btf() -> Finding {
    let (what, needed_for) = ("the kernel's BTF", "CO-RE against this kernel, vmlinux.h");
    let path = Path::new("/sys/kernel/btf/vmlinux");
    match std::fs::metadata(path) {
        Ok(data) => ok(what, format!("{} ({} KiB)", path.display(), data.len() / 1024), needed_for),
        Err(error) => {
            missing(what, error.to_string(), needed_for, "boot a kernel with CONFIG_DEBUG_INFO_BTF=y")
        }
    }
}

fn executable_memory() -> Finding {
    let (what, needed_for) = ("the VM's JIT", "kiln run and kiln bench at full speed");
    if !cfg!(target_arch = "x86_64") {
        return missing(what, "no JIT for this CPU yet".to_owned(), needed_for, "use --engine interpreter");
    }
    ok(what, "x86-64".to_owned(), needed_for)
}

fn tool(tool: &Tool) -> Finding {
    let version = Command::new(tool.command).arg("--version").output();
    match version {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let line = text.lines().map(str::trim).find(|line| line.chars().any(|c| c.is_ascii_digit()));
            ok(tool.command, line.unwrap_or_default().to_owned(), tool.needed_for)
        }
        Err(_) => {
            let mend = format!("apt-get install {}", tool.package);
            missing(tool.command, "not found".to_owned(), tool.needed_for, &mend)
        }
    }
}

fn file(file: &File) -> Finding {
    match file.paths.iter().find(|path| Path::new(path).exists()) {
        Some(path) => ok(file.what, (*path).to_owned(), file.needed_for),
        None => {
            let mend = format!("apt-get install {}", file.package);
            missing(file.what, "not found".to_owned(), file.needed_for, &mend)
        }
    }
}
