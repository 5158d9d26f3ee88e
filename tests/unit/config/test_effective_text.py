"""The reference page and the table of values say what the program does."""

import re
from pathlib import Path

from interpose.config.effective import settings_page, values_table
from interpose.config.load import SettingText, load
from interpose.config.relay.settings import RelaySettings
from interpose.config.relay.table import RELAY, RELAY_SETTINGS


def test_the_page_names_every_setting_with_flag_and_variable() -> None:
    """Nothing can be set that is not documented."""
    page = settings_page(RELAY)
    for setting in RELAY_SETTINGS:
        assert f"### `{setting.key}`" in page
        assert f"flag `{setting.flag}`, environment `{setting.env}`" in page


def test_the_example_on_the_page_is_a_valid_file_with_all_defaults(tmp_path: Path) -> None:
    """Copying the example changes nothing, and every key in it is known."""
    match = re.search(r"```yaml\n(.*?)```", settings_page(RELAY), re.DOTALL)
    assert match
    path = tmp_path / "example.yaml"
    path.write_text(match[1])
    loaded = load(RELAY, flags={}, env={}, path=str(path))
    assert loaded.settings == RelaySettings()
    assert all(origin.startswith("file ") for origin in loaded.origins.values())


def test_the_table_of_values_shows_value_and_origin_in_columns() -> None:
    """Each line has key, value as one would write it, and where it came from."""
    loaded = load(RELAY, flags={"limits.message": SettingText("2097152", "flag --max-message")}, env={})
    lines = values_table(loaded).splitlines()
    assert len(lines) == len(RELAY_SETTINGS) + 1
    assert lines[0].split() == ["KEY", "VALUE", "ORIGIN"]
    assert re.search(r"^limits\.message +2MiB +flag --max-message$", "\n".join(lines), re.MULTILINE)
    assert re.search(r'^image_endpoint +"" +default$', "\n".join(lines), re.MULTILINE)
    assert len({line.index(line.split()[1]) for line in lines}) == 1
