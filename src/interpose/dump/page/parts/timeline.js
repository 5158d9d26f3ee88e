// The timeline: lanes on a canvas, because tens of thousands of elements would be slow. The list has the same calls for
// those who cannot see it.

const timeline = (() => {
  const AXIS = 22;
  const BAR = 9;
  const GAP = 2;
  const PAD = 6;
  const LEAST = 2.5; // pixels: short calls stay visible
  const STEPS = [0.001, 0.01, 0.1, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 15000, 30000, 60000, 120000, 300000, 600000, 1800000, 3600000, 7200000, 21600000, 43200000, 86400000];

  const box = byId("lanes");
  const canvas = byId("canvas");
  const tip = byId("tip");
  const paper = canvas.getContext("2d");
  let handlers = {};
  let wanted = new Set();
  let visible = lanes;
  let selected = null;
  let hovered = null;
  let view = { from: data.start, to: data.end };
  let drag = null;
  let colours = {};
  let width = 0;
  let height = 0;
  let label = 180;

  const laneHeight = (lane) => lane.ends.length * (BAR + GAP) - GAP + 2 * PAD;
  const whole = () => {
    const edge = (data.end - data.start) * 0.01;
    return { from: data.start - edge, to: data.end + edge };
  };
  const x = (at) => label + ((at - view.from) / (view.to - view.from)) * (width - label);
  const timeAt = (px) => view.from + ((px - label) / (width - label)) * (view.to - view.from);

  function readColours() {
    const style = getComputedStyle(document.documentElement);
    const get = (name) => style.getPropertyValue(`--${name}`).trim();
    const names = ["text", "quiet", "line", "surface", "panel", "bad", "accent", "changed", "pod", "container", "update", "exec", "image", "status", "stats", "node", "other"];
    colours = Object.fromEntries(names.map((name) => [name, get(name)]));
    colours.font = get("sans");
  }

  function layOut() {
    let top = 0;
    for (const lane of visible) {
      lane.top = top;
      lane.height = laneHeight(lane);
      top += lane.height;
    }
    byId("room").style.height = `${top + AXIS}px`;
    box.style.setProperty("--wanted", `${top + AXIS + 2}px`);
  }

  function axis() {
    const pixels = width - label;
    const least = ((view.to - view.from) / pixels) * 90;
    // Beyond days: as many days as it takes, for a clock that was set may put centuries between two calls.
    const step = STEPS.find((one) => one >= least) ?? Math.ceil(least / STEPS.at(-1)) * STEPS.at(-1);
    const offset = data.tail.start_ms % step;
    paper.font = `11px ${colours.font}`;
    paper.textBaseline = "middle";
    for (let at = Math.ceil((view.from + offset) / step) * step - offset; at < view.to; at += step) {
      const px = Math.round(x(at)) + 0.5;
      paper.strokeStyle = colours.line;
      paper.beginPath();
      paper.moveTo(px, AXIS - 4);
      paper.lineTo(px, height);
      paper.stroke();
      const whole = moment(at + 0.05); // never a rounding error before the tick
      const time = whole.slice(11, 23);
      const text = step >= STEPS.at(-1) ? whole.slice(0, 10) : step >= 1000 ? time.slice(0, 8) : step >= 1 ? time.slice(3) : `+${duration(at - data.start)}`;
      paper.fillStyle = colours.quiet;
      if (px + 4 + paper.measureText(text).width < width) paper.fillText(text, px + 4, AXIS / 2);
    }
  }

  function place(call) {
    const left = x(call.at_ms);
    const right = call.duration_ms === null ? width : x(call.at_ms + call.duration_ms);
    return { left: Math.max(left, label), top: AXIS + call.lane.top - box.scrollTop + PAD + call.depth * (BAR + GAP), width: Math.max(Math.min(right, width) - Math.max(left, label), LEAST), shown: right >= label && left <= width };
  }

  function bar(call, dim) {
    const where = place(call);
    if (!where.shown) return;
    paper.globalAlpha = dim ? 0.16 : call.open ? 0.6 : 1;
    paper.fillStyle = call.failed ? colours.bad : colours[call.family];
    paper.beginPath();
    paper.roundRect(where.left, where.top, where.width, BAR, Math.min(2, where.width / 2));
    paper.fill();
    if (call.changed && !dim) {
      paper.strokeStyle = colours.changed;
      paper.lineWidth = 1.5;
      paper.beginPath();
      paper.roundRect(where.left - 1.25, where.top - 1.25, where.width + 2.5, BAR + 2.5, 2.5);
      paper.stroke();
    }
    if (call === selected || call === hovered) {
      paper.globalAlpha = 1;
      paper.strokeStyle = call === selected ? colours.accent : colours.text;
      paper.lineWidth = 2;
      paper.beginPath();
      paper.roundRect(where.left - 2.5, where.top - 2.5, where.width + 5, BAR + 5, 4);
      paper.stroke();
    }
    paper.lineWidth = 1;
    paper.globalAlpha = 1;
  }

  function cut(text, room) {
    if (paper.measureText(text).width <= room) return text;
    // The end of a pod's name tells it from its siblings.
    for (let keep = text.length - 1; keep > 3; keep -= 1) {
      const half = Math.ceil(keep / 2);
      const short = `${text.slice(0, half)}…${text.slice(text.length - (keep - half))}`;
      if (paper.measureText(short).width <= room) return short;
    }
    return "…";
  }

  function draw() {
    waiting = false;
    const ratio = window.devicePixelRatio || 1;
    width = box.clientWidth;
    height = box.clientHeight;
    label = Math.min(220, Math.max(110, width * 0.2));
    if (width <= label || !height) return; // not shown, as on paper
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    paper.setTransform(ratio, 0, 0, ratio, 0, 0);
    paper.fillStyle = colours.surface;
    paper.fillRect(0, 0, width, height);
    axis();
    paper.save();
    paper.beginPath();
    paper.rect(0, AXIS, width, height - AXIS);
    paper.clip();
    for (const lane of visible) {
      const top = AXIS + lane.top - box.scrollTop;
      if (top > height || top + lane.height < AXIS) continue;
      paper.strokeStyle = colours.line;
      paper.beginPath();
      paper.moveTo(0, Math.round(top) + 0.5);
      paper.lineTo(width, Math.round(top) + 0.5);
      paper.stroke();
      paper.font = `12px ${colours.font}`;
      paper.fillStyle = lane.key === "node" ? colours.quiet : colours.text;
      paper.fillText(cut(lane.name, label - 22), 12, top + lane.height / 2);
      paper.save();
      paper.beginPath();
      paper.rect(label - 3, AXIS, width - label + 3, height - AXIS);
      paper.clip();
      // What must be seen comes last.
      for (const call of lane.calls) if (!wanted.has(call)) bar(call, true);
      for (const call of lane.calls) if (wanted.has(call) && !call.failed && !call.changed) bar(call, false);
      for (const call of lane.calls) if (wanted.has(call) && (call.failed || call.changed)) bar(call, false);
      for (const one of [hovered, selected]) if (one?.lane === lane) bar(one, !wanted.has(one));
      paper.restore();
    }
    paper.restore();
    if (drag?.moved) {
      const [from, to] = [drag.from, drag.to].sort((a, b) => a - b);
      paper.globalAlpha = 0.18;
      paper.fillStyle = colours.accent;
      paper.fillRect(from, 0, to - from, height);
      paper.globalAlpha = 1;
    }
  }
  let waiting = false;
  function later() {
    if (!waiting) requestAnimationFrame(draw);
    waiting = true;
  }

  function callAt(px, py) {
    if (px < label || py < AXIS) return null;
    const y = py - AXIS + box.scrollTop;
    const lane = visible.find((one) => y >= one.top && y < one.top + one.height);
    if (!lane) return null;
    let best = null;
    let nearest = 5;
    for (const call of lane.calls) {
      const where = place(call);
      if (!where.shown || py < where.top - 2 || py > where.top + BAR + 2) continue;
      const distance = Math.max(where.left - px, px - where.left - where.width, 0) + (wanted.has(call) ? 0 : 2);
      if (distance <= nearest) [best, nearest] = [call, distance];
    }
    return best;
  }

  function hover(call, event) {
    if (call !== hovered) {
      hovered = call;
      later();
    }
    tip.hidden = !call;
    canvas.style.cursor = call ? "pointer" : "crosshair";
    if (!call) return;
    tip.replaceChildren(el("b", { text: call.method }), el("span", { class: call.failed ? "bad" : "", text: ` ${call.status || "open"} ${duration(call.duration_ms)}` }), el("br"), el("span", { class: "quiet", text: `#${call.number} · ${call.time.slice(11, 23)} ${call.subject}` }));
    const across = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8);
    tip.style.left = `${Math.max(8, across)}px`;
    tip.style.top = `${event.clientY + 18}px`;
  }

  function zoomTo(from, to) {
    const span = Math.max(to - from, 0.001);
    view = { from, to: from + span };
    handlers.range([from, from + span]);
  }

  /** Closer or further, around the selected call or the middle. */
  function zoom(factor) {
    const centre = selected ? selected.at_ms + (selected.duration_ms ?? 0) / 2 : (view.from + view.to) / 2;
    const span = (view.to - view.from) * factor;
    if (span >= data.end - data.start) return handlers.range(null);
    return zoomTo(centre - span / 2, centre + span / 2);
  }

  function listen() {
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || event.offsetX < label) return;
      canvas.setPointerCapture(event.pointerId);
      drag = { from: event.offsetX, to: event.offsetX, moved: false };
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!drag) return hover(callAt(event.offsetX, event.offsetY), event);
      drag.to = Math.max(label, Math.min(width, event.offsetX));
      drag.moved ||= Math.abs(drag.to - drag.from) > 4;
      return later();
    });
    canvas.addEventListener("pointerup", (event) => {
      const done = drag;
      drag = null;
      later();
      if (done?.moved) {
        const [from, to] = [timeAt(done.from), timeAt(done.to)].sort((a, b) => a - b);
        zoomTo(from, to);
      } else if (done) {
        const call = callAt(event.offsetX, event.offsetY);
        if (call) handlers.open(call);
      }
    });
    canvas.addEventListener("pointercancel", () => ((drag = null), later()));
    canvas.addEventListener("pointerleave", (event) => hover(null, event));
    canvas.addEventListener("dblclick", () => handlers.range(null));
    box.addEventListener("scroll", later, { passive: true });
    new ResizeObserver(later).observe(box);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => (readColours(), later()));
    matchMedia("print").addEventListener("change", () => (readColours(), later()));
  }

  function start(given) {
    handlers = given;
    readColours();
    view = whole();
    listen();
    layOut();
    later();
  }

  /** Draw these calls; the others of the same lanes faintly. */
  function show(calls, range) {
    wanted = new Set(calls);
    view = range ? { from: range[0], to: range[1] } : whole();
    const kept = new Set(calls.map((call) => call.lane));
    visible = calls.length ? lanes.filter((lane) => kept.has(lane)) : lanes;
    hovered = null;
    layOut();
    later();
  }

  function select(call) {
    selected = call;
    if (call && visible.includes(call.lane)) {
      const top = call.lane.top;
      const room = box.clientHeight - AXIS;
      if (top < box.scrollTop) box.scrollTop = top;
      else if (top + call.lane.height > box.scrollTop + room) box.scrollTop = top + call.lane.height - room;
    }
    later();
  }

  return { start, show, select, zoom };
})();
