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
# Published clients of offices, each with what it needs and does not declare. A reference server under uvicorn
# speaks WebSocket with `websockets`.
printf '%s\n' 'a2c-smcp[server,cli]==0.4.2' uvicorn websockets | compile - -o requirements/smcp-0.4.2.txt "${@}"
printf '%s\n' 'a2c-smcp[server,cli]==0.3.3' pyyaml | compile - -o requirements/smcp-0.3.3.txt "${@}"
printf '%s\n' 'a2c-smcp[cli]==0.2.2' pyyaml | compile - -o requirements/smcp-0.2.2.txt "${@}"
printf '%s\n' 'a2c-smcp[cli]==0.1.2' pydantic==2.11.7 | compile - -o requirements/smcp-0.1.2.txt "${@}"
