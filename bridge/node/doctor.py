"""The examinations of `palaver doctor`, one function each; the list at the end is the report.

What `palaver doctor` finds: each examination ends in one finding, the worst of them is the outcome.

Whether our five top-level names are ours alone.

PyPI has an unrelated package `federation` that installs over ours without a word; half of each then answers.
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
    """From healthy to ill; the order is what makes one of them the worst."""

    OK = 0
    NOTE = 1
    FAULT = 2


@dataclass(frozen=True)
class Finding:
    """What one examination found, and for a fault what to do about it."""

    subject: str
    verdict: Verdict
    text: str
    advice: str = ""


def ok(subject: str, text: str) -> Finding:
    return Finding(subject, Verdict.OK, text)


def note(subject: str, text: str, advice: str) -> Finding:
    """Fine for now, but whoever runs the node should know."""
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


def foreign_claims(installed: Iterable[Distribution] | None = None) -> dict[str, str]:
    """The distributions that have put files below one of our names, by that name."""
    claims = {}
    for distribution in installed if installed is not None else distributions():
        name = distribution.metadata["Name"] or "an unnamed distribution"
        if re.sub(r"[-_.]+", "-", name).lower() == DISTRIBUTION:
            continue
        for file in distribution.files or ():
            if len(file.parts) > 1 and file.parts[0] in NAMES:
                claims[file.parts[0]] = name
    return claims


def homes() -> dict[str, Path | None]:
    """The directory that each name is imported from; they must all be one."""
    found = {}
    for name in NAMES:
        spec = importlib.util.find_spec(name)
        origin = spec.origin if spec is not None else None
        found[name] = Path(origin).parent.parent if origin is not None else None
    return found


KEYS = "/_matrix/key/v2/server"
TIMEOUT = aiohttp.ClientTimeout(total=10.0)
RENEWAL = timedelta(days=21)


@dataclass(frozen=True)
class Patient:
    """What every examination is given: the configuration, and what the running node says, if one runs."""

    found: LoadedConfig
    status: dict[str, Any] | None

    @property
    def config(self) -> Config:
        return self.found.config


async def examine(found: LoadedConfig) -> list[Finding]:
    """All findings, in the order in which a person reads them."""
    try:
        status: dict[str, Any] | None = await ask_node(found.config.data_dir, "status")
    except NotRunning:
        status = None
    except LocalError as error:
        return [fault("node", error.problem, error.advice)]
    patient = Patient(found, status)
    findings = []
    for subject, examination in EXAMINATIONS.items():
        try:
            findings.append(await examination(patient))
        except LocalError as error:
            findings.append(fault(subject, error.problem, error.advice))
    return findings


async def names(_: Patient) -> Finding:
    if claims := foreign_claims():
        name, stranger = next(iter(claims.items()))
        return fault(
            "names",
            f"The package {stranger} has installed over our `{name}`.",
            f"Give Palaver a virtual environment of its own, or remove {stranger} and install Palaver again.",
        )
    places = homes()
    if len(set(places.values())) != 1 or None in places.values():
        shown = ", ".join(f"{name} from {place}" for name, place in places.items())
        return fault(
            "names",
            f"Our packages are not imported from one place: {shown}.",
            "Look for another directory of that name in the working directory or in PYTHONPATH.",
        )
    return ok("names", "All five packages are Palaver's own.")


async def configuration(patient: Patient) -> Finding:
    path = patient.found.path
    return ok(
        "configuration",
        f"{path} has no mistakes." if path is not None else "There is no file; the defaults hold.",
    )


async def matrix_side(patient: Patient) -> Finding:
    config = patient.config
    if config.guest_of is None:
        return ok("matrix side", "This node is a homeserver itself.")
    wrong = (
        *await check_registration(config.appservice, config.server_name, config.alias_kinds),
        *await check_double_puppet(config.double_puppet, config.appservice),
    )
    if wrong:
        return fault("matrix side", " ".join(wrong), "`palaver registration --check` says it line by line.")
    return ok(
        "matrix side",
        f"This node is a guest of {config.guest_of} at {config.appservice.homeserver}, which has"
        f" {config.appservice.registration} and reaches this node.",
    )


async def data_directory(patient: Patient) -> Finding:
    path = patient.config.data_dir
    if not path.exists():
        return ok("data directory", f"{path} does not exist yet; the first start makes it.")
    if not path.is_dir() or not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        return fault(
            "data directory",
            f"{path} is not a directory that this user may read and write.",
            "Run Palaver as the user who owns it, or name another data_dir.",
        )
    return ok("data directory", f"{path}.")


async def disk(patient: Patient) -> Finding:
    there = patient.config.data_dir
    while not there.exists():
        there = there.parent
    free, least = free_space(there), patient.config.database.minimum_free_space
    if free < least:
        return fault(
            "disk",
            f"Only {format_size(free)} are free on the disk of {there}; a start takes {format_size(least)}.",
            "Make room on that disk, or set data_dir to a directory on another one.",
        )
    return ok("disk", f"{format_size(free)} are free.")


async def signing_key(patient: Patient) -> Finding:
    keys = LocalKeyFiles(patient.config.data_dir).load()
    if keys is None:
        return ok("signing key", "There is none yet; the first start makes it.")
    return ok("signing key", f"{keys.current.key_id}, and {len(keys.old)} before it.")


async def certificate(patient: Patient) -> Finding:
    config = patient.config
    development = config.listener.certificate is None
    if development and not files_in(config.data_dir / "tls").certificate.exists():
        return ok("certificate", "There is none yet; the first start makes one for development.")
    files = tls_files(config)
    now = datetime.now(UTC)
    load(files, now)
    leaf = x509.load_pem_x509_certificates(files.certificate.read_bytes())[0]
    if leaf.not_valid_after_utc - now < RENEWAL:
        return note(
            "certificate",
            f"{files.certificate} expires on {leaf.not_valid_after_utc:%d %B %Y}.",
            "Renew it, then send the node SIGHUP.",
        )
    if development and not is_loopback(config.server_name):
        return note(
            "certificate",
            "It is a development certificate, which other servers do not trust.",
            "Name one that they trust in listener.certificate and listener.private_key.",
        )
    host = host_of(config.server_name)
    if not _is_for(leaf, host):
        return note(
            "certificate",
            f"{files.certificate} is not for {host}.",
            "Other servers refuse it, unless a .well-known or SRV record delegates to a name that it is for.",
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


async def database(patient: Patient) -> Finding:
    if patient.status is not None:
        wrong = [
            f"{check}: {sentence}"
            for check, sentence in patient.status["checks"].items()
            if check != "listeners" and sentence != "fine"
        ]
        if wrong:
            return fault(
                "database",
                " ".join(wrong),
                "Read the node's log; it goes on by itself once the database is back.",
            )
        return ok(
            "database",
            "The running node uses it, schema version {schema_version}.".format(**patient.status["database"]),
        )
    address = external_database(patient.config)
    if address is None:
        return ok("database", "The node brings its own Postgres and starts it with itself.")
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
    not_ours = wrong_owner(owner, NodeOwner(patient.config.server_name, patient.config.guest_of))
    if not_ours is not None:
        raise not_ours
    if steps:
        return note(
            "database",
            f"{len(steps)} migrations are pending.",
            "The next start applies them, or `palaver migrate`.",
        )
    return ok("database", f"Postgres {version.major}.{version.minor} at {address.server}, schema up to date.")


async def node(patient: Patient) -> Finding:
    if patient.status is None:
        return note("node", "No node is running here.", "`palaver run` starts one.")
    if not patient.status["ready"]:
        wrong = [
            f"{check}: {sentence}"
            for check, sentence in patient.status["checks"].items()
            if sentence != "fine"
        ]
        return fault("node", f"It runs but is not ready. {' '.join(wrong)}", "Read its log.")
    return ok("node", f"It runs as {patient.status['server_name']} and is ready.")


async def inbox(patient: Patient) -> Finding:
    if patient.status is None:
        return ok("inbox", "A running node says whether there are events that it could not handle.")
    set_aside = patient.status["set_aside"]
    if not set_aside:
        return ok("inbox", "Every event was handled.")
    newest, total = set_aside[0], set_aside[0]["total"]
    return note(
        "inbox",
        f"{total} event{'' if total == 1 else 's'} could not be handled, the last one"
        f" {newest['event_id']} in the room {newest['room_id']}, for {newest['reader']}: {newest['problem']}",
        "Look for the event in the node's log. What a person asked for was not done, and can be asked for"
        " again. An event that was set aside is forgotten after a week.",
    )


async def port(patient: Patient) -> Finding:
    settings = listener_settings(patient.config)
    if patient.status is not None:
        return await _answers(patient.config, patient.status["addresses"][0])
    for listening in bind(settings.binds, settings.port):
        listening.close()
    return ok("port", f"{settings.port} is free.")


async def _answers(config: Config, address: str) -> Finding:
    """Ask as a peer would, but whatever the certificate: that is another examination."""
    host, _, number = address.rpartition(":")
    reachable = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(host, host)  # noqa: S104 - compared, not bound
    # A guest is no server to others, and shows no keys.
    healths = [one.health for one in CONNECTORS if one.health is not None]
    if config.guest_of is not None and not healths:
        return ok("port", f"{address} belongs to a guest, and nothing on it says whose it is.")
    path = KEYS if config.guest_of is None else healths[0]
    url = f"https://{reachable}:{number}{path}"
    unverified = ssl.create_default_context()
    unverified.check_hostname = False
    unverified.verify_mode = ssl.CERT_NONE
    try:
        connector = aiohttp.TCPConnector(ssl=unverified)
        async with (
            aiohttp.ClientSession(connector=connector, timeout=TIMEOUT) as session,
            session.get(url) as answer,
        ):
            document = decode(await answer.read())
    except (aiohttp.ClientError, TimeoutError, OSError, NotCanonical) as error:
        return fault("port", f"{address} does not answer: {type(error).__name__}.", "Read the node's log.")
    if config.guest_of is not None:
        if not isinstance(document, dict) or document.get("server_name") != config.server_name:
            return fault("port", f"{address} answers, and is not this node.", "Look who listens there.")
        return ok("port", f"{address} answers to agents and to other nodes of theirs.")
    if not _is_own(document, config.server_name):
        return fault(
            "port", f"{address} answers with keys that are not this node's.", "Look who listens there."
        )
    return ok("port", f"{address} answers with this node's keys, signed by itself.")


def _is_own(document: Any, server_name: str) -> bool:
    if not isinstance(document, dict) or document.get("server_name") != server_name:
        return False
    keys = {
        key_id: key
        for key_id, published in document.get("verify_keys", {}).items()
        if (key := verify_key(published.get("key"), 0)) is not None
    }
    return isinstance(
        verify(bytes_to_sign(document), document.get("signatures"), server_name, keys), Verified
    )


async def metrics(patient: Patient) -> Finding:
    settings = patient.config.metrics
    if not settings.enabled:
        return ok("metrics", "Switched off.")
    if patient.status is not None:
        return ok("metrics", str(patient.status["metrics"]))
    try:
        for listening in bind([Bind(settings.host)], settings.port):
            listening.close()
    except LocalError as error:
        return fault("metrics", error.problem, "Choose another metrics.port, or set metrics.enabled = false.")
    return ok("metrics", f"Port {settings.port} is free for them.")


EXAMINATIONS: dict[str, Callable[[Patient], Awaitable[Finding]]] = {
    "names": names,
    "configuration": configuration,
    "matrix side": matrix_side,
    "data directory": data_directory,
    "disk": disk,
    "signing key": signing_key,
    "certificate": certificate,
    "database": database,
    "node": node,
    "inbox": inbox,
    "port": port,
    "metrics": metrics,
}
