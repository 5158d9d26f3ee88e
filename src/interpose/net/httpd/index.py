"""What an admin socket answers at `/`: the list of its endpoints."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from interpose.net.httpd.routes import (
    JSON,
    Handler,
    RouteTable,
    ServerRequest,
    ServerResponse,
    json_response,
    text_response,
)

# What GET has at each path, in all daemons, and what other methods do there; a test holds that none is missing.
ENDPOINTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "/": "this list",
        "/livez": "whether the process works; ?verbose names the checks",
        "/livez/*": "one of these checks",
        "/readyz": "whether it does what it is for; ?verbose names the checks",
        "/readyz/*": "one of these checks",
        "/healthz": "the same as /livez",
        "/healthz/*": "one of these checks",
        "/metrics": "metrics for Prometheus",
        "/v1/status": "what it does now",
        "/v1/methods": "calls by method: how many, how they ended, how long they took",
        "/v1/connections": "clients of the relay's socket",
        "/v1/hooks": "hook servers and their registration files",
        "/v1/config": "every setting with its value and origin",
        "/v1/log-level": "the level of the log",
        "PUT /v1/log-level": 'changes it: {"level": "debug"}',
        "/v1/policy": "the policy, its pools, and who has which CPUs",
        "/v1/policy/owned": "containers whose CPUs and memory nodes are the policy's",
        "/v1/policy/containers/*": "why a container has the CPUs it has, by id, NAMESPACE/POD/CONTAINER or pod",
        "/v1/topology": "the machine as the policy sees it",
        "/v1/dump": "frames of the calls that pass, for interpose dump",
        "/v1/take-over": "hands the sockets to a successor, for relay --take-over",
        "/v1/rules": "rules of the plugins, and what they are made of",
        "/v1/values": "every value that a plugin wants, what is there, and why",
    }
)


def with_index(routes: RouteTable) -> RouteTable:
    """The routes with an index of them at `/`: text for people, JSON for clients that accept only that."""
    paths = sorted((path, method) for method, path in (*routes, ("GET", "/")))
    entries = [{"method": method, "path": path, "about": _about(method, path)} for path, method in paths]
    width = max(len(entry["path"]) for entry in entries)
    lines = [f"{entry['method']:<4} {entry['path']:<{width}}  {entry['about']}".rstrip() for entry in entries]

    async def index(request: ServerRequest) -> ServerResponse:
        if JSON in request.headers.get("accept", ""):
            return json_response({"endpoints": entries})
        return text_response("\n".join(lines) + "\n")

    handler: Handler = index
    return {("GET", "/"): handler, **routes}


def _about(method: str, path: str) -> str:
    return ENDPOINTS.get(path if method == "GET" else f"{method} {path}", "")
