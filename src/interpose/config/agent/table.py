"""The one table of the agent's settings, and what no single row of it can say. Pure."""

import re
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from interpose.config.agent.settings import CONFIG_SOURCES, REPORTS, AgentSettings
from interpose.config.common import admin_rows, logging_rows, row
from interpose.config.schema import Schema, Setting
from interpose.config.values import (
    SettingKind,
    choice,
    directory,
    duration,
    file_or_none,
    refuse,
    socket_or_none,
    uids,
    words,
)

PREFIX: Final = "INTERPOSE_AGENT_"

# Names of Kubernetes: of namespaces, of objects (such parts with dots between them), and of labels with a prefix.
_PART: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAMESPACE: Final = re.compile(_PART, re.ASCII)
_NAME: Final = re.compile(rf"{_PART}(\.{_PART})*", re.ASCII)
_LABEL: Final = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LONGEST_NAMESPACE: Final = 63  # of the name of a namespace


def _named(pattern: re.Pattern[str], what: str, *, longest: int = 253, optional: bool = False) -> SettingKind:
    def parse(value: str, where: str) -> str:
        if optional and not value:
            return ""
        if len(value) > longest or not pattern.fullmatch(value):
            raise refuse(where, value, f"is not the name of {what}")
        return value

    return SettingKind(name=f"name of {what}", accepts=frozenset({"str", "int"}), parse=parse)


def _reports() -> SettingKind:
    plain = words()

    def parse(value: str, where: str) -> tuple[str, ...]:
        found: tuple[str, ...] = plain.parse(value, where)
        if found == ("none",):
            return ()
        if strange := [word for word in found if word not in REPORTS]:
            raise refuse(where, strange[0], f"is not one of {', '.join(REPORTS)}, or none alone")
        return tuple(word for word in REPORTS if word in found)

    return SettingKind(
        name=f"some of {', '.join(REPORTS)}, or none",
        accepts=frozenset({"str", "list"}),
        parse=parse,
        show=lambda value: ",".join(value) or "none",
    )


def _sources() -> SettingKind:
    plain = words()

    def parse(value: str, where: str) -> tuple[str, ...]:
        found: tuple[str, ...] = plain.parse(value, where)
        by_name = {kind.lower(): kind for kind in CONFIG_SOURCES}
        if strange := [word for word in found if word.lower() not in by_name]:
            raise refuse(where, strange[0], f"is not one of {', '.join(CONFIG_SOURCES)}")
        if not found or len({word.lower() for word in found}) < len(found):
            raise refuse(where, value, f"is not a list of {', '.join(CONFIG_SOURCES)}, each once at most")
        return tuple(by_name[word.lower()] for word in found)

    return SettingKind(
        name=f"some of {', '.join(CONFIG_SOURCES)}", accepts=frozenset({"str", "list"}), parse=parse, show=",".join
    )


def _labels() -> SettingKind:
    plain, label = words(), _named(_LABEL, "a label", longest=317)

    def parse(value: str, where: str) -> tuple[str, ...]:
        return tuple(label.parse(word, where) for word in plain.parse(value, where))

    return SettingKind(name="names of labels", accepts=frozenset({"str", "list"}), parse=parse, show=",".join)


_row: Final = partial(row, PREFIX)


AGENT_SETTINGS: tuple[Setting, ...] = (
    _row(
        "node_name",
        "--node-name",
        _named(_NAME, "a node", optional=True),
        about="Name of the Node we run on. Empty: $NODE_NAME, else the name of the host.",
        why="The manifest of a DaemonSet sets NODE_NAME; kubelets name their nodes after the host.",
    ),
    _row(
        "report",
        "--report",
        _reports(),
        about=(
            "How results are told to the cluster: annotation (interpose/config-status), condition "
            "(InterposeConfigured) and event, all of the Node, and status of the object of a policy, if "
            "--config-sources names such objects. none: not at all."
        ),
        why="Each is for another reader: programs, people who look at nodes, people who look at what happened.",
    ),
    _row(
        "api.kubeconfig",
        "--kubeconfig",
        directory(optional=True),
        about="File that says where the API server is and who we are. Empty: the service account of our own pod.",
        why="The agent is a pod of a DaemonSet.",
    ),
    _row(
        "api.timeout",
        "--api-timeout",
        duration(0.5, 120.0),
        about="Time the API server has for one answer. Watches last longer.",
        why="It answers in milliseconds; ten seconds survive one that has just been elected.",
    ),
    _row(
        "config.namespace",
        "--config-namespace",
        _named(_NAMESPACE, "a namespace", longest=_LONGEST_NAMESPACE),
        about="Namespace of the ConfigMaps and of the objects of policies.",
        why="That of CRI Resource Manager.",
    ),
    _row(
        "config.map",
        "--config-map",
        # What is put behind it has its own length; a name that is too long in the end is never found, and said so.
        _named(_NAME, "a ConfigMap"),
        about=(
            "Name of the ConfigMap. The first that exists counts, as a whole: NAME.node.NODE, NAME.group.GROUP, "
            "NAME.default, NAME."
        ),
        why="That of CRI Resource Manager.",
    ),
    _row(
        "config.group_label",
        "--group-label",
        _named(_LABEL, "a label", longest=317, optional=True),
        about="Label of the Node whose value is its group. Empty: nodes have no groups.",
        why="That of CRI Resource Manager.",
    ),
    _row(
        "config.sources",
        "--config-sources",
        _sources(),
        about=(
            "Kinds of objects that may be the configuration of this node, in the order in which they count: ConfigMap, "
            "TopologyAwarePolicy, BalloonsPolicy. Of the first kind that has one for this node, one object counts, as "
            "a whole: that of the node, of its group, the default one. Other kinds are not looked at."
        ),
        why="The objects are those of another project, and a cluster may have them for its own programs.",
    ),
    _row(
        "config.object_group_labels",
        "--object-group-labels",
        _labels(),
        about=(
            "Labels of the Node of which the first that it has names its group, for objects of policies. Empty: nodes "
            "have no such groups."
        ),
        why="Those of NRI plugins: the one that they recommend, and the two before it.",
    ),
    _row(
        "config.when_missing",
        "--when-missing",
        choice("withdraw", "keep"),
        about=(
            "What happens when none of these objects exists any more: withdraw tells the relay to go back to its own "
            "files and settings, keep leaves the last configuration in force. It stays in force as well if that cannot "
            "be known: see the manual about maps that may not be read."
        ),
        why="What the cluster says is what the node has, also when it says nothing.",
    ),
    _row(
        "config.missing_grace",
        "--missing-grace",
        duration(0.0, 3600.0),
        about=(
            "Time for which the ConfigMap that counts may be gone before another one counts, or the configuration is "
            "withdrawn."
        ),
        why="Whoever deletes a map and creates it again does not mean what is between.",
    ),
    _row(
        "config.socket",
        "--config-socket",
        socket_or_none(),
        about='Config socket of the relay, which gets the configuration. "none": nothing is pushed.',
        why="In the directory of the relay; the relay listens there when it is told to (its own --config-socket).",
    ),
    _row(
        "config.push_interval",
        "--push-interval",
        duration(0.0, 300.0),
        about="Shortest time between two configurations that are pushed.",
        why="An edit and its correction are one change for the relay.",
    ),
    _row(
        "service.socket",
        "--agent-socket",
        socket_or_none(),
        about='Socket on which the relay reads and changes the Node through us. "none" turns it off.',
        why="Beside the relay's.",
    ),
    _row(
        "service.allow_uids",
        "--allow-uids",
        uids(),
        about="User ids that may connect to the agent socket. Empty: root and our own.",
        why="Whoever can ask us can label and taint this node.",
    ),
    _row(
        "service.allow_keys",
        "--allow-keys",
        words(),
        about=(
            "Labels, annotations, taints and resources of the Node that may be changed there: patterns such as "
            "cmk.intel.com/*. Those of Kubernetes itself never are."
        ),
        why="What policies publish is theirs to name.",
    ),
    _row(
        "node_state.file",
        "--node-state-file",
        file_or_none(),
        about=(
            'File with the NodeSLO, labels and annotations of the node for the hook server. "none": no NodeSLO is '
            "watched."
        ),
        why="A directory of its own, which can be shared with the hook server alone.",
    ),
    _row(
        "node_state.nodeslo_deleted",
        "--nodeslo-deleted",
        choice("keep", "drop"),
        about="What happens when the NodeSLO of this node is deleted: keep leaves it in the file, drop takes it out.",
        why="Its controller writes one for each node again; without one, pods would lose their ranks in between.",
    ),
    *admin_rows(9097, PREFIX),
    *logging_rows(PREFIX, why_level="Info reports changes, not connections that end and begin again."),
)


def contradictions(settings: AgentSettings, origins: Mapping[str, str]) -> list[str]:
    """What no single value shows."""
    served = {"service.socket": settings.service.socket, "admin.listen": settings.admin.listen}
    problems = []
    if settings.serves and served["service.socket"] == served["admin.listen"]:
        problems.append(f"{origins['admin.listen']}: admin.listen is the agent socket: {settings.admin.listen!r}")
    problems += [
        f"{origins[key]}: {key} is the config socket of the relay: {path!r}"
        for key, path in served.items()
        if settings.pushes and path == settings.config.socket
    ]
    problems += [
        f"{origins['node_state.file']}: node_state.file is a socket, {key}: {path!r}"
        for key, path in (served | {"config.socket": settings.config.socket}).items()
        if settings.feeds and path == settings.node_state.file
    ]
    return problems


AGENT: Final = Schema(
    program="interpose agent",
    file_kind="AgentConfig",
    settings=AgentSettings,
    table=AGENT_SETTINGS,
    titles=MappingProxyType(
        {
            "": "General",
            "api": "API server",
            "config": "Configuration of the relay",
            "service": "Agent socket",
            "node_state": "State for the hook server",
            "admin": "Admin socket",
            "logging": "Logging",
        }
    ),
    contradictions=contradictions,
    prefix=PREFIX,
    foreign=("INTERPOSE_AGENT_SOCKET",),  # where the relay looks for us
)
