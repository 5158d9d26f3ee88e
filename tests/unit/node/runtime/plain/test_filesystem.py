"""Options of mounts."""

import pytest

from interpose.node.runtime.plain.filesystem import options


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["nosuid", "noexec", "nodev", "ro"], (15, [], "")),
        (["rbind", "rprivate", "rw"], (4096 | 16384, [1 << 18 | 16384], "")),
        (["bind", "rslave"], (4096, [1 << 19 | 16384], "")),
        (["mode=755", "size=65536k", "nosuid"], (2, [], "mode=755,size=65536k")),
        (None, (0, [], "")),
    ],
)
def test_options_are_flags_propagation_or_data(words: list[str] | None, expected: tuple[int, list[int], str]) -> None:
    """As mount(2) wants them: propagation is changed by a call of its own."""
    assert options(words) == expected
