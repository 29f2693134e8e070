"""Which lines of kernel/patches a booted kernel executed; `scripts/patched-kernel --sanitized` prints them.

    kernel with CONFIG_GCOV_KERNEL, the files of the series profiled --> init prints counts --> gcov --> lines that the
    patches added
"""

import collections
import json
import os
import re
import shutil
import tempfile

from machine import output, run


def flags(sources):
    """What make needs to profile source files."""
    return [f"GCOV_PROFILE_{os.path.basename(name)[:-1]}o=y" for name in sources if name.endswith(".c")]


def added(kernel, changed, new):
    """The lines that the patches added to the source files that they change, and to the new ones, by file."""
    lines = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in [*changed, *new]:
            os.makedirs(os.path.join(folder, os.path.dirname(name)), exist_ok=True)
            shutil.copy(os.path.join(kernel.tree, name), os.path.join(folder, name))
        for path in reversed(kernel.patches):
            run("patch", "-s", "-p1", "-R", "-f", "-i", path, cwd=folder)
        for name in [*changed, *new]:
            before, after = os.path.join(folder, name), os.path.join(kernel.tree, name)
            if not os.path.exists(before):
                open(before, "w").close()
            # `diff` exits with 1 if there are differences.
            formats = ["--old-line-format=", "--unchanged-line-format=", "--new-line-format=%dn "]
            lines[name] = set(map(int, output("sh", "-c", '"$@" || [ $? = 1 ]', "sh", "diff", *formats, before, after).split()))
    return lines


def counts(kernel, console):
    """How often each line was executed, by source file; each file once for each of its functions."""
    found = collections.defaultdict(collections.Counter)
    for path, text in re.findall(r"^gcda (\S+) ([0-9a-f]+)\s*$", console, re.M):
        place = path[path.index(kernel.out):]
        with open(place, "wb") as file:
            file.write(bytes.fromhex(text))
        said = output(kernel.machine["gcov"], "--json-format", "--stdout", place, cwd=os.path.dirname(place))
        for part in json.loads(said)["files"]:
            name = os.path.relpath(os.path.join(kernel.out, part["file"]), kernel.tree)
            for line in part["lines"]:
                found[name][line["line_number"]] += line["count"]
    return found


def report(kernel, console, changed, new):
    """Returns a text: of each file the share of added lines that were executed, and those that were not."""
    executed, text, sums = counts(kernel, console), [], [0, 0]
    for name, lines in added(kernel, changed, new).items():
        known = sorted(lines & set(executed.get(name, ())))
        missed = [number for number in known if not executed[name][number]]
        if not known:
            continue
        sums = [sums[0] + len(known) - len(missed), sums[1] + len(known)]
        text.append(f"{name}: {len(known) - len(missed)} of {len(known)} added lines were executed")
        source = open(os.path.join(kernel.tree, name)).read().splitlines()
        text += [f"  not {number}: {source[number - 1].strip()}" for number in missed]
    return "\n".join([*text, f"coverage: {sums[0]} of {sums[1]} lines of the series"])
