"""The words of OCI runtimes."""

import pytest

from interpose.node.runtime.shim.oci_errors import reason


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"level":"warning","msg":"w"}\n{"level":"error","msg":"no such file"}\n', "no such file"),
        ('{"level":"error","msg":"first"}\n{"level":"error","msg":"last"}', "last"),
        ('{"level":"error","msg":"real"}\n{"level":"info","msg":"bye"}\n', "real"),
        ('{\n  "msg": "over lines",\n  "level": "error"\n}\n', "over lines"),
        ('{\n  "msg": "first",\n  "level": "error"\n}\n{\n  "msg": "last",\n  "level": "error"\n}', "last"),
        ('plain\n{\n  "msg": "real",\n  "level": "error"\n}\nplain again\n', "real"),
        ('{\n  "msg": "cut off', '"msg": "cut off'),
        ('time="x" level=error msg="exec: \\"/nope\\": stat /nope"\n', 'exec: "/nope": stat /nope'),
        ("time=x level=error msg=short", "short"),
        ('level=fatal msg="cut off', "cut off"),
        ("level=error nothing", "level=error nothing"),
        ('level=error msg=""', 'level=error msg=""'),
        ("container does not exist\n", "container does not exist"),
        ("{broken", "{broken"),
        ('{"level":"error","msg":5}', '{"level":"error","msg":5}'),
        ('{"level":"error","msg":" "}', '{"level":"error","msg":" "}'),
        ("[]", "[]"),
        ("\n \n", "fallback"),
        ("", "fallback"),
    ],
)
def test_the_last_error_is_the_reason(text: str, expected: str) -> None:
    """JSON of one line or of several, logrus text or plain words; the last line if no line is an error."""
    assert reason(text, "fallback") == expected


def test_a_reason_is_not_endless() -> None:
    """It ends up in an answer to the kubelet."""
    assert len(reason("x" * 100_000, "")) == 2000
