"""Runs the steps of a composite action as a GitHub runner does: action.py ACTION_FOLDER RESULT NAME=VALUE...

Values are the action's inputs. `run` steps are run with bash in the current folder; `uses` steps are named and left out.
`steps`, `inputs`, `runner` and `github` are known in expressions, and comparisons with a text. What the steps printed goes to
standard output; the file RESULT is JSON: the steps, their exit codes and the action's outputs. Exit code: that of the step
that failed, or 0.
"""

import json
import os
import re
import subprocess
import sys
import tempfile

import yaml

folder, result_path, *given = sys.argv[1:]
action = yaml.safe_load(open(os.path.join(folder, "action.yml")))
inputs = {name: str(row.get("default", "")) for name, row in action["inputs"].items()}
for word in given:
    name, value = word.split("=", 1)
    assert name in inputs, f"the action has no input {name}"
    inputs[name] = value
missing = [name for name, row in action["inputs"].items() if row.get("required") and not inputs[name]]
assert not missing, f"required: {missing}"
outputs = {}
known = {
    "runner.os": "Linux",
    "runner.arch": "X64",
    "github.run_id": "1",
    "github.action_repository": "owner/kiln",
}


def value(expression):
    expression = expression.strip()
    compared = re.fullmatch(r"(\S+)\s*(==|!=)\s*'([^']*)'", expression)
    if compared:
        left, operator, right = compared.groups()
        return str((value(left) == right) == (operator == "==")).lower()
    if expression.startswith("inputs."):
        return inputs[expression.removeprefix("inputs.")]
    found = re.fullmatch(r"steps\.([\w-]+)\.outputs\.([\w-]+)", expression)
    if found:
        return outputs[found[1]].get(found[2], "")
    return known[expression]


def filled(text):
    return re.sub(r"\$\{\{(.*?)\}\}", lambda match: value(match[1]), str(text))


def pairs(path):
    return dict(line.split("=", 1) for line in open(path).read().splitlines() if "=" in line)


ran, code = [], 0
path = os.environ["PATH"]
for step in action["runs"]["steps"]:
    name = step["name"]
    if code or ("if" in step and value(step["if"]) != "true"):
        continue
    if "uses" in step:
        ran.append({"name": name, "uses": step["uses"], "with": {k: filled(v) for k, v in step["with"].items()}})
        continue
    assert step["shell"] == "bash"
    with tempfile.TemporaryDirectory() as room:
        files = {name: os.path.join(room, name) for name in ("GITHUB_OUTPUT", "GITHUB_PATH")}
        for file in files.values():
            open(file, "w").close()
        own = {name: filled(text) for name, text in step.get("env", {}).items()}
        environment = {**os.environ, **files, **own, "PATH": path, "GITHUB_ACTION_PATH": os.path.abspath(folder)}
        script = os.path.join(room, "script")
        open(script, "w").write(filled(step["run"]))
        # As the runner does.
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", script]
        code = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL).returncode
        outputs[step.get("id", name)] = pairs(files["GITHUB_OUTPUT"])
        path = ":".join([*open(files["GITHUB_PATH"]).read().split(), path])
    ran.append({"name": name, "exit_code": code})
all_outputs = {} if code == 2 and "check" not in outputs else {
    name: filled(row["value"]) for name, row in action.get("outputs", {}).items()
}
json.dump({"steps": ran, "outputs": all_outputs}, open(result_path, "w"), indent=1)
sys.exit(code)
