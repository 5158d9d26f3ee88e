"""What a running agent says about itself, as a page of text: is the node configured, by what, and if not, why. Pure.

The answer may come from an agent of another version: what is missing is left out.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from interpose.cli.render.text import WIDTH, flat, group, groups, or_dash, sentence, table, words

_INDENT: Final = "  "
_COUNTS: Final = "->"
_MAP: Final = "ConfigMap"
_SECONDS: Final = ((86400, "d"), (3600, "h"), (60, "m"))
# What a state means to somebody who has not read the manual.
_STATES: Final[Mapping[str, str]] = {
    "waiting": "waiting: it is not known yet what the cluster wants, or whether the relay took it",
    "applied": "applied: the relay has what the cluster wants",
    "withdrawn": "withdrawn: the cluster has no configuration, the relay uses its own",
    "kept": "kept: no configuration is to be seen, what was in force before stays",
    "forbidden": "forbidden: the object that counts may not be read, what was in force before stays",
    "rejected": "rejected: what was in force before stays",
    "unreachable": "unreachable: the relay does not answer",
}
_SLO_STATES: Final[Mapping[str, str]] = {
    "unknown": "unknown: the cluster has not said yet",
    "none": "none: this node has no NodeSLO",
    "applied": "applied",
    "kept": "kept: it was deleted, what it said stays in force",
    "rejected": "rejected: the last good one stays in force",
}


def agent_status_text(answer: object, *, width: int = WIDTH) -> str:
    """The status of the agent as a page of text."""
    said = group(answer)
    lines = [
        *_head(said),
        *_configuration(said, width),
        *_maps(said, width),
        *_slo(said, width),
        *_reports(said, width),
    ]
    return "\n".join(lines)


def _head(said: Mapping[str, Any]) -> Iterator[str]:
    name = said.get("group")
    belongs = "group not known" if name is None else f"group {or_dash(name)}" if name else "no group"
    rows = {"Node": f"{or_dash(said.get('node'))} ({belongs})"}
    node = group(said.get("node_object"))
    if node.get("state") == "missing":
        rows["Node"] += ", which the cluster does not have"
    elif node.get("problem"):
        rows["Node"] += f": {or_dash(node['problem'])}"
    api = group(said.get("api"))
    rows["API server"] = f"{or_dash(api.get('server'))} ({or_dash(api.get('access'))}), {_up(api)}"
    relay = group(said.get("relay"))
    rows["Relay"] = f"{or_dash(relay.get('socket'))}, {_up(relay)}" if relay else "gets no configuration from the agent"
    service = group(said.get("service"))
    if service:
        refused = service.get("refused_connections")
        rows["Serving"] = f"{or_dash(service.get('socket'))}, {or_dash(service.get('calls'))} calls"
        rows["Serving"] += f", {or_dash(refused)} connections refused" if refused else ""
    rows["Agent"] = f"version {or_dash(said.get('version'))}, pid {or_dash(said.get('pid'))}, up {_time(said)}"
    longest = max(map(len, rows))
    yield from (f"{title:<{longest}}  {text}" for title, text in rows.items())


def _configuration(said: Mapping[str, Any], width: int) -> Iterator[str]:
    found = group(said.get("configuration"))
    if not found:
        return
    state = or_dash(found.get("state"))
    yield ""
    yield f"Configuration {_STATES.get(state, state)} ({_since(found.get('since_seconds'))})"
    chosen, last = group(found.get("map")), group(found.get("last_accepted"))
    if chosen:
        yield f"{_INDENT}from {_named(chosen)}: {', '.join(words(chosen.get('keys'))) or 'no keys'}"
    if last and last != chosen:
        yield f"{_INDENT}accepted last: {_named(last)}, {_since(found.get('last_accepted_seconds_ago'))}"
    problems = words(found.get("problems")) or ([or_dash(found["problem"])] if found.get("problem") else [])
    for text in [*problems, *words(found.get("notes"))]:
        yield from sentence(f"- {text}", _INDENT, width)


def _maps(said: Mapping[str, Any], width: int) -> Iterator[str]:
    maps = groups(said.get("config_maps"))
    if not maps:
        return
    yield ""
    of_one_kind = all(config_map.get("kind", _MAP) == _MAP for config_map in maps)
    yield f"{'ConfigMaps' if of_one_kind else 'Objects'}, the first that is there counts:"
    rows = [["", "NAME", "STATE", "VERSION"]]
    for config_map in maps:
        name = f"{or_dash(config_map.get('namespace'))}/{or_dash(config_map.get('name'))}"
        if not of_one_kind:
            name = f"{or_dash(config_map.get('kind'))} {name}"
        rows.append(
            [
                _COUNTS if config_map.get("counts") else "",
                name,
                or_dash(config_map.get("state")),
                or_dash(config_map.get("version")),
            ]
        )
    yield from flat(table(rows, width=width, indent=_INDENT, name=1))
    for text in dict.fromkeys(or_dash(config_map["problem"]) for config_map in maps if config_map.get("problem")):
        yield from sentence(f"- {text}", _INDENT, width)


def _slo(said: Mapping[str, Any], width: int) -> Iterator[str]:
    found = group(said.get("nodeslo"))
    if not found:
        return
    state = or_dash(found.get("state"))
    version = f", version {or_dash(found['version'])}" if found.get("version") else ""
    yield ""
    yield f"NodeSLO {_SLO_STATES.get(state, state)}{version}"
    yield f"{_INDENT}written to {or_dash(found.get('file'))}"
    for text in [
        *words(found.get("problems")),
        *([or_dash(found["file_problem"])] if found.get("file_problem") else []),
    ]:
        yield from sentence(f"- {text}", _INDENT, width)


def _reports(said: Mapping[str, Any], width: int) -> Iterator[str]:
    found = group(said.get("reports"))
    pending, problems = words(found.get("pending")), group(found.get("problems"))
    yield ""
    kinds = ", ".join(words(found.get("kinds")))
    yield f"Reports: {kinds or 'none are made'}" + (f"; still to be written: {', '.join(pending)}" if pending else "")
    for kind, problem in problems.items():
        yield from sentence(f"- {or_dash(kind)}: {or_dash(problem)}", _INDENT, width)


def _named(one: Mapping[str, Any]) -> str:
    title = one.get("title") or f"ConfigMap {or_dash(one.get('name'))}"
    return f"{or_dash(title)} (version {or_dash(one.get('version'))})"


def _up(one: Mapping[str, Any]) -> str:
    if one.get("up") and one.get("error"):  # lately, but not now
        return f"last answered {_since(one.get('last_answer_seconds'))}, since then: {or_dash(one['error'])}"
    if one.get("up"):
        return "reachable"
    return f"not reachable: {or_dash(one.get('error'))}"


def _time(said: Mapping[str, Any]) -> str:
    return _duration(said.get("uptime_seconds"))


def _since(seconds: object) -> str:
    return f"{_duration(seconds)} ago" if isinstance(seconds, int | float) else "at an unknown time"


def _duration(seconds: object) -> str:
    """Two units at most: 3d 4h, 5m 10s, 7s."""
    if not isinstance(seconds, int | float) or isinstance(seconds, bool):
        return "-"
    left, parts = max(int(seconds), 0), []
    for size, unit in _SECONDS:
        if left >= size:
            parts.append(f"{left // size}{unit}")
            left %= size
    if left or not parts:
        parts.append(f"{left}s")
    return " ".join(parts[:2])
