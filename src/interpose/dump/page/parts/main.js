// What is wanted, what is selected, and the keys. Everything on the page follows from `state`.

const state = { query: "", matches: () => true, methods: new Set(), only: new Set(), range: null, call: null, opened: false };
const ONLY = {
  errors: ["Errors", (call) => call.failed, "Calls that ended with anything but OK"],
  changed: ["Changed", (call) => call.changed, "Request or reply was changed on the way"],
  originated: ["Originated", (call) => call.originated, "Made by a part of the relay, not by the client"],
};
const search = byId("search");
let pane = null;
let missing = null; // the number of a call that a link asked for
let shownCalls = data.calls;

const inRange = (call, [from, to]) => call.at_ms <= to && (call.duration_ms === null || call.at_ms + call.duration_ms >= from);

function refresh() {
  // The chips of one kind do not narrow themselves: their numbers say what a click would bring.
  const only = [...state.only].map((name) => ONLY[name][1]);
  const found = data.calls.filter((call) => only.every((test) => test(call)) && state.matches(call));
  const wanted = state.methods.size ? found.filter((call) => state.methods.has(call.method)) : found;
  shownCalls = state.range ? wanted.filter((call) => inRange(call, state.range)) : wanted;
  list.show(shownCalls);
  timeline.show(wanted, state.range);
  chips(found);
  const all = shownCalls.length === data.calls.length;
  byId("count").textContent = all ? plural(data.calls.length, "call") : `${count(shownCalls.length)} of ${plural(data.calls.length, "call")}`;
  const empty = byId("empty");
  empty.hidden = shownCalls.length > 0;
  empty.textContent = data.calls.length ? "No call matches. Esc takes the search, the toggles and the zoom back." : "There are no calls in this recording.";
  byId("unzoom").hidden = !state.range;
  byId("zoomnote").textContent = state.range ? `${moment(state.range[0]).slice(11, 23)} – ${moment(state.range[1]).slice(11, 23)}` : "drag to zoom";
  if (!state.opened) side();
}

function side() {
  const place = byId("side");
  document.body.classList.toggle("opened", state.opened);
  pane = state.opened ? detail.pane(state.call, close) : null;
  place.replaceChildren(pane ?? latency.pane(shownCalls, (method) => toggle(state.methods, method)));
}

function remember() {
  const parts = new URLSearchParams();
  if (state.opened) parts.set("call", state.call.number);
  if (state.query) parts.set("q", state.query);
  const text = parts.toString();
  history.replaceState(null, "", text ? `#${text}` : "#");
}

function select(call, opened = state.opened) {
  if (!call) return;
  state.call = call;
  state.opened = opened;
  if (missing !== null) tellMissing(null);
  list.select(call);
  timeline.select(call);
  side();
  remember();
}

function close() {
  state.opened = false;
  side();
  remember();
  list.focus();
}

function toggle(set, name) {
  if (!set.delete(name)) set.add(name);
  refresh();
}

function setRange(range) {
  state.range = range;
  refresh();
}

function ask(text) {
  const note = byId("searchnote");
  try {
    state.matches = filters.parse(text);
    state.query = text.trim();
    note.textContent = "";
    search.removeAttribute("aria-invalid");
  } catch (error) {
    if (!(error instanceof filters.Mistake)) throw error;
    note.textContent = error.message;
    search.setAttribute("aria-invalid", "true");
    return;
  }
  refresh();
  remember();
}

function chip(text, number, pressed, action, props = {}) {
  return el("button", { type: "button", class: `chip ${props.class ?? ""}`, "aria-pressed": String(pressed), title: props.title, "data-name": text, onclick: action },
    props.family ? el("i", { class: `dot ${props.family}` }) : null, text, el("span", { class: "n", text: count(number) }));
}

function chips(found) {
  const numbers = new Map(methodNames.map((name) => [name, 0]));
  for (const call of found) numbers.set(call.method, numbers.get(call.method) + 1);
  byId("toggles").replaceChildren(...Object.entries(ONLY).map(([name, [title, test, hint]]) =>
    chip(title, data.calls.filter(test).length, state.only.has(name), () => toggle(state.only, name), { class: name, title: hint })));
  byId("methods").replaceChildren(...methodNames.map((name) =>
    chip(name, numbers.get(name), state.methods.has(name), () => toggle(state.methods, name), { family: data.head.families[name] ?? "other", class: numbers.get(name) ? "" : "none" })));
}

const methodNames = (() => {
  const numbers = new Map();
  for (const call of data.calls) numbers.set(call.method, (numbers.get(call.method) ?? 0) + 1);
  return [...numbers].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1)).map(([name]) => name);
})();

function about() {
  const { head, calls } = data;
  document.title = head.title;
  byId("title").textContent = head.title;
  const facts = [];
  const node = head.facts.node ?? head.facts.host;
  if (typeof node === "string" && node) facts.push(`node ${node}`);
  if (calls.length) {
    const [from, to] = [moment(data.start), moment(data.end)];
    const days = from.slice(0, 10) === to.slice(0, 10) ? [from.slice(0, 10), `${from.slice(11, 19)} – ${to.slice(11, 19)} UTC`] : [`${from.slice(0, 19).replace("T", " ")} – ${to.slice(0, 19).replace("T", " ")} UTC`];
    facts.push(...days, duration(data.end - data.start));
  }
  facts.push(plural(calls.length, "call"));
  const pods = lanes.filter((lane) => lane.key !== "node").length;
  if (pods) facts.push(plural(pods, "pod"));
  byId("facts").replaceChildren(...facts.map((text) => el("span", { text })));
  byId("facts").title = Object.entries(head.facts).filter(([key, value]) => key !== "damage" && typeof value !== "object").map(([key, value]) => `${key}: ${value}`).join("\n");
}

function banners() {
  const { facts, filter } = data.head;
  const { unshown, bodiless } = data.tail;
  const damage = [facts.damage ?? []].flat().filter(Boolean);
  const texts = [
    ...(missing === null ? [] : [["warn", "Not on this page: ", `call ${missing}, which the link asks for.${unshown || filter ? " It may be among the calls that were left out." : ""}`]]),
    ...(facts.redaction === "none" ? [["bad", "Not redacted: ", "passwords, tokens and values of environment variables are on this page as they were sent. Think before you share it."]] : []),
    ...damage.map((text) => ["bad", "Damaged recording: ", String(text)]),
    ...(unshown ? [["warn", "Not everything is here: ", `${plural(unshown, "later call")} left out. A filter such as ~ns or ~since makes a page of fewer.`]] : []),
    ...(bodiless ? [["warn", "Not everything is here: ", `the messages of ${plural(bodiless, "call")} are left out to keep the page small enough to open.`]] : []),
    ...(filter ? [["", "Only calls that match ", filter]] : []),
  ];
  byId("banners").replaceChildren(...texts.map(([kind, lead, text]) => el("p", { class: `banner ${kind}`, role: kind ? "alert" : "note" }, el("b", { text: lead }), el("span", { class: kind ? "" : "mono", text }))));
}

function tellMissing(number) {
  missing = number;
  banners();
}

function legend() {
  const there = new Set(data.calls.map((call) => call.family));
  const names = ["pod", "container", "update", "exec", "image", "status", "stats", "node", "other"].filter((name) => there.has(name));
  const made = names.map((name) => el("span", { class: "item" }, el("i", { class: `dot ${name}` }), name));
  made.push(el("span", { class: "item" }, el("i", { class: "dot failed" }), "failed"), el("span", { class: "item" }, el("i", { class: "dot ring" }), "changed"));
  byId("legend").replaceChildren(...made);
}

// Keys that work wherever nothing is typed: [keys, meaning, action].
const KEYS = [
  [["j", "ArrowDown"], "next call", () => select(list.away(1))],
  [["k", "ArrowUp"], "call before", () => select(list.away(-1))],
  [["PageDown"], "a page down", () => select(list.away(list.page()))],
  [["PageUp"], "a page up", () => select(list.away(-list.page()))],
  [["g", "Home"], "first call", () => select(list.away(-Infinity))],
  [["G", "End"], "last call", () => select(list.away(Infinity))],
  [["e"], "next call that failed", () => select(list.nextFailed(1))],
  [["E"], "call before that failed", () => select(list.nextFailed(-1))],
  [["Enter"], "open the call", () => select(state.call ?? list.away(0), true)],
  [["l", "ArrowRight"], "next tab", () => pane?.turn(1)],
  [["h", "ArrowLeft"], "tab before", () => pane?.turn(-1)],
  [["1", "2", "3", "4"], "this tab", (key) => pane?.turnTo(Number(key) - 1)],
  [["y"], "copy the message as YAML", () => pane?.copy()],
  [["/"], "search", () => search.select()],
  [["+", "="], "zoom in", () => timeline.zoom(0.5)],
  [["-"], "zoom out", () => timeline.zoom(2)],
  [["0"], "the whole time", () => setRange(null)],
  [["Escape"], "close, then take back zoom, toggles and search", back],
  [["?"], "this help", () => byId("help").showModal()],
];
const ACTIONS = new Map(KEYS.flatMap(([keys, , action]) => keys.map((key) => [key, action])));

function back() {
  if (state.opened) return close();
  if (state.range) return setRange(null);
  if (state.methods.size || state.only.size) {
    state.methods.clear();
    state.only.clear();
    return refresh();
  }
  search.value = "";
  return ask("");
}

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
  if (event.target === search) {
    if (event.key === "Escape" && search.value) ask((search.value = ""));
    else if (["Escape", "Enter", "ArrowDown"].includes(event.key)) {
      list.focus();
      if (event.key !== "Escape") select(list.away(-Infinity));
    } else return;
    event.preventDefault();
    return;
  }
  // Buttons and folds have keys of their own.
  if (["Enter", " "].includes(event.key) && event.target.closest("button, summary")) return;
  // A long message scrolls by itself when it has the focus.
  if (event.target.closest(".panel") && /^(Arrow(Up|Down)|Page|Home|End)/.test(event.key)) return;
  const action = ACTIONS.get(event.key);
  if (!action) return;
  event.preventDefault();
  action(event.key);
}

function help() {
  const names = { ArrowDown: "↓", ArrowUp: "↑", ArrowLeft: "←", ArrowRight: "→", Escape: "Esc" };
  const key = (text) => el("kbd", { text: names[text] ?? text });
  const row = (left, right) => el("tr", {}, el("td", {}, ...left), el("td", { text: right }));
  const keys = KEYS.map(([all, meaning]) => row(all.flatMap((one) => [key(one), " "]), meaning));
  const code = (text) => [el("code", { text })];
  const questions = Object.entries(filters.QUESTIONS).map(([letter, [, argument, meaning]]) => row(code(`~${letter} ${argument}`), meaning));
  const operators = [["word", "part of the method or of namespace/pod:container"], ["!A", "not"], ["A B  A & B", "both"], ["A | B", "one of them"], ["( )  \" \"", "groups; quotes hold blanks"]];
  byId("help").replaceChildren(
    el("form", { method: "dialog" }, el("h2", { id: "helptitle", text: "Keys and filters" }), el("button", { class: "plain", "aria-label": "Close", text: "✕" })),
    el("div", { class: "columns" },
      el("section", {}, el("h3", { text: "Keys" }), el("table", {}, ...keys)),
      el("section", {}, el("h3", { text: "Filters" }), el("table", {}, ...operators.map(([text, meaning]) => row(code(text), meaning)), ...questions),
        el("p", { class: "quiet", text: "The same language as `interpose dump show`, also as method=Create or duration>1s. A time is also chosen on the timeline: drag over it, double click to go back." }))));
}

function follow() {
  const wanted = new URLSearchParams(location.hash.slice(1));
  const query = wanted.get("q") ?? "";
  if (query !== state.query) {
    search.value = query;
    ask(query);
  }
  const number = wanted.get("call");
  const call = number === null ? null : data.calls.find((one) => String(one.number) === number);
  if (call) select(call, true);
  else if (number !== null || missing !== null) tellMissing(number === null ? null : number.slice(0, 20));
}

about();
banners();
legend();
help();
list.start({ open: (call) => select(call, true), sorted: refresh });
timeline.start({ open: (call) => select(call, true), range: setRange });
refresh();
follow();
let typing = 0;
search.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => ask(search.value), data.calls.length > 5000 ? 120 : 0);
});
document.addEventListener("keydown", pressed);
window.addEventListener("hashchange", follow);
byId("unzoom").addEventListener("click", () => setRange(null));
byId("helpbutton").addEventListener("click", () => byId("help").showModal());
if (document.activeElement === document.body) list.focus();
