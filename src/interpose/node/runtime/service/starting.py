"""Starting a container, once: the OCI runtime is run by the sandbox's shim, which has the process from then on."""

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

from interpose.cri.messages import cri
from interpose.log import kv
from interpose.net.grpc.status import RpcError
from interpose.node.runtime.service.core import Core
from interpose.node.runtime.service.cri_views import state_name
from interpose.node.runtime.service.errors import failed, wrong_state
from interpose.node.runtime.service.interfaces import PartError
from interpose.node.runtime.service.objects import Container
from interpose.node.runtime.state.records import ContainerPhase

_log = logging.getLogger(__name__)
NOT_STARTED_CODE = 128
NOT_STARTED_REASON = "StartError"


class Starting:
    """The call that starts containers."""

    def __init__(self, core: Core, make_folder: Callable[[str, str], Awaitable[None]]) -> None:
        """`make_folder` makes the folder of a log file, for a sandbox."""
        self._core = core
        self._make_folder = make_folder

    async def start(self, request: cri.StartContainerRequest) -> cri.StartContainerResponse:
        """CREATED -> RUNNING, only in a ready sandbox. A start that fails is the end of the container."""
        core = self._core
        container = core.registry.container(request.container_id)
        async with container.lock:
            if container.phase is not ContainerPhase.CREATED:
                raise wrong_state(
                    f'failed to start container "{container.id}": container is in {state_name(container)} state'
                )
            shim = container.sandbox.shim
            if not container.sandbox.record.ready or shim is None:
                raise wrong_state(f'sandbox "{container.sandbox.id}" is not ready')
            await core.save_container(container, phase=ContainerPhase.STARTING)
            try:
                if container.record.log_path:
                    await self._make_folder(container.sandbox.id, str(Path(container.record.log_path).parent))
                pid = await shim.run(container.record)
            except Exception as error:
                await self._failed(container, error.message if isinstance(error, RpcError) else str(error))
                if isinstance(error, PartError | OSError):
                    raise failed(f'start container "{container.id}"', error) from error
                raise
            await core.note_container(container, phase=ContainerPhase.RUNNING, pid=pid, started_at=core.clock())
            core.tell(cri.CONTAINER_STARTED_EVENT, container.id, container.sandbox)
            if container.early is not None:
                core.ended(container, container.early)
        return cri.StartContainerResponse()

    async def _failed(self, container: Container, message: str) -> None:
        """It never ran, and cannot be started again."""
        core = self._core
        try:
            await core.executor.delete(container.record, force=True)
        except (PartError, OSError) as error:
            container.untidy = True  # whoever removes it tries again
            _log.warning("Failed to clean up a failed start", extra=kv(container=container.id, err=str(error)))
        await core.note_container(
            container,
            phase=ContainerPhase.EXITED,
            finished_at=core.clock(),
            exit_code=NOT_STARTED_CODE,
            reason=NOT_STARTED_REASON,
            message=message,
        )
        container.exited.set()
        core.tell(cri.CONTAINER_STOPPED_EVENT, container.id, container.sandbox)
