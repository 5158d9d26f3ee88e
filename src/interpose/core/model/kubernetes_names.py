"""Names that other programs gave and several packages know: labels of the kubelet, methods of the agent's protocol."""

from typing import Final

# Labels of the kubelet on sandboxes and containers. Everything below the prefix is the kubelet's or the runtime's.
LABEL_PREFIX: Final = "io.kubernetes."
POD_NAME: Final = "io.kubernetes.pod.name"
POD_NAMESPACE: Final = "io.kubernetes.pod.namespace"
POD_UID: Final = "io.kubernetes.pod.uid"
CONTAINER_NAME: Final = "io.kubernetes.container.name"
RESTART_COUNT: Final = "io.kubernetes.container.restartCount"

# gRPC paths of the protocol between relay and agent, which is that of cri-resource-manager. Served by the relay:
SET_CONFIG: Final = b"/v1.Config/SetConfig"
# Served by the agent:
GET_NODE: Final = b"/v1.Agent/GetNode"
PATCH_NODE: Final = b"/v1.Agent/PatchNode"
UPDATE_NODE_CAPACITY: Final = b"/v1.Agent/UpdateNodeCapacity"
