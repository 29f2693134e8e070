// The playground's page: sends what was pasted or dropped to the worker, and shows its answer. All text of an answer is
// written with textContent.
(() => {
  const $ = (id) => document.getElementById(id);
  const SECONDS = 20, MAX_BYTES = 32 << 20, MAX_ROWS = 4000;
  const make = (name, className, ...children) => {
    const element = document.createElement(name);
    if (className) element.className = className;
    element.append(...children);
    return element;
  };
  const code = Uint8Array.from(atob($("code").textContent), (letter) => letter.charCodeAt(0));
  const script = URL.createObjectURL(new Blob([$("worker").textContent], {type: "text/javascript"}));

  // The file of kernel types that was chosen last.
  let kernel = null;
  // One worker; it is replaced when it takes too long or dies.
  let worker, busy = null;
  const start = () => {
    worker = new Worker(script);
    worker.onmessage = ({data}) => {
      if (data.ready) return;
      settle(data.failed === undefined ? JSON.parse(data.answer) : broken(data.failed));
    };
    worker.onerror = (event) => { settle(broken(event.message ?? "the worker does not start")); restart(); };
    worker.postMessage({code});
  };
  const restart = () => { worker.terminate(); start(); };
  const broken = (why) => ({error: {kind: "failed", message: `Kiln ended: ${why}`}});
  const settle = (answer) => { const done = busy; busy = null; if (done) { clearTimeout(done.timer); done.resolve(answer); } };
  const ask = (head, bytes) => new Promise((resolve) => {
    if (busy) { settle({error: {kind: "stopped", message: "stopped for the next one"}}); restart(); }
    const whole = kernel ? {...head, kernel_types: [kernel.name, kernel.bytes.length]} : head;
    const first = new TextEncoder().encode(JSON.stringify(whole) + "\n");
    const request = new Uint8Array(first.length + bytes.length + (kernel?.bytes.length ?? 0));
    request.set(first);
    request.set(bytes, first.length);
    if (kernel) request.set(kernel.bytes, first.length + bytes.length);
    const timer = setTimeout(() => {
      settle({error: {kind: "limit", message: `stopped after ${SECONDS} seconds; kiln check has no such limit`}});
      restart();
    }, SECONDS * 1000);
    busy = {resolve, timer};
    worker.postMessage({request}, [request.buffer]);
  });

  const fold = (head, open, fill) => {
    const details = make("details", "part", make("summary", "", head));
    const body = make("div", "body");
    details.append(body);
    let filled = false;
    const ready = () => { if (details.open && !filled) { filled = true; fill(body); } };
    details.addEventListener("toggle", ready);
    details.open = open;
    ready();
    return details;
  };

  const listing = (body, listed) => {
    let rows = 0;
    for (const one of listed.functions) {
      body.append(make("h4", "", make("code", "", one.name), make("span", "quiet", ` ${one.slots} slots`)));
      const list = make("div", "listing");
      let source;
      for (const line of one.instructions) {
        if ((rows += 1) > MAX_ROWS) break;
        const place = line.line === undefined ? undefined : `${(line.file ?? "").split("/").pop()}:${line.line}`;
        if (place !== undefined && place !== source) {
          source = place;
          list.append(make("div", "row source", make("span", "place", place), make("span", "text", line.source ?? "")));
        }
        const text = make("code", "", (line.label ? `${line.label}: ` : "") + line.text);
        list.append(make("div", "row fact", make("span", "slot", String(line.slot)), text, make("code", "facts quiet", line.facts ?? "")));
      }
      body.append(list);
    }
    if (rows > MAX_ROWS) body.append(make("p", "quiet", `Only the first ${MAX_ROWS} instructions are shown; kiln dump --facts shows all.`));
    if (listed.no_facts) body.append(make("p", "quiet", `No facts: ${listed.no_facts}`));
  };

  const costs = (body, profile) => {
    body.append(make("p", "", `${profile.processed_insns} of ${profile.limit} instructions processed.`));
    for (const hint of profile.hints ?? []) body.append(make("p", "hint", hint));
    const most = Math.max(1, ...profile.lines.map((line) => line.processed_insns));
    const list = make("div", "costs");
    for (const line of profile.lines.slice(0, 40)) {
      const bar = make("meter", "");
      [bar.max, bar.value] = [most, line.processed_insns];
      bar.setAttribute("aria-label", `${line.processed_insns} instructions`);
      const place = line.file ? `${line.file.split("/").pop()}:${line.line}` : `${line.function}@${line.line}`;
      list.append(make("div", "cost", make("span", "number", String(line.processed_insns)), bar,
        make("span", "place", place), make("code", "", line.source ?? "")));
    }
    body.append(list);
  };

  const SYMBOLS = {accepted: "✓", rejected: "✗", invalid: "!", unsupported: "?"};
  const show = (answer) => {
    const parts = [];
    if (answer.error) {
      parts.push(make("div", "verdict error", make("strong", "", answer.error.kind), make("pre", "", answer.error.message)));
    } else {
      const count = (verdict) => answer.programs.filter((program) => program.verdict.verdict === verdict).length;
      const summary = ["accepted", "rejected", "invalid", "unsupported"].filter(count).map((verdict) => `${count(verdict)} ${verdict}`);
      parts.push(make("p", "sum", make("strong", "", summary.join(", ")), make("span", "quiet", `, as ${answer.kernel}`)));
      answer.programs.forEach((program, at) => {
        const {verdict} = program;
        const single = answer.programs.length === 1;
        const details = make("details", "program " + verdict.verdict);
        details.dataset.program = program.program;
        details.dataset.verdict = verdict.verdict;
        details.append(make("summary", "", make("span", "chip", `${SYMBOLS[verdict.verdict]} ${verdict.verdict}`), " ",
          make("code", "", program.program), make("span", "quiet",
            ` ${program.program_type ?? "no type"}, ${program.slots} slots` + (verdict.processed_insns === undefined ? "" : `, ${verdict.processed_insns} processed`))));
        const body = make("div", "body");
        details.append(body);
        let filled = false;
        const fill = () => {
          if (!details.open || filled) return;
          filled = true;
          const story = verdict.explanation ?? verdict.reason;
          if (story) body.append(make("pre", "story", story));
          if (program.listing) body.append(fold("Listing with facts", single, (inner) => listing(inner, program.listing)));
          else body.append(make("p", "quiet", "The listing is left out: it is too long for a page."));
          if (program.profile) body.append(fold("Complexity profile", single && verdict.verdict === "accepted", (inner) => costs(inner, program.profile)));
        };
        details.addEventListener("toggle", fill);
        details.open = single || (verdict.verdict === "rejected" && at < 5);
        fill();
        parts.push(details);
      });
    }
    if (answer.programs?.some((program) => program.verdict.verdict === "accepted")) {
      const button = make("button", "", "Optimize");
      button.type = "button";
      button.id = "optimize";
      button.addEventListener("click", () => optimize(button));
      parts.splice(1, 0, button);
    }
    $("answer").replaceChildren(...parts);
  };

  // What optimizing did, in place of its button.
  const optimize = async (button) => {
    button.disabled = true;
    button.textContent = "optimizing ...";
    const {head, bytes} = last;
    const answer = await ask({...head, optimize: true}, bytes);
    window.optimized = answer;
    if (answer.error) {
      button.replaceWith(make("div", "verdict error", make("strong", "", answer.error.kind), make("pre", "", answer.error.message)));
      return;
    }
    const sum = (side) => answer.programs.reduce((sum, program) => sum + program.slots[side], 0);
    const saved = (100 * (1 - sum(1) / Math.max(1, sum(0)))).toFixed(1);
    const section = make("section", "optimized");
    section.append(make("p", "", make("strong", "", `${sum(0)} → ${sum(1)} slots (${saved} % fewer)`),
      make("span", "quiet", `, ${answer.rewrites.length} rewrites, each proved without a solver` + (answer.cut_short ? "; stopped early" : ""))));
    for (const program of answer.programs) {
      if (program.slots[0] === program.slots[1] || !program.listing) continue;
      section.append(fold(`${program.program}, optimized: ${program.slots[0]} → ${program.slots[1]} slots`, answer.programs.length === 1,
        (inner) => listing(inner, program.listing)));
    }
    section.append(fold(`What changed (${answer.rewrites.length})`, answer.rewrites.length < 30, (inner) => {
      for (const one of answer.rewrites.slice(0, 500)) {
        inner.append(make("p", "", make("code", "", one.rule), make("span", "quiet", ` in ${one.function}, ${one.slots_saved} slots saved: ${one.why}`)),
          make("div", "pair", make("pre", "", one.before.join("\n") || "(nothing)"), make("pre", "", one.after.join("\n") || "(nothing)")));
      }
    }));
    button.replaceWith(section);
  };

  let last = null;
  const check = async (name, bytes) => {
    const type = $("type").value;
    last = {name, bytes, head: {name, types: type ? [["", type]] : []}};
    if (bytes.length > MAX_BYTES) {
      show({error: {kind: "limit", message: `${name} has ${bytes.length} bytes; this page takes ${MAX_BYTES}`}});
      return;
    }
    $("state").textContent = `checking ${name} ...`;
    const begun = performance.now();
    const answer = await ask(last.head, bytes);
    if (answer.error?.kind === "stopped") return;
    $("state").textContent = `${name}: ${Math.round(performance.now() - begun)} ms`;
    document.body.dataset.answered = name;
    window.answer = answer;
    show(answer);
  };
  const checkText = () => check("pasted.bpf", new TextEncoder().encode($("text").value));
  const checkFile = async (file) => {
    if (file.size > MAX_BYTES) { show({error: {kind: "limit", message: `${file.name} has ${file.size} bytes; this page takes ${MAX_BYTES}`}}); return; }
    const bytes = new Uint8Array(await file.arrayBuffer());
    if (file.name.endsWith(".bpf")) $("text").value = new TextDecoder().decode(bytes.subarray(0, 1 << 20));
    await check(file.name, bytes);
  };
  $("check").addEventListener("click", checkText);
  $("type").addEventListener("change", () => { if (last) check(last.name, last.bytes); });
  $("text").addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) checkText(); });
  $("file").addEventListener("change", () => { if ($("file").files[0]) checkFile($("file").files[0]); });
  $("btf").addEventListener("change", async () => {
    const file = $("btf").files[0];
    if (file && file.size > MAX_BYTES) { show({error: {kind: "limit", message: `${file.name} has ${file.size} bytes; this page takes ${MAX_BYTES}`}}); return; }
    kernel = file ? {name: file.name, bytes: new Uint8Array(await file.arrayBuffer())} : null;
    if (last) check(last.name, last.bytes);
  });
  addEventListener("dragover", (event) => { event.preventDefault(); document.body.classList.add("over"); });
  addEventListener("dragleave", () => document.body.classList.remove("over"));
  addEventListener("drop", (event) => {
    event.preventDefault();
    document.body.classList.remove("over");
    if (event.dataTransfer.files[0]) checkFile(event.dataTransfer.files[0]);
  });
  for (const button of document.querySelectorAll("button.example")) {
    button.addEventListener("click", () => { $("text").value = $(button.value).textContent.trimStart(); checkText(); });
  }
  start();
})();
