// Fills the folds of a report when they are opened, and filters its rewrites. All text is written with textContent.
(async () => {
  const $ = (id) => document.getElementById(id);
  const index = JSON.parse($("index").textContent);
  const SAME = 0, CONTEXT = 3, PAGE = 100;
  const KINDS = ["same", "changed", "replaced", "moved"];

  const unpack = (id) => {
    let ready;
    return () => ready ??= (async () => {
      const bytes = Uint8Array.from(atob($(id).textContent), (letter) => letter.charCodeAt(0));
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
      return new Response(stream).json();
    })();
  };
  const contents = unpack("details"), queries = unpack("queries");

  const make = (name, className, ...children) => {
    const element = document.createElement(name);
    if (className) element.className = className;
    element.append(...children);
    return element;
  };
  const link = (target, text, title) => {
    const a = make("a", "", text);
    a.href = "#" + target;
    if (title) a.title = title;
    return a;
  };
  const gain = (slots) => slots === 0 ? "no slots saved"
    : slots < 0 ? `costs ${-slots} slot${slots === -1 ? "" : "s"}` : `${slots} slot${slots === 1 ? "" : "s"} saved`;

  // The rewrites that the filter keeps, or null where it keeps all.
  let kept = null;

  // A fold that is filled when it is first opened.
  const fold = (className, head, fill) => {
    const details = make("details", className, head);
    const body = make("div", "body");
    details.append(body);
    details.fill = () => { if (!details.filled) { details.filled = true; fill(body); } };
    details.addEventListener("toggle", () => { if (details.open) details.fill(); });
    return details;
  };

  const row = (data, texts) => {
    if (typeof data[1] === "number") {
      return make("div", "row source", make("span", "place", texts[data[0]]), make("span", "text", texts[data[1]]));
    }
    const [kind, before, after, marks] = data;
    const element = make("div", "row " + KINDS[kind]);
    for (const [side, cell] of [["old", before], ["new", after]]) {
      element.append(make("span", "slot " + side + (cell ? "" : " none"), cell ? String(cell[0]) : ""),
        make("code", side + (cell ? "" : " none"), cell ? texts[cell[1]] : ""));
    }
    const links = make("span", "marks");
    for (const mark of marks) links.append(link("r" + (mark + 1), String(mark + 1), index.rules[index.rewrites[mark][0]]), " ");
    element.append(links);
    return element;
  };

  // Rows around changes; the runs between them become buttons.
  const listing = (body, rows, texts) => {
    const near = new Uint8Array(rows.length);
    rows.forEach((data, at) => {
      if (typeof data[1] === "number" || data[0] === SAME) return;
      near.fill(1, Math.max(0, at - CONTEXT), at + CONTEXT + 1);
    });
    const list = make("div", "listing");
    const head = make("div", "row head");
    for (const [className, text] of [["slot old", ""], ["old", "before"], ["slot new", ""], ["new", "after"], ["marks", "rewrites"]]) {
      head.append(make("span", className, text));
    }
    list.append(head);
    for (let at = 0; at < rows.length;) {
      if (near[at]) { list.append(row(rows[at], texts)); at += 1; continue; }
      let end = at;
      while (end < rows.length && !near[end]) end += 1;
      const hidden = rows.slice(at, end);
      if (hidden.length <= 2) {
        hidden.forEach((data) => list.append(row(data, texts)));
      } else {
        const button = make("button", "between", `${hidden.length} lines without a change`);
        button.type = "button";
        button.addEventListener("click", () => button.replaceWith(...hidden.map((data) => row(data, texts))));
        list.append(button);
      }
      at = end;
    }
    body.append(list);
  };

  const code = (name, lines, texts) => {
    const pre = make("pre", name, lines.length ? lines.map((line) => texts[line]).join("\n") : "(nothing)");
    pre.tabIndex = 0;
    pre.setAttribute("aria-label", name);
    return pre;
  };

  const rewrite = (number, data) => {
    const one = data.rewrites[number], texts = data.texts;
    const head = make("summary", "", `${number + 1}. `, make("code", "", index.rules[index.rewrites[number][0]]),
      make("span", "quiet", " " + gain(index.rewrites[number][2]) + (one.place === null ? "" : ", " + texts[one.place])));
    const details = fold("rewrite", head, (body) => {
      body.append(make("p", "", texts[one.why]));
      if (one.source !== null) body.append(make("p", "quiet", make("code", "", texts[one.source])));
      body.append(make("div", "pair", code("before", one.before, texts), code("after", one.after, texts)));
      if (one.query) {
        body.append(fold("query", make("summary", "", "The query (SMT-LIB 2): unsat means equal"), async (inner) => {
          const query = (await queries())[number];
          const pre = make("pre", "", query ?? "left out: the queries of this page reached their limit of size");
          pre.tabIndex = 0;
          inner.append(pre);
        }));
      }
    });
    details.id = "r" + (number + 1);
    return details;
  };

  // A list of rewrites, PAGE at a time.
  const rewrites = (body, numbers, data, upTo) => {
    let next = 0;
    const button = make("button", "more");
    button.type = "button";
    const more = (count) => {
      button.before(...numbers.slice(next, next + count).map((number) => rewrite(number, data)));
      next += count;
      button.hidden = next >= numbers.length;
      button.textContent = `${numbers.length - next} more`;
    };
    button.addEventListener("click", () => more(PAGE));
    body.append(button);
    more(Math.max(PAGE, upTo + 1));
  };

  // Writes a program's fold: for each function its listing and its rewrites. `wanted` is a rewrite to be shown.
  const render = async (details, wanted) => {
    const body = details.querySelector(".body");
    const [functions, own] = index.groups[details.dataset.group];
    details.filled = kept;
    const data = await contents();
    const blocks = [];
    for (const at of functions) {
      const one = data.functions[at];
      const numbers = own.filter((number) => index.rewrites[number][1] === at && (!kept || kept.has(number)));
      if (kept && !numbers.length) continue;
      const block = make("section", "function");
      block.id = "f" + at;
      const changed = one.rows.some((data) => typeof data[1] !== "number" && data[0] !== SAME);
      block.append(make("h3", "", make("code", "", data.texts[one.name]), make("span", "quiet",
        ` ${one.slots[0]} → ${one.slots[1]} slots` + (changed ? "" : ", as it was"))));
      const lines = fold("lines", make("summary", "", "Listing"), (inner) => listing(inner, one.rows, data.texts));
      block.append(lines);
      lines.open = changed && !kept;
      if (lines.open) lines.fill();
      if (numbers.length) {
        const list = fold("rewrites", make("summary", "", `Rewrites (${numbers.length})`),
          (inner) => rewrites(inner, numbers, data, numbers.indexOf(wanted)));
        block.append(list);
        list.open = kept !== null || numbers.includes(wanted);
        if (list.open) list.fill();
      }
      blocks.push(block);
    }
    body.replaceChildren(...blocks);
  };
  const programs = [...document.querySelectorAll("details.program")];
  for (const details of programs) {
    details.filled = undefined;
    details.addEventListener("toggle", () => { if (details.open && details.filled !== kept) render(details); });
  }

  // Links to programs, functions and rewrites open what they lead to.
  const go = async () => {
    const [, kind, number] = /^#([pfr])(\d+)$/.exec(location.hash) ?? [];
    if (!kind) return;
    const rewriteNumber = kind === "r" ? Number(number) - 1 : undefined;
    const at = kind === "p" ? Number(number) : index.elsewhere[kind === "f" ? Number(number) : index.rewrites[rewriteNumber]?.[1]];
    const details = programs[at];
    if (!details) return;
    if (kept && rewriteNumber !== undefined && !kept.has(rewriteNumber)) { $("filter").value = ""; $("rule").value = ""; await filter(); }
    details.hidden = false;
    if (details.filled !== kept || (rewriteNumber !== undefined && !$(location.hash.slice(1)))) await render(details, rewriteNumber);
    details.open = true;
    const target = $(location.hash.slice(1));
    for (let above = target; above; above = above.parentElement) if (above.localName === "details") { above.open = true; above.fill?.(); }
    target?.scrollIntoView({ block: "start" });
  };
  addEventListener("hashchange", go);
  document.addEventListener("click", (event) => {
    if (event.target.closest?.("a")?.hash === location.hash) go();
  });

  // The filter: words that all occur in a rewrite's program, function, rule, source line or instructions, and a rule.
  let haystacks;
  const haystack = (data) => haystacks ??= index.rewrites.map(([rule, at], number) => {
    const one = data.rewrites[number], texts = data.texts;
    const lines = [one.place, one.source, data.functions[at]?.name, ...one.before, ...one.after];
    const head = programs[index.elsewhere[at]]?.querySelector("summary").firstChild.textContent;
    return [index.rules[rule], head, ...lines.map((text) => texts[text] ?? "")].join("\n").toLowerCase();
  });
  let turn = 0;
  const filter = async () => {
    const own = turn += 1;
    const words = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const rule = index.rules.indexOf($("rule").value);
    const texts = words.length ? haystack(await contents()) : null;
    if (own !== turn) return;
    const fits = (number) => (rule < 0 || index.rewrites[number][0] === rule)
      && (!texts || words.every((word) => texts[number].includes(word)));
    const numbers = [...index.rewrites.keys()].filter(fits);
    kept = words.length || rule >= 0 ? new Set(numbers) : null;
    let shown = 0;
    for (const details of programs) {
      details.hidden = kept !== null && !index.groups[details.dataset.group][1].some((number) => kept.has(number));
      shown += !details.hidden;
      if (details.open && !details.hidden) await render(details);
    }
    $("found").textContent = kept === null ? "" : `${numbers.length} of ${index.rewrites.length} rewrites, ${shown} of ${programs.length} programs`;
    const open = programs.filter((details) => !details.hidden);
    if (kept && open.length === 1) open[0].open = true;
  };
  let later;
  $("filter").addEventListener("input", () => { clearTimeout(later); later = setTimeout(filter, 150); });
  $("rule").addEventListener("change", filter);
  for (const button of document.querySelectorAll("button.only")) {
    button.addEventListener("click", () => { $("rule").value = button.value; filter(); $("programs").scrollIntoView(); });
  }
  addEventListener("keydown", (event) => {
    if (event.key !== "/" || /^(input|select|textarea)$/.test(event.target.localName)) return;
    event.preventDefault();
    $("filter").focus();
  });

  const changed = programs.filter((details) => index.groups[details.dataset.group][1].length);
  const label = () => { $("fold").textContent = programs.some((details) => details.open) ? "Fold all" : "Unfold changed"; };
  $("fold").addEventListener("click", () => {
    const open = programs.some((details) => details.open);
    for (const details of open ? programs : changed) details.open = !open;
  });
  for (const details of programs) details.addEventListener("toggle", label);
  if (changed.length === 1) changed[0].open = true;
  await go();
})();
