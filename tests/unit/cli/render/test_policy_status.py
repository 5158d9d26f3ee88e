"""The policy block of `status`, and the list of policies."""

from typing import Any

from interpose.cli.render.policy_status import policies_text, policy_status_text

ANSWER: dict[str, Any] = {
    "policy": "static",
    "origin": "file /etc/policy.yaml",
    "available": "0-15",
    "reserved": "0",
    "pools": {"shared": "0-1,4-15"},
    "containers": 3,
    "exclusive": 1,
    "failing": [{"container": "a/b/c", "error": "no answer", "attempts": 2}, {"container": "d/e/f"}],
    "refused": [{"container": f"a/b/{number}", "message": "no room"} for number in range(7)],
    "problems": ["file x: is broken"],
    "topology": {"packages": 2, "nodes": 4, "cpus": 16, "online": "0-15", "isolated": "3"},
    "state_file": {"path": "/var/lib/x.json", "error": ""},
}


def test_the_block_is_short_and_complete() -> None:
    """What is in force, on what, and what is wrong."""
    assert policy_status_text(ANSWER).splitlines() == [
        "policy: static",
        "  set by      file /etc/policy.yaml",
        "  machine     2 packages, 4 NUMA nodes, 16 CPUs, isolated 3",
        "  available   0-15",
        "  reserved    0",
        "  containers  3, 1 with CPUs of their own",
        "  state file  /var/lib/x.json",
        "  POOL    SIZE  CPUS",
        "  shared  14    0-1,4-15",
        "  not written:",
        "    a/b/c: no answer (2 attempts)",
        "    d/e/f: - (0 attempts)",
        "  refused:",
        *(f"    a/b/{number}: no room" for number in range(5)),
        "    and 2 more",
        "  problems:",
        "    file x: is broken",
    ]


def test_refusals_say_when_and_how_often() -> None:
    """The kubelet tries again and again."""
    refused = [
        {"container": "a", "message": "no", "at": "10:00", "times": 3},
        {"container": "b", "message": "no", "at": "9:00", "times": 1},
    ]
    shown = policy_status_text({"refused": refused}).splitlines()
    assert shown[-2:] == ["    a: no (10:00, 3 times)", "    b: no (9:00)"]


def test_what_is_not_said_is_not_shown() -> None:
    """A policy without pools, state file or trouble; or a relay of another version."""
    assert policy_status_text({"policy": "none", "containers": 0, "exclusive": 0, "topology": {}}).splitlines() == [
        "policy: none",
        "  set by      -",
        "  containers  0, 0 with CPUs of their own",
    ]
    assert policy_status_text("x").startswith("policy: -")


def test_a_state_file_that_cannot_be_written_is_said() -> None:
    """Restarts would forget."""
    text = policy_status_text({**ANSWER, "state_file": {"path": "/x", "error": "disk full"}, "topology": {"cpus": 2}})
    assert "  state file  /x, not written: disk full" in text
    assert "  machine     2 CPUs" in text


def test_policies_have_names_options_and_a_mark() -> None:
    """Options of a group stand below it."""
    policies: list[dict[str, Any]] = [
        {"name": "none", "aliases": ["null"], "description": "nothing", "options": []},
        {
            "name": "static",
            "aliases": [],
            "description": "CPUs of one's own",
            "options": [
                {"name": "PinMemory", "default": "false", "meaning": "near memory"},
                {"name": "Kubelet.one", "default": "", "meaning": "first"},
                {"name": "Kubelet.two", "default": "false", "meaning": "second"},
            ],
        },
    ]
    assert policies_text(policies, "static").splitlines() == [
        "none (also null)",
        "    nothing",
        "",
        "static  * active",
        "    CPUs of one's own",
        "",
        "    OPTION     DEFAULT  MEANING",
        "    PinMemory  false    near memory",
        "    Kubelet:",
        "      one      -        first",
        "      two      false    second",
    ]
    assert "active" not in policies_text(policies)
