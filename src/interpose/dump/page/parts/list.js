// The list of calls. Only the rows in sight exist, so that any number of calls scrolls.

const list = (() => {
  const ROW = 26; // pixels, as in the style sheet
  const SPARE = 8; // rows beyond the edges
  const PRINTED = 1000;

  // name: [title, key to sort by, class, text]
  const COLUMNS = [
    ["#", "number", "num", (call) => String(call.number)],
    ["Time (UTC)", "at_ms", "time", (call) => call.time.slice(11, 23)],
    ["Method", "method", "method", (call) => call.method],
    ["About", "subject", "subject", () => ""],
    ["", null, "marks", () => ""],
    ["Status", "status", "status", (call) => call.status || "open"],
    ["Took", "duration_ms", "took", (call) => duration(call.duration_ms)],
    ["Size", "weight", "size", (call) => size(call.sent + call.answered)],
  ];

  const box = byId("list");
  const room = byId("listroom");
  let calls = [];
  let selected = null;
  let places = new Map();
  let sort = { key: "at_ms", down: false };
  let handlers = {};
  let slowest = 1;
  const onPaper = matchMedia("print");

  const sortValue = (call, key) => (key === "weight" ? call.sent + call.answered : call[key]);

  function sorted(rows) {
    const { key, down } = sort;
    if (key === "at_ms") return down ? rows.toReversed() : rows;
    const sign = down ? -1 : 1;
    return rows.toSorted((one, other) => {
      const [a, b] = [sortValue(one, key), sortValue(other, key)];
      if (a === b) return one.index - other.index;
      if (a === null || a === "") return 1;
      if (b === null || b === "") return -1;
      return a < b ? -sign : sign;
    });
  }

  function marks(call) {
    const made = [];
    if (call.changed) made.push(el("span", { class: "mark changed", text: "changed", title: `Changed on the way${call.changed_by.length ? ` by ${call.changed_by.join(", ")}` : ""}` }));
    if (call.originated) made.push(el("span", { class: "mark own", text: call.origin, title: `Made by a part of the relay: ${call.origin}` }));
    if (call.replies > 1) made.push(el("span", { class: "mark", text: `×${call.replies + call.forgotten}`, title: `A stream of ${plural(call.replies + call.forgotten, "message")}` }));
    if (call.path.startsWith("/runtime.v1alpha2.")) made.push(el("span", { class: "mark", text: "v1α2", title: "CRI v1alpha2" }));
    return made;
  }

  /** The pod may be cut; which container it is stays readable. */
  function about(call) {
    const inside = call.container && call.subject.endsWith(`:${call.container}`) ? `:${call.container}` : "";
    const pod = call.subject.slice(0, call.subject.length - inside.length);
    return [el("span", { class: "pod", text: pod, title: call.subject }), inside ? el("span", { class: "in", text: inside, title: call.subject }) : ""];
  }

  function row(call, place) {
    const cells = COLUMNS.map(([, , name, text]) => {
      const cell = el("span", { class: `c ${name}`, role: "gridcell", text: text(call) });
      if (name === "method") cell.prepend(el("i", { class: `dot ${call.family}` }));
      if (name === "subject") cell.append(...about(call));
      if (name === "marks") cell.append(...marks(call));
      if (name === "status") cell.title = [call.status, call.message].filter(Boolean).join(": ");
      if (name === "took" && call.duration_ms !== null) {
        // On a log scale from 0.1 ms, so that the slow ones stand out and the others still differ.
        const share = Math.max(0, Math.log10(Math.max(call.duration_ms, 0.1) / 0.1) / Math.log10(slowest / 0.1));
        const bar = el("i", { class: "bar" });
        bar.style.width = `${(share * 100).toFixed(1)}%`;
        cell.append(bar);
      }
      return cell;
    });
    const made = el("div", { class: "row", role: "row", id: `call-${call.index}`, "aria-rowindex": place + 1, "aria-selected": call === selected ? "true" : "false" }, ...cells);
    if (call.failed) made.classList.add("failed");
    if (call.open) made.classList.add("open");
    made.style.top = `${place * ROW}px`;
    made.addEventListener("click", () => handlers.open(call));
    return made;
  }

  function paint(first, last) {
    room.replaceChildren(...calls.slice(first, last).map((call, index) => row(call, first + index)));
    if (selected && places.has(selected)) box.setAttribute("aria-activedescendant", `call-${selected.index}`);
    else box.removeAttribute("aria-activedescendant");
  }

  let waiting = false;
  function draw() {
    waiting = false;
    // On paper the list is as high as its rows: making more of them would make it higher, and so on.
    if (onPaper.matches) return paint(0, PRINTED);
    const first = Math.max(0, Math.floor(box.scrollTop / ROW) - SPARE);
    return paint(first, Math.ceil((box.scrollTop + box.clientHeight) / ROW) + SPARE);
  }
  function later() {
    if (!waiting) requestAnimationFrame(draw);
    waiting = true;
  }

  function titles() {
    const made = COLUMNS.map(([title, key, name]) => {
      if (key === null) return el("span", { class: `c ${name}` });
      const mine = sort.key === key;
      const order = mine ? (sort.down ? "descending" : "ascending") : "";
      const button = el("button", { type: "button", text: title, "aria-pressed": String(mine), "aria-label": order ? `${title}, ${order}` : null, onclick: () => {
        sort = { key, down: mine ? !sort.down : key === "duration_ms" || key === "weight" };
        handlers.sorted();
      } });
      return el("span", { class: `c ${name} ${order}` }, button);
    });
    byId("titles").replaceChildren(...made);
  }

  function show(rows) {
    calls = sorted(rows);
    places = new Map(calls.map((call, place) => [call, place]));
    room.style.height = `${calls.length * ROW}px`;
    box.setAttribute("aria-rowcount", String(calls.length));
    titles();
    if (places.has(selected)) reveal(selected);
    else box.scrollTop = 0;
    later();
  }

  function reveal(call) {
    const place = places.get(call);
    if (place === undefined) return;
    const top = place * ROW;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top + ROW > box.scrollTop + box.clientHeight) box.scrollTop = top + ROW - box.clientHeight;
  }

  function select(call) {
    selected = call;
    if (call) reveal(call);
    later();
  }

  /** The call so many rows away from the selected one; the ends are ends. */
  function away(steps) {
    if (!calls.length) return null;
    const place = places.get(selected);
    if (place === undefined) return steps < 0 && Number.isFinite(steps) ? calls.at(-1) : steps === Infinity ? calls.at(-1) : calls[0];
    return calls[Math.max(0, Math.min(calls.length - 1, place + steps))];
  }

  /** The next one that failed, in this direction. */
  function nextFailed(step) {
    const start = places.get(selected) ?? (step > 0 ? -1 : calls.length);
    for (let place = start + step; place >= 0 && place < calls.length; place += step) if (calls[place].failed) return calls[place];
    return null;
  }

  function start(given) {
    handlers = given;
    for (const call of data.calls) slowest = Math.max(slowest, call.duration_ms ?? 0);
    box.addEventListener("scroll", later, { passive: true });
    new ResizeObserver(later).observe(box);
    window.addEventListener("beforeprint", () => paint(0, PRINTED));
    window.addEventListener("afterprint", later);
  }

  return { start, show, select, away, nextFailed, page: () => Math.max(1, Math.floor(box.clientHeight / ROW) - 1), focus: () => box.focus({ preventScroll: true }) };
})();
