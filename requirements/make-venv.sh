#!/bin/sh
# Makes the virtual environment; on a Debian or Ubuntu whose Python came without venv, installs that part first.
set -eu
venv=$1
rm -rf "$venv"
if ! "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null; then
    package="python$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "Installing $package …"
        { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$package"; } >/dev/null
    else
        echo "This Python has no venv module. Install it (sudo apt-get install $package) and run make again." >&2
        exit 1
    fi
fi
"$PYTHON" -m venv "$venv"
