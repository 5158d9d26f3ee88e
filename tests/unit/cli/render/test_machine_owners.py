"""Who has which CPUs, as letters."""

from interpose.cli.render.machine import LETTERS, MORE, owners_of


def test_containers_with_cpus_of_their_own_get_letters() -> None:
    """In order; the others share."""
    owners = owners_of(
        [
            {"container": "a", "exclusive": "2-3", "cpus": "0-3"},
            {"container": "b", "exclusive": "", "cpus": "0-1"},
            {"container": "c\n", "exclusive": "4", "cpus": "4"},
            {"container": "d", "cpus": None},
        ]
    )
    assert [(one.letter, one.title, str(one.cpus)) for one in owners.owners] == [("A", "a", "2-3"), ("B", "c?", "4")]
    assert (str(owners.shared), owners.sharing) == ("0-1", 2)
    assert {cpu: (place, owner.letter) for cpu, (place, owner) in owners.by_cpu().items()} == {
        2: (0, "A"),
        3: (0, "A"),
        4: (1, "B"),
    }


def test_letters_run_out() -> None:
    """Who comes later shares a sign."""
    owners = owners_of([{"container": str(cpu), "exclusive": str(cpu)} for cpu in range(len(LETTERS) + 2)]).owners
    assert [one.letter for one in owners[-3:]] == [LETTERS[-1], MORE, MORE]


def test_what_is_no_list_of_cpus_is_left_out() -> None:
    """A relay of another version may say anything."""
    assert owners_of([{"exclusive": "x", "cpus": 5}]).owners == ()
