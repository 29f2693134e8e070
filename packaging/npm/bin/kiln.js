#!/usr/bin/env node
// Starts the kiln that the package for this machine brought: npm installs the one optional dependency whose `os` and
// `cpu` fit.
"use strict";
const { spawn } = require("child_process");
const { constants } = require("os");

const name = `kiln-ebpf-${process.platform}-${process.arch}`;
let kiln;
try {
  kiln = require.resolve(`${name}/bin/kiln`);
} catch {
  console.error(
    `error: there is no kiln for ${process.platform} on ${process.arch} here: the package ${name} is not installed.\n` +
      "There are packages for linux on x64 and arm64. If this is one of them, npm was told to leave optional\n" +
      "dependencies out (--omit=optional): install again without that."
  );
  process.exit(3);
}

const child = spawn(kiln, process.argv.slice(2), { stdio: "inherit" });
// A terminal sends Ctrl-C to the child as well, which decides what it means; other signals are passed on.
process.on("SIGINT", () => {});
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(`error: ${kiln}: ${error.message}`);
  process.exit(2);
});
child.on("exit", (code, signal) => process.exit(signal ? 128 + constants.signals[signal] : code));
