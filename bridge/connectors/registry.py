"""The connectors of a node. To add one, create a package beside this file and list it here."""

from typing import Final

from bridge.connectors.cis.description import CIS
from bridge.connectors.description import Description
from bridge.connectors.offices.description import OFFICES

CONNECTORS: Final[tuple[Description, ...]] = (CIS, OFFICES)
