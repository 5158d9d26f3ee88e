"""Templates as trees: what is said in braces, in the grammar of Go templates. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.support.helm.errors import ChartError
from tests.support.helm.lexer import Action, Piece, Plain, Token, pieces

_CONSTANTS: Final[Mapping[str, Any]] = {"true": True, "false": False, "nil": None}
_BLOCKS: Final = ("if", "range", "with", "define")
_WORDS: Final = (*_BLOCKS, "else", "end", "template", "block", "break", "continue")


# -- expressions


@dataclass(frozen=True, slots=True)
class Literal:
    """A value that stands there."""

    value: Any


@dataclass(frozen=True, slots=True)
class Variable:
    """`$name`; `$` is what the template was given. The dot is the variable "."."""

    name: str


@dataclass(frozen=True, slots=True)
class Access:
    """Fields of something, one after the other."""

    base: "Expression"
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Function:
    """A function by its name."""

    name: str


@dataclass(frozen=True, slots=True)
class Command:
    """A function or method with its arguments, or a single value."""

    head: "Expression"
    arguments: "tuple[Expression, ...]"


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Commands, each the last argument of the next."""

    commands: tuple[Command, ...]


Expression = Literal | Variable | Access | Function | Pipeline


# -- statements


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A value that is printed; `name` of a variable that gets it instead."""

    pipeline: Pipeline
    line: int
    name: str = ""
    declares: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """`if`, `with` or `range`; `names` of the variables it declares. Else-branches are blocks within `otherwise`."""

    word: str
    pipeline: Pipeline
    line: int
    names: tuple[str, ...] = ()
    body: "tuple[Statement, ...]" = ()
    otherwise: "tuple[Statement, ...]" = ()


Statement = Plain | Output | Block


@dataclass(slots=True)
class Template:
    """A file: what it prints and what it defines for all."""

    body: tuple[Statement, ...] = ()
    defined: dict[str, tuple[Statement, ...]] = field(default_factory=dict)


def parse(source: str, where: str) -> Template:
    """The template of a file."""
    reader = _Statements(pieces(source, where), where)
    template = reader.template
    template.body, stop = reader.read()
    if stop is not None:
        raise ChartError(where, stop.line, f"{stop.tokens[0].value} without a block")
    return template


class _Statements:
    def __init__(self, found: list[Piece], where: str) -> None:
        self._rest = found[::-1]
        self._where = where
        self.template = Template()

    def read(self) -> tuple[tuple[Statement, ...], Action | None]:
        """Statements up to the `else` or `end` that is not theirs."""
        body: list[Statement] = []
        while self._rest:
            piece = self._rest.pop()
            if isinstance(piece, Plain):
                body.append(piece)
                continue
            if not piece.tokens:
                raise ChartError(self._where, piece.line, "an empty action")
            first = piece.tokens[0]
            if first.kind == "word" and first.value in ("else", "end"):
                return tuple(body), piece
            if first.kind == "word" and first.value in _WORDS:
                body += self._block(piece, piece.tokens[1:], first.value)
            else:
                body.append(self._output(piece))
        return tuple(body), None

    def _output(self, action: Action) -> Output:
        names, declares, rest = _declared(action.tokens)
        if len(names) > 1:
            raise ChartError(self._where, action.line, "only range declares two variables")
        pipeline = self._pipeline(rest, action.line)
        return Output(pipeline=pipeline, line=action.line, name=names[0] if names else "", declares=declares)

    def _block(self, action: Action, tokens: tuple[Token, ...], word: str) -> list[Statement]:
        line = action.line
        if word not in _BLOCKS:
            raise ChartError(self._where, line, f"{word} is not supported")
        if word == "define":
            self._define(tokens, line)
            return []
        names, _, rest = _declared(tokens)
        pipeline = self._pipeline(rest, line)
        body, stop = self.read()
        otherwise: tuple[Statement, ...] = ()
        if stop is not None and stop.tokens[0].value == "else":
            if len(stop.tokens) > 1:  # else if
                otherwise = tuple(self._block(stop, stop.tokens[2:], stop.tokens[1].value))
                return [Block(word=word, pipeline=pipeline, line=line, names=names, body=body, otherwise=otherwise)]
            otherwise, stop = self.read()
        self._ended(stop, line)
        return [Block(word=word, pipeline=pipeline, line=line, names=names, body=body, otherwise=otherwise)]

    def _define(self, tokens: tuple[Token, ...], line: int) -> None:
        if len(tokens) != 1 or tokens[0].kind != "text":
            raise ChartError(self._where, line, "define needs one name in quotes")
        if tokens[0].value in self.template.defined:
            raise ChartError(self._where, line, f"{tokens[0].value} is defined twice")
        body, stop = self.read()
        self._ended(stop, line)
        self.template.defined[tokens[0].value] = body

    def _ended(self, stop: Action | None, line: int) -> None:
        if stop is None or stop.tokens[0].value != "end":
            raise ChartError(self._where, line, "a block is not ended")

    def _pipeline(self, tokens: tuple[Token, ...], line: int) -> Pipeline:
        return _Expressions(tokens, self._where, line).whole()


def _declared(tokens: tuple[Token, ...]) -> tuple[tuple[str, ...], bool, tuple[Token, ...]]:
    """Variables in front of `:=` or `=`, whether they are new, and what is behind it."""
    for index, token in enumerate(tokens):
        if token.kind == "sign" and token.value in (":=", "="):
            names = tuple(one.value for one in tokens[:index] if one.kind == "variable")
            return names, token.value == ":=", tokens[index + 1 :]
    return (), False, tokens


class _Expressions:
    """Recursive descent over the tokens of one action."""

    def __init__(self, tokens: tuple[Token, ...], where: str, line: int) -> None:
        self._rest = list(tokens[::-1])
        self._where = where
        self._line = line

    def whole(self) -> Pipeline:
        """All of it."""
        found = self._pipeline()
        if self._rest:
            raise self._error(f"unexpected {self._rest[-1].value!r}")
        return found

    def _pipeline(self) -> Pipeline:
        commands = [self._command()]
        while self._next_is("|"):
            self._rest.pop()
            commands.append(self._command())
        return Pipeline(tuple(commands))

    def _command(self) -> Command:
        operands: list[Expression] = []
        while self._rest and not self._next_is("|") and not self._next_is(")"):
            operands.append(self._operand())
        if not operands:
            raise self._error("something is missing")
        return Command(operands[0], tuple(operands[1:]))

    def _operand(self) -> Expression:
        token = self._rest.pop()
        base: Expression
        if token.kind in ("text", "number"):
            base = Literal(token.value)
        elif token.kind == "variable":
            base = Variable(token.value)
        elif token.kind == "dot":
            base = Variable(".")
        elif token.kind == "field":
            base = Access(Variable("."), (token.value,))
        elif token.kind == "word":
            base = Literal(_CONSTANTS[token.value]) if token.value in _CONSTANTS else Function(token.value)
        elif token.value == "(":
            base = self._pipeline()
            if not self._next_is(")"):
                raise self._error("a bracket is not closed")
            self._rest.pop()
        else:
            raise self._error(f"unexpected {token.value!r}")
        return self._fields(base)

    def _fields(self, base: Expression) -> Expression:
        names = []
        while self._rest and self._rest[-1].kind == "field" and self._rest[-1].glued:
            names.append(self._rest.pop().value)
        if not names:
            return base
        if isinstance(base, Access):
            return Access(base.base, (*base.names, *names))
        return Access(base, tuple(names))

    def _next_is(self, sign: str) -> bool:
        return bool(self._rest) and self._rest[-1].kind == "sign" and self._rest[-1].value == sign

    def _error(self, text: str) -> ChartError:
        return ChartError(self._where, self._line, text)
