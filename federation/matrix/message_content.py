"""Builds the content of messages and relations. Client-server API, "Instant Messaging" and "Relationships".

Text of agents is data: it is always escaped before it becomes HTML.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from html import escape
from typing import Any, Final, Literal

import nh3

from federation.matrix.identifiers import EventId, has_valid_length, is_user_id

MsgType = Literal["m.text", "m.notice", "m.emote"]
HTML: Final = "org.matrix.custom.html"
MAX_REACTION_BYTES: Final = 255
"""Maximum size of the key of a reaction."""

Content = dict[str, Any]


# -- texts --


def text(body: str, *, msgtype: MsgType = "m.text", mentions: Iterable[str] = ()) -> Content:
    """A text message. `mentions` are the users to mention."""
    # "m.mentions: […] clients should include it, even if empty, to say that nobody is mentioned."
    users = sorted({user for user in mentions if is_user_id(user)})
    return {"msgtype": msgtype, "body": body, "m.mentions": {"user_ids": users} if users else {}}


def formatted_text(body: str, html: "Html", *, msgtype: MsgType = "m.text", mentions: Iterable[str] = ()) -> Content:
    """A text message with HTML; `body` is the fallback for clients without HTML. The HTML is left out if it
    is just one paragraph with the text of `body`."""
    content, plain = text(body, msgtype=msgtype, mentions=mentions), Html(body)
    if str(html) in (str(plain), str(paragraph(plain))):
        return content
    return {**content, "format": HTML, "formatted_body": str(html)}


class Html:
    """HTML built by the functions below: text is escaped, and only their tags occur.

    The specification's "HTML tags that clients SHOULD permit" are more; these are enough for messages of
    agents.
    """

    __slots__ = ("_html",)

    def __init__(self, plain: str = "") -> None:
        self._html = escape(plain, quote=False).replace("\n", "<br>")

    def __add__(self, other: "Html | str") -> "Html":
        return _raw(self._html + _html(other))

    def __str__(self) -> str:
        return self._html


def bold(inner: "Html | str") -> Html:
    return _raw(f"<strong>{_html(inner)}</strong>")


def italic(inner: "Html | str") -> Html:
    return _raw(f"<em>{_html(inner)}</em>")


def code(inner: str) -> Html:
    return _raw(f"<code>{escape(inner, quote=True)}</code>")


def code_block(source: str, language: str = "") -> Html:
    """A code block. `language` becomes a class, from which clients choose the highlighting."""
    named = "".join(one for one in language if one.isascii() and (one.isalnum() or one in "+-_"))
    kind = f' class="language-{named}"' if named else ""
    return _raw(f"<pre><code{kind}>{escape(source, quote=True)}</code></pre>")


def quote(inner: "Html | str") -> Html:
    return _raw(f"<blockquote>{_html(inner)}</blockquote>")


def paragraph(inner: "Html | str") -> Html:
    return _raw(f"<p>{_html(inner)}</p>")


def html_list(items: Iterable["Html | str"], *, ordered: bool = False) -> Html:
    tag = "ol" if ordered else "ul"
    return _raw(f"<{tag}>{''.join(f'<li>{_html(item)}</li>' for item in items)}</{tag}>")


def details(summary: "Html | str", inner: "Html | str") -> Html:
    return _raw(f"<details><summary>{_html(summary)}</summary>{_html(inner)}</details>")


def link(address: str, inner: "Html | str") -> Html:
    """A link if "the value of the href […] begins with" one of the schemes that clients permit, otherwise
    only the text."""
    if not address.lower().startswith(("https://", "http://", "mailto:")):
        return _raw(_html(inner))
    return _raw(f'<a href="{escape(address, quote=True)}">{_html(inner)}</a>')


def mention(user: str, name: str) -> Html:
    """A link that clients show as a pill."""
    return link(f"https://matrix.to/#/{user}", name)


def sanitise(html: str) -> Html:
    """HTML from other sources, without everything that the functions above do not produce."""
    return _raw(_SANITISER.clean(html))


def _attribute(tag: str, name: str, value: str) -> str | None:
    return None if tag == "code" and not re.fullmatch(r"language-[\w+-]+", value, re.ASCII) else value


_SANITISER: Final = nh3.Cleaner(
    tags={"a", "blockquote", "br", "code", "em", "li", "ol", "p", "pre", "strong", "ul"},
    attributes={"a": {"href"}, "code": {"class"}, "ol": {"start"}},
    attribute_filter=_attribute,
    url_schemes={"http", "https", "mailto"},
    link_rel=None,
)


def _html(inner: "Html | str") -> str:
    return str(inner if isinstance(inner, Html) else Html(inner))


def _raw(html: str) -> Html:
    made = Html.__new__(Html)  # not `__init__`, which escapes
    made._html = html  # noqa: SLF001 - only for the functions of this module
    return made


# -- relations --


def edit(original: EventId, new: Mapping[str, Any]) -> Content:
    """`m.replace`: "`m.new_content` […] defines the replacement content"; the rest is a fallback for clients
    without edits."""
    # "The `m.relates_to` of the new content is ignored": replies and threads do not change.
    kept = {key: value for key, value in new.items() if key != "m.relates_to"}
    fallback = dict(kept)
    if isinstance(kept.get("body"), str):
        fallback["body"] = f"* {kept['body']}"
    if isinstance(kept.get("formatted_body"), str):
        fallback["formatted_body"] = f"* {kept['formatted_body']}"
    # "m.mentions: […] only include users newly mentioned": the fallback mentions no user a second time.
    fallback["m.mentions"] = {}
    return {**fallback, "m.new_content": kept, "m.relates_to": {"rel_type": "m.replace", "event_id": original}}


def reaction(target: EventId, key: str) -> Content:
    """The content of `m.reaction`: "the `key` […] is the annotation being made"."""
    cut = key.encode("utf-8", "replace")[:MAX_REACTION_BYTES].decode("utf-8", "ignore")
    return {"m.relates_to": {"rel_type": "m.annotation", "event_id": target, "key": cut}}


def reply(target: EventId, content: Mapping[str, Any], *, also_mention: Collection[str] = ()) -> Content:
    """The content as a reply: "`m.in_reply_to` […] the event that is being replied to"."""
    relates = content.get("m.relates_to")
    relation = {**(relates if isinstance(relates, dict) else {}), "m.in_reply_to": {"event_id": target}}
    replying = {**content, "m.relates_to": relation}
    return _mentioning(replying, also_mention) if also_mention else replying


def in_thread(
    root: EventId, content: Mapping[str, Any], *, latest: EventId | None = None, replies_to: EventId | None = None
) -> Content:
    """The content as part of a thread. `latest` is the last event of the thread: clients without threads show
    the message as a reply to it. `replies_to` is the target of a real reply within the thread.

    "is_falling_back: […] If true, the m.in_reply_to is to be ignored" by clients that know threads.
    """
    reply_target = replies_to or latest or root
    relation = {
        "rel_type": "m.thread",
        "event_id": root,
        "m.in_reply_to": {"event_id": reply_target},
        "is_falling_back": replies_to is None,
    }
    return {**content, "m.relates_to": relation}


def reference(target: EventId, content: Mapping[str, Any]) -> Content:
    """`m.reference`: a relation without further meaning."""
    return {**content, "m.relates_to": {"rel_type": "m.reference", "event_id": target}}


def relations_of(content: Mapping[str, Any]) -> list[tuple[str, EventId]]:
    """The relations of an event, (rel_type, target), for content that may be malformed. A reply is listed as
    `m.in_reply_to`, unless it is only a fallback."""
    relates = content.get("m.relates_to")
    if not isinstance(relates, dict):
        return []
    found = []
    rel_type, target = relates.get("rel_type"), relates.get("event_id")
    if isinstance(rel_type, str) and isinstance(target, str) and _is_storable(rel_type) and _is_storable(target):
        found.append((rel_type, target))
    in_reply_to = relates.get("m.in_reply_to")
    if isinstance(in_reply_to, dict) and relates.get("is_falling_back") is not True:
        reply_target = in_reply_to.get("event_id")
        if isinstance(reply_target, str) and _is_storable(reply_target):
            found.append(("m.in_reply_to", reply_target))
    return found


def new_content(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """The replacement content of an edit; for other content, the content itself."""
    replaced = content.get("m.new_content")
    return replaced if isinstance(replaced, dict) else content


def _mentioning(content: Content, users: Iterable[str]) -> Content:
    mentions = content.get("m.mentions")
    known = mentions.get("user_ids") if isinstance(mentions, dict) else None
    named = {user for user in known if isinstance(user, str)} if isinstance(known, list) else set()
    return {**content, "m.mentions": {"user_ids": sorted(named | {one for one in users if is_user_id(one)})}}


def _is_storable(text: str) -> bool:
    """Whether the text can be stored in the column of the database."""
    return bool(text) and "\0" not in text and has_valid_length(text)
