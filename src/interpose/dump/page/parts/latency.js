// How long calls took: one line per method with its distribution on a log axis that all share.

const latency = (() => {
  const WIDTH = 200;
  const HEIGHT = 24;
  const PER_DECADE = 6; // bins

  const quantile = (sorted, share) => sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)];

  function statistics(calls) {
    const found = new Map();
    for (const call of calls) {
      let one = found.get(call.method);
      if (!one) found.set(call.method, (one = { method: call.method, family: call.family, calls: 0, failed: 0, took: [] }));
      one.calls += 1;
      if (call.failed) one.failed += 1;
      if (call.duration_ms !== null) one.took.push(call.duration_ms);
    }
    for (const one of found.values()) {
      one.took.sort((a, b) => a - b);
      Object.assign(one, { p50: quantile(one.took, 0.5), p99: quantile(one.took, 0.99), max: one.took.at(-1) });
    }
    return [...found.values()].sort((one, other) => (other.p50 ?? -1) - (one.p50 ?? -1) || (one.method < other.method ? -1 : 1));
  }

  /** Whole decades around everything that is shown. */
  function scale(rows) {
    let [low, high] = [Infinity, 0];
    for (const one of rows) {
      if (!one.took.length) continue;
      low = Math.min(low, one.took[0]);
      high = Math.max(high, one.max);
    }
    const first = Math.floor(Math.log10(Math.max(Math.min(low, high), 0.001)));
    const last = Math.max(Math.ceil(Math.log10(Math.max(high, 0.001))), first + 1);
    const share = (ms) => Math.min(1, Math.max(0, (Math.log10(Math.max(ms, 0.001)) - first) / (last - first)));
    const decades = Array.from({ length: last - first + 1 }, (_, index) => 10 ** (first + index));
    return { share, decades, bins: (last - first) * PER_DECADE };
  }

  const f = (number) => number.toFixed(2);
  const mark = (place, name, from = 1) => svg("line", { x1: f(place), x2: f(place), y1: from, y2: HEIGHT - 1, class: name });

  function plot(one, axis) {
    const at = (ms) => 2 + axis.share(ms) * (WIDTH - 4);
    const told = one.took.length ? `half took ${duration(one.p50)} or less, 99 % ${duration(one.p99)} or less` : "none is over";
    const made = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", class: `plot ${one.family}`, "aria-label": `${one.method}: ${told}` });
    for (const decade of axis.decades) made.append(mark(at(decade), "grid", 0));
    const bins = new Array(axis.bins).fill(0);
    for (const ms of one.took) bins[Math.min(axis.bins - 1, Math.floor(axis.share(ms) * axis.bins))] += 1;
    const most = Math.max(...bins, 1);
    const wide = (WIDTH - 4) / axis.bins;
    bins.forEach((number, index) => {
      if (!number) return;
      const tall = 2 + (number / most) * (HEIGHT - 5);
      made.append(svg("rect", { x: f(2 + index * wide + 0.4), y: f(HEIGHT - 1 - tall), width: f(wide - 0.8), height: f(tall), class: "bin" }));
    });
    if (one.took.length) made.append(mark(at(one.p50), "p50"), mark(at(one.p99), "p99"));
    return made;
  }

  function ticks(axis) {
    const made = el("span", { class: "ticks", "aria-hidden": "true" });
    const every = Math.ceil(axis.decades.length / 3);
    axis.decades.forEach((decade, index) => {
      if (index % every) return;
      const tick = el("span", { text: duration(decade).replace(/\.0+(?=\D)/, "") });
      tick.style.left = `${(axis.share(decade) * 98 + 1).toFixed(2)}%`;
      made.append(tick);
    });
    return made;
  }

  /** The pane of all methods; `pick` is called with a method. */
  function pane(calls, pick) {
    const rows = statistics(calls);
    const axis = scale(rows);
    const failures = rows.some((one) => one.failed);
    const cell = (ms, name = "") => el("td", { class: `num ${name}`, text: ms === undefined ? "–" : duration(ms) });
    const body = rows.map((one) =>
      el("tr", {},
        el("th", { scope: "row" }, el("button", { type: "button", class: "link", title: `Only ${one.method}`, onclick: () => pick(one.method) }, el("i", { class: `dot ${one.family}` }), one.method)),
        el("td", { class: "num", text: count(one.calls) }),
        failures ? el("td", { class: "num failures", text: one.failed ? count(one.failed) : "" }) : null,
        el("td", { class: "drawing" }, plot(one, axis)),
        cell(one.p50), cell(one.p99), cell(one.max, "max")));
    const head = el("tr", {}, el("th", { scope: "col", text: "Method" }), el("th", { scope: "col", class: "num many", text: "Calls" }),
      failures ? el("th", { scope: "col", class: "num failures", text: "Failed" }) : null,
      el("th", { scope: "col", class: "drawing" }, ticks(axis)),
      ...["p50", "p99", "max"].map((text) => el("th", { scope: "col", class: `num ${text}`, text })));
    return el("div", { class: "latency" },
      el("header", {}, el("h2", { text: "Latency by method" }), el("p", { class: "quiet", text: "of the calls in the list, on a log axis" }),
        el("p", { class: "key" }, el("i", { class: "line50" }), "p50", el("i", { class: "line99" }), "p99")),
      rows.length ? el("table", {}, el("thead", {}, head), el("tbody", {}, ...body)) : el("p", { class: "quiet", text: "No calls." }),
      el("p", { class: "hint quiet" }, "Select a call to see its messages. ", el("kbd", { text: "j" }), " ", el("kbd", { text: "k" }), " move, ", el("kbd", { text: "Enter" }), " opens, ", el("kbd", { text: "?" }), " helps."));
  }

  return { pane };
})();
