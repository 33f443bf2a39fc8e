"""What the centre needs of its Matrix side, and that what there is satisfies it."""

import inspect
from collections.abc import Mapping

from bridge import matrix_side
from bridge.matrix_side import MatrixSide

PARTS = [part for part in MatrixSide.__mro__[1:] if part.__module__ == matrix_side.__name__]


def operations(part: type) -> Mapping[str, object]:
    return {name: value for name, value in vars(part).items() if not name.startswith("_")}


def test_every_operation_stands_in_one_part() -> None:
    """The parts are the table of contents; an operation in two of them would have two meanings."""
    named = [name for part in (MatrixSide, *PARTS) for name in operations(part)]
    assert len(named) == len(set(named))
    assert len(PARTS) > 1


def test_every_operation_says_what_it_gives() -> None:
    """A Matrix side is written against the signatures alone."""
    for part in (MatrixSide, *PARTS):
        for name, operation in operations(part).items():
            function = operation.fget if isinstance(operation, property) else operation
            assert callable(function)
            signature = inspect.signature(function)
            assert signature.return_annotation is not inspect.Signature.empty, name
