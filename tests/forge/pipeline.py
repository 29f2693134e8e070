"""Writes a GitLab component as the pipeline sees it: pipeline.py TEMPLATE NAME=VALUE...

Standard output has the job's YAML with its inputs filled in. With --script, it has the job's variables and script for sh.
"""

import re
import shlex
import sys

import yaml

words = sys.argv[1:]
as_script = "--script" in words
template, *given = [word for word in words if word != "--script"]
header, body = open(template).read().split("\n---\n", 1)
inputs = {name: (row or {}).get("default", "") for name, row in yaml.safe_load(header)["spec"]["inputs"].items()}
for word in given:
    name, value = word.split("=", 1)
    assert name in inputs, f"the component has no input {name}"
    inputs[name] = value
# An empty input is an empty text, not no value.
body = re.sub(r"\$\[\[ inputs\.(\w+) \]\]", lambda match: inputs[match[1]] or '""', body)
if not as_script:
    print(body, end="")
    sys.exit()
(job,) = yaml.safe_load(body).values()
for name, value in job["variables"].items():
    print(f"export {name}={shlex.quote(str(value))}")
print("\n".join(job["script"]))
