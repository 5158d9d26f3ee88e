"""What goes wrong when a chart is rendered."""


class ChartError(Exception):
    """A template that cannot be read or rendered; the text begins with file and line."""

    def __init__(self, where: str, line: int, text: str) -> None:
        super().__init__(f"{where}:{line}: {text}")


class FunctionError(Exception):
    """A function that cannot be called like this; whoever calls it knows the line."""
