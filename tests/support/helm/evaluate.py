"""Trees of templates become text. Pure."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from tests.support.helm.errors import ChartError, FunctionError
from tests.support.helm.functions import FUNCTIONS, shown, truth
from tests.support.helm.lexer import Plain
from tests.support.helm.parser import (
    Access,
    Block,
    Command,
    Expression,
    Function,
    Literal,
    Output,
    Pipeline,
    Statement,
    Template,
    Variable,
)

_MAX_DEPTH: Final = 50
_NO_ARGUMENT: Final = object()


class Renderer:
    """Renders templates that know each other's definitions."""

    def __init__(self, templates: Mapping[str, Template]) -> None:
        self._templates = templates
        self._defined: dict[str, tuple[str, tuple[Statement, ...]]] = {}
        for where, template in templates.items():
            for name, body in template.defined.items():
                if name in self._defined:
                    raise ChartError(where, 1, f"{name} is defined in {self._defined[name][0]} too")
                self._defined[name] = where, body
        self.used: set[str] = set()  # definitions that were included

    def render(self, where: str, context: Mapping[str, Any]) -> str:
        """What a file prints."""
        return _Run(self, where, context, 0).body(self._templates[where].body)

    def include(self, name: str, context: Any, depth: int) -> str:
        """What a definition prints, given a context."""
        if name not in self._defined:
            raise FunctionError(f"{name} is not defined")
        if depth > _MAX_DEPTH:
            raise FunctionError(f"{name} includes itself for ever")
        self.used.add(name)
        where, body = self._defined[name]
        return _Run(self, where, context, depth).body(body)


class _Run:
    """One go through a body. The scopes are variables, innermost last; "." and "$" are two of them."""

    def __init__(self, renderer: Renderer, where: str, context: Any, depth: int) -> None:
        self._renderer = renderer
        self._where = where
        self._depth = depth
        self._scopes: list[dict[str, Any]] = [{".": context, "$": context}]

    def body(self, statements: tuple[Statement, ...]) -> str:
        return "".join(self._statement(one) for one in statements)

    def _statement(self, one: Statement) -> str:
        if isinstance(one, Plain):
            return one.text
        try:
            return self._output(one) if isinstance(one, Output) else self._block(one)
        except FunctionError as error:
            raise ChartError(self._where, one.line, str(error)) from None

    def _output(self, one: Output) -> str:
        value = self._pipeline(one.pipeline)
        if not one.name:
            return shown(value)
        if one.declares:
            self._scopes[-1][one.name] = value
            return ""
        for scope in reversed(self._scopes):
            if one.name in scope:
                scope[one.name] = value
                return ""
        raise FunctionError(f"{one.name} is not declared")

    def _block(self, one: Block) -> str:
        value = self._pipeline(one.pipeline)
        if not truth(value):
            return self.body(one.otherwise)
        if one.word == "range":
            return "".join(self._rounds(one, value))
        declared = dict.fromkeys(one.names[:1], value)
        if one.word == "with":
            declared["."] = value
        with self._scope(declared):
            return self.body(one.body)

    def _rounds(self, one: Block, value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            pairs = sorted(value.items())
        elif isinstance(value, list):
            pairs = list(enumerate(value))
        else:
            raise FunctionError(f"range over {value!r}")
        for key, item in pairs:
            named = dict(zip(one.names, (key, item) if len(one.names) > 1 else (item,), strict=False))
            with self._scope({**named, ".": item}):
                yield self.body(one.body)

    @contextmanager
    def _scope(self, variables: dict[str, Any]) -> Iterator[None]:
        self._scopes.append(variables)
        try:
            yield
        finally:
            self._scopes.pop()

    def _pipeline(self, one: Pipeline) -> Any:
        value: Any = _NO_ARGUMENT
        for command in one.commands:
            value = self._command(command, value)
        return value

    def _command(self, one: Command, piped: Any) -> Any:
        if isinstance(one.head, Function) and one.head.name in ("and", "or"):
            return self._either(one, piped)
        arguments = [self._value(argument) for argument in one.arguments]
        if piped is not _NO_ARGUMENT:
            arguments.append(piped)
        if isinstance(one.head, Function):
            return self._call(one.head.name, self._function(one.head.name), arguments)
        value = self._value(one.head)
        if callable(value):
            return self._call("method", value, arguments)
        if arguments:
            raise FunctionError(f"{value!r} is no function")
        return value

    def _either(self, one: Command, piped: Any) -> Any:
        """`and` and `or`: the first value that decides, the others are not looked at."""
        decides = isinstance(one.head, Function) and one.head.name == "or"
        value = None
        for argument in one.arguments:
            value = self._value(argument)
            if truth(value) is decides:
                return value
        return value if piped is _NO_ARGUMENT else piped

    def _value(self, one: Expression) -> Any:
        if isinstance(one, Literal):
            return one.value
        if isinstance(one, Variable):
            return self._variable(one.name)
        if isinstance(one, Access):
            return self._access(one)
        if isinstance(one, Function):
            return self._call(one.name, self._function(one.name), [])
        return self._pipeline(one)

    def _variable(self, name: str) -> Any:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        raise FunctionError(f"{name} is not declared")

    def _access(self, one: Access) -> Any:
        value = self._value(one.base)
        for name in one.names:
            if not isinstance(value, Mapping):
                raise FunctionError(f"{'.'.join(one.names)}: {value!r} has no field {name}")
            value = value.get(name)
        return value

    def _function(self, name: str) -> Callable[..., Any]:
        if name == "include":
            return lambda defined, context: self._renderer.include(defined, context, self._depth + 1)
        if name not in FUNCTIONS:
            raise FunctionError(f"the function {name} is not known here")
        return FUNCTIONS[name]

    def _call(self, name: str, function: Callable[..., Any], arguments: list[Any]) -> Any:
        try:
            return function(*arguments)
        except (TypeError, ValueError, AttributeError) as error:
            raise FunctionError(f"{name} with {arguments!r}: {error}") from None
