// The page of `kiln serve`. It asks for JSON once a second and shows it. Everything that comes from the kernel is put in
// place with textContent: a thread may be called <script>.
"use strict";
(() => {
  const SECOND = 1000, WINDOWS = 60, ROWS = 500, SERIES = 6, HEAT = 6;
  const key = location.hash.slice(1);
  const by = (id) => document.getElementById(id);
  const element = (name, text, kind) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (kind) made.className = kind;
    return made;
  };
  const drawn = (name, attributes) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    return made;
  };
  let chosen = null, windows = [], last = 0, begun = null, sorted = null, paused = false, shown = null;

  async function ask(path) {
    const answer = await fetch(path, { headers: { Authorization: `Bearer ${key}` } });
    const document = await answer.json();
    if (!answer.ok) throw Object.assign(new Error(document.error.message), { status: answer.status });
    return document;
  }

  const percent = (part) => `${(100 * part).toFixed(2)} %`;
  const count = (number) => Number(number).toLocaleString("en");
  // Zero ends a byte string in the kernel, but not here; other invisible letters are shown by their number.
  const visible = (text) => text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (letter) => `\\u{${letter.codePointAt(0).toString(16)}}`);
  const text = (value, column) => {
    if (value === null) return "";
    if (column.type === "timestamp" && typeof value === "number") return (value / 1e9).toFixed(6);
    if (typeof value === "object") return value.text;
    if (typeof value === "number") return Number.isInteger(value) ? String(value) : value.toFixed(3);
    return visible(String(value));
  };
  const is_number = (column) => column.type !== "text" && column.type !== "histogram";

  function show_queries(list) {
    const rows = list.queries.map((one) => {
      const row = element("tr");
      const name = element("td"), button = element("button", one.query.name);
      button.type = "button";
      button.addEventListener("click", () => choose(one.query.name));
      name.append(button);
      row.dataset.name = one.query.name;
      row.setAttribute("aria-current", String(one.query.name === chosen));
      row.append(name, element("td", one.reason ? `${one.state}: ${visible(one.reason)}` : one.state, one.state));
      row.append(element("td", percent(one.share), "number"), element("td", count(one.summary.events), "number"));
      row.append(element("td", count(one.summary.rows), "number"));
      row.append(element("td", count(one.lost), one.lost ? "number lost" : "number"), element("td", visible(one.query.sql)));
      return row;
    });
    // The focus stays on a button that was made again.
    const focused = document.activeElement?.closest?.("#queries tr")?.dataset.name;
    by("queries").tBodies[0].replaceChildren(...rows);
    rows.find((row) => row.dataset.name === focused)?.querySelector("button").focus();
    by("none").hidden = rows.length > 0;
    by("service").textContent = `${rows.length} of ${list.limits.queries} queries; all together take ` +
      `${percent(list.share)} of one CPU, of ${percent(list.limits.overhead)} allowed`;
    if (!list.queries.some((one) => one.query.name === chosen)) choose(rows.length ? list.queries[0].query.name : null);
  }

  function choose(name) {
    if (name !== chosen) [chosen, windows, last, begun, sorted, shown] = [name, [], 0, null, null, null];
    by("query").hidden = name === null;
    if (name !== null) ask_query().catch(problem);
  }

  async function ask_query() {
    const name = chosen;
    const one = await ask(`queries/${encodeURIComponent(name)}?after=${last}`);
    if (name !== chosen) return;
    // A query of this name that began anew counts its windows anew.
    if (one.last_window < last) [windows, last] = [[], 0];
    windows = windows.concat(one.windows.filter((own) => own.number > last)).slice(-WINDOWS);
    last = Math.max(last, one.last_window);
    shown = one;
    show_query();
  }

  function show_query() {
    const one = shown, summary = one.summary;
    by("query-title").textContent = one.query.name;
    const cost = summary.events ? `${Math.round((summary.program_ns ?? 0) / summary.events)} ns each` : "no event yet";
    by("state").textContent = `version ${one.query.version}, ${one.state}${one.reason ? `: ${visible(one.reason)}` : ""}; split ${summary.split}; ` +
      `programs ran ${count(summary.events)} times, ${cost}; ${percent(one.share)} of one CPU, of ` +
      `${percent(one.query.max_overhead)} allowed; ${one.lost ? `${count(one.lost)} lost` : "nothing lost"}`;
    show_rows(one);
    show_lines(one);
    show_heat(one);
  }

  // The last window; of rows without windows, the last ones.
  function show_rows(one) {
    const rows = one.windowed ? (windows.at(-1)?.rows ?? []) : windows.flatMap((own) => own.rows).slice(-ROWS);
    const wanted = by("filter").value.toLowerCase();
    let kept = rows.map((row) => [row, row.map((value, at) => text(value, one.columns[at]))]);
    if (wanted) kept = kept.filter(([, cells]) => cells.some((cell) => cell.toLowerCase().includes(wanted)));
    if (sorted) kept.sort(([one], [other]) => sorted.way * order(one[sorted.at], other[sorted.at]));
    show_head(one);
    by("rows").tBodies[0].replaceChildren(...kept.slice(0, ROWS).map(([, cells]) => {
      const row = element("tr");
      row.append(...cells.map((cell, at) => element("td", cell, is_number(one.columns[at]) ? "number" : "")));
      return row;
    }));
    by("found").textContent = wanted || kept.length > ROWS ? `${Math.min(kept.length, ROWS)} of ${rows.length} rows` : "";
  }

  function order(one, other) {
    const [a, b] = [one, other].map((value) => (value && typeof value === "object" ? value.sum : value));
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a ?? "").localeCompare(String(b ?? ""));
  }

  function show_head(one) {
    const names = JSON.stringify([one.query.name, one.columns, sorted]);
    if (begun === names) return;
    begun = names;
    const focused = document.activeElement?.closest?.("#rows th")?.cellIndex;
    const row = element("tr");
    one.columns.forEach((column, at) => {
      const head = element("th", undefined, is_number(column) ? "number" : ""), button = element("button", visible(column.name));
      const way = sorted?.at === at ? sorted.way : 0;
      head.scope = "col";
      head.setAttribute("aria-sort", way > 0 ? "ascending" : way < 0 ? "descending" : "none");
      if (way) button.append(way > 0 ? " ▲" : " ▼");
      button.type = "button";
      button.addEventListener("click", () => {
        sorted = way < 0 ? { at, way: 1 } : way > 0 ? null : { at, way: -1 };
        show_query();
      });
      head.append(button);
      row.append(head);
    });
    by("rows").tHead.replaceChildren(row);
    if (focused >= 0) row.cells[focused]?.querySelector("button").focus();
  }

  // A line over the windows for each of the largest groups, of the first number that is not a key.
  function show_lines(one) {
    const at = one.columns.findIndex((column) => column.measure && is_number(column));
    const figure = by("lines");
    figure.hidden = !one.windowed || at < 0 || windows.length < 2;
    if (figure.hidden) return;
    const keys = one.columns.flatMap((column, own) => (column.measure === false ? [own] : []));
    const label = (row) => keys.map((own) => text(row[own], one.columns[own])).join(" ") || one.columns[at].name;
    const bounds = [...new Set(windows.map((own) => own.window[0]))];
    const series = new Map();
    for (const own of windows) {
      // Labels are made once: a window is drawn as often as there are windows.
      own.points ??= own.rows.map((row) => [label(row), Number(row[at])]);
      for (const [name, value] of own.points) {
        let values = series.get(name);
        if (!values) series.set(name, values = new Map());
        values.set(own.window[0], (values.get(own.window[0]) ?? 0) + value);
      }
    }
    const total = (values) => [...values.values()].reduce((sum, value) => sum + value, 0);
    const most = [...series].map(([name, values]) => [name, values, total(values)])
      .sort(([, , one], [, , other]) => other - one).slice(0, SERIES);
    const top = Math.max(1, ...most.flatMap(([, values]) => [...values.values()]));
    const point = (values) => (bound, index) =>
      `${((640 * index) / Math.max(1, bounds.length - 1)).toFixed(1)},${(195 - (190 * (values.get(bound) ?? 0)) / top).toFixed(1)}`;
    const svg = figure.querySelector("svg");
    svg.replaceChildren(...most.map(([, values], index) =>
      drawn("polyline", { class: `s${index}`, points: bounds.map(point(values)).join(" ") })));
    const caption = `${visible(one.columns[at].name)} over the last ${bounds.length} windows; the top is ${count(top)}`;
    svg.setAttribute("aria-label", caption);
    figure.querySelector("figcaption").textContent = caption;
    figure.querySelector(".legend").replaceChildren(...most.map(([name, , sum], index) => {
      const item = element("li"), sample = drawn("svg", { viewBox: "0 0 16 10", "aria-hidden": "true" });
      sample.append(drawn("polyline", { class: `s${index}`, points: "0,5 16,5" }));
      item.append(sample, `${name}: ${count(sum)}`);
      return item;
    }));
  }

  // How many values each power of two has in all histograms of a column; 0 stands for zeros.
  function powers_of(rows, at) {
    const sum = new Map();
    for (const row of rows) {
      for (const [power, values] of [[0, row[at]?.zeros ?? 0], ...(row[at]?.powers ?? [])]) {
        if (values) sum.set(power, (sum.get(power) ?? 0) + values);
      }
    }
    return sum;
  }

  // A row for each power of two, a column for each window, and the darker the more values.
  function show_heat(one) {
    const at = one.columns.findIndex((column) => column.type === "histogram");
    const figure = by("heat");
    figure.hidden = at < 0 || windows.length === 0;
    if (figure.hidden) return;
    const sums = new Map();
    for (const own of windows) {
      own.powers ??= powers_of(own.rows, at);
      const bound = own.window ? own.window[0] : own.number, sum = sums.get(bound) ?? new Map();
      for (const [power, values] of own.powers) sum.set(power, (sum.get(power) ?? 0) + values);
      sums.set(bound, sum);
    }
    const columns = [...sums.values()];
    const powers = columns.flatMap((sum) => [...sum.keys()]);
    const [least, most] = [Math.min(...powers), Math.max(...powers)];
    const top = Math.max(1, ...columns.flatMap((sum) => [...sum.values()]));
    const shade = (values) => (values ? Math.max(1, Math.ceil((HEAT * Math.log1p(values)) / Math.log1p(top))) : 0);
    const rows = [];
    for (let power = most; power >= least; power -= 1) {
      const row = element("tr"), head = element("th", power ? count(2 ** (power - 1)) : "0");
      head.scope = "row";
      row.append(head, ...columns.map((sum) => {
        const values = sum.get(power) ?? 0, cell = element("td", undefined, values ? `h${shade(values)}` : "");
        cell.title = `${count(values)}`;
        return cell;
      }));
      rows.push(row);
    }
    figure.querySelector("tbody").replaceChildren(...rows);
    figure.querySelector("figcaption").textContent =
      `${visible(one.columns[at].name)} of all groups: a column is a window, a row begins at its number, dark has up to ${count(top)}`;
  }

  function problem(error) {
    by("problem").hidden = false;
    by("problem").textContent = error.status === 401
      ? "The key is missing from the address. `kiln serve list` prints the whole address."
      : `The service does not answer: ${error.message}`;
  }

  async function turn() {
    try {
      if (!paused) {
        show_queries(await ask("queries"));
        if (chosen !== null) await ask_query();
        by("problem").hidden = true;
      }
    } catch (error) {
      problem(error);
    }
    setTimeout(turn, SECOND);
  }

  by("filter").addEventListener("input", () => shown && show_query());
  by("pause").addEventListener("click", () => {
    paused = !paused;
    by("pause").setAttribute("aria-pressed", String(paused));
    by("pause").textContent = paused ? "Go on" : "Pause";
  });
  by("theme").addEventListener("click", () => {
    const next = { undefined: "light", light: "dark", dark: undefined }[document.documentElement.dataset.theme];
    if (next) document.documentElement.dataset.theme = next;
    else delete document.documentElement.dataset.theme;
    by("theme").textContent = `Theme: ${next ?? "auto"}`;
  });
  turn();
})();
