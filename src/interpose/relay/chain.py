"""Running a call through its interceptors, so that none of them can hurt it.

An exception before `proceed`: the call goes on with the bytes it had when it entered that interceptor. After it: the
answer that `proceed` gave is returned. Each is counted, and logged once per interceptor and method.
"""

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from interpose.relay.api import Call, Interceptor, Reply

_log = logging.getLogger(__name__)

_LAST_CODE: Final = 16
_WHEN: Final = ("before", "after")

Last = Callable[[Call], Awaitable[Reply]]


class Chain:
    """An ordered list of interceptors; the first one sees the caller's request."""

    def __init__(self, interceptors: Sequence[Interceptor]) -> None:
        self.interceptors = tuple(interceptors)
        self.errors: Counter[tuple[str, str, str]] = Counter()  # (interceptor, method, before|after)
        self._by_method: dict[str, list[Interceptor]] = {}  # cache of interceptors by method, until the next `refresh`

    def refresh(self) -> None:
        """Read the methods of the interceptors again for later calls."""
        self._by_method.clear()

    @property
    def methods(self) -> frozenset[str]:
        """Names of all methods that an interceptor subscribes to."""
        return frozenset(name for interceptor in self.interceptors for name in interceptor.methods)

    def failures(self) -> dict[tuple[str, str, str], int]:
        """`errors`, with zeros for what never failed: a counter that appears with its first event hides that event."""
        never = {
            (interceptor.name, method, when): 0
            for interceptor in self.interceptors
            for method in interceptor.methods
            for when in _WHEN
        }
        return {**never, **self.errors}

    async def run(self, call: Call, last: Last, *, below: Interceptor | None = None) -> Reply:
        """Pass the call through the interceptors of its method (those below one of them) and then to `last`."""
        name = call.method.name
        chain = self._by_method.get(name)
        if chain is None:
            chain = self._by_method[name] = [
                interceptor for interceptor in self.interceptors if name in interceptor.methods
            ]
        if below is not None:
            start = self.interceptors.index(below) + 1
            chain = [interceptor for interceptor in chain if self.interceptors.index(interceptor) >= start]
        return await self._step(call, chain, 0, last)

    async def _step(self, call: Call, chain: list[Interceptor], index: int, last: Last) -> Reply:
        if index == len(chain):
            return await last(call)
        interceptor = chain[index]
        watched = call.changed_by is not None
        entered_with = call.body.data() if watched or not getattr(interceptor, "tidy", False) else None
        credited = len(call.changed_by or ())
        answers: list[Reply] = []
        proceeded = False
        replied: bytes | None = None  # what `proceed` returned, before this interceptor touched it

        async def proceed() -> Reply:
            nonlocal proceeded, replied
            if proceeded:
                raise RuntimeError(f"interceptor {interceptor.name} called proceed twice")
            proceeded = True
            if watched and call.body.data() != entered_with and len(call.changed_by or ()) == credited:
                call.credit([interceptor.name])
            answers.append(await self._step(call, chain, index + 1, last))
            replied = answers[0].body.data() if watched and answers[0].body is not None else None
            return answers[0]

        try:
            reply: object = await interceptor.intercept(call, proceed)  # foreign code: checked below
            if not isinstance(reply, Reply) or not 0 <= reply.code <= _LAST_CODE:
                raise TypeError(f"{interceptor.name} returned {reply!r}, which is no reply with a gRPC code")
            if watched and not (answers and _same(reply, answers[0], replied)):
                call.credit([interceptor.name])
            return reply
        except Exception as error:
            self._note(interceptor, call, "after" if answers else "before", error)
            if answers:
                return _unchanged(answers[0])
            if proceeded:
                # The rest of the chain itself failed, which it never does: let the server answer INTERNAL.
                raise
            if entered_with is not None:
                call.body.restore(entered_with)
            return await self._step(call, chain, index + 1, last)

    def _note(self, interceptor: Interceptor, call: Call, when: str, error: Exception) -> None:
        key = (interceptor.name, call.method.name, when)
        self.errors[key] += 1
        if self.errors[key] == 1:
            _log.error(
                "Interceptor failed, call forwarded without it; further failures are only counted",
                extra={"kv": {"interceptor": key[0], "method": key[1], "proceed": key[2]}},
                exc_info=error,
            )


def _same(reply: Reply, answer: Reply, message: bytes | None) -> bool:
    """Whether an interceptor returned the answer it was given, as it was."""
    now = None if reply.body is None else reply.body.data()
    return now == message and reply.code == answer.code


def _unchanged(reply: Reply) -> Reply:
    """The runtime's answer as it came: half an edit is worse than none."""
    if reply.body is not None and reply.raw is not None:
        return Reply(code=reply.code, message=reply.message, raw=reply.raw)
    return reply
