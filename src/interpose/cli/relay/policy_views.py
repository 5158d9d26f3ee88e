"""The admin socket of a relay about its policy: answers as JSON."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from interpose.cli.render.assignments import NOT_LISTED
from interpose.net.httpd.routes import Handler, ServerRequest, ServerResponse, error_response, json_response
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

_SETTLING: Final = 1.0  # seconds that a look at the quota of a pod may take
_MOST_MATCHES: Final = 20


class PolicyViews:
    """Handlers over the parts of a policy. `problems` are those that its allocations do not show."""

    def __init__(
        self, interceptor: PolicyInterceptor, checkpoint: Checkpoint, cgroups: Tree, problems: Callable[[], list[str]]
    ) -> None:
        self._interceptor = interceptor
        self._checkpoint = checkpoint
        self._cgroups = cgroups
        self._problems = problems

    def routes(self) -> Mapping[tuple[str, str], Handler]:
        """Handlers by method and path."""
        return {
            ("GET", "/v1/policy"): self._show,
            ("GET", "/v1/policy/owned"): self._owned,
            ("GET", "/v1/policy/containers/*"): self._explain,
            ("GET", "/v1/topology"): self._show_topology,
        }

    async def _show(self, _request: ServerRequest) -> ServerResponse:
        report = policy_report(self._interceptor, problems=self._problems(), state_file=self._state_file())
        return await asyncio.to_thread(json_response, report)  # plain values by now, and many of them

    async def _owned(self, _request: ServerRequest) -> ServerResponse:
        return json_response(owned_report(self._interceptor))

    def _state_file(self) -> dict[str, object]:
        file = self._checkpoint
        return {"path": file.path, "saved": file.saved, "failed": file.failed, "error": file.error, "dirty": file.dirty}

    async def _show_topology(self, _request: ServerRequest) -> ServerResponse:
        return json_response(topology_report(self._interceptor))

    async def _explain(self, request: ServerRequest) -> ServerResponse:
        tracker = self._interceptor.tracker
        found = find_allocations(tracker, request.rest)
        refused = [] if found else find_refused(self._interceptor, request.rest)
        if len(found) == 1:
            key = found[0].request.key
            await tracker.cgroups.check((key,))
            await tracker.pod_quotas.settle(tracker.quota_directory(key), _SETTLING)
            report = container_report(tracker, found[0])
            container = tracker.store.containers.get(found[0].id)
            return json_response({**report, "cgroup": await asyncio.to_thread(cgroup_report, container, self._cgroups)})
        if len(refused) == 1:
            return json_response(refusal_report(tracker, refused[0]))
        if not found and not refused:
            if (pod := pod_report(self._interceptor, request.rest)) is not None:
                return json_response(pod)
            if not tracker.ready.is_set():
                return error_response(503, NOT_LISTED)
        matches = [f"{allocation.request.title} ({allocation.id[:12]})" for allocation in found]
        matches += [f"{refusal.title} (refused)" for refusal in refused]
        problem = "more than one container is called" if matches else "no container or pod under the policy is called"
        return json_response({"error": f"{problem} {request.rest!r:.80}", "matches": matches[:_MOST_MATCHES]}, 404)
