#!/usr/bin/env python3
"""Puts real commits of public repositories through `bakeoff gate` and counts what its rules alone say of them.

  scripts/honest_commits.py GIT_DIR… [--count 200] [--bakeoff target/debug/bakeoff] [--jsonl OUT]

Takes the same number of commits from each repository, evenly over its newest non-merge commits that change code. The
gates' commands are `true`, so that nothing but a rule can speak against a commit: a refusal of its diff, a failed gate,
"nothing of it was proved" (it changes only what defines a gate), or a flag with which evidence alone picks nothing.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

CODE = (".rs", ".py", ".ts", ".tsx", ".js", ".mjs", ".go")
SERIOUS = {"detects-tests", "weakens-tests", "ends-the-process", "imitates-a-runner", "addresses-judge", "fits-tests"}


def git(directory, *args):
    return subprocess.run(["git", "-C", str(directory), *args], check=True, capture_output=True, text=True,
                          errors="replace").stdout


def commits(repo, count):
    """Evenly spread commits that change code, newest first."""
    log = git(repo, "log", "--no-merges", "--format=%x01%H %P", "--name-only", "-n", str(count * 40))
    found = []
    for entry in log.split("\x01")[1:]:
        head, *paths = [line for line in entry.splitlines() if line.strip()]
        parts = head.split()
        if len(parts) == 2 and any(path.endswith(CODE) for path in paths):
            found.append(tuple(parts))
    step = max(1, len(found) // count)
    return found[::step][:count]


def gate(bakeoff, repo, home, commit, parent):
    """The run's record of one commit on its parent."""
    command = [bakeoff, "gate", "--json", "--quiet", "-C", str(repo), "--base", parent, "--check", "true", "--test",
               "true", commit]
    env = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "BAKEOFF_HOME": str(home)}
    done = subprocess.run(command, capture_output=True, text=True, env=env, errors="replace")
    try:
        return json.loads(done.stdout)
    except ValueError:
        return {"error": done.stderr.strip()}


def row(name, commit, record):
    """What the rules said."""
    if "error" in record:
        return {"repo": name, "commit": commit, "said": "error", "why": record["error"]}
    one = record["candidates"][0]
    if one["admission"]["kind"] == "refused":
        return {"repo": name, "commit": commit, "said": "refused", "why": one["admission"]["code"]}
    flags = sorted({flag["code"] for flag in one["admission"]["flags"]})
    why = [f"{flag['code']} {flag.get('path')}: {flag['detail']}" for flag in one["admission"]["flags"]
           if flag["code"] in SERIOUS]
    bad = [gate["verdict"] for gate in one["gates"] if gate["verdict"]["kind"] not in ("pass", "skipped")]
    said = bad[0]["kind"] if bad else ("flagged" if why else "passed")
    return {"repo": name, "commit": commit, "said": said, "flags": flags,
            "why": bad[0].get("reason", "") if bad else "; ".join(why)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("git_dirs", nargs="+", type=Path)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--bakeoff", default="target/debug/bakeoff")
    parser.add_argument("--jsonl", type=Path)
    args = parser.parse_args()
    each = -(-args.count // len(args.git_dirs))
    rows = []
    with tempfile.TemporaryDirectory() as temp:
        for source in args.git_dirs:
            repo = Path(temp) / "repo"
            git(".", "clone", "-q", str(source), str(repo))
            name = source.parent.name if source.name in ("repo", ".git") else source.name
            for commit, parent in commits(repo, each):
                rows.append(row(name, commit, gate(args.bakeoff, repo, Path(temp) / "home", commit, parent)))
                print(f"{len(rows)} {name} {commit[:10]} {rows[-1]['said']} {rows[-1].get('why', '')}", file=sys.stderr)
            subprocess.run(["rm", "-rf", str(repo), str(Path(temp) / "home")], check=True)
    if args.jsonl:
        args.jsonl.write_text("".join(json.dumps(each) + "\n" for each in rows))
    print(f"{len(rows)} commits: " + ", ".join(f"{n} {said}" for said, n in sorted(Counter(r["said"] for r in rows).items())))


if __name__ == "__main__":
    main()
