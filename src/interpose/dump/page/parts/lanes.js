// Which call is where on the timeline: one lane per pod, calls that overlap below each other. Computed once.

const lanes = (() => {
  const DEEPEST = 5; // rows of one lane; what does not fit shares the last
  const NODE = "node";
  const found = new Map();

  for (const call of data.calls) {
    const key = call.pod ? `${call.namespace}/${call.pod}` : call.pod_id ? call.pod_id.slice(0, 13) : NODE;
    let lane = found.get(key);
    if (!lane) found.set(key, (lane = { key, name: key === NODE ? "node-wide" : key, calls: [], ends: [] }));
    const until = call.duration_ms === null ? Infinity : call.at_ms + call.duration_ms;
    let depth = lane.ends.findIndex((end) => end <= call.at_ms);
    if (depth === -1) depth = Math.min(lane.ends.length, DEEPEST - 1);
    lane.ends[depth] = Math.max(lane.ends[depth] ?? 0, until);
    call.depth = depth;
    call.lane = lane;
    lane.calls.push(call);
  }
  // What concerns no pod comes first, then pods in the order in which they appear.
  return [...found.values()].sort((one, other) => (other.key === NODE) - (one.key === NODE));
})();
