"use strict";
// Runs the WASI program of the playground: one request in, one answer out. A fresh instance for each, so that nothing is
// left of the one before.
let compiled;
onmessage = async ({data}) => {
  if (data.code) {
    const stream = new Blob([data.code]).stream().pipeThrough(new DecompressionStream("gzip"));
    // At once, so that a request that comes meanwhile waits for it.
    compiled = new Response(stream).arrayBuffer().then((bytes) => WebAssembly.compile(bytes));
    compiled.then(() => postMessage({ready: true}), (error) => postMessage({failed: String(error)}));
    return;
  }
  let errors = "";
  try {
    const module = await compiled;
    const {answer, code} = run(module, data.request, (text) => { errors += text; });
    if (code !== 0) throw new Error(`exit code ${code}`);
    postMessage({answer});
  } catch (error) {
    postMessage({failed: `${error}${errors ? `: ${errors.slice(0, 500)}` : ""}`});
  }
};

function run(module, input, complain) {
  const OK = 0, BADF = 8, NOSYS = 52;
  const output = [], text = new TextDecoder();
  let memory, at = 0;
  const view = () => new DataView(memory.buffer);
  const bytes = (from, length) => new Uint8Array(memory.buffer, from, length);
  class Exit { constructor(code) { this.code = code; } }
  // Each part of a list of buffers.
  const parts = (list, count, use) => {
    let sum = 0;
    for (let number = 0; number < count; number += 1) {
      const from = view().getUint32(list + 8 * number, true), length = view().getUint32(list + 8 * number + 4, true);
      const done = use(bytes(from, length));
      sum += done;
      if (done < length) break;
    }
    return sum;
  };
  const calls = {
    fd_read(fd, list, count, result) {
      if (fd !== 0) return BADF;
      const sum = parts(list, count, (part) => {
        const taken = input.subarray(at, at + part.length);
        part.set(taken);
        at += taken.length;
        return taken.length;
      });
      view().setUint32(result, sum, true);
      return OK;
    },
    fd_write(fd, list, count, result) {
      if (fd !== 1 && fd !== 2) return BADF;
      const sum = parts(list, count, (part) => {
        if (fd === 1) output.push(part.slice()); else complain(text.decode(part));
        return part.length;
      });
      view().setUint32(result, sum, true);
      return OK;
    },
    clock_time_get(clock, precision, result) {
      const now = clock === 0 ? Date.now() : performance.now();
      view().setBigUint64(result, BigInt(Math.round(now * 1e6)), true);
      return OK;
    },
    random_get(from, length) { crypto.getRandomValues(bytes(from, length)); return OK; },
    environ_sizes_get(count, size) { view().setUint32(count, 0, true); view().setUint32(size, 0, true); return OK; },
    environ_get() { return OK; },
    args_sizes_get(count, size) { view().setUint32(count, 0, true); view().setUint32(size, 0, true); return OK; },
    args_get() { return OK; },
    fd_prestat_get() { return BADF; },
    proc_exit(code) { throw new Exit(code); },
  };
  const imports = {};
  for (const {module: from, name} of WebAssembly.Module.imports(module)) {
    (imports[from] ??= {})[name] = calls[name] ?? (() => NOSYS);
  }
  const instance = new WebAssembly.Instance(module, imports);
  memory = instance.exports.memory;
  let code = 0;
  try { instance.exports._start(); } catch (error) { if (!(error instanceof Exit)) throw error; code = error.code; }
  let length = 0;
  for (const part of output) length += part.length;
  const all = new Uint8Array(length);
  length = 0;
  for (const part of output) { all.set(part, length); length += part.length; }
  return {answer: text.decode(all), code};
}
