#!/bin/sh
# A Redis, a broker for the tests. Debian and Ubuntu have the server in a package that starts one for the whole
# machine; what is installed is the package of its tools, of which one is the same program under another name.
set -eu
command -v redis-server >/dev/null || command -v redis-check-rdb >/dev/null && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing redis-tools …"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends redis-tools; } >/dev/null
else
    echo "There is no Redis: what needs one is not tested. To have it: sudo apt-get install redis-tools" >&2
fi
