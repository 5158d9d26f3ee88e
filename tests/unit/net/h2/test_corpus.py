"""Each named broken input leads to what the tables here say, whole or in pieces. See tools/gen_h2_corpus.py."""

import subprocess
import sys
from pathlib import Path

import pytest

from interpose.net.h2.errors import ErrorCode
from tests.support.fuzz import h2 as h2fuzz
from tests.support.hostile.workmeter import check_work
from tests.support.net import h2_peer

ROOT = Path(__file__).resolve().parents[4]
CORPUS = {path.stem: path.read_bytes() for path in (ROOT / "tests/data/h2corpus").glob("*.bin")}

# What ends the connection: GOAWAY with this code.
GOAWAY = {
    ErrorCode.PROTOCOL_ERROR: """
        bad_preface tls_hello first_frame_ping first_frame_settings_ack
        padding_too_long_data padding_too_long_headers padding_missing
        headers_on_stream_0 headers_on_even_stream headers_depend_on_themselves
        data_on_stream_0 data_on_idle_stream rst_stream_on_idle_stream window_update_on_idle_stream
        window_update_zero priority_on_stream_0 ping_on_stream goaway_on_stream push_promise
        settings_on_stream settings_enable_push_2 settings_frame_too_small settings_frame_too_large
        continuation_alone continuation_of_other_stream continuation_interrupted
        client_http1_answer client_first_frame_ping client_push_promise
        client_headers_on_stream_0 client_headers_on_even_stream client_headers_on_idle_stream""",
    ErrorCode.FRAME_SIZE_ERROR: """
        oversized_data oversized_padded_data oversized_unknown headers_priority_cut_short
        rst_stream_wrong_size window_update_wrong_size ping_wrong_size goaway_cut_short
        settings_wrong_size settings_ack_with_payload""",
    ErrorCode.FLOW_CONTROL_ERROR: """
        window_overflow window_overflow_by_settings settings_window_too_large client_window_overflow""",
    ErrorCode.COMPRESSION_ERROR: """
        hpack_index_0 hpack_index_out_of_range hpack_name_index_out_of_range hpack_integer_overflow
        hpack_string_cut_short hpack_size_update_too_large hpack_size_update_after_field
        hpack_huffman_eos hpack_huffman_padding_zeros hpack_huffman_padding_long client_hpack_broken""",
    ErrorCode.ENHANCE_YOUR_CALM: """
        decompression_bomb rapid_reset made_you_reset flood_ping flood_ping_ack flood_settings
        flood_empty_data flood_padding_only_data flood_priority flood_unknown_frames flood_goaway
        flood_continuation flood_small_continuation flood_late_data flood_malformed_requests client_flood_ping""",
    ErrorCode.HTTP_1_1_REQUIRED: "http1_get http1_post",
}

# What ends one stream: RST_STREAM with this code. The connection goes on.
RESET = {
    ErrorCode.PROTOCOL_ERROR: """
        request_without_path request_with_empty_path request_with_two_methods request_with_status
        request_with_late_pseudo_field request_with_upper_case request_with_connection
        request_with_te_gzip request_with_newline trailers_without_end trailers_with_pseudo_fields
        window_update_zero_on_stream client_data_before_headers client_request_as_answer
        client_interim_with_end client_bad_status""",
    ErrorCode.FLOW_CONTROL_ERROR: "window_overflow_on_stream window_exceeded",
    ErrorCode.FRAME_SIZE_ERROR: "priority_wrong_size",
    ErrorCode.STREAM_CLOSED: "data_after_end headers_after_end",
    ErrorCode.REFUSED_STREAM: "stream_limit",
    ErrorCode.ENHANCE_YOUR_CALM: "client_oversized_answer",
}

# What the engine does not end. The shell sees `half_read` or a request marked oversized, and acts.
# What is allowed as far as it goes; that it makes no more work than its bytes is said below.
COSTLY = sorted(name for name in CORPUS if name.startswith("costly_"))
LEFT_TO_THE_SHELL = ["slow_loris_preface", "slow_loris_frame", "slow_loris_block", "header_list_too_large"]


def rows(table: dict[ErrorCode, str]) -> list[tuple[str, ErrorCode]]:
    """Name and error code of each file of the corpus."""
    return [(name, code) for code, names in table.items() for name in names.split()]


def run(name: str) -> h2fuzz.Outcome:
    """Feed one input to the role it is made for, after checking what holds for any bytes."""
    role = "client" if name.startswith("client_") else "server"
    h2fuzz.TARGETS[role](CORPUS[name])
    return (h2fuzz.run_client if role == "client" else h2fuzz.run_server)([CORPUS[name]])


def test_tables_and_files_agree() -> None:
    """No input without an expectation, and none expected that is not there."""
    named = [name for name, _ in rows(GOAWAY) + rows(RESET)] + LEFT_TO_THE_SHELL + COSTLY
    assert sorted(named) == sorted(CORPUS)


def test_files_are_what_the_generator_makes() -> None:
    """The committed files are current."""
    command = [sys.executable, str(ROOT / "tools/gen_h2_corpus.py"), "--check"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize(("name", "code"), rows(GOAWAY))
def test_ends_the_connection(name: str, code: ErrorCode) -> None:
    """The connection ends with this code, and every call on it is over."""
    events, failed, _ = run(name)
    assert failed is not None
    assert ErrorCode(failed) is code
    opened = {event[1] for event in events if event[0] in ("request", "oversized")}
    over = {event[1] for event in events if event[0] in ("lost", "reset") or event[-1] is True}
    assert opened <= over


@pytest.mark.parametrize(("name", "code"), rows(RESET))
def test_ends_one_stream(name: str, code: ErrorCode) -> None:
    """One RST_STREAM with this code; the connection goes on."""
    _, failed, out = run(name)
    frames = h2_peer.read_frames(out.removeprefix(h2_peer.PREFACE))
    assert [ErrorCode(frame.code) for frame in frames if frame.kind == "RST_STREAM"] == [code]
    assert failed is None


@pytest.mark.parametrize("name", LEFT_TO_THE_SHELL)
def test_left_to_the_shell(name: str) -> None:
    """Neither GOAWAY nor RST_STREAM."""
    events, failed, out = run(name)
    assert failed is None
    assert {frame.kind for frame in h2_peer.read_frames(out)} <= {"SETTINGS", "WINDOW_UPDATE"}
    assert [event[0] for event in events] == (["oversized"] if name == "header_list_too_large" else [])


@pytest.mark.parametrize("name", COSTLY)
def test_keeps_its_promises(name: str) -> None:
    """However much it asks for."""
    run(name)


@pytest.mark.parametrize("name", sorted(name for name in CORPUS if not name.startswith("client_")))
def test_work_is_bounded(name: str) -> None:
    """By the bytes that came, in steps that let others in between."""
    check_work(CORPUS[name])
