// Elements and the way numbers are written. Text of calls only ever becomes text: nothing here parses markup.

const byId = (id) => document.getElementById(id);

/** An element. `on…` are listeners, `text` is its text, everything else an attribute; no attribute takes data but title and aria-label. */
function el(name, props = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "text") made.textContent = value;
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** The same for drawings. */
function svg(name, props = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(props)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const THIN = "\u202f";
const digits = (value) => (value >= 99.95 ? value.toFixed(0) : value >= 9.995 ? value.toFixed(1) : value.toFixed(2));

/** Milliseconds for people, three digits. */
function duration(ms) {
  if (ms === null || ms === undefined) return "";
  if (ms < 0.9995) return `${Math.round(ms * 1000)}${THIN}µs`;
  if (ms < 999.5) return `${digits(ms)}${THIN}ms`;
  if (ms < 60000) return `${digits(ms / 1000)}${THIN}s`;
  const seconds = Math.round(ms / 1000);
  const minutes = Math.floor(seconds / 60);
  const two = (number) => String(number).padStart(2, "0");
  return minutes < 60 ? `${minutes}:${two(seconds % 60)}${THIN}min` : `${Math.floor(minutes / 60)}:${two(minutes % 60)}${THIN}h`;
}

function size(bytes) {
  if (bytes < 1024) return `${bytes}${THIN}B`;
  if (bytes < 1024 * 1024) return `${digits(bytes / 1024)}${THIN}KiB`;
  return `${digits(bytes / 1024 / 1024)}${THIN}MiB`;
}

const count = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, THIN);
const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

/** Text with what redaction left as a badge. */
const REDACTED = "<redacted>";
function shown(text) {
  const made = document.createDocumentFragment();
  String(text).split(REDACTED).forEach((piece, index) => {
    if (index) made.append(el("span", { class: "redacted", text: "redacted", title: "Withheld when this was recorded" }));
    made.append(piece);
  });
  return made;
}

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without permission: the old way.
    const area = el("textarea", { "aria-hidden": "true", class: "offscreen" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  if (!button) return;
  button.textContent = "Copied";
  button.classList.add("done");
  setTimeout(() => {
    button.textContent = "Copy";
    button.classList.remove("done");
  }, 1200);
}
