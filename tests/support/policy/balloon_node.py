"""A node with the policy balloons: containers by pod and name, CPU sets as texts."""

from collections.abc import Mapping

from interpose.core.model.cgroup import KubeQos
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.api import Setup
from interpose.core.policy.balloons.options import BalloonsOptions, BalloonType
from interpose.core.policy.balloons.policy import BalloonsPolicy
from interpose.core.policy.decision import Decision, Grant
from interpose.core.policy.request import Amounts, Key, Request
from tests.support.policy.machines import machine

BALLOON = "balloon.balloons.resource-policy.nri.io"


class BalloonNode:
    """Containers that come and go under the policy."""

    def __init__(
        self,
        options: BalloonsOptions,
        *,
        on: str = "n4c16",
        available: str = "",
        reserved: int | str = 1000,
    ) -> None:
        self._setup = Setup(
            topology=machine(on),
            available=CpuSet.parse(available) if available else None,
            reserved=CpuSet.parse(reserved) if isinstance(reserved, str) else reserved,
        )
        self.options = options
        self.requests: dict[Key, Request] = {}
        self.policy = BalloonsPolicy(self._setup, options)

    def request(
        self,
        title: str,
        milli: int,
        *,
        kind: str = "",
        namespace: str = "default",
        qos: KubeQos = KubeQos.GUARANTEED,
        limit: int | None = None,
        memory: int | None = None,
        pod_milli: int | None = None,
        labels: Mapping[str, str] | None = None,
        notes: Mapping[str, str] | None = None,
    ) -> Request:
        """A container `pod/name`, or `pod` with one called app."""
        pod, _, name = title.partition("/")
        return Request(
            key=Key(pod, name or "app"),
            namespace=namespace,
            pod=pod,
            qos=qos,
            amounts=Amounts(milli=milli, limit_milli=limit, memory_limit=memory, quota=limit is not None),
            pod_amounts=None if pod_milli is None else Amounts(milli=pod_milli),
            pod_labels=labels or {},
            pod_annotations={**({BALLOON: kind} if kind else {}), **(notes or {})},
        )

    def create(self, request: Request, held: Grant | None = None) -> Decision:
        """The decision about a container that comes."""
        decision = self.policy.allocate(request, held)
        if decision.refusal is None:
            self.requests[request.key] = request
        return decision

    def add(self, title: str, milli: int, **about: object) -> str:
        """The balloon of a container that comes, and its CPUs; or why it has none."""
        decision = self.create(self.request(title, milli, **about))  # type: ignore[arg-type]
        if decision.grant is None:
            return decision.reason
        return f"{decision.grant.details.get('balloon', '-')}: {self.cpus(title)}"

    def remove(self, title: str) -> Decision:
        """The decision about a container that goes."""
        key = self.key(title)
        del self.requests[key]
        return self.policy.release(key)

    def key(self, title: str) -> Key:
        """The key of a container."""
        pod, _, name = title.partition("/")
        return Key(pod, name or "app")

    def cpus(self, title: str) -> str:
        """The CPUs of a container."""
        return str(self.policy.state.assignment(self.key(title)).cpus)

    def mems(self, title: str) -> str:
        """The memory nodes of a container."""
        return str(self.policy.state.assignment(self.key(title)).mems)

    def pools(self) -> dict[str, str]:
        """The CPUs of balloons, and those of none."""
        return {name: str(cpus) for name, cpus in self.policy.pools().items()}

    def restarted(self, options: BalloonsOptions | None = None, *, backwards: bool = False) -> "BalloonNode":
        """The same containers after a restart, perhaps with other options; one after the other."""
        again = BalloonNode.__new__(BalloonNode)
        again._setup, again.options, again.requests = self._setup, options or self.options, {}
        again.policy = BalloonsPolicy(self._setup, again.options)
        grants = list(self.policy.state.grants.items())
        for key, grant in reversed(grants) if backwards else grants:
            again.create(self.requests[key], grant)
        return again


def node(*types: BalloonType, **machine_and_rest: object) -> BalloonNode:
    """A node with these types of balloons."""
    about = {name: machine_and_rest.pop(name) for name in ("on", "available", "reserved") if name in machine_and_rest}
    return BalloonNode(BalloonsOptions(types=types, **machine_and_rest), **about)  # type: ignore[arg-type]
