"""Faults and their codes."""

from interpose.net.h2.errors import ConnectionFault, ErrorCode


def test_codes() -> None:
    """The numbers of RFC 9113 section 7, without gaps."""
    assert [code.value for code in ErrorCode] == list(range(14))
    assert (ErrorCode.FLOW_CONTROL_ERROR, ErrorCode.COMPRESSION_ERROR, ErrorCode.ENHANCE_YOUR_CALM) == (3, 9, 11)


def test_fault_says_code_and_reason() -> None:
    """Whoever logs the fault sees both."""
    fault = ConnectionFault(ErrorCode.PROTOCOL_ERROR, "PING on a stream")
    assert str(fault) == "PROTOCOL_ERROR: PING on a stream"
    assert (fault.code, fault.reason) == (ErrorCode.PROTOCOL_ERROR, "PING on a stream")
