// The filter language of `interpose dump show`, on rows. A text becomes a function that says of a call whether it is wanted.
//
//   or  = and *( "|" and )        and = not *( ["&"] not )        not = "!" not / "(" or ")" / question / word
//
// The only thing that is not here is a time ago (~since -10m): a page does not know when now is.

const filters = (() => {
  class Mistake extends Error {}

  function pattern(text) {
    try {
      return new RegExp(text, "im");
    } catch (error) {
      throw new Mistake(`${text} is no regular expression: ${error.message.split(": ").pop()}`);
    }
  }

  const anyOf = (fields, ids = []) => (text) => {
    const wanted = pattern(text);
    const start = text.toLowerCase();
    return (call) => fields.some((name) => call[name] && wanted.test(call[name])) || ids.some((name) => call[name].toLowerCase().startsWith(start));
  };

  // Looking into messages is slow, and each key stroke asks again: the newest answers are kept.
  const answers = new Map();
  const KEPT = 6;
  const SEARCHED = 1 << 20; // characters of a call
  const inMessages = (...sides) => (text) => {
    const wanted = pattern(text);
    const key = `${sides} ${text}`;
    const known = answers.get(key) ?? new Int8Array(data.calls.length);
    answers.delete(key);
    answers.set(key, known);
    if (answers.size > KEPT) answers.delete(answers.keys().next().value);
    return (call) => {
      if (known[call.index] === 0) {
        const messages = (data.detail(call)?.messages ?? []).filter((one) => one.body !== null && sides.includes(one.side));
        known[call.index] = wanted.test(messages.map((one) => yamlText(one.body)).join("").slice(0, SEARCHED)) ? 1 : -1;
      }
      return known[call.index] === 1;
    };
  };

  function status(text) {
    const word = text.toLowerCase();
    if (word === "error") return (call) => call.failed;
    if (word === "open") return (call) => call.open;
    if (/^\d+$/.test(word)) return (call) => call.code === Number(word);
    const squeezed = word.replaceAll("_", "");
    return (call) => call.status !== "" && call.status.toLowerCase().replaceAll("_", "") === squeezed;
  }

  const UNITS = { ns: 1e-6, us: 1e-3, "µs": 1e-3, ms: 1, s: 1000, m: 60000, h: 3600000 };
  const COMPARISONS = { ">": (a, b) => a > b, "<": (a, b) => a < b, ">=": (a, b) => a >= b, "<=": (a, b) => a <= b };
  function took(text) {
    const found = /^([<>]=?)\s*(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s|m|h)$/i.exec(text);
    if (!found) throw new Mistake(`${text} is no duration with < or > before it, such as >100ms`);
    const compare = COMPARISONS[found[1]];
    const limit = Number(found[2]) * UNITS[found[3].toLowerCase()];
    return (call) => call.duration_ms !== null && compare(call.duration_ms, limit);
  }

  function changed(text) {
    if (!text) return (call) => call.changed;
    const wanted = pattern(text);
    return (call) => call.changed_by.some((one) => wanted.test(one));
  }

  function kind(text) {
    const found = ["passthrough", "intercepted", "originated"].find((one) => one.startsWith(text.toLowerCase()));
    if (!found) throw new Mistake(`${text} is no kind: passthrough, intercepted or originated`);
    return (call) => call.kind === found;
  }

  function numbered(text) {
    const ranges = text.split(",").map((part) => {
      const found = /^(\d+)?(-)?(\d+)?$/.exec(part);
      if (!found || !(found[1] || found[3])) throw new Mistake(`${text} is no number or range such as 12, 5-9 or 100-`);
      const first = Number(found[1] ?? 0);
      return [first, found[3] ? Number(found[3]) : found[2] ? Infinity : first];
    });
    return (call) => ranges.some(([first, last]) => first <= call.number && call.number <= last);
  }

  const DAY = 86400000;
  const OF_DAY = /^(\d\d):(\d\d)(?::(\d\d(?:\.\d+)?))?$/;
  const OF_DATE = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d+)?)?))?(Z|[+-]\d\d:\d\d)?$/i;
  // Whole microseconds: what a recording has, and what numbers of this size hold exactly.
  const micros = (ms) => Math.round(ms * 1000);
  const began = (text, fits) => {
    const hours = OF_DAY.exec(text);
    if (hours && hours[1] < 24 && hours[2] < 60 && (hours[3] ?? 0) < 60) {
      const limit = micros((hours[1] * 3600 + hours[2] * 60 + Number(hours[3] ?? 0)) * 1000);
      return (call) => fits((((micros(data.tail.start_ms + call.at_ms) % micros(DAY)) + micros(DAY)) % micros(DAY)) - limit);
    }
    const date = OF_DATE.exec(text);
    const parsed = date ? Date.parse(`${date[1]}T${date[2] ?? "00:00"}${date[3] ?? "Z"}`) : NaN;
    if (Number.isNaN(parsed)) {
      const ago = /^-\d+[smhd]$/.test(text) ? `${text} counts from now, which a page does not know` : `${text} is not a time`;
      throw new Mistake(`${ago}; write 09:00:30 (any day, UTC) or 2026-11-16T09:00:00Z`);
    }
    // Browsers read milliseconds; the digits behind them count as well.
    const rest = Number(`0.${/\.\d{3}(\d+)/.exec(date[2] ?? "")?.[1] ?? 0}`);
    return (call) => fits(micros(data.tail.start_ms + call.at_ms) - micros(parsed + rest));
  };

  // letter: [word, argument, meaning, reader]
  const QUESTIONS = {
    m: ["method", "RE", "method", anyOf(["method"])],
    ns: ["namespace", "RE", "namespace", anyOf(["namespace"])],
    p: ["pod", "RE", "pod: its name, or the beginning of its uid or id", anyOf(["pod"], ["pod_uid", "pod_id"])],
    c: ["container", "RE", "container: its name, or the beginning of its id", anyOf(["container"], ["container_id"])],
    i: ["image", "RE", "image", anyOf(["image"])],
    s: ["status", "STATUS", "OK, NOT_FOUND, …; a number; error: any failure; open: not over", status],
    d: ["duration", ">100ms", "took longer, or shorter (<5ms)", took],
    h: ["changed", "[RE]", "changed on the way, by anybody or by this hook server or policy", changed],
    o: ["origin", "RE", "who made the call: client, store, policy, …", anyOf(["origin"])],
    k: ["kind", "KIND", "passthrough, intercepted or originated", kind],
    t: ["text", "RE", "anywhere in requests and replies", inMessages("request", "forwarded", "received", "reply")],
    q: ["request", "RE", "in the request", inMessages("request", "forwarded")],
    r: ["reply", "RE", "in the reply", inMessages("received", "reply")],
    n: ["number", "NUMBERS", "its number: 12, 5-9, 100- or 1,4-6", numbered],
    since: ["since", "TIME", "began at or after 09:00:30 (any day, UTC) or 2026-11-16T09:00:00Z", (text) => began(text, (after) => after >= 0)],
    until: ["until", "TIME", "began at or before", (text) => began(text, (after) => after <= 0)],
  };
  const WORDS = Object.fromEntries(Object.entries(QUESTIONS).map(([letter, [word]]) => [word, letter]));
  WORDS.ns = "ns";
  const NAMES = Object.keys(WORDS).join("|");
  const SPELLED = new RegExp(`(${NAMES})(!=|=|(?=[<>]))`, "iy");
  const JOINT = new RegExp(`[&|](?=\\s|$|[~!()]|(?:${NAMES})(?:!=|[=<>]))`, "iy");
  const FLAG = /changed(?=[\s()&|]|$)/iy;

  class Parser {
    constructor(text) {
      this.text = text;
      this.at = 0;
    }

    whole() {
      if (!this.next()) return () => true;
      const found = this.either();
      if (this.next()) throw new Mistake("there is no ( for this )");
      return found;
    }

    either() {
      const parts = [this.all()];
      while (this.next() === "|") {
        this.at += 1;
        parts.push(this.all());
      }
      return parts.length === 1 ? parts[0] : (call) => parts.some((part) => part(call));
    }

    all() {
      const parts = [this.one()];
      for (let char = this.next(); char && char !== "|" && char !== ")"; char = this.next()) {
        if (char === "&") this.at += 1;
        parts.push(this.one());
      }
      return parts.length === 1 ? parts[0] : (call) => parts.every((part) => part(call));
    }

    one() {
      const char = this.next();
      if (char === "!") {
        this.at += 1;
        const part = this.one();
        return (call) => !part(call);
      }
      if (char === "(") {
        this.at += 1;
        const part = this.either();
        if (this.next() !== ")") throw new Mistake("a ) is missing");
        this.at += 1;
        return part;
      }
      if (!char || "&|)".includes(char)) throw new Mistake("something to look for is missing");
      if (char === "~") return this.letter();
      const spelled = this.match(SPELLED);
      if (spelled) {
        const part = this.question(WORDS[spelled[1].toLowerCase()], spelled[0]);
        return spelled[2] === "!=" ? (call) => !part(call) : part;
      }
      if (this.match(FLAG)) return changed("");
      const word = (`"'`.includes(char) ? this.quoted() : this.match(/[^\s()&|'"]+/y)[0]).toLowerCase();
      return (call) => call.haystack.includes(word);
    }

    letter() {
      const letter = this.match(/~([a-z]*)/iy)[1].toLowerCase();
      if (!Object.hasOwn(QUESTIONS, letter)) throw new Mistake(`there is no ~${letter}; possible are ~${Object.keys(QUESTIONS).join(" ~")}`);
      const char = this.next();
      if (letter === "h" && (!char || "&|()!~".includes(char))) return changed("");
      return this.question(letter, `~${letter}`);
    }

    question(letter, written) {
      let argument = this.argument();
      if (letter === "d" && /^[<>]=?$/.test(argument)) {
        this.next();
        argument += this.argument();
      }
      const [, wanted, , read] = QUESTIONS[letter];
      if (!argument) throw new Mistake(`${written} wants ${wanted}`);
      return read(argument);
    }

    next() {
      this.match(/\s*/y);
      return this.text[this.at] ?? "";
    }

    match(expression) {
      expression.lastIndex = this.at;
      const found = expression.exec(this.text);
      if (found) this.at += found[0].length;
      return found;
    }

    /** A text in quotes, or everything up to a blank; parentheses in it come in pairs. */
    argument() {
      if (`"'`.includes(this.text[this.at] ?? " ")) return this.quoted();
      const start = this.at;
      for (let opened = 0; this.at < this.text.length; this.at += 1) {
        const char = this.text[this.at];
        JOINT.lastIndex = this.at;
        if (/\s/.test(char) || (!opened && (char === ")" || JOINT.test(this.text)))) break;
        if (char === "\\") this.at += 1;
        else opened += (char === "(") - (char === ")");
      }
      return this.text.slice(start, this.at);
    }

    quoted() {
      const mark = this.text[this.at];
      let found = "";
      for (this.at += 1; this.at < this.text.length; this.at += 1) {
        const char = this.text[this.at];
        if (char === mark) {
          this.at += 1;
          return found;
        }
        const behind = this.text[this.at + 1];
        if (char === "\\" && (behind === "\\" || behind === mark)) {
          found += behind;
          this.at += 1;
        } else found += char;
      }
      throw new Mistake("a quote is not closed");
    }
  }

  return { parse: (text) => new Parser(text).whole(), Mistake, QUESTIONS };
})();
