#!/usr/bin/env bash
# Installs the tools that gates read (TypeScript, Vitest, Jest, Mocha, mypy, pytest), all at pinned versions, and runs the
# tests of `tests/toolchains`: each tool for real, through the program, and the changes that only make gates easier.
#
# Usage: tests/toolchains/run.sh [ARGUMENTS FOR THE TEST BINARY]
# Needs: cargo, node with npm, python3 with venv, make, and on its first run the package registries. Go and cargo-nextest are
# used when they are there.
# Installed once under target/toolchains (or $BAKEOFF_TOOLCHAINS_DIR).
set -euo pipefail
cd "$(dirname "$0")/../.."

dir=${BAKEOFF_TOOLCHAINS_DIR:-${CARGO_TARGET_DIR:-target}/toolchains}
mkdir -p "$dir"
dir=$(realpath "$dir")
wanted=$(cat tests/toolchains/packages.txt tests/toolchains/requirements.txt)

if [[ ! -e $dir/installed || $(cat "$dir/installed") != "$wanted" ]]; then
    rm -rf "$dir/js" "$dir/py" "$dir/installed"
    mkdir -p "$dir/js"
    # shellcheck disable=SC2046
    npm install --prefix "$dir/js" --no-audit --no-fund --no-update-notifier --ignore-scripts \
        $(cat tests/toolchains/packages.txt) >"$dir/npm.log" 2>&1 || { cat "$dir/npm.log" >&2; exit 1; }
    # Copied, not linked: the sandbox sees the environment and not where it came from.
    python3 -m venv --copies "$dir/py"
    "$dir/py/bin/pip" install --quiet --disable-pip-version-check -r tests/toolchains/requirements.txt
    printf '%s\n' "$wanted" >"$dir/installed"
fi

export BAKEOFF_TOOLCHAINS=$dir
cargo test --test toolchains -- --ignored "$@"
