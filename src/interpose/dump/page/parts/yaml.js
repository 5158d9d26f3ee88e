// Trees as YAML text: what is copied, and what a search in messages looks at.

/** Numbers that a browser cannot count to come as [null, "digits"]. */
const isBig = (value) => Array.isArray(value) && value.length === 2 && value[0] === null;
const isBranch = (value) => typeof value === "object" && value !== null && !isBig(value);
const isEmpty = (value) => (Array.isArray(value) ? value : Object.keys(value)).length === 0;

const PLAIN = /^[A-Za-z_/][\w./@+-]*(?:[:][\w./@+-]+)*$/;
const MEANS_SOMETHING = /^(?:true|false|yes|no|on|off|null|y|n)$/i;

function yamlScalar(value) {
  if (isBig(value)) return value[1];
  if (typeof value !== "string") return String(value);
  if (PLAIN.test(value) && !MEANS_SOMETHING.test(value)) return value;
  return JSON.stringify(value);
}

function yamlLines(value, indent, lines) {
  const pad = "  ".repeat(indent);
  const list = Array.isArray(value);
  for (const [key, one] of Object.entries(value)) {
    const lead = list ? `${pad}-` : `${pad}${yamlScalar(key)}:`;
    if (!isBranch(one)) lines.push(`${lead} ${yamlScalar(one)}`);
    else if (isEmpty(one)) lines.push(`${lead} ${Array.isArray(one) ? "[]" : "{}"}`);
    else if (list) {
      // The first line of the item stands behind its dash.
      const item = [];
      yamlLines(one, indent + 1, item);
      item[0] = `${pad}- ${item[0].slice(pad.length + 2)}`;
      lines.push(...item);
    } else {
      lines.push(lead);
      yamlLines(one, indent + 1, lines);
    }
  }
}

function yamlText(tree) {
  if (!isBranch(tree)) return `${yamlScalar(tree)}\n`;
  if (isEmpty(tree)) return Array.isArray(tree) ? "[]\n" : "{}\n";
  const lines = [];
  yamlLines(tree, 0, lines);
  return `${lines.join("\n")}\n`;
}
