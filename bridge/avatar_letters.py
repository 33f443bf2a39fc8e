"""The shapes of the letters on avatars, as a pen draws them: lines and arcs, the same on every machine.

They stand on a grid: capitals and digits reach from 0 down to 14, small letters begin at 4, tails end at 18.
"""

from collections.abc import Iterator, Mapping
from math import ceil, cos, radians, sin
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

TOP: Final = 0.0
BASE: Final = 14.0
UNKNOWN: Final = "?"
STEP: Final = 7.5
"""Degrees between two points of an arc."""

Point: TypeAlias = tuple[float, float]


class Arc(NamedTuple):
    """Part of an ellipse, from one angle to another, in degrees. 0 is on the right, 90 below, so that angles
    that grow go clockwise."""

    x: float
    y: float
    wide: float
    high: float
    start: float
    end: float

    def points(self) -> Iterator[Point]:
        span = self.end - self.start
        steps = ceil(abs(span) / STEP)
        for step in range(steps + 1):
            angle = radians(self.start + span * step / steps)
            # The last digits of a sine are not the same everywhere; these are.
            yield self.x + self.wide * round(cos(angle), 4), self.y + self.high * round(sin(angle), 4)


Stroke: TypeAlias = tuple[Point | Arc, ...]
"""What is drawn without lifting the pen. A point alone, twice, is a dot."""


def shape(letter: str) -> tuple[tuple[Point, ...], ...]:
    """The strokes of a letter, each as points to be joined by straight lines."""
    return tuple(_points(stroke) for stroke in _SHAPES[letter])


def is_known(letter: str) -> bool:
    return letter in _SHAPES


def _points(stroke: Stroke) -> tuple[Point, ...]:
    points: list[Point] = []
    for part in stroke:
        points.extend(part.points() if isinstance(part, Arc) else (part,))
    return tuple(points)


_BOWL: Final = (Arc(4.5, 9, 4.5, 5, 0, 360),)
_SHOULDER: Final = ((0, 8.1), Arc(4.1, 8.1, 4.1, 4.1, 180, 360), (8.2, 14))

_SHAPES: Final[Mapping[str, tuple[Stroke, ...]]] = MappingProxyType(
    {
        "A": (((0, 14), (5.5, 0), (11, 14)), ((1.9, 9.4), (9.1, 9.4))),
        "B": (
            ((0, 6.8), (0, 0), Arc(4.6, 3.4, 3.4, 3.4, 270, 450), (0, 6.8)),
            ((0, 6.8), Arc(4.9, 10.4, 3.6, 3.6, 270, 450), (0, 14), (0, 6.8)),
        ),
        "C": ((Arc(6.2, 7, 6.2, 7, 310, 50),),),
        "D": (((0, 0), Arc(4, 7, 6.2, 7, 270, 450), (0, 14), (0, 0)),),
        "E": (((7.5, 0), (0, 0), (0, 14), (7.5, 14)), ((0, 6.8), (6.5, 6.8))),
        "F": (((7.5, 0), (0, 0), (0, 14)), ((0, 6.8), (6.5, 6.8))),
        "G": ((Arc(6.2, 7, 6.2, 7, 310, 0), (7, 7)),),
        "H": (((0, 0), (0, 14)), ((9.5, 0), (9.5, 14)), ((0, 7), (9.5, 7))),
        "I": (((0, 0), (0, 14)),),
        "J": (((6.6, 0), Arc(3.2, 10.6, 3.4, 3.4, 0, 165)),),
        "K": (((0, 0), (0, 14)), ((8.5, 0), (0, 8.6)), ((3.1, 5.5), (9, 14))),
        "L": (((0, 0), (0, 14), (7.5, 14)),),
        "M": (((0, 14), (0, 0), (6, 10), (12, 0), (12, 14)),),
        "N": (((0, 14), (0, 0), (9.5, 14), (9.5, 0)),),
        "O": ((Arc(6.3, 7, 6.3, 7, 0, 360),),),
        "P": (((0, 14), (0, 0), Arc(4.8, 3.9, 3.9, 3.9, 270, 450), (0, 7.8)),),
        "Q": ((Arc(6.3, 7, 6.3, 7, 0, 360),), ((8.2, 10), (12.4, 14.6))),
        "R": (
            ((0, 14), (0, 0), Arc(4.8, 3.9, 3.9, 3.9, 270, 450), (0, 7.8)),
            ((4.6, 7.8), (8.9, 14)),
        ),
        "S": ((Arc(4.3, 3.6, 4.1, 3.6, 330, 90), Arc(4.3, 10.6, 4.3, 3.4, 270, 510)),),
        "T": (((0, 0), (10, 0)), ((5, 0), (5, 14))),
        "U": (((0, 0), Arc(4.75, 9.25, 4.75, 4.75, 180, 0), (9.5, 0)),),
        "V": (((0, 0), (5.25, 14), (10.5, 0)),),
        "W": (((0, 0), (3.6, 14), (7.2, 1.5), (10.8, 14), (14.4, 0)),),
        "X": (((0, 0), (9.5, 14)), ((9.5, 0), (0, 14))),
        "Y": (((0, 0), (5, 7.4), (10, 0)), ((5, 7.4), (5, 14))),
        "Z": (((0, 0), (9, 0), (0, 14), (9, 14)),),
        "a": (_BOWL, ((9, 4), (9, 14))),
        "b": (_BOWL, ((0, 0), (0, 14))),
        "c": ((Arc(4.6, 9, 4.6, 5, 310, 50),),),
        "d": (_BOWL, ((9, 0), (9, 14))),
        "e": (((0, 9), Arc(4.5, 9, 4.5, 5, 0, -310)),),
        "f": ((Arc(5, 3, 3, 3, 290, 180), (2, 14)), ((0, 4.6), (5.2, 4.6))),
        "g": (_BOWL, ((9, 4), Arc(4.8, 13.8, 4.2, 4.2, 0, 150))),
        "h": (((0, 0), (0, 14)), _SHOULDER),
        "i": (((0, 4.6), (0, 14)), ((0, 0.4), (0, 0.4))),
        "j": (((3, 4.6), Arc(0, 15, 3, 3, 0, 80)), ((3, 0.4), (3, 0.4))),
        "k": (((0, 0), (0, 14)), ((6.8, 4), (0, 10.2)), ((2.5, 7.9), (7.3, 14))),
        "l": (((0, 0), (0, 14)),),
        "m": (
            ((0, 4), (0, 14)),
            ((0, 7.2), Arc(3.2, 7.2, 3.2, 3.2, 180, 360), (6.4, 14)),
            ((6.4, 7.2), Arc(9.6, 7.2, 3.2, 3.2, 180, 360), (12.8, 14)),
        ),
        "n": (((0, 4), (0, 14)), _SHOULDER),
        "o": (_BOWL,),
        "p": (_BOWL, ((0, 4), (0, 18))),
        "q": (_BOWL, ((9, 4), (9, 18))),
        "r": (((0, 4), (0, 14)), ((0, 8.2), Arc(4, 8.2, 4, 4.2, 180, 290))),
        "s": ((Arc(3.6, 6.5, 3.4, 2.5, 330, 90), Arc(3.6, 11.5, 3.6, 2.5, 270, 510)),),
        "t": (((2, 0.8), Arc(4.8, 11.2, 2.8, 2.8, 180, 80)), ((0, 4.4), (5.2, 4.4))),
        "u": (((0, 4), Arc(4.1, 9.9, 4.1, 4.1, 180, 0), (8.2, 4)), ((8.2, 4), (8.2, 14))),
        "v": (((0, 4), (4.2, 14), (8.4, 4)),),
        "w": (((0, 4), (2.9, 14), (5.8, 5), (8.7, 14), (11.6, 4)),),
        "x": (((0, 4), (7.6, 14)), ((7.6, 4), (0, 14))),
        "y": (((0, 4), (4.2, 14)), ((8.4, 4), (2.5, 18))),
        "z": (((0, 4), (7.2, 4), (0, 14), (7.2, 14)),),
        "0": ((Arc(4.7, 7, 4.7, 7, 0, 360),),),
        "1": (((0, 3), (4, 0), (4, 14)),),
        "2": ((Arc(4.3, 4.2, 4.2, 4.2, 195, 400), (0, 14), (8.8, 14)),),
        "3": ((Arc(4.1, 3.5, 3.8, 3.5, 205, 450), Arc(4.1, 10.5, 4.2, 3.5, 270, 515)),),
        "4": (((7, 14), (7, 0), (0, 10), (9.4, 10)),),
        "5": (((7.8, 0), (1.2, 0), Arc(4.1, 9.6, 4.4, 4.4, 225, 510)),),
        "6": ((Arc(4.5, 9.5, 4.5, 4.5, 0, 360),), ((5.5, 0), (0.75, 7.1))),
        "7": (((0, 0), (8.8, 0), (3, 14)),),
        "8": ((Arc(4.4, 3.5, 3.7, 3.5, 0, 360),), (Arc(4.4, 10.5, 4.4, 3.5, 0, 360),)),
        "9": ((Arc(4.5, 4.5, 4.5, 4.5, 0, 360),), ((3.5, 14), (8.25, 6.9))),
        UNKNOWN: ((Arc(4, 3.9, 3.9, 3.9, 190, 415), (4, 9.4)), ((4, 14), (4, 14))),
    }
)
