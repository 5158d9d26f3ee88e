// The calls of the page. Rows are read at once; messages only when a call is opened or searched.

const data = (() => {
  const blocks = (kind) => [...document.querySelectorAll(`script.data-${kind}`)];
  const parsed = (element) => JSON.parse(element.textContent);
  const [head] = blocks("head").map(parsed);
  const [tail] = blocks("tail").map(parsed);
  const [columns] = blocks("columns").map(parsed);
  const details = blocks("details");
  const calls = [];
  blocks("rows").forEach((element, block) => {
    parsed(element).forEach((values, place) => {
      const call = { block, place };
      columns.forEach((name, index) => (call[name] = values[index]));
      call.failed = call.code !== null && call.code !== 0;
      call.open = call.status === "";
      call.originated = call.kind === "originated" || call.origin !== "client";
      call.family = head.families[call.method] ?? "other";
      call.haystack = `${call.method}\n${call.subject}`.toLowerCase();
      calls.push(call);
    });
    element.remove();
  });
  calls.sort((one, other) => one.at_ms - other.at_ms || one.number - other.number);
  calls.forEach((call, index) => (call.index = index));

  // The blocks that were read last: stepping through the list reads the same ones again and again.
  const cache = new Map();
  const KEPT = 16;

  /** Messages, differences and metadata; null if they are not on the page. */
  function detail(call) {
    let block = cache.get(call.block);
    if (block === undefined) {
      block = parsed(details[call.block]);
      if (cache.size >= KEPT) cache.delete(cache.keys().next().value);
    } else {
      cache.delete(call.block);
    }
    cache.set(call.block, block);
    return block[call.place];
  }

  const start = calls.length ? calls[0].at_ms : 0;
  let end = start;
  for (const call of calls) end = Math.max(end, call.at_ms + (call.duration_ms ?? 0));
  return { head, tail, calls, detail, start, end: end > start ? end : start + 1 };
})();

/** `2026-11-16T09:00:00.123Z` of milliseconds since the first call. */
const moment = (at) => new Date(data.tail.start_ms + at).toISOString();
