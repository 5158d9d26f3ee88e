"""Find the devices that types of balloons want to be close to: the policy itself reads no files.

A path is that of a device in sysfs or in /dev. One that leads nowhere is no mistake of the configuration: it is for
several nodes, and not all of them have the device. The policy says so in its notes.
"""

from dataclasses import replace
from types import MappingProxyType

from interpose.core.policy.balloons.options import POD_RESOURCES, BalloonsOptions
from interpose.core.topology.hints import TopologyHint
from interpose.resmgr.hints.devices import DeviceHint, DeviceHints
from interpose.resmgr.hints.rules import HintKind, HintPath

_SYS = "/sys/"


def load_devices(options: BalloonsOptions, root: str = "/") -> BalloonsOptions:
    """The same options with the hints of their devices."""
    paths = {path for kind in options.types for path in kind.close_to_devices if not path.startswith(POD_RESOURCES)}
    devices = DeviceHints(root)
    found = {path: hints for path in sorted(paths) if (hints := _hints(devices, path))}
    return replace(options, devices=MappingProxyType(found))


def _hints(devices: DeviceHints, path: str) -> tuple[TopologyHint, ...]:
    try:
        found = _find(devices, path)
    except OSError:
        return ()
    return tuple(device.hint for device in found)


def _find(devices: DeviceHints, path: str) -> tuple[DeviceHint, ...]:
    if path.startswith(_SYS):
        return devices.find_folder(path)
    return devices.find(HintPath(kind=HintKind.DEVICES, path=path))
