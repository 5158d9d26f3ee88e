"""The agent's check of NodeSLOs and of the Node: problems that the hook server would find in such an object.

The reader of a problem has edited an object of the cluster: there is no file and no line in it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from interpose.config.documents.yaml import MAX_DEPTH, DocumentNode
from interpose.errors import ConfigError
from interpose.kube.client.api import Object

_SCALARS: Final[Mapping[type, str]] = {str: "str", int: "int", float: "float"}


def check_document(document: Object) -> Sequence[str]:
    """Problems of a NodeSLO or a NodeState; empty if it can be used."""
    # Late: the rules of a NodeSLO are of no use before there is one.
    from interpose.hooks.server.node.node_document import parse_node_document

    kind = str(document.get("kind", "document"))
    try:
        parse_node_document(make_document_node(document), kind)
    except ConfigError as error:
        return tuple(problem.removeprefix("file ") for problem in error.problems)
    except RecursionError:
        return (f"{kind}: is nested too deeply",)
    return ()


def make_document_node(value: Any, depth: int = 0) -> DocumentNode:
    """A JSON value as a node of a document; RecursionError if it is nested too deeply."""
    if depth > MAX_DEPTH:
        raise RecursionError
    if isinstance(value, Mapping):
        return DocumentNode(
            tag="map", entries=tuple((str(key), make_document_node(child, depth + 1)) for key, child in value.items())
        )
    if isinstance(value, list | tuple):
        return DocumentNode(tag="list", items=tuple(make_document_node(child, depth + 1) for child in value))
    if value is None:
        return DocumentNode(tag="null", text="null")
    if isinstance(value, bool):
        return DocumentNode(tag="bool", text=str(value).lower())
    return DocumentNode(tag=_SCALARS[type(value)], text=str(value))
