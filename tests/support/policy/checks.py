"""Comparing the books of a policy with what a fake runtime has: in the end they are the same."""

from interpose._pb import cri_pb2 as cri
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.request import Key
from interpose.cri.store.convert import to_resources
from interpose.resmgr.container_request import same_limit
from interpose.testing.runtime.state import FakeContainer
from tests.support.policy.stack import PolicyStack


def own_cpus(stack: PolicyStack) -> list[str]:
    """What containers have alone, by the books."""
    return [str(grant.exclusive) for grant in stack.tracker.allocations.policy.state.grants.values() if grant.exclusive]


async def second(stack: PolicyStack) -> None:
    """The kubelet lists everything, and a second passes."""
    await stack.call(cri.ListPodSandboxRequest())
    await stack.call(cri.ListContainersRequest())
    stack.tick()


def at_rest(stack: PolicyStack) -> bool:
    """Whether nothing is in doubt and nobody is being updated."""
    tracker = stack.tracker
    if any(key in tracker.creates for key in tracker.allocations.by_key):
        return False
    return all(one.state == "idle" and not one.lock.locked() for one in tracker.updaters.by_key.values())


def differences(stack: PolicyStack) -> list[str]:
    """What is not the same in the books and at the runtime, in words."""
    tracker = stack.tracker
    alive = {_key(one): one for one in stack.runtime.containers.values() if _lives(stack, one)}
    held = tracker.allocations.by_key
    found = [f"{key} is not in the books" for key in alive.keys() - held.keys()]
    found += [f"{key} is in the books and not there" for key in held.keys() - alive.keys()]
    for key in alive.keys() & held.keys():
        found += [f"{held[key].request.title}: {one}" for one in _differing(stack, key, alive[key])]
    grants = tracker.allocations.policy.state.grants
    own = [grant.exclusive for grant in grants.values()]
    if sum(map(len, own)) != len(CpuSet.union(own)):
        found.append(f"a CPU has two owners: {own}")
    if grants.keys() - held.keys():
        found.append(f"CPUs are held by nobody: {grants.keys() - held.keys()}")
    return found


def _differing(stack: PolicyStack, key: Key, container: FakeContainer) -> list[str]:
    held, wanted = stack.tracker.allocations.by_key[key], stack.tracker.desired(key)
    has = to_resources(container.resources)
    found = []
    if held.id != container.id:
        found.append(f"the id is {held.id}, not {container.id}")
    if wanted is not None and wanted.cpus is not None and str(wanted.cpus) != has.cpuset_cpus:
        found.append(f"CPUs {wanted.cpus} are wanted, it has {has.cpuset_cpus}")
    if container.state == cri.CONTAINER_RUNNING and (in_force := to_resources(container.in_force)) != has:
        found.append(f"the runtime shows {has}, in the cgroup is {in_force}")
    if wanted is not None and wanted.shares is not None and wanted.shares != has.cpu_shares:
        found.append(f"{wanted.shares} shares are wanted, it has {has.cpu_shares}")
    limit = held.runtime_request.amounts.limit_milli
    if has.cpu_quota > 0 and not same_limit(limit, has):
        found.append(f"a limit of {limit}m is booked, the quota is {has.cpu_quota}")
    return found


def _lives(stack: PolicyStack, container: FakeContainer) -> bool:
    if container.state == cri.CONTAINER_EXITED:
        return False
    return container.state == cri.CONTAINER_RUNNING or stack.runtime.sandboxes[container.sandbox_id].ready


def _key(container: FakeContainer) -> Key:
    meta = container.config.metadata
    return Key(container.sandbox_id, meta.name, meta.attempt)
