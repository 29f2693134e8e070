"""What the scripts share that start a kernel of Debian's in a virtual machine."""

import gzip
import os
import re
import subprocess
import sys


def run(*command, **options):
    return subprocess.run(command, check=True, **options)


def output(*command, **options):
    """What a command prints."""
    return run(*command, capture_output=True, text=True, **options).stdout


def newest_image(series, architecture, ask):
    """The package of the newest kernel of a series. `ask` runs an apt command and returns what it prints."""
    found = ask("apt-cache", "search", "--names-only", f"^linux-image-{re.escape(series)}[.].*-cloud-{architecture}$")
    names = [line.split()[0] for line in found.splitlines()]
    numbers = [(list(map(int, re.findall(r"\d+", name))), name) for name in names if re.search(r"\d\.\d+\.\d+", name)]
    if not numbers:
        sys.exit(f"apt knows no linux-image-{series}*-cloud-{architecture}; `apt-get update` may help")
    return max(numbers)[1]


def pack(root, init, path):
    """Writes an initramfs of a folder and the text of its `init`."""
    with open(os.path.join(root, "init"), "w") as out:
        out.write(init)
    os.chmod(os.path.join(root, "init"), 0o755)
    listing = run("find", ".", "-print0", cwd=root, capture_output=True).stdout
    archive = run("cpio", "--null", "-o", "-H", "newc", "--quiet", cwd=root, input=listing, capture_output=True).stdout
    with gzip.open(path, "wb", compresslevel=1) as out:
        out.write(archive)
