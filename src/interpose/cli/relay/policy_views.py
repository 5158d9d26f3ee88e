"""What the admin socket of a relay answers about its policy."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from interpose.cli.render.assignments import NOT_LISTED
from interpose.net.httpd.routes import Handler, ServerRequest, ServerResponse, error_response
from interpose.net.httpd.routes import json_response as json
from interpose.resmgr.admin_view import (
    cgroup_report,
    container_report,
    find_allocations,
    find_refused,
    owned_report,
    pod_report,
    policy_report,
    refusal_report,
    topology_report,
)
from interpose.resmgr.control.cgroup_check import Tree
from interpose.resmgr.interceptor import PolicyInterceptor
from interpose.resmgr.state.checkpoint import Checkpoint

_MOST_MATCHES: Final = 20


class PolicyViews:
    """Handlers over the parts of a policy. `problems` are those that its books do not show."""

    def __init__(
        self, interceptor: PolicyInterceptor, checkpoint: Checkpoint, cgroups: Tree, problems: Callable[[], list[str]]
    ) -> None:
        self._interceptor = interceptor
        self._checkpoint = checkpoint
        self._cgroups = cgroups
        self._problems = problems

    def routes(self) -> Mapping[tuple[str, str], Handler]:
        """By method and path."""
        return {
            ("GET", "/v1/policy"): self._show,
            ("GET", "/v1/policy/owned"): self._owned,
            ("GET", "/v1/policy/containers/*"): self._explain,
            ("GET", "/v1/topology"): self._show_topology,
        }

    async def _show(self, _request: ServerRequest) -> ServerResponse:
        report = policy_report(self._interceptor, problems=self._problems(), state_file=self._state_file())
        return await asyncio.to_thread(json, report)  # plain values by now, and many of them

    async def _owned(self, _request: ServerRequest) -> ServerResponse:
        return json(owned_report(self._interceptor))

    def _state_file(self) -> dict[str, object]:
        one = self._checkpoint
        return {"path": one.path, "saved": one.saved, "failed": one.failed, "error": one.error, "dirty": one.dirty}

    async def _show_topology(self, _request: ServerRequest) -> ServerResponse:
        return json(topology_report(self._interceptor))

    async def _explain(self, request: ServerRequest) -> ServerResponse:
        tracker = self._interceptor.tracker
        found = find_allocations(tracker, request.rest)
        refused = [] if found else find_refused(self._interceptor, request.rest)
        if len(found) == 1:
            await tracker.cgroups.check((found[0].request.key,))
            report = container_report(tracker, found[0])
            container = tracker.store.containers.get(found[0].id)
            return json({**report, "cgroup": await asyncio.to_thread(cgroup_report, container, self._cgroups)})
        if len(refused) == 1:
            return json(refusal_report(tracker, refused[0]))
        if not found and not refused:
            if (pod := pod_report(self._interceptor, request.rest)) is not None:
                return json(pod)
            if not tracker.ready.is_set():
                return error_response(503, NOT_LISTED)
        matches = [f"{one.request.title} ({one.id[:12]})" for one in found]
        matches += [f"{one.title} (refused)" for one in refused]
        what = "more than one container is called" if matches else "no container or pod under the policy is called"
        return json({"error": f"{what} {request.rest!r:.80}", "matches": matches[:_MOST_MATCHES]}, 404)
