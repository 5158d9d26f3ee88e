"""The fuzzer of text files: what breaks a promise is kept and can be run again."""

from pathlib import Path

import pytest

from tests.support.fuzz.text import Target, run


def target(folder: Path, forbidden: bytes) -> Target:
    """A reader that promises never to meet something."""
    sample = folder / "sample.txt"
    sample.write_text("a sample")

    def check(data: bytes, suffix: str) -> None:
        assert suffix == ".txt"
        assert forbidden not in data

    return Target(name="toy", check=check, samples=[sample], pieces=["BOOM", "x"])


def test_kept_promises_are_a_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the seed, so that it can be done again."""
    never = target(tmp_path, b"never in there")
    assert run(never, "Fuzz.\nMore.", ["--seconds", "0.05", "--seed", "7", "--crashes", str(tmp_path / "c")]) == 0
    assert capsys.readouterr().out.startswith("seed 7, target toy, 0.05 s\n")
    assert not (tmp_path / "c").exists()


def test_an_input_that_breaks_one_is_kept_and_can_be_run_again(tmp_path: Path) -> None:
    """Until it is mended."""
    broken = target(tmp_path, b"BOOM")
    assert run(broken, "Fuzz.", ["--seconds", "0.2", "--seed", "1", "--crashes", str(tmp_path / "c")]) == 1
    kept = sorted((tmp_path / "c").glob("crash-toy-*.txt"))
    assert kept
    with pytest.raises(AssertionError):
        run(broken, "Fuzz.", ["--replay", str(kept[0])])
    assert run(target(tmp_path, b"mended"), "Fuzz.", ["--replay", str(kept[0])]) == 0
