"""The store as metrics."""

from interpose.core.model.pod import Container, Pod
from interpose.core.model.resources import LinuxResources
from interpose.cri.store.metrics import store_collector
from interpose.cri.store.store import Store
from interpose.cri.store.sync import Synchronizer
from interpose.metrics import Sample


async def test_what_is_known_is_told() -> None:
    """Each number once, read at the moment of the question."""

    async def never(_method: str, _message: bytes) -> bytes:
        raise AssertionError

    store = Store()
    collect = store_collector(Synchronizer(store, never))
    store.put_pod(Pod(id="p"))
    store.put_container(Container(id="c", pod_id="p", resources=LinuxResources(cpu_shares=2)))
    found = {
        family.name.removeprefix("interpose_store_"): sample.value
        for family in collect()
        for sample in family.samples
        if isinstance(sample, Sample)
    }
    assert found == {"pods": 1, "containers": 1, "pending": 0, "diverging_containers": 1, "in_step": 0}
