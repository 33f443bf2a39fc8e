"""The base class of configuration sections, and types of validated values."""

import re
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator

from federation.matrix.identifiers import is_server_name

Seconds = Annotated[float, Field(gt=0, le=86_400)]
Port = Annotated[int, Field(ge=0, le=65_535)]
_NAMESPACE: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}", re.ASCII)


def _server_name(value: str) -> str:
    if not is_server_name(value):
        raise ValueError("is not a server name: write a host name or an IP address, optionally with :port")
    return value


def _no_password(value: str) -> str:
    if re.match(r"postgres(ql)?://", value) is None:
        raise ValueError("must begin with postgresql://")
    if re.match(r"[a-z]+://[^/@]*:[^/@]*@", value) or re.search(r"[?&]password=", value):
        raise ValueError("must not contain a password: write the password to a file and set password_file")
    return value


def _network(value: Any) -> IPv4Network | IPv6Network:
    try:
        return ip_network(value)
    except ValueError as error:
        raise ValueError(f"{error}: write an address with its prefix, like 192.168.1.0/24 or ::1/128") from error


def _namespace(value: str) -> str:
    if _NAMESPACE.fullmatch(value) is None:
        raise ValueError("is not a namespace: use 1 to 64 of a-z, 0-9, '.', '_' and '-'")
    return value


def _address(value: str) -> str:
    if re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^\s\[\]:/@]+):\d{1,5}", value) is None:
        raise ValueError("must be host:port, like 192.168.1.20:7676 or [fd00::20]:7676")
    if not 0 < int(value.rpartition(":")[2]) <= 65_535:
        raise ValueError("has an invalid port: ports are 1 to 65535")
    return value


Network = Annotated[IPv4Network | IPv6Network, PlainValidator(_network)]
ServerName = Annotated[str, AfterValidator(_server_name)]
DatabaseUrl = Annotated[str, AfterValidator(_no_password)]
HostPort = Annotated[str, AfterValidator(_address)]
Namespace = Annotated[str, AfterValidator(_namespace)]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)
