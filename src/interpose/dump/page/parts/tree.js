// Messages as YAML that folds. Branches are made when they are opened, so that a list of all containers costs nothing.

const tree = (() => {
  const OPEN_LINES = 400; // so much is open from the start
  const LONG_LIST = 6; // items of longer lists start folded
  const SHORT = 90; // characters of a map that is written on one line
  const DEEPEST = 50;
  const MOST_LINES = 50000; // when everything is unfolded

  const scalarClass = (value) => (isBig(value) ? "number" : typeof value);

  function scalar(value) {
    if (typeof value !== "string") return el("span", { class: `v ${scalarClass(value)}`, text: yamlScalar(value) });
    if (value.includes("\n")) return el("span", { class: "v string block" }, shown(value.replace(/\n$/, "")));
    const plain = !MEANS_SOMETHING.test(value) && !/^[-+.\d]*$/.test(value) && /^(?:-(?=[^\s])|[^\s"'{}[\]#,&*!|>%@`-])[^"#]*$/.test(value);
    const text = plain || value.includes(REDACTED) ? value : JSON.stringify(value);
    return el("span", { class: "v string" }, shown(text));
  }

  const isShort = (value) => {
    const entries = Object.entries(value);
    if (Array.isArray(value) || entries.length > 3) return false;
    if (entries.some(([, one]) => isBranch(one) || String(one).includes("\n"))) return false;
    return entries.reduce((sum, [key, one]) => sum + key.length + String(one).length + 4, 0) <= SHORT;
  };

  /** `{key: PATH, value: redacted}`. */
  function flow(value) {
    const made = el("span", { class: "flow" });
    Object.entries(value).forEach(([key, one], index) => made.append(index ? ", " : "", el("span", { class: "k", text: `${key}: ` }), scalar(one)));
    return made;
  }

  /** What a folded branch says of itself. */
  function preview(value) {
    if (Array.isArray(value)) return plural(value.length, "item");
    const named = value.metadata?.name ?? value.name ?? value.key ?? value.id ?? value.container_path;
    const text = typeof named === "string" ? named : "";
    return text ? `${text} · ${plural(Object.keys(value).length, "field")}` : plural(Object.keys(value).length, "field");
  }

  const entries = (value) => (Array.isArray(value) ? value.map((one) => [null, one]) : Object.entries(value));

  function lead(key) {
    return key === null ? el("span", { class: "dash", text: "- " }) : el("span", { class: "k", text: `${key}: ` });
  }

  function line(key, value, budget, foldItems) {
    budget.left -= 1;
    if (!isBranch(value)) return el("div", { class: "line" }, lead(key), scalar(value));
    if (isEmpty(value)) return el("div", { class: "line" }, lead(key), el("span", { class: "v", text: Array.isArray(value) ? "[]" : "{}" }));
    if (key === null && isShort(value)) return el("div", { class: "line" }, lead(key), flow(value));
    const open = !foldItems && budget.left > 0;
    const inner = el("div", { class: "inner" });
    const made = el("details", { class: "branch" }, el("summary", { class: "line" }, lead(key), el("span", { class: "preview", text: preview(value) })), inner);
    const fill = () => inner.childElementCount || inner.append(...lines(value, budget));
    made.fill = fill;
    made.addEventListener("toggle", () => {
      if (!made.open) return;
      budget.left = Math.max(budget.left, 60);
      fill();
    });
    if (open) {
      fill();
      made.open = true;
    }
    return made;
  }

  function lines(value, budget) {
    const foldItems = Array.isArray(value) && value.length > LONG_LIST;
    return entries(value).map(([key, one]) => line(key, one, budget, foldItems));
  }

  /** A tree as an element. */
  function made(value) {
    if (!isBranch(value)) return el("div", { class: "tree" }, scalar(value));
    if (isEmpty(value)) return el("div", { class: "tree" }, el("span", { class: "quiet", text: "empty message: every field has its zero value" }));
    return el("div", { class: "tree" }, ...lines(value, { left: OPEN_LINES }));
  }

  /** Open or fold everything below an element. What is opened may bring more that is folded. */
  function foldAll(root, open) {
    if (!open) for (const branch of root.querySelectorAll("details.branch[open]")) branch.open = false;
    else for (let round = 0; round < DEEPEST; round += 1) {
      const folded = root.querySelectorAll("details.branch:not([open])");
      if (!folded.length || root.querySelectorAll(".line").length > MOST_LINES) return;
      for (const branch of folded) {
        branch.fill();
        branch.open = true;
      }
    }
  }

  return { made, foldAll };
})();
