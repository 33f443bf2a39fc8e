"""The checks of `palaver doctor`. Each is a function that returns one finding; the worst finding is the
outcome.

One check is whether other distributions have installed over this one's five top-level packages. PyPI has an
unrelated package `federation` that does so without a warning; afterwards imports mix both.
"""

import importlib.util
import os
import re
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

import aiohttp
from cryptography import x509

from bridge.config.config import Config, is_loopback
from bridge.config.files import LoadedConfig
from bridge.config.settings import external_database, listener_settings, tls_files
from bridge.connectors.registry import CONNECTORS
from bridge.control.client import NotRunning, ask_node
from bridge.node.registration import check_double_puppet, check_registration
from bridge.text.times import moment
from federation.http.server.development_certificate import files_in
from federation.http.server.listener import Bind, bind
from federation.http.server.tls import load
from federation.keys.local_keys import LocalKeyFiles
from federation.matrix.canonical_json import NotCanonical, decode
from federation.matrix.networks import host_of
from federation.matrix.signatures import Verified, bytes_to_sign, verify, verify_key
from storage.connect import check_version
from storage.database import connect_once
from storage.embedded.home import format_size, free_space
from storage.errors import LocalError
from storage.migrate import pending_migrations
from storage.node import NodeOwner, fetch_owner, wrong_owner


class Verdict(IntEnum):
    """Ordered from healthy to faulty, so that the maximum is the outcome."""

    OK = 0
    NOTE = 1
    FAULT = 2


@dataclass(frozen=True)
class Finding:
    """The result of one check, with advice for a fault."""

    subject: str
    verdict: Verdict
    text: str
    advice: str = ""


def ok(subject: str, text: str) -> Finding:
    return Finding(subject, Verdict.OK, text)


def note(subject: str, text: str, advice: str) -> Finding:
    """The node works, but the operator should know."""
    return Finding(subject, Verdict.NOTE, text, advice)


def fault(subject: str, text: str, advice: str) -> Finding:
    return Finding(subject, Verdict.FAULT, text, advice)


def outcome(findings: Sequence[Finding]) -> Verdict:
    return max((finding.verdict for finding in findings), default=Verdict.OK)


def summary(findings: Sequence[Finding]) -> str:
    """The last line of the report."""
    faults = [finding.subject for finding in findings if finding.verdict is Verdict.FAULT]
    if not faults:
        return "This node is healthy."
    return f"{'One fault' if len(faults) == 1 else f'{len(faults)} faults'}: {', '.join(faults)}."


def as_json(findings: Sequence[Finding]) -> dict[str, Any]:
    return {
        "healthy": outcome(findings) is not Verdict.FAULT,
        "findings": [{**vars(finding), "verdict": finding.verdict.name.lower()} for finding in findings],
    }


NAMES = ("bridge", "appservice", "federation", "storage", "migrations")
DISTRIBUTION = "palaver"


def conflicting_distributions(installed: Iterable[Distribution] | None = None) -> dict[str, str]:
    """Other distributions with files in this one's packages, by package name."""
    claims = {}
    for distribution in installed if installed is not None else distributions():
        name = distribution.metadata["Name"] or "an unnamed distribution"
        if re.sub(r"[-_.]+", "-", name).lower() == DISTRIBUTION:
            continue
        for file in distribution.files or ():
            if len(file.parts) > 1 and file.parts[0] in NAMES:
                claims[file.parts[0]] = name
    return claims


def import_roots() -> dict[str, Path | None]:
    """The directory from which each package is imported; they must be the same."""
    found = {}
    for name in NAMES:
        spec = importlib.util.find_spec(name)
        origin = spec.origin if spec is not None else None
        found[name] = Path(origin).parent.parent if origin is not None else None
    return found


KEYS = "/_matrix/key/v2/server"
TIMEOUT = aiohttp.ClientTimeout(total=10.0)
RENEWAL_PERIOD = timedelta(days=21)
MAX_SHOWN = 5


@dataclass(frozen=True)
class CheckContext:
    """What each check receives: the configuration, and the running node's status if a node is running."""

    found: LoadedConfig
    status: dict[str, Any] | None

    @property
    def config(self) -> Config:
        return self.found.config


async def run_checks(found: LoadedConfig) -> list[Finding]:
    """Return all findings in the order of the report."""
    try:
        status: dict[str, Any] | None = await ask_node(found.config.data_dir, "status")
    except NotRunning:
        status = None
    except LocalError as error:
        return [fault("node", error.problem, error.advice)]
    context = CheckContext(found, status)
    findings = []
    for subject, check in CHECKS.items():
        try:
            findings.append(await check(context))
        except LocalError as error:
            findings.append(fault(subject, error.problem, error.advice))
    return findings


async def names(_: CheckContext) -> Finding:
    if claims := conflicting_distributions():
        name, other = next(iter(claims.items()))
        return fault(
            "names",
            f"The package {other} has overwritten files of Palaver's package `{name}`.",
            f"Give Palaver a virtual environment of its own, or remove {other} and install Palaver again.",
        )
    roots = import_roots()
    if len(set(roots.values())) != 1 or None in roots.values():
        shown = ", ".join(f"{name} from {root}" for name, root in roots.items())
        return fault(
            "names",
            f"Palaver's packages are imported from different directories: {shown}.",
            "Remove other packages of that name from the working directory and PYTHONPATH.",
        )
    return ok("names", "All five packages are Palaver's own.")


async def configuration(context: CheckContext) -> Finding:
    path = context.found.path
    return ok(
        "configuration", f"{path} has no mistakes." if path is not None else "There is no file; the defaults apply."
    )


async def matrix_backend(context: CheckContext) -> Finding:
    config = context.config
    if config.attached_to is None:
        return ok("matrix backend", "This node is a homeserver.")
    wrong = (
        *await check_registration(config.appservice, config.server_name, config.alias_kinds),
        *await check_double_puppet(config.double_puppet, config.appservice),
    )
    if wrong:
        return fault("matrix backend", " ".join(wrong), "`palaver registration --check` shows each problem.")
    return ok(
        "matrix backend",
        f"This node is attached to {config.attached_to} at {config.appservice.homeserver}, which has"
        f" {config.appservice.registration} and reaches this node.",
    )


async def data_directory(context: CheckContext) -> Finding:
    path = context.config.data_dir
    if not path.exists():
        return ok("data directory", f"{path} does not exist yet; the first start creates it.")
    if not path.is_dir() or not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        return fault(
            "data directory",
            f"{path} is not a directory that this user may read and write.",
            "Run Palaver as the user that owns it, or choose another data_dir.",
        )
    return ok("data directory", f"{path}.")


async def disk(context: CheckContext) -> Finding:
    path = context.config.data_dir
    while not path.exists():
        path = path.parent
    free, least = free_space(path), context.config.database.minimum_free_space
    if free < least:
        return fault(
            "disk",
            f"Only {format_size(free)} are free on the disk of {path}; a start needs {format_size(least)}.",
            "Free some space on that disk, or choose a data_dir on another one.",
        )
    return ok("disk", f"{format_size(free)} are free.")


async def signing_key(context: CheckContext) -> Finding:
    keys = LocalKeyFiles(context.config.data_dir).load()
    if keys is None:
        return ok("signing key", "There is none yet; the first start creates it.")
    return ok("signing key", f"{keys.current.key_id}, and {len(keys.old)} older.")


async def certificate(context: CheckContext) -> Finding:
    config = context.config
    development = config.listener.certificate is None
    if development and not files_in(config.data_dir / "tls").certificate.exists():
        return ok("certificate", "There is none yet; the first start creates a development certificate.")
    files = tls_files(config)
    now = datetime.now(UTC)
    load(files, now)
    leaf = x509.load_pem_x509_certificates(files.certificate.read_bytes())[0]
    if leaf.not_valid_after_utc - now < RENEWAL_PERIOD:
        return note(
            "certificate",
            f"{files.certificate} expires on {leaf.not_valid_after_utc:%d %B %Y}.",
            "Renew it, then send the node SIGHUP.",
        )
    if development and not is_loopback(config.server_name):
        return note(
            "certificate",
            "It is a development certificate, which other servers do not trust.",
            "Set listener.certificate and listener.private_key to one that they trust.",
        )
    host = host_of(config.server_name)
    if not _is_for(leaf, host):
        return note(
            "certificate",
            f"{files.certificate} is not for {host}.",
            "Other servers refuse it, unless a .well-known or SRV record delegates to a name that it covers.",
        )
    return ok(
        "certificate",
        f"{'Development' if development else files.certificate}, until {leaf.not_valid_after_utc:%d %B %Y}.",
    )


def _is_for(leaf: x509.Certificate, host: str) -> bool:
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    hosts = [name.lower() for name in names.get_values_for_type(x509.DNSName)]
    addresses = [str(address) for address in names.get_values_for_type(x509.IPAddress)]
    wildcard = "*." + host.partition(".")[2]
    return host.lower() in hosts or wildcard.lower() in hosts or host in addresses


async def database(context: CheckContext) -> Finding:
    if context.status is not None:
        wrong = [
            f"{check}: {sentence}"
            for check, sentence in context.status["checks"].items()
            if check != "listeners" and sentence != "fine"
        ]
        if wrong:
            return fault(
                "database",
                " ".join(wrong),
                "Read the node's log; it continues automatically once the database is available.",
            )
        return ok(
            "database",
            "The running node uses it, schema version {schema_version}.".format(**context.status["database"]),
        )
    address = external_database(context.config)
    if address is None:
        return ok("database", "The node includes Postgres and starts it itself.")
    connection = await connect_once(address)
    try:
        version = connection.get_server_version()
        check_version(version.major, version.minor, address)
        steps = await pending_migrations(connection)
        owner = await fetch_owner(connection) if steps == () else None
    finally:
        await connection.close()
    if isinstance(steps, LocalError):
        raise steps
    not_ours = wrong_owner(owner, NodeOwner(context.config.server_name, context.config.attached_to))
    if not_ours is not None:
        raise not_ours
    if steps:
        return note(
            "database", f"{len(steps)} migrations are pending.", "The next start applies them, or `palaver migrate`."
        )
    return ok("database", f"Postgres {version.major}.{version.minor} at {address.server}, schema up to date.")


async def node(context: CheckContext) -> Finding:
    if context.status is None:
        return note("node", "No node is running here.", "Start one with `palaver run`.")
    if not context.status["ready"]:
        wrong = [f"{check}: {sentence}" for check, sentence in context.status["checks"].items() if sentence != "fine"]
        return fault("node", f"It runs but is not ready. {' '.join(wrong)}", "Read its log.")
    return ok("node", f"It runs as {context.status['server_name']} and is ready.")


async def inbox(context: CheckContext) -> Finding:
    if context.status is None:
        return ok("inbox", "Start the node to see whether there are events that it could not handle.")
    set_aside = context.status["set_aside"]
    if not set_aside:
        return ok("inbox", "Every event was handled.")
    newest, total = set_aside[0], set_aside[0]["total"]
    return note(
        "inbox",
        f"{total} event{'' if total == 1 else 's'} could not be handled, the latest"
        f" {newest['event_id']} in the room {newest['room_id']}, for {newest['reader']}: {newest['problem']}",
        "Find the event in the node's log. A person's request in it was not processed and can be made"
        " again. Such events are deleted after a week.",
    )


async def agents(context: CheckContext) -> Finding:
    if context.status is None:
        return ok("agents", "Start the node to see whether the commands of its agents work.")
    failing = context.status["agents_in_error"]
    if not failing:
        return ok("agents", "The commands of this node's agents work, as far as is known.")
    shown = " ".join(
        f"{one['agent']}{'' if one['since'] is None else ', since ' + moment(one['since'])}: {one['problem']}"
        for one in failing[:MAX_SHOWN]
    )
    more = f" And {len(failing) - MAX_SHOWN} more." if len(failing) > MAX_SHOWN else ""
    who = "an agent does" if len(failing) == 1 else f"{len(failing)} agents do"
    return fault(
        "agents",
        f"The command of {who} not work. {shown}{more}",
        "Run the command by hand in the agent's directory, and correct it; the node tries it again by itself.",
    )


async def port(context: CheckContext) -> Finding:
    settings = listener_settings(context.config)
    if context.status is not None:
        return await _check_listener(context.config, context.status["addresses"][0])
    for listening in bind(settings.binds, settings.port):
        listening.close()
    return ok("port", f"{settings.port} is free.")


async def _check_listener(config: Config, address: str) -> Finding:
    """Connect as a peer would, but accept any certificate, which another check covers."""
    host, _, number = address.rpartition(":")
    reachable = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(host, host)  # noqa: S104 - compared, not bound
    # An attached node does not federate and publishes no keys.
    healths = [one.health for one in CONNECTORS if one.health is not None]
    if config.attached_to is not None and not healths:
        return ok("port", f"{address} belongs to an attached node, and no endpoint on it identifies the node.")
    path = KEYS if config.attached_to is None else healths[0]
    url = f"https://{reachable}:{number}{path}"
    unverified = ssl.create_default_context()
    unverified.check_hostname = False
    unverified.verify_mode = ssl.CERT_NONE
    try:
        connector = aiohttp.TCPConnector(ssl=unverified)
        async with aiohttp.ClientSession(connector=connector, timeout=TIMEOUT) as session, session.get(url) as answer:
            document = decode(await answer.read())
    except (aiohttp.ClientError, TimeoutError, OSError, NotCanonical) as error:
        return fault("port", f"{address} does not respond: {type(error).__name__}.", "Read the node's log.")
    if config.attached_to is not None:
        if not isinstance(document, dict) or document.get("server_name") != config.server_name:
            return fault("port", f"{address} responds, but is not this node.", "Find out which program uses the port.")
        return ok("port", f"{address} responds to agents and other nodes.")
    if not _is_own_key_response(document, config.server_name):
        return fault(
            "port", f"{address} responds with keys that are not this node's.", "Find out which program uses the port."
        )
    return ok("port", f"{address} responds with this node's keys, signed by itself.")


def _is_own_key_response(document: Any, server_name: str) -> bool:
    if not isinstance(document, dict) or document.get("server_name") != server_name:
        return False
    keys = {
        key_id: key
        for key_id, published in document.get("verify_keys", {}).items()
        if (key := verify_key(published.get("key"), 0)) is not None
    }
    return isinstance(verify(bytes_to_sign(document), document.get("signatures"), server_name, keys), Verified)


async def metrics(context: CheckContext) -> Finding:
    settings = context.config.metrics
    if not settings.enabled:
        return ok("metrics", "Disabled.")
    if context.status is not None:
        return ok("metrics", str(context.status["metrics"]))
    try:
        for listening in bind([Bind(settings.host)], settings.port):
            listening.close()
    except LocalError as error:
        return fault("metrics", error.problem, "Choose another metrics.port, or set metrics.enabled = false.")
    return ok("metrics", f"Port {settings.port} is free for them.")


CHECKS: dict[str, Callable[[CheckContext], Awaitable[Finding]]] = {
    "names": names,
    "configuration": configuration,
    "matrix backend": matrix_backend,
    "data directory": data_directory,
    "disk": disk,
    "signing key": signing_key,
    "certificate": certificate,
    "database": database,
    "node": node,
    "inbox": inbox,
    "agents": agents,
    "port": port,
    "metrics": metrics,
}
