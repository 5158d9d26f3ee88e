"""The agent's check of NodeSLOs and of the Node: problems that the hook server would find in such an object.

The reader of a problem has edited an object of the cluster: there is no file and no line in it.
"""

from collections.abc import Sequence

from interpose.config.documents.yaml import make_document_node
from interpose.errors import ConfigError
from interpose.kube.client.api import Object


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
