"""The kernel's own tests and checks of kernel/patches; `scripts/patched-kernel` has the commands.

    own_tests: for each patch of the series: apply, build the whole kernel --> test_bpf.ko, test_verifier and, where the
               tree builds it in part, test_progs booted without the patches, and with all of them --> the same verdicts
    check:     checkpatch --> for each patch of the series: apply, build its files, sparse --> no warning that was not
               there before
"""

import collections
import os
import re
import shutil
import subprocess
import sys
import time

from machine import BEHIND, JOBS, ArmPackages, add_libraries, run

# Whoever submits the patches signs them off and names a maintainer of the new files.
IGNORED = "MISSING_SIGN_OFF,FILE_PATH_CHANGES"

# Verdicts that both suites have at least.
LEAST = 1700


def test_verifier(kernel, root):
    """Builds the kernel's test_verifier and the libbpf of its tree. Without BTF in the kernel, a module's kfuncs are not
    found, so the module with them is left out."""
    work, tests = os.path.join(kernel.out, "tests"), os.path.join(kernel.tree, "tools/testing/selftests/bpf")
    library, made = os.path.join(work, "libbpf"), os.path.join(work, "made")
    os.makedirs(os.path.join(made, "verifier"), exist_ok=True)
    os.makedirs(library, exist_ok=True)
    found = elf_library(kernel)
    run("make", "-s", "-C", os.path.join(kernel.tree, "tools/lib/bpf"), *kernel.machine["make"], f"OUTPUT={library}/",
        f"DESTDIR={library}", "prefix=", f"EXTRA_CFLAGS={' '.join(['-g', '-O2', *found])}", "install_headers",
        f"{library}/libbpf.a", stdout=subprocess.DEVNULL)
    cases = sorted(name for name in os.listdir(os.path.join(tests, "verifier")) if name.endswith(".c"))
    with open(os.path.join(made, "verifier/tests.h"), "w") as file:
        lines = [f'#include "{tests}/verifier/{name}"\n' for name in cases]
        file.write("".join(["#ifdef FILL_ARRAY\n", *lines, "#endif\n"]))
    with open(os.path.join(tests, "test_verifier.c")) as source, open(os.path.join(made, "test_verifier.c"), "w") as file:
        file.write(source.read().replace("if (load_bpf_testmod(verbose))", "if (0)"))
    folders = [made, tests, f"{library}/include", f"{kernel.out}/include/generated",
               *(os.path.join(kernel.tree, name) for name in ("tools/lib", "tools/include", "tools/include/uapi"))]
    sources = [os.path.join(tests, name + ".c") for name in ("testing_helpers", "cap_helpers", "unpriv_helpers", "disasm")]
    sources.append(os.path.join(made, "test_verifier.c"))
    run(kernel.machine["cc"], "-static", "-O1", "-w", "-s", "-DHAVE_GENHDR", *(f"-I{folder}" for folder in folders), *found, *sources,
        f"{library}/libbpf.a", "-lelf", "-lz", "-lpthread", "-o", os.path.join(root, "test_verifier"))


def test_progs(kernel, root):
    """Builds test_progs, without the parts that this machine's types and packages do not allow, if the tree can leave them
    out (7.3 can) and this machine can run it. Returns the commands of its tests of the verifier."""
    tests, made = os.path.join(kernel.tree, "tools/testing/selftests/bpf"), os.path.join(kernel.out, "progs")
    if kernel.machine["make"] or "BPF_STRICT_BUILD" not in open(os.path.join(tests, "Makefile")).read():
        return []
    os.makedirs(made, exist_ok=True)
    # A kernel without keys has no tests of signatures.
    edit(os.path.join(tests, "test_progs.c"), lambda text: re.sub(r"if \(err < 0\)\s+return err;\s+(?=traffic_monitor_set)", "", text))
    # A library with a build of its own, which stops everything: as if it were newer than what it is made of.
    for name in ("libarena.skel.h", "libarena_asan.skel.h"):
        path, tomorrow = os.path.join(tests, "libarena", name), time.time() + 86400
        open(path, "w").close()
        os.utime(path, (tomorrow, tomorrow))
    flags = ["BPF_STRICT_BUILD=0", "TEST_KMOD_TARGETS=", "LLD=bfd", "OPT_FLAGS=-O1 -Wno-error", "VMLINUX_BTF=/sys/kernel/btf/vmlinux",
             *(f"SKIP_{part}=1" for part in ("DOCS", "LLVM", "LIBBFD", "CRYPTO")), f"OUTPUT={made}",
             *(f"{tool}={name}-19" for tool, name in (("CLANG", "clang"), ("LLC", "llc"), ("LLVM_STRIP", "llvm-strip")))]
    build = [*BEHIND, "make", "-k", "-C", tests, *flags, f"-j{JOBS}", f"{made}/test_progs"]
    with open(os.path.join(kernel.out, "test_progs.log"), "w") as log:
        subprocess.run(build, stdout=log, stderr=log)
        # One object that is missing leaves out the whole list of the verifier's tests.
        edit(os.path.join(tests, "prog_tests/verifier.c"), lambda text: without_missing(text, made))
        run(*build, stdout=log, stderr=log)
    run("strip", "-o", os.path.join(root, "test_progs"), f"{made}/test_progs")
    add_libraries(f"{made}/test_progs", root)
    return ["/test_progs -t verifier"]


def edit(path, change):
    """Changes a file of the tree, if there is something to change."""
    with open(path) as file:
        before = file.read()
    after = change(before)
    if after != before:
        with open(path, "w") as file:
            file.write(after)


def without_missing(text, made):
    """A list of tests without the objects that were not built."""
    for name in re.findall(r'#include "(\w+)[.]skel[.]h"', text):
        if not os.path.exists(os.path.join(made, name + ".skel.h")):
            text = re.sub(rf"RUN(_TESTS)?\({name}\)", "test__skip()", text.replace(f'#include "{name}.skel.h"\n', ""))
    return text


def elf_library(kernel):
    """The compiler's words for libelf and zlib of another machine."""
    if kernel.arch != "arm64":
        return []
    libraries = os.path.join(ArmPackages(os.path.join(kernel.folder, os.pardir, "packages")).elf_library(), "usr")
    names = ("include", "include/aarch64-linux-gnu")
    return [*(f"-I{libraries}/{name}" for name in names), f"-L{libraries}/lib/aarch64-linux-gnu"]


def verdicts(console):
    """The verdict of each test, by its suite and name; times and counts of instructions are left out."""
    found = {}
    for line in console.splitlines():
        line = line.strip()
        inside = re.match(r"test_bpf: (#\d+ .*)\b(PASS|FAIL.*|UNEXPECTED\w+)$", line)
        if inside:
            found["test_bpf " + re.sub(r"(jited:\d).*", r"\1", inside[1])] = inside[2]
    # The verdict may be on a later line, after the reason.
    for text in re.split(r"(?m)^(?=#\d+/[pu] )", console)[1:]:
        verdict = re.search(r" (OK|SKIP|FAIL)\b(?=.*\n)|(?m:^(OK|SKIP|FAIL)\b)", text)
        name = text[:verdict.start() if verdict else None].splitlines()[0].strip()
        found["test_verifier " + name] = (verdict[1] or verdict[2]) if verdict else "no verdict"
    for name, verdict in re.findall(r"(?m)^#\d+(?:/\d+)? +(\S.*):(OK|SKIP|FAIL)\b", console):
        found["test_progs " + name] = verdict
    return found


def own_tests(kernel):
    """Builds the whole kernel after each patch, and compares its own tests without the patches and with all."""
    series, consoles = kernel.patches, []
    for number in range(len(series) + 1):
        kernel.patches = series[:number]
        made = kernel.build()
        print(f"{number} of {len(series)} patches: Linux {kernel.version} for {kernel.arch} builds, {made} object files anew", flush=True)
        if number in (0, len(series)):
            consoles.append(boot(kernel))
    compare(consoles)


def boot(kernel):
    """Boots the kernel's own tests. Returns what the console printed."""
    root = kernel.root()
    shutil.copy(os.path.join(kernel.out, "lib/test_bpf.ko"), root)
    kernel.init(root, "own.c")
    test_verifier(kernel, root)
    return kernel.boot(root, ["/test_verifier", *test_progs(kernel, root)])


def compare(consoles):
    """Compares the kernel's own tests without and with the patches. Exits unless the verdicts are the same."""
    before, after = map(verdicts, consoles)
    for suite in ("test_bpf", "test_verifier", "test_progs"):
        both = [collections.Counter(verdict for name, verdict in own.items() if name.startswith(suite)) for own in (before, after)]
        for name, counts in zip(("without", "with"), both):
            print(f"{suite} {name} the patches: {', '.join(f'{number} {verdict}' for verdict, number in counts.items()) or 'not run'}")
    for console in consoles:
        print("\n".join(re.findall(r".*Summary: .*", console)))
    differ = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    for name in differ:
        print(f"{name}: {before.get(name)} without, {after.get(name)} with the patches")
    ended = all("end of test: " in console for console in consoles)
    # Without BTF in the kernel, hundreds of test_progs fail.
    failed = [name for name, verdict in after.items() if verdict.split()[0] not in ("PASS", "OK", "SKIP")]
    print("\n".join(f"{name}: {after[name]}" for name in failed if not name.startswith("test_progs")))
    inside = [name for name in failed if name.startswith("test_bpf")]
    if differ or inside or len(after) < LEAST or not ended:
        sys.exit("the kernel's own tests fail, or differ with the patches")


def warnings(kernel, sources):
    """Builds those of the source files that are there. Returns what sparse and the compiler report, without line numbers."""
    objects = [name[:-1] + "o" for name in sources if os.path.exists(os.path.join(kernel.tree, name))]
    for name in objects:
        if os.path.exists(os.path.join(kernel.out, name)):
            os.remove(os.path.join(kernel.out, name))
    said = run(*kernel.make, "C=1", "W=1", *objects, capture_output=True, text=True)
    lines = [line for line in (said.stdout + said.stderr).splitlines() if re.search(r": (warning|error):", line)]
    return collections.Counter(re.sub(r":\d+(:\d+)?:", ":", line).split("/source/")[-1] for line in lines)


def check(kernel, changed):
    """Takes the series patch by patch: checkpatch, a build of the changed files with sparse. Exits if there is a warning
    that was not there before."""
    series, kernel.patches = kernel.patches, []
    kernel.configure()
    run(*kernel.make, "prepare", stdout=subprocess.DEVNULL)
    others = {"x86_64": "arch/arm64/", "arm64": "arch/x86/"}[kernel.arch]
    sources = [name for name in changed if name.endswith(".c") and not name.startswith(others)]
    known, faults = warnings(kernel, sources), []
    for number, path in enumerate(series, 1):
        name = os.path.basename(path)
        said = subprocess.run(["perl", "scripts/checkpatch.pl", "--strict", "--terse", "--no-summary", "--ignore", IGNORED, path],
                              cwd=kernel.tree, capture_output=True, text=True)
        faults += said.stdout.splitlines()
        kernel.patches = series[:number]
        kernel.source()
        new = warnings(kernel, sources) - known
        faults += [f"{name}: {line}" for line in new]
        print(f"{name}: its files build for {kernel.arch}; sparse and W=1 have {len(new)} new warnings, {sum(known.values())} known")
    if faults:
        sys.exit("\n".join(faults))
    print(f"checkpatch --strict: no fault in {len(series)} patches ({IGNORED} aside)")
