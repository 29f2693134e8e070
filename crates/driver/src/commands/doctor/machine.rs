//! What this machine can do, and the command that mends what it cannot.

use std::path::Path;
use std::process::Command;

use kiln_platform::KernelVersion;
use serde::Serialize;

/// One thing looked at.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub what: String,
    /// Who misses it.
    pub level: Level,
    /// How it is.
    pub state: State,
    /// What was found.
    pub detail: String,
    /// What needs it.
    pub needed_for: String,
    /// The command or setting that mends it; empty when nothing is wrong.
    pub mend: String,
}

/// Who misses a thing that is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Every user.
    Needed,
    /// Users of some commands, or of programs with such hooks.
    Optional,
    /// Who builds and tests Kiln.
    Development,
}

/// How a thing is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// There and working.
    Ok,
    /// Missing; what needs it is skipped.
    Missing,
    /// It could not be tried.
    Unknown,
}

/// Looks at what Kiln can make use of, and with `dev` at what building and testing it takes. Changes nothing.
pub fn examine(dev: bool) -> Vec<Finding> {
    let needed = [bpf_syscall(), kernel_profile(), kernel_btf(), executable_memory()];
    let optional = [kernel_jit(), locked_memory(), tracefs(), cgroup2()].into_iter().chain(HOOKS.iter().map(hook));
    let optional = optional.map(|finding| Finding { level: Level::Optional, ..finding });
    let mut findings: Vec<Finding> = needed.into_iter().chain(optional).collect();
    findings.extend(NEEDS.iter().filter(|row| dev || USERS.contains(&row.package)).map(need));
    findings
}

/// Whether something is missing that every user needs.
pub fn lacks(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| finding.level != Level::Optional && finding.state == State::Missing)
}

/// A kind of hook that kernels can be built without.
struct Hook {
    what: &'static str,
    program: &'static str,
    needs: &'static str,
}

/// Hooks that are tried one by one: a kernel may have either without the other.
const HOOKS: &[Hook] = &[
    Hook {
        what: "fentry",
        program: "tracing section \"fentry/bpf_prog_put\" attach trace_fentry",
        needs: "CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS=y",
    },
    Hook {
        what: "LSM",
        program: "lsm section \"lsm/file_open\" attach lsm_mac",
        needs: "CONFIG_BPF_LSM=y, and bpf among the modules of lsm=",
    },
];

/// Loads a program for a hook that does nothing, and unloads it.
fn hook(hook: &Hook) -> Finding {
    let needed_for = format!("asking the kernel about {} programs", hook.what);
    let finding = |state, detail: String, mend: &str| Finding {
        what: hook.what.to_owned(),
        level: Level::Optional,
        state,
        detail,
        needed_for: needed_for.clone(),
        mend: mend.to_owned(),
    };
    if let Err(error) = kiln_linux::available() {
        return finding(State::Unknown, format!("the kernel cannot be asked: {error}"), mend(&error));
    }
    let text = format!("; license GPL\n; program {}\n  r0 = 0\n  exit\n", hook.program);
    let object = match kiln_program::text::parse(&text) {
        Ok(object) => object,
        Err(error) => return finding(State::Unknown, error.to_string(), "an update of Kiln"),
    };
    match kiln_linux::load_image(&object, &object.programs[0]) {
        Ok(_) => finding(State::Ok, "a program loads".to_owned(), ""),
        Err(failure) => match (failure.error.errno(), failure.reason()) {
            (Some(EPERM), _) => {
                let why = "the kernel refuses before its verifier looks at the program (EPERM)".to_owned();
                finding(State::Unknown, why, "a kernel whose policy allows it")
            }
            (_, Some(reason)) => finding(State::Missing, reason.to_owned(), &format!("a kernel with {}", hook.needs)),
            (_, None) => finding(State::Missing, failure.to_string(), &format!("a kernel with {}", hook.needs)),
        },
    }
}

/// What lets the kernel be asked.
fn mend(error: &kiln_linux::Error) -> &'static str {
    match error {
        kiln_linux::Error::NoLibbpf => "a build of Kiln with the feature `kernel`",
        _ => "run as root: sudo kiln ...",
    }
}

/// `EPERM`: not a word about what the kernel has.
const EPERM: i32 = 1;

/// Packages of [`NEEDS`] that users' commands need: `kiln cc`, `kiln verify-evidence`.
const USERS: &[&str] = &["z3", "cvc5", "clang-19"];

/// Which release `--kernel running` stands for, and by whose word.
fn kernel_profile() -> Finding {
    let (state, detail, mend) = match kiln_linux::running::release() {
        Ok(release) if release > KernelVersion::NEWEST => {
            let detail = format!("{release}, newer than the tables ({})", KernelVersion::NEWEST);
            (State::Missing, detail, "an update of Kiln")
        }
        Ok(release) if kiln_linux::available().is_ok() => (State::Ok, format!("{release}, and it may be asked"), ""),
        Ok(release) => (State::Ok, format!("{release}, by the tables (without privilege it is not asked)"), ""),
        Err(error) => (State::Missing, error.to_string(), MOUNT_PROC),
    };
    Finding {
        what: "profile of the running kernel".to_owned(),
        level: Level::Needed,
        state,
        detail,
        needed_for: "kiln check --kernel running".to_owned(),
        mend: mend.to_owned(),
    }
}

/// Something that a Debian package brings and some task needs.
struct Need {
    package: &'static str,
    probe: Probe,
    needed_for: &'static str,
}

/// How to see whether it is there.
enum Probe {
    /// A command, and the option with which it says its version.
    Command(&'static str, &'static str),
    /// Any of these files.
    AnyOf(&'static [&'static str]),
}

use Probe::{AnyOf, Command as Tool};

/// Where Debian keeps the header of static probes.
const SDT_HEADERS: &[&str] = &["/usr/include/x86_64-linux-gnu/sys/sdt.h", "/usr/include/aarch64-linux-gnu/sys/sdt.h"];

const fn row(package: &'static str, probe: Probe, needed_for: &'static str) -> Need {
    Need { package, probe, needed_for }
}

/// What `scripts/setup` installs, in its order.
const NEEDS: &[Need] = &[
    row("ca-certificates", AnyOf(&["/etc/ssl/certs/ca-certificates.crt"]), "building: crates over https"),
    row("git", Tool("git", "--version"), "make test"),
    row("gcc", Tool("gcc", "--version"), "building"),
    row("libc6-dev", AnyOf(&["/usr/include/stdio.h"]), "building"),
    row("linux-libc-dev", AnyOf(&["/usr/include/linux/bpf.h"]), "building; compiling the corpora"),
    row("make", Tool("make", "--version"), "building libbpf; make demo, make test"),
    row("pkg-config", Tool("pkg-config", "--version"), "building"),
    row("libelf-dev", AnyOf(&["/usr/include/libelf.h"]), "building: libbpf"),
    row("zlib1g-dev", AnyOf(&["/usr/include/zlib.h"]), "building: libbpf"),
    row("libz3-dev", AnyOf(&["/usr/include/z3.h"]), "building: the solver"),
    row("z3", Tool("z3", "--version"), "re-checking evidence outside Kiln"),
    row("cvc5", Tool("cvc5", "--version"), "kiln verify-evidence: a second opinion on every proof"),
    row("clang-19", Tool("clang-19", "--version"), "make demo, make test: compiling the corpora"),
    row("libclang-19-dev", AnyOf(&["/usr/lib/llvm-19/lib/libclang.so"]), "building: crates that read C headers"),
    row("llvm-19", Tool("llvm-objdump-19", "--version"), "make test: the oracle of listings"),
    row("bpftool", Tool("bpftool", "version"), "make test: vmlinux.h for the corpora"),
    row(
        "libbpf-dev",
        AnyOf(&["/usr/include/bpf/bpf_helpers.h"]),
        "make test, make bench: compiling programs of our own",
    ),
    row(
        "xdp-tools",
        AnyOf(&["/usr/lib/x86_64-linux-gnu/bpf/xdpfilt_alw_all.o", "/usr/lib/aarch64-linux-gnu/bpf/xdpfilt_alw_all.o"]),
        "make demo, make test: real objects",
    ),
    row("linux-source-6.1", AnyOf(&["/usr/src/linux-source-6.1.tar.xz"]), "make demo, make test: samples/bpf"),
    row("linux-source-6.12", AnyOf(&["/usr/src/linux-source-6.12.tar.xz"]), "make test: the kernel's selftests"),
    row("xz-utils", Tool("xz", "--version"), "unpacking the kernel's sources"),
    row("python3", Tool("python3", "--version"), "scripts/corpus"),
    row("iproute2", Tool("ip", "-V"), "make test: attaching to interfaces of its own"),
    row("memcached", Tool("memcached", "--version"), "make test: answers of kiln kv beside memcached's"),
    row("python3-pymemcache", AnyOf(&["/usr/lib/python3/dist-packages/pymemcache"]), "make test: a client of kiln kv"),
    row("python3-pylibmc", AnyOf(&["/usr/lib/python3/dist-packages/pylibmc"]), "make test: a client of kiln kv"),
    row("redis-server", Tool("redis-server", "--version"), "make test: answers of kiln kv beside Redis'"),
    row("redis-tools", Tool("redis-cli", "--version"), "make test: clients of kiln kv"),
    row("python3-redis", AnyOf(&["/usr/lib/python3/dist-packages/redis"]), "make test: a client of kiln kv"),
    row("tcl", Tool("tclsh", "/dev/null"), "make test-redis: Redis' own tests"),
    row("postgresql-client", Tool("psql", "--version"), "make test: a client of kiln serve"),
    row(
        "python3-pytest",
        AnyOf(&["/usr/lib/python3/dist-packages/pytest"]),
        "make test: tests of BPF programs in Python",
    ),
    row("bpftrace", Tool("bpftrace", "--version"), "make test: answers of named queries beside its tools'"),
    row("systemtap-sdt-dev", AnyOf(SDT_HEADERS), "make test: static probes of a program"),
    row("ethtool", Tool("ethtool", "--version"), "make test: interfaces of its own"),
    row("chromium", Tool("chromium", "--version"), "make test: pages in a browser"),
    row("coq", Tool("coqc", "--version"), "make test, make proofs: the proofs of native operations"),
    row("qemu-user-static", Tool("qemu-aarch64-static", "--version"), "make test: arm64 code of the JIT"),
    row("gcc-aarch64-linux-gnu", Tool("aarch64-linux-gnu-gcc", "--version"), "make test: linking arm64 tests"),
    row("libc6-dev-arm64-cross", AnyOf(&["/usr/aarch64-linux-gnu/include/stdio.h"]), "make test: linking arm64 tests"),
    row("g++", Tool("g++", "--version"), "make dist: Z3"),
    row("cmake", Tool("cmake", "--version"), "make dist: Z3"),
    row("dpkg-dev", Tool("dpkg-source", "--version"), "make dist: the sources of Z3"),
    row(
        "python3-venv",
        AnyOf(&["/usr/lib/python3.11/ensurepip", "/usr/lib/python3/ensurepip"]),
        "make dist-all: wheels",
    ),
    row(
        "g++-aarch64-linux-gnu",
        Tool("aarch64-linux-gnu-g++", "--version"),
        "make dist-all: the binary for 64-bit Arm",
    ),
    row("mmdebstrap", Tool("mmdebstrap", "--version"), "make dist-all: clean roots"),
    row("buildah", Tool("buildah", "--version"), "make dist-all: the container image"),
    row("ruby", Tool("ruby", "--version"), "make dist-all: the formula for Homebrew"),
    row("nix-bin", Tool("nix", "--version"), "make dist-all: the flake"),
    row("qemu-system-arm", Tool("qemu-system-aarch64", "--version"), "make test-arm64-kernel"),
    row("cpio", Tool("cpio", "--version"), "make test-arm64-kernel, make kernel"),
    row("flex", Tool("flex", "--version"), "make kernel"),
    row("bison", Tool("bison", "--version"), "make kernel"),
    row("bc", Tool("bc", "--version"), "make kernel"),
    row("qemu-system-x86", Tool("qemu-system-x86_64", "--version"), "make kernel, scripts/under-kernel"),
    row("sparse", Tool("sparse", "--version"), "make kernel-checks"),
    row("rsync", Tool("rsync", "--version"), "make kernel-checks"),
    row("meson", Tool("meson", "--version"), "make test-build-systems"),
    row("ninja-build", Tool("ninja", "--version"), "make test-build-systems"),
    row("clang-13", Tool("clang-13", "--version"), "scripts/variants"),
    row("clang-14", Tool("clang-14", "--version"), "scripts/variants"),
    row("clang-15", Tool("clang-15", "--version"), "scripts/variants"),
    row("clang-16", Tool("clang-16", "--version"), "scripts/variants"),
    row("libmemcached-tools", Tool("memcaslap", "--version"), "make test-clients"),
    row("gcc-mingw-w64-x86-64-win32", Tool("x86_64-w64-mingw32-gcc", "--version"), "make dist-others"),
    row("wine64", Tool("/usr/lib/wine/wine64", "--version"), "make dist-others"),
];

fn ok(what: &str, detail: String, needed_for: &str) -> Finding {
    let (what, needed_for) = (what.to_owned(), needed_for.to_owned());
    Finding { what, level: Level::Needed, state: State::Ok, detail, needed_for, mend: String::new() }
}

fn missing(what: &str, detail: String, needed_for: &str, mend: &str) -> Finding {
    let (what, needed_for, mend) = (what.to_owned(), needed_for.to_owned(), mend.to_owned());
    Finding { what, level: Level::Needed, state: State::Missing, detail, needed_for, mend }
}

fn bpf_syscall() -> Finding {
    let (what, needed_for) = ("bpf(2)", "kiln run --in kernel, the kernel's column of kiln bench");
    match kiln_linux::available() {
        Ok(()) => ok(what, format!("a program loads (Linux {}; {})", kernel_release(), unprivileged()), needed_for),
        Err(error) if error.is_privilege() => {
            missing(what, error.to_string(), needed_for, "run as root: sudo kiln ...")
        }
        Err(error @ kiln_linux::Error::NoLibbpf) => missing(what, error.to_string(), needed_for, mend(&error)),
        Err(error) => missing(what, error.to_string(), needed_for, "boot a kernel with CONFIG_BPF_SYSCALL=y"),
    }
}

/// Whether users without privilege may load anything.
fn unprivileged() -> &'static str {
    match std::fs::read_to_string("/proc/sys/kernel/unprivileged_bpf_disabled").as_deref().map(str::trim) {
        Ok("0") => "others may load socket filters",
        Ok("1" | "2") => "others may load nothing",
        _ => "what others may load is unknown",
    }
}

fn kernel_release() -> String {
    let read = std::fs::read_to_string("/proc/sys/kernel/osrelease");
    read.map_or_else(|_| "of an unknown release".to_owned(), |text| text.trim().to_owned())
}

/// What mends findings that need `/proc`.
const MOUNT_PROC: &str = "mount -t proc proc /proc";

fn kernel_jit() -> Finding {
    let (what, needed_for) = ("the kernel's JIT", "comparing speed with the kernel");
    let mend = "sysctl net.core.bpf_jit_enable=1";
    match std::fs::read_to_string("/proc/sys/net/core/bpf_jit_enable") {
        Ok(text) if text.trim() != "0" => ok(what, "enabled".to_owned(), needed_for),
        Ok(_) => missing(what, "disabled".to_owned(), needed_for, mend),
        Err(error) if Path::new("/proc/self").exists() => missing(what, error.to_string(), needed_for, mend),
        Err(_) => missing(what, "/proc is not mounted".to_owned(), needed_for, MOUNT_PROC),
    }
}

fn kernel_btf() -> Finding {
    let (what, needed_for) = ("the kernel's BTF", "CO-RE against this kernel, vmlinux.h");
    let path = Path::new("/sys/kernel/btf/vmlinux");
    match std::fs::metadata(path) {
        Ok(data) => ok(what, format!("{} ({} KiB)", path.display(), data.len() / 1024), needed_for),
        Err(_) if !Path::new("/sys/kernel").exists() => {
            missing(what, "/sys is not mounted".to_owned(), needed_for, "mount -t sysfs sysfs /sys")
        }
        Err(error) => missing(what, error.to_string(), needed_for, "boot a kernel with CONFIG_DEBUG_INFO_BTF=y"),
    }
}

fn locked_memory() -> Finding {
    let (what, needed_for) = ("locked memory", "loading programs and maps before Linux 5.11");
    let release = kernel_release();
    let mut numbers = release.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    if (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (5, 11) {
        return ok(what, format!("not limited: Linux {release} accounts BPF memory to cgroups"), needed_for);
    }
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    match limits.lines().find(|line| line.starts_with("Max locked memory")) {
        Some(line) if line.contains("unlimited") => ok(what, "unlimited".to_owned(), needed_for),
        None => missing(what, "/proc is not mounted".to_owned(), needed_for, MOUNT_PROC),
        _ => missing(what, "limited".to_owned(), needed_for, "ulimit -l unlimited"),
    }
}

fn tracefs() -> Finding {
    let (what, needed_for) = ("tracefs", "attaching to tracepoints by name");
    match kiln_linux::attach::tracefs() {
        Some(path) => ok(what, path.display().to_string(), needed_for),
        None => missing(what, "not mounted".to_owned(), needed_for, "mount -t tracefs tracefs /sys/kernel/tracing"),
    }
}

fn cgroup2() -> Finding {
    let (what, needed_for) = ("cgroup2", "attaching to control groups");
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let mut fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    match fields.find(|fields| fields.get(2) == Some(&"cgroup2")) {
        Some(fields) => ok(what, fields[1].to_owned(), needed_for),
        None => missing(what, "not mounted".to_owned(), needed_for, "mount -t cgroup2 cgroup2 /sys/fs/cgroup"),
    }
}

/// Maps a page that holds one instruction, and unmaps it.
fn executable_memory() -> Finding {
    let (what, needed_for) = ("the VM's JIT", "kiln run and kiln bench at full speed");
    if !cfg!(target_arch = "x86_64") {
        let mend = "kiln run --in interpreter does without";
        return missing(what, format!("none for {} yet", std::env::consts::ARCH), needed_for, mend);
    }
    const RETURN: u8 = 0xc3;
    match kiln_vm::exec::Program::new(&[RETURN]) {
        Ok(_) => ok(what, "x86-64; executable memory can be mapped".to_owned(), needed_for),
        Err(error) => {
            let mend = "allow mprotect with PROT_EXEC (SELinux execmem, systemd MemoryDenyWriteExecute)";
            missing(what, format!("no executable memory: {error}"), needed_for, mend)
        }
    }
}

fn need(need: &Need) -> Finding {
    let Need { package, probe, needed_for } = need;
    let found = match probe {
        Probe::Command(command, option) => version(command, option),
        Probe::AnyOf(paths) => paths.iter().find(|path| Path::new(path).exists()).map(|path| (*path).to_owned()),
    };
    let finding = match found {
        Some(detail) => ok(package, detail, needed_for),
        None => missing(package, "not found".to_owned(), needed_for, &format!("apt-get install {package}")),
    };
    let level = if USERS.contains(package) { Level::Optional } else { Level::Development };
    Finding { level, ..finding }
}

/// The first line of a command's answer that has a number in it.
fn version(command: &str, option: &str) -> Option<String> {
    let output = Command::new(command).arg(option).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().map(str::trim).find(|line| line.chars().any(|c| c.is_ascii_digit()));
    Some(line.unwrap_or("found").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_what_the_set_up_installs() {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/setup");
        let output = Command::new("bash").args([script, "--list"]).output().expect("scripts/setup runs");
        let list = String::from_utf8(output.stdout).expect("text");
        let mut installed: Vec<&str> = Vec::new();
        for package in list.lines().filter_map(|line| line.split_whitespace().next()) {
            // Two lists may name a package.
            if !installed.contains(&package) {
                installed.push(package);
            }
        }
        let known: Vec<_> = NEEDS.iter().map(|need| need.package).collect();
        assert_eq!(known, installed);
    }

    #[test]
    fn a_missing_command_comes_with_what_mends_it() {
        let finding = need(&row("no-such-package", Tool("kiln-no-such-command", "--version"), "nothing"));
        assert_eq!((finding.state, finding.mend.as_str()), (State::Missing, "apt-get install no-such-package"));
    }
}
