"""The loop of the fuzzers: what breaks a promise is kept and can be run again."""

import random
from pathlib import Path

import pytest

from tests.support.fuzz.loop import Fuzzer, Mutator


def seeds(target: str) -> list[bytes]:
    """Two."""
    return [target.encode(), b"another one"]


def fuzzer(forbidden: bytes = b"", *, longest: int = 100, counted: bool = False) -> Fuzzer:
    """Of two readers; one of them promises never to meet something."""

    def check(data: bytes) -> bool:
        assert len(data) <= longest
        assert not forbidden or forbidden not in data
        return len(data) < longest

    return Fuzzer(
        targets={"plain": lambda data: len(data) < longest, "picky": check},
        seeds=seeds,
        longest=longest,
        faultless=bool if counted else None,
    )


def arguments(folder: Path, *more: str) -> list[str]:
    """Of a short run with a known seed."""
    return ["--seconds", "0.05", "--seed", "7", "--crashes", str(folder / "c"), *more]


def test_kept_promises_are_a_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All targets in turn, with the seed, so that it can be done again."""
    assert fuzzer().run("Fuzz.\nMore.", arguments(tmp_path)) == 0
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first == "seed 7, targets picky, plain, 0.05 s"
    assert last.endswith("no promise broken")
    assert not (tmp_path / "c").exists()


def test_one_target_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """If it is named; the other one would break its promise at once."""
    assert fuzzer(b"a").run("Fuzz.", arguments(tmp_path, "--target", "plain")) == 0
    assert "targets plain," in capsys.readouterr().out


@pytest.mark.parametrize(("counted", "ending"), [(False, "executions"), (True, "without fault")])
def test_reports(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    counted: bool,
    ending: str,
) -> None:
    """How far it is; and, if somebody can tell, how many inputs were right ones."""
    monkeypatch.setattr("tests.support.fuzz.loop.REPORT_EVERY", 0.0)
    assert fuzzer(counted=counted).run("Fuzz.", arguments(tmp_path)) == 0
    assert capsys.readouterr().out.splitlines()[1].endswith(ending)


def test_an_input_that_breaks_one_is_kept_and_can_be_run_again(tmp_path: Path) -> None:
    """Until it is mended; its name says for whom it is."""
    broken = fuzzer(b"another")
    assert broken.run("Fuzz.", arguments(tmp_path)) == 1
    (kept,) = (tmp_path / "c").glob("crash-picky-*.bin")
    assert b"another" in kept.read_bytes()
    with pytest.raises(AssertionError):
        broken.run("Fuzz.", ["--replay", str(kept)])
    assert broken.run("Fuzz.", ["--replay", str(kept), "--target", "plain"]) == 0
    assert fuzzer().run("Fuzz.", ["--replay", str(kept)]) == 0


def test_a_file_of_another_name_needs_a_target(tmp_path: Path) -> None:
    """Which the message says."""
    with pytest.raises(SystemExit, match="give --target"):
        fuzzer().run("Fuzz.", ["--replay", str(tmp_path / "crash-nobody-1.bin")])


def test_mutations_are_many_and_the_same_with_the_same_seed() -> None:
    """Longer and shorter ones, and the seeds themselves."""

    def some(seed: int) -> list[bytes]:
        mutator = Mutator(random.Random(seed), "plain", seeds("plain"))
        return [mutator.next() for _ in range(300)]

    assert some(1) == some(1) != some(2)
    assert set(seeds("plain")) < set(some(1))
    lengths = {len(data) for data in some(1)}
    assert min(lengths) < len(b"plain") < len(b"another one") < max(lengths)
