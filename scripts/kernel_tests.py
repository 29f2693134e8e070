"""The kernel's own tests and checks of kernel/patches; `scripts/patched-kernel` has the commands.

    compare:  test_bpf.ko, test_verifier --> booted without the patches, and with them --> the same verdicts
    check:    checkpatch --> for each patch of the series: apply, build, sparse --> no warning that was not there before
"""

import collections
import os
import re
import shutil
import subprocess
import sys

from machine import output, run

HARNESS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "kernel", "harness")
# Whoever submits the patches signs them off and names a maintainer of the new files.
IGNORED = "MISSING_SIGN_OFF,FILE_PATH_CHANGES"
# What the patches change or make, by the machine that builds it.
OBJECTS = ["kernel/bpf/native_op.o", "kernel/bpf/core.o", "kernel/bpf/syscall.o", "kernel/bpf/verifier.o"]
JIT = {"x86_64": "arch/x86/net/bpf_jit_comp.o", "arm64": "arch/arm64/net/bpf_jit_comp.o"}


def test_verifier(kernel, root):
    """Builds the kernel's test_verifier and the libbpf of its tree."""
    work, tests = os.path.join(kernel.out, "tests"), os.path.join(kernel.tree, "tools/testing/selftests/bpf")
    library, made = os.path.join(work, "libbpf"), os.path.join(work, "made")
    os.makedirs(os.path.join(made, "verifier"), exist_ok=True)
    os.makedirs(library, exist_ok=True)
    run("make", "-s", "-C", os.path.join(kernel.tree, "tools/lib/bpf"), f"OUTPUT={library}/", f"DESTDIR={library}", "prefix=",
        "install_headers", f"{library}/libbpf.a", stdout=subprocess.DEVNULL)
    cases = sorted(name for name in os.listdir(os.path.join(tests, "verifier")) if name.endswith(".c"))
    with open(os.path.join(made, "verifier/tests.h"), "w") as file:
        lines = [f'#include "{tests}/verifier/{name}"\n' for name in cases]
        file.write("".join(["#ifdef FILL_ARRAY\n", *lines, "#endif\n"]))
    folders = [made, tests, f"{library}/include", f"{kernel.out}/include/generated",
               *(os.path.join(kernel.tree, name) for name in ("tools/lib", "tools/include", "tools/include/uapi"))]
    sources = [os.path.join(tests, name + ".c") for name in ("test_verifier", "testing_helpers", "cap_helpers",
                                                             "unpriv_helpers", "disasm")]
    run("gcc", "-static", "-O1", "-w", "-DHAVE_GENHDR", *(word for folder in folders for word in ("-I", folder)), *sources,
        f"{library}/libbpf.a", "-lelf", "-lz", "-lpthread", "-o", os.path.join(work, "test_verifier"))
    run("strip", "-o", os.path.join(root, "test_verifier"), os.path.join(work, "test_verifier"))


def verdicts(console):
    """The verdict of each test, by its suite and name; times and counts of instructions are left out."""
    found = collections.OrderedDict()
    for line in console.splitlines():
        line = line.strip()
        inside = re.match(r"test_bpf: (#\d+ .*)\b(PASS|FAIL.*|UNEXPECTED\w+)$", line)
        if inside:
            found["test_bpf " + re.sub(r"(jited:\d).*", r"\1", inside[1])] = inside[2]
        outside = re.match(r"(#\d+/[pu] .*?) ?(OK|SKIP|FAIL)\b", line)
        if outside:
            found["test_verifier " + outside[1]] = outside[2]
    return found


def own_tests(kernel):
    """Boots the kernel's own tests. Returns what the console printed."""
    kernel.build()
    root = kernel.root()
    shutil.copy(os.path.join(kernel.out, "lib/test_bpf.ko"), root)
    kernel.init(root, "own.c")
    steps = []
    if not kernel.machine["make"]:
        test_verifier(kernel, root)
        steps = ["/test_verifier"]
    return kernel.boot(root, steps)


def compare(plain, patched):
    """Runs the kernel's own tests without and with the patches. Exits unless the verdicts are the same."""
    consoles = [own_tests(kernel) for kernel in (plain, patched)]
    before, after = map(verdicts, consoles)
    for suite in ("test_bpf", "test_verifier"):
        both = [collections.Counter(verdict for name, verdict in own.items() if name.startswith(suite)) for own in (before, after)]
        for name, counts in zip(("without", "with"), both):
            print(f"{suite} {name} the patches: {', '.join(f'{number} {verdict}' for verdict, number in counts.items()) or 'not run'}")
    for console in consoles:
        print("\n".join(re.findall(r".*Summary: .*", console)))
    differ = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    for name in differ:
        print(f"{name}: {before.get(name)} without, {after.get(name)} with the patches")
    ended = all("end of test: " in console for console in consoles)
    failed = [name for name in after if name.startswith("test_bpf") and after[name] != "PASS"]
    if differ or failed or not before or not ended:
        print(consoles[1] if not ended else "\n".join(failed))
        sys.exit("the kernel's own tests fail, or differ with the patches")


def sparse(kernel, objects):
    """The warnings of sparse and of the compiler, without line numbers."""
    for name in objects:
        if os.path.exists(os.path.join(kernel.out, name)):
            os.remove(os.path.join(kernel.out, name))
    said = subprocess.run([*kernel.make, "C=1", "W=1", *objects], capture_output=True, text=True, check=True)
    lines = [line for line in (said.stdout + said.stderr).splitlines() if re.search(r": (warning|error):", line)]
    return collections.Counter(re.sub(r":\d+(:\d+)?:", ":", line).split(kernel.tree)[-1] for line in lines)


def check(plain, patched):
    """Applies the series patch by patch to an unpatched tree: builds, asks checkpatch and sparse."""
    plain.build()
    objects = [*OBJECTS[1:], JIT[plain.arch]]
    known = sparse(plain, objects)
    done, faults = [], []
    try:
        for path in patched.patches:
            name = os.path.basename(path)
            said = subprocess.run(["perl", "scripts/checkpatch.pl", "--strict", "--terse", "--no-summary", "--ignore", IGNORED, path],
                                  cwd=plain.tree, capture_output=True, text=True)
            faults += said.stdout.splitlines()
            run("patch", "-s", "-p1", "-F0", "-f", "-i", path, cwd=plain.tree)
            done.append(path)
            new = sparse(plain, [*OBJECTS, JIT[plain.arch]]) - known
            faults += [f"{name}: {line}" for line in new]
            run(*plain.make, plain.machine["target"], "modules", stdout=subprocess.DEVNULL)
            print(f"{name}: builds for {plain.arch}; {len(new)} new warnings of sparse and W=1, {sum(known.values())} known")
    finally:
        for path in reversed(done):
            run("patch", "-s", "-p1", "-R", "-f", "-i", path, cwd=plain.tree)
    if faults:
        sys.exit("\n".join(faults))
    print(f"checkpatch --strict: no fault in {len(done)} patches, but for {IGNORED}")
