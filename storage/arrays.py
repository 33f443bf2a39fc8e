"""Lists of texts as Postgres reads them: for a statement of which a list would be the dearest argument. The
driver looks at every entry of a list three times before it writes it."""

from collections.abc import Sequence


def text_array(texts: Sequence[str]) -> str:
    """To be cast by the statement: `$1::text::text[]`. None of the texts holds NUL, which Postgres takes in
    no text anyhow."""
    if not texts:
        return "{}"
    joined = "\0".join(texts)
    if "\\" in joined or '"' in joined:
        joined = joined.replace("\\", "\\\\").replace('"', '\\"')
    return '{"' + joined.replace("\0", '","') + '"}'
