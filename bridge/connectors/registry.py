"""The connectors of a node. Each is a package beside this file, and a line here; nothing else names it."""

from typing import Final

from bridge.connectors.cis.description import CIS
from bridge.connectors.description import Description
from bridge.connectors.offices.description import OFFICES

CONNECTORS: Final[tuple[Description, ...]] = (CIS, OFFICES)
