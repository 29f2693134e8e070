#!/usr/bin/env python3
"""What the scripts share that start a kernel of Debian's or Ubuntu's in a virtual machine."""

import glob
import gzip
import os
import re
import shutil
import subprocess
import sys

# Suites that have kernels newer or older than this machine's release of Debian; a path, and the suite.
SUITES = [("debian", "sid"), ("debian", "experimental"), ("debian", "trixie-backports"), ("debian", "bookworm"),
          ("debian-security", "bookworm-security"), ("debian", "bullseye"), ("debian-security", "bullseye-security")]
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# Releases of Ubuntu whose kernels Debian has not, by series. Debian's package `ubuntu-keyring` says whom to trust.
UBUNTU = {"4.18": "bionic", "5.0": "bionic", "5.3": "bionic", "5.4": "focal", "5.15": "jammy", "6.8": "noble",
          "6.14": "plucky", "6.17": "questing"}
UBUNTU_SERVER = "http://archive.ubuntu.com/ubuntu"


JOBS = os.environ.get("KILN_LINUX_JOBS") or "2"
# Builds and machines stand behind other work.
BEHIND = ["nice", "-n", "10"]


def run(*command, **options):
    return subprocess.run(command, check=True, **options)


def output(*command, **options):
    """What a command prints."""
    return run(*command, capture_output=True, text=True, **options).stdout


def newest_image(series, architecture, ask, flavour="cloud-"):
    """The package of the newest kernel of a series. `ask` runs an apt command and returns what it prints. A flavour is of
    Debian's names; Ubuntu's kernels are all `generic`."""
    ending = "generic" if series in UBUNTU else flavour + architecture
    found = ask("apt-cache", "search", "--names-only", f"^linux-image-{re.escape(series)}[.].*-{ending}$")
    names = [line.split()[0] for line in found.splitlines()]
    names = [name for name in names if flavour or not re.search("cloud|-rt-|unsigned", name)]
    numbers = [(list(map(int, re.findall(r"\d+", name))), name) for name in names if re.search(r"\d\.\d+\.\d+", name)]
    if not numbers:
        sys.exit(f"apt knows no linux-image-{series}*-{ending}; `apt-get update` may help")
    return max(numbers)[1]


def newest_series(ask):
    """The newest series that Debian has a kernel of, as `7.3`."""
    found = ask("apt-cache", "search", "--names-only", "^linux-image-[0-9]+[.][0-9]+[.][0-9]+.*-cloud-amd64$")
    return ".".join(map(str, max(tuple(map(int, row)) for row in re.findall(r"^linux-image-(\d+)\.(\d+)\.", found, re.M))))


class Archive:
    """Debian's archive, as the machine's own source names it, in a private configuration with all of `SUITES`; for a
    series that only Ubuntu has, that release of Ubuntu instead; or other `sources`, as lines of apt's."""

    def __init__(self, folder, series=None, sources=None):
        if sources:
            self.open(folder, sources)
            return
        if series in UBUNTU:
            self.open(os.path.join(folder, UBUNTU[series]), ubuntu_sources(Archive(folder), UBUNTU[series]))
            return
        server = own_server()
        self.open(folder, [f"deb [signed-by={KEYRING}] {server}/{path} {suite} main" for path, suite in SUITES])

    def open(self, folder, sources):
        self.folder = os.path.abspath(folder)
        for name in ("lists/partial", "cache/archives/partial"):
            os.makedirs(os.path.join(self.folder, name), exist_ok=True)
        with open(os.path.join(self.folder, "sources.list"), "w") as out:
            out.write("".join(line + "\n" for line in sources))
        if not glob.glob(os.path.join(self.folder, "lists", "*_dists_*")):
            self.update()

    def update(self):
        """Reads the package lists. A suite that the archive has no more is left out, with a word."""
        said = subprocess.run(self.command("apt-get", "update"), capture_output=True, text=True)
        for line in re.findall(r"^[EW]: .*", said.stdout + said.stderr, re.M):
            print(line, file=sys.stderr)

    def command(self, tool, *words):
        places = {"Etc::sourcelist": "sources.list", "Etc::sourceparts": "none", "State::lists": "lists", "Cache": "cache"}
        options = [f"-oDir::{key}={os.path.join(self.folder, value)}" for key, value in places.items()]
        return [tool, *options, "-oAcquire::Languages=none", "-oAPT::Sandbox::User=root", *words]

    def ask(self, tool, *words, **options):
        """What an apt command prints."""
        return output(*self.command(tool, *words), **options)

    def unpack(self, package, root):
        """Downloads a package with the packages that a kernel is split into, and unpacks them."""
        version = re.search(r"^Version: (\S+)$", self.ask("apt-cache", "show", package), re.M)[1]
        stem = package.replace("linux-image-", "")
        known = set(self.ask("apt-cache", "pkgnames", "linux-").split())
        parts = {f"linux-{kind}-{stem}" for kind in ("binary", "base", "modules", "modules-extra")} & known
        os.makedirs(root)
        for part in [package, *sorted(parts)]:
            # A split package may be listed as a dependency, and have left the archive.
            if subprocess.run(self.command("apt-get", "download", f"{part}={version}"), cwd=root,
                              capture_output=True).returncode == 0:
                archive = glob.glob(os.path.join(root, part + "_*.deb"))[0]
                run("dpkg-deb", "-x", archive, root)
                os.remove(archive)

    def unpack_all(self, root, packages):
        """Downloads packages, each perhaps of a suite (`zlib1g/sid`), and unpacks them into one folder."""
        os.makedirs(root, exist_ok=True)
        run(*self.command("apt-get", "download", *packages), cwd=root, capture_output=True)
        for archive in glob.glob(os.path.join(root, "*.deb")):
            run("dpkg-deb", "-x", archive, root)
            os.remove(archive)


def unpack_source(folder, package, suite):
    """Downloads the newest sources of a package in a suite of Debian, as its authors made them, and unpacks them into
    `folder/source`, once."""
    root = os.path.join(folder, "source")
    if os.path.isdir(root):
        return root
    archive = Archive(folder, sources=[f"deb-src [signed-by={KEYRING}] {own_server()}/debian {suite} main"])
    run(*archive.command("apt-get", "source", "--download-only", package), cwd=archive.folder, capture_output=True)
    os.makedirs(root + ".new", exist_ok=True)
    run("tar", "-xf", glob.glob(os.path.join(folder, "*.orig.tar.*"))[0], "--strip-components=1", "-C", root + ".new")
    os.rename(root + ".new", root)
    return root


class ArmPackages:
    """64-bit Arm packages of this machine's own sources, unpacked. Nothing of its package database is changed."""

    def __init__(self, folder):
        self.folder = folder
        known = os.path.isdir(os.path.join(folder, "apt"))
        for place in ("lists/partial", "cache/archives/partial"):
            os.makedirs(os.path.join(folder, "apt", place), exist_ok=True)
        open(os.path.join(folder, "apt", "status"), "a").close()
        if not known:
            print("asking for the list of arm64 packages", file=sys.stderr)
            self.ask("apt-get", "-q", "update")

    def ask(self, tool, *words):
        """What an apt command prints for an arm64 machine on which nothing is installed."""
        state = os.path.join(self.folder, "apt")
        options = {"Dir::State::Lists": f"{state}/lists", "Dir::Cache": f"{state}/cache", "Dir::State::status": f"{state}/status",
                   "APT::Architecture": "arm64", "APT::Architectures": "arm64", "APT::Sandbox::User": "root"}
        given = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        return output(tool, *given, *words, cwd=self.folder)

    def unpack(self, package, into):
        found = os.path.join(self.folder, f"{package}_*.deb")
        if not glob.glob(found):
            self.ask("apt-get", "download", package)
        run("dpkg-deb", "-x", glob.glob(found)[0], into)

    def elf_library(self):
        """The folder with what programs are linked with that read ELF files."""
        libraries = os.path.join(self.folder, "libraries")
        for package in ("libelf-dev", "libelf1", "zlib1g-dev", "zlib1g", "libzstd1"):
            self.unpack(package, libraries)
        return libraries


def compile_benchmarks(root, version, folder):
    """Compiles the programs of the benchmarks, in the repository at `root`, for a version of the instruction set."""
    os.makedirs(folder, exist_ok=True)
    for source in glob.glob(os.path.join(root, "bench", "programs", "*.bpf.c")):
        name = os.path.basename(source).removesuffix(".bpf.c")
        run("clang-19", "-O2", "-g", "-target", "bpf", f"-mcpu={version}", "-c", f"-I/usr/include/{os.uname().machine}-linux-gnu",
            source, "-o", os.path.join(folder, name + ".o"))


def wrapped(folder, name, binary, libraries, loader=()):
    """A script that runs a program of an unpacked package with the libraries of that package's suite."""
    path = os.path.join(folder, name)
    places = ":".join(os.path.join(folder, place) for place in libraries)
    with open(path, "w") as out:
        start = " ".join([*loader, os.path.join(folder, binary)])
        out.write(f'#!/bin/sh\nLD_LIBRARY_PATH={places} exec {start} "$@"\n')
    os.chmod(path, 0o755)
    return path


GCC_PACKAGES = [f"{name}/sid" for name in ("gcc-bpf", "binutils-bpf", "libc6", "libgmp10", "libmpc3", "libmpfr6", "libzstd1",
                                           "zlib1g")]

# GCC looks for the system's headers nowhere, and its C is newer than that of the sources.
GCC_DRIVER = """#!/bin/sh
set -- "$@" -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include
for word; do
    shift
    case $word in -target | bpf | --target=*) ;; *) set -- "$@" "$word" ;; esac
done
exec {folder}/bin/gcc -B{folder}/bin/ -std=gnu11 -Wno-attributes "$@"
"""


def gcc(kernels):
    """The path of GCC's BPF back end, the newest of Debian's archive, driven like clang. It is unpacked into the folder of
    kernels with its libraries."""
    tools, libraries = os.path.join(kernels, "tools", "gcc"), "usr/lib/x86_64-linux-gnu"
    driver = os.path.join(tools, "bin", "clang")
    if os.path.exists(driver):
        return driver
    Archive(os.path.join(kernels, "apt")).unpack_all(tools, GCC_PACKAGES)
    os.makedirs(os.path.dirname(driver), exist_ok=True)
    loader = [f"{tools}/{libraries}/ld-linux-x86-64.so.2", "--library-path", f"{tools}/{libraries}"]
    compile_proper, = glob.glob(f"{tools}/usr/lib/gcc/bpf/*/cc1")
    for name, binary in (("gcc", "usr/bin/bpf-gcc"), ("as", "usr/bin/bpf-as"), ("cc1", compile_proper)):
        wrapped(f"{tools}/bin", name, os.path.join(tools, binary), [], loader)
    with open(driver, "w") as out:
        out.write(GCC_DRIVER.format(folder=tools))
    os.chmod(driver, 0o755)
    return driver


def ubuntu_sources(debian, release):
    """The lines of sources of a release of Ubuntu, with the keys that Debian has of it."""
    keys = os.path.join(debian.folder, "ubuntu-keyring")
    if not os.path.isdir(keys):
        debian.unpack("ubuntu-keyring", keys)
    keyring = os.path.join(keys, "usr/share/keyrings/ubuntu-archive-keyring.gpg")
    suites = (release, release + "-updates", release + "-security")
    return [f"deb [arch=amd64 signed-by={keyring}] {UBUNTU_SERVER} {suite} main" for suite in suites]


def own_server():
    """The server of the machine's own source of packages."""
    texts = [open(path).read() for path in glob.glob("/etc/apt/sources.list*/*") + glob.glob("/etc/apt/sources.list")]
    found = re.search(r"(https?://\S+?)/debian/?\s", "\n".join(texts))
    return found[1] if found else "http://deb.debian.org"


def kernel_image(root):
    """The kernel of an unpacked package; newer ones lie beside their modules."""
    places = ["boot/vmlinuz-*", "usr/lib/modules/*/vmlinuz", "lib/modules/*/vmlinuz"]
    found = [path for place in places for path in glob.glob(os.path.join(root, place))]
    return found[0] if found else sys.exit(f"{root} has no kernel")


def sections_of_kernel(image, names):
    """Sections of the ELF file that a compressed kernel holds, by name."""
    data = open(image, "rb").read()
    for magic, tool in ((b"\x28\xb5\x2f\xfd", "zstd"), (b"\x02\x21\x4c\x18", "lz4"), (b"\xfd7zXZ\0", "xz")):
        for match in re.finditer(re.escape(magic), data):
            kernel = subprocess.run([tool, "-dc"], input=data[match.start():], capture_output=True).stdout
            if kernel[:4] == b"\x7fELF":
                return {name: section for name, section in elf_sections(kernel) if name in names}
    return {}


def elf_sections(data):
    """Names and bytes of the sections of a 64-bit little-endian ELF file."""
    number = lambda at, size: int.from_bytes(data[at:at + size], "little")
    table, count, strings = number(40, 8), number(60, 2), number(62, 2)
    names = number(table + 64 * strings + 24, 8)
    for at in range(table, table + 64 * count, 64):
        start = names + number(at, 4)
        name = data[start:data.index(b"\0", start)].decode()
        yield name, data[number(at + 24, 8):number(at + 24, 8) + number(at + 32, 8)]


def libraries(binary):
    """The libraries that a program is linked with; none of a static one."""
    lines = subprocess.run(["ldd", binary], capture_output=True, text=True).stdout.splitlines()
    return re.findall(r"(/\S+)", "\n".join(line.split("=>")[-1] for line in lines))


def add_libraries(program, root):
    """Copies the libraries that a program is linked with, each to its own path."""
    for path in libraries(program):
        os.makedirs(root + os.path.dirname(path), exist_ok=True)
        shutil.copy(path, root + path)


def pack(root, init, path):
    """Writes an initramfs of a folder and the text of its `init`."""
    with open(os.path.join(root, "init"), "w") as out:
        out.write(init)
    os.chmod(os.path.join(root, "init"), 0o755)
    listing = run("find", ".", "-print0", cwd=root, capture_output=True).stdout
    archive = run("cpio", "--null", "-o", "-H", "newc", "--quiet", cwd=root, input=listing, capture_output=True).stdout
    with gzip.open(path, "wb", compresslevel=1) as out:
        out.write(archive)


def main():
    """`machine.py SERIES FOLDER`: unpacks the newest kernel of a series, with all its modules."""
    series, folder = sys.argv[1:]
    archive = Archive(os.path.join(os.path.dirname(os.path.dirname(folder)), "apt"), series)
    archive.unpack(newest_image(series, "amd64", archive.ask, flavour=""), folder)


if __name__ == "__main__":
    main()
