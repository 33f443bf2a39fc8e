#!/bin/sh
# Pins every dependency with its hashes, for every Python and platform that we support. Addresses of package
# indexes are left out on purpose: pip takes the ones it is configured with.
set -eu
cd "$(dirname "$0")/.."
compile() { uv pip compile --generate-hashes --universal --python-version 3.11 --no-emit-index-url --no-emit-find-links --no-header --quiet "$@"; }
command -v uv >/dev/null || { echo "make lock needs uv: pip install uv" >&2; exit 1; }
compile pyproject.toml -o requirements/palaver.txt "${@}"
compile pyproject.toml --extra development -c requirements/palaver.txt -o requirements/development.txt "${@}"
echo hatchling | compile - -c requirements/development.txt -o requirements/build.txt "${@}"
printf '%s\n' matrix-synapse psycopg2-binary | compile - -o requirements/synapse.txt "${@}"
