// One call: what was asked and answered, what was changed on the way, and everything else that is known of it.

const detail = (() => {
  const SIDES = {
    request: "as the caller sent it",
    forwarded: "as the runtime got it",
    received: "as the runtime answered",
    reply: "as the caller got it",
  };
  const MISSING = "Its messages are not on this page: there are too many. The command below shows them.";
  let tab = "request";

  const quiet = (text) => el("p", { class: "nothing", text });

  function body(message) {
    const made = el("div", { class: "body" });
    if (message.note) made.append(el("p", { class: "note" }, shown(message.note)));
    if (message.body !== null) made.append(tree.made(message.body));
    else if (!message.note) made.append(quiet("This message was not recorded."));
    return made;
  }

  function tools(message, inside) {
    const button = (text, action, title) => el("button", { type: "button", class: "small", text, title, onclick: (event) => (event.preventDefault(), action(event.target)) });
    if (message.body === null) return null;
    return el("span", { class: "tools" },
      button("Unfold", () => tree.foldAll(inside(), true), "Open every branch"),
      button("Fold", () => tree.foldAll(inside(), false), "Close every branch"),
      button("Copy", (target) => copy(yamlText(message.body), target), "Copy as YAML (y)"));
  }

  /** A message under its title; filled when it is opened. */
  function section(message, title, open) {
    const inside = el("div", {});
    const made = el("details", { class: "message" },
      el("summary", {}, el("span", { class: "name", text: title }), el("span", { class: "quiet", text: `${size(message.size)} · after ${duration(message.at_ms)}` }), tools(message, () => (fill(), inside))),
      inside);
    const fill = () => inside.childElementCount || inside.append(body(message));
    made.addEventListener("toggle", () => made.open && fill());
    if (open) {
      fill();
      made.open = true;
    }
    return made;
  }

  function messages(rest, sides, call) {
    const found = rest.messages.filter((one) => sides.includes(one.side));
    if (!found.length) return [quiet(sides.includes("request") ? "No request was recorded." : call.open ? "No reply yet when the recording ended." : call.failed ? "No reply: the call failed." : "No reply was recorded.")];
    const several = found.length > sides.length || found.filter((one) => one.side === "reply").length > 1;
    const changed = new Set(found.map((one) => one.side)).size > 1;
    const made = found.map((one, index) => {
      const name = several ? `Message ${index + 1}${index ? ` of ${found.length}` : ""}${changed ? `, ${SIDES[one.side]}` : ""}` : changed ? SIDES[one.side][0].toUpperCase() + SIDES[one.side].slice(1) : "Message";
      return section(one, name, index === 0 || (changed && !several && found.length <= 2));
    });
    if (call.forgotten && sides.includes("reply")) made.splice(0, 0, quiet(`${plural(call.forgotten, "older message")} of this stream left out.`));
    return made;
  }

  function difference(lines, title) {
    const added = lines.filter((line) => line.startsWith("+ ")).length;
    const removed = lines.filter((line) => line.startsWith("- ")).length;
    const kinds = { "+": "added", "-": "removed", "@": "hunk" };
    const text = el("div", { class: "diff", role: "group", "aria-label": title });
    for (const line of lines) {
      const kind = kinds[line[0]] ?? "same";
      const said = el("span", { class: "said" }, shown(kind === "hunk" ? "" : line.slice(2)));
      // A long line goes on below its own beginning.
      said.style.setProperty("--in", `${/^ *-? */.exec(line.slice(2))[0].length + 2}ch`);
      text.append(el("div", { class: kind }, el("span", { class: "sign", text: kind === "same" ? " " : kind === "hunk" ? "⋯" : line[0] }), said));
    }
    return el("section", {}, el("h3", {}, title, el("span", { class: "plus", text: ` +${added}` }), el("span", { class: "minus", text: ` −${removed}` })), text);
  }

  function changes(rest, call) {
    const made = [];
    if (call.changed_by.length) made.push(el("p", { class: "by" }, "Changed by ", ...call.changed_by.flatMap((name, index) => [index ? ", " : "", el("b", { text: name })])));
    if (rest.request_diff.length) made.push(difference(rest.request_diff, "Request: from the caller to the runtime"));
    if (rest.reply_diff.length) made.push(difference(rest.reply_diff, "Reply: from the runtime to the caller"));
    if (!made.length) made.push(quiet(call.kind === "passthrough" ? "Passed through: nobody looked at this call." : "Nothing was changed on the way."));
    return made;
  }

  function waterfall(rest, call) {
    const end = Math.max(call.duration_ms ?? 0, ...rest.messages.map((one) => one.at_ms), 0.001);
    const line = (name, at, note) => {
      const dot = el("i", {});
      dot.style.left = `${((at / end) * 100).toFixed(2)}%`;
      return el("tr", {}, el("th", { scope: "row", text: name }), el("td", { class: "track" }, el("span", {}, dot)), el("td", { class: "num", text: duration(at) }), el("td", { class: "num", text: note }));
    };
    const rows = rest.messages.slice(0, 40).map((one) => line(one.side, one.at_ms, size(one.size)));
    if (rest.messages.length > 40) rows.push(el("tr", {}, el("td", { colspan: 4, class: "quiet", text: `and ${plural(rest.messages.length - 40, "message")} more` })));
    if (call.duration_ms !== null) rows.push(line("end", call.duration_ms, ""));
    return el("table", { class: "waterfall" }, el("tbody", {}, ...rows));
  }

  function information(rest, call) {
    const who = [call.pid ? `pid ${call.pid}` : "", `uid ${call.uid}`].filter(Boolean).join(", ");
    const facts = [
      ["Time", call.time], ["Took", call.duration_ms === null ? "not over" : `${duration(call.duration_ms)}, exactly ${call.duration_ms} ms`],
      ["Status", call.status ? `${call.status} (${call.code})` : "open"], ["Message", call.message],
      ["Path", call.path], ["Kind", call.kind], ["Origin", call.origin === "client" ? `client (${who})` : call.origin],
      ["Namespace", call.namespace], ["Pod", call.pod], ["Pod UID", call.pod_uid], ["Pod id", call.pod_id],
      ["Container", call.container], ["Container id", call.container_id], ["Image", call.image],
    ].filter(([, value]) => value !== "");
    const table = (rows, name) => el("table", { class: "facts", "aria-label": name }, el("tbody", {}, ...rows.map(([key, value]) => el("tr", {}, el("th", { scope: "row", text: key }), el("td", {}, shown(value))))));
    const made = [table(facts, "Facts")];
    if (rest && rest.messages.length) made.push(el("h3", { text: "Timing" }), waterfall(rest, call));
    if (rest && rest.metadata.length) made.push(el("h3", { text: "Metadata" }), table(rest.metadata, "Metadata"));
    return made;
  }

  // id: [title, content, number behind the title]
  const TABS = {
    request: ["Request", (rest, call) => messages(rest, ["request", "forwarded"], call), () => 0],
    reply: ["Reply", (rest, call) => messages(rest, ["received", "reply"], call), (rest, call) => (call.replies > 1 ? call.replies : 0)],
    diff: ["Diff", changes, (rest) => [...rest.request_diff, ...rest.reply_diff].filter((line) => /^[+-] /.test(line)).length],
    info: ["Info", information, () => 0],
  };

  /** The pane of a call. */
  function pane(call, close) {
    const rest = data.detail(call);
    const panel = el("div", { class: "panel", role: "tabpanel", id: "panel", tabindex: "0", "aria-labelledby": `tab-${tab}` });
    const buttons = Object.entries(TABS).map(([id, [title, , number]]) => {
      const more = rest ? number(rest, call) : 0;
      return el("button", { type: "button", role: "tab", id: `tab-${id}`, "data-tab": id, "aria-controls": "panel", onclick: () => turn(id) }, title, more ? el("span", { class: id === "diff" ? "badge diff-lines" : "badge", text: count(more) }) : null);
    });
    const turn = (id) => {
      tab = id;
      for (const button of buttons) {
        const mine = button.dataset.tab === id;
        button.setAttribute("aria-selected", String(mine));
        button.tabIndex = mine ? 0 : -1;
      }
      panel.setAttribute("aria-labelledby", `tab-${id}`);
      panel.replaceChildren(...(rest || id === "info" ? TABS[id][1](rest, call) : [quiet(MISSING), el("p", { class: "note mono", text: `interpose dump show FILE --number ${call.number}` })]));
      panel.scrollTop = 0;
    };
    const status = el("span", { class: `pill ${call.failed ? "bad" : call.open ? "open" : "good"}`, text: call.status || "open" });
    const facts = [call.time.slice(11), duration(call.duration_ms), call.kind === "originated" ? `made by ${call.origin}` : call.kind].filter(Boolean);
    const made = el("article", { class: "call", "aria-label": `Call ${call.number}, ${call.method}` },
      el("header", {},
        el("div", { class: "headline" }, el("i", { class: `dot ${call.family}` }), el("h2", { text: call.method }), status, el("span", { class: "quiet number", text: `#${call.number}` }),
          el("button", { type: "button", class: "plain", id: "close", "aria-label": "Close this call", title: "Close (Esc)", text: "✕", onclick: close })),
        call.subject ? el("p", { class: "subject", text: call.subject }) : null,
        el("p", { class: "quiet when", text: facts.join(" · ") }),
        call.message ? el("p", { class: "failure" }, shown(call.message)) : null),
      el("div", { class: "tabs", role: "tablist", "aria-label": "Parts of the call" }, ...buttons),
      panel);
    turn(tab);
    made.turn = (step) => {
      const ids = Object.keys(TABS);
      turn(ids[(ids.indexOf(tab) + step + ids.length) % ids.length]);
      buttons[ids.indexOf(tab)].focus({ preventScroll: true });
    };
    made.turnTo = (index) => turn(Object.keys(TABS)[index]);
    made.copy = () => panel.querySelector(".message[open] .tools button:last-child")?.click();
    return made;
  }

  return { pane };
})();
