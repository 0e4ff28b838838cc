#!/usr/bin/env python3
"""Runs `bakeoff pick` on a folder of tasks with known outcomes and prints what it chose.

A folder of tasks is one of:
  *tasks.jsonl and *candidates.jsonl   one object a line; the repository of TASK is --repos/TASK
  TASK/task.json and TASK/candidates.jsonl   one folder a task; its repository is TASK/repo (or --repos/TASK)

A task has `task_id`, and for --make-repos `github`, `base_commit` and `base_tree`. A candidate has `task_id` (not needed
in a folder of its own), `patch`, `agent`, `model` and `reported`; a candidate counts as right when `reported` is
"resolved".

No key reaches `bakeoff`: the choice is made from the gates and the agreement of families alone. A finished task is kept
in --out and not run again, so that an interrupted run goes on where it was; delete its file to run it anew.

  scripts/pools.py FOLDER --out OUT --make-repos GIT_DIRS      # GIT_DIRS/OWNER+NAME is a git directory, or holds one
  scripts/pools.py FOLDER --out OUT                            # what follows `--` goes to `bakeoff pick`: -- --test auto
  scripts/pools.py FOLDER --out OUT --table                    # only print what is there
  scripts/pools.py FOLDER --out OUT --speed TASK…              # a candidate's gates against a fresh worktree and check
  scripts/pools.py FOLDER --out NEW --proved-by OUT --family maker    # choose anew among what passed in OUT, without gates
  scripts/pools.py --selfcheck
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
MAKERS = [("claude", "anthropic"), ("gpt", "openai"), ("o1", "openai"), ("o3", "openai"), ("o4", "openai"),
          ("qwen", "alibaba"), ("gemini", "google"), ("deepseek", "deepseek"), ("llama", "meta"), ("mistral", "mistral")]
CONFIDENCES = ["high", "medium", "low"]


class Trouble(Exception):
    """Something that the operator has to mend."""


# The tasks


def lines(path):
    """The objects of a JSONL file."""
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def read_tasks(folder, repos):
    """Every task with its candidates and its repository, by id."""
    tasks = {}
    for path in sorted(folder.glob("*tasks.jsonl")):
        for task in lines(path):
            tasks[task["task_id"]] = dict(task, candidates=[], repo=repos / task["task_id"])
    for path in sorted(folder.glob("*candidates.jsonl")):
        for one in lines(path):
            if one["task_id"] in tasks:
                tasks[one["task_id"]]["candidates"].append(one)
    for path in sorted(folder.glob("*/task.json")):
        task = json.loads(path.read_text(encoding="utf-8"))
        name = task.setdefault("task_id", path.parent.name)
        own = path.parent / "repo"
        tasks[name] = dict(task, candidates=lines(path.parent / "candidates.jsonl"),
                           repo=own if own.is_dir() else repos / name)
    if not tasks:
        raise Trouble(f"{folder} holds neither *tasks.jsonl nor */task.json")
    return [tasks[name] for name in sorted(tasks)]


def git(where, *args, **more):
    return subprocess.run(["git", "-C", str(where), *args], capture_output=True, check=False, **more)


def git_dir(folder, github):
    """The git directory of OWNER/NAME below a folder of git directories."""
    name = github.removeprefix("github:").replace("/", "+")
    for path in (folder / name, folder / name / "repo", folder / name / ".git", folder / f"{name}.git"):
        if (path / "objects").is_dir():
            return path
    raise Trouble(f"{folder} holds no git directory {name} (of {github})")


def make_repo(task, folder):
    """One commit whose tree is the task's base tree."""
    dest = task["repo"]
    if (dest / ".git").is_dir():
        return
    dest.mkdir(parents=True, exist_ok=True)
    source = git_dir(folder, task["github"])
    archive = subprocess.run(["git", "--git-dir", str(source), "archive", task["base_commit"]],
                             capture_output=True, check=True).stdout
    subprocess.run(["tar", "-x", "-C", str(dest)], input=archive, check=True)
    git(dest, "init", "-q", ".")
    git(dest, "config", "core.autocrlf", "false")
    (dest / ".git/info").mkdir(exist_ok=True)
    (dest / ".git/info/attributes").write_text("* -text\n")
    git(dest, "add", "-A", "-f", ".")
    git(dest, "-c", "user.name=pools", "-c", "user.email=pools@example.invalid", "commit", "-q", "-m", "base")
    got = git(dest, "rev-parse", "HEAD^{tree}", text=True).stdout.strip()
    if got != task.get("base_tree", got):
        raise Trouble(f"{dest}: its tree is {got}, not {task['base_tree']}")


def family(candidate, kind):
    """Whose voice a diff is: its agent, or its agent with its model's maker."""
    agent = candidate.get("agent") or candidate.get("system") or "unknown"
    if kind == "agent":
        return agent
    model = (candidate.get("model") or "").lower()
    maker = next((maker for prefix, maker in MAKERS if prefix in model), model)
    return f"{agent}+{maker}" if maker else agent


# Running


def plain_git_takes(task):
    """Which diffs `git apply` takes as they are."""
    check = lambda one: git(task["repo"], "apply", "--check", "-", input=(one["patch"] or "").encode()).returncode == 0
    return [check(one) for one in task["candidates"]]


def environment(out):
    """The environment without anything that could be a key, and with a home of its own."""
    secret = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|^BAKEOFF_", re.I)
    env = {name: value for name, value in os.environ.items() if not secret.search(name)}
    return dict(env, BAKEOFF_HOME=str(out / "home"), XDG_CONFIG_HOME=str(out / "no-config"))


def pick(task, candidates, args, more):
    """Runs `bakeoff pick` on some of a task's diffs."""
    diffs = args.out / "diffs" / f"{task['task_id']}.jsonl"
    diffs.parent.mkdir(parents=True, exist_ok=True)
    with open(diffs, "w", encoding="utf-8") as file:
        for one in candidates:
            row = {"instance_id": task["task_id"], "model_name_or_path": family(one, args.family),
                   "model_patch": one["patch"] or ""}
            file.write(json.dumps(row) + "\n")
    began = time.monotonic()
    command = [str(args.bakeoff), "pick", "--json", "--quiet", "-C", str(task["repo"]), str(diffs), *more]
    run = subprocess.run(command, capture_output=True, text=True, env=environment(args.out), check=False)
    if run.returncode < 0 or run.returncode in (130, 143):
        raise Trouble(f"{task['task_id']} was interrupted; run the same again to go on")
    return {"task": task["task_id"], "family": args.family, "seconds": round(time.monotonic() - began, 1),
            "exit": run.returncode, "stderr": run.stderr[-2000:], "record": record_of(run.stdout)}


def pick_again(task, args):
    """The choice among what passed in an earlier run, without the gates: their reports are the earlier ones."""
    kept = args.proved_by / "tasks" / f"{task['task_id']}.json"
    if not kept.exists():
        return None
    earlier = json.loads(kept.read_text(encoding="utf-8"))
    rows = digest(task, earlier)["rows"]
    passed = [number for number, row in enumerate(rows) if row["standing"] == "passed"]
    if not passed:
        return earlier
    result = pick(task, [task["candidates"][number] for number in passed], args, ["--no-check", *args.more])
    decision = result["record"]["decision"]
    ids = {row["candidate"]["id"]: rows[number]["id"] for row, number in zip(result["record"]["candidates"], passed)}
    if "candidate" in decision["outcome"]:
        decision["outcome"]["candidate"] = ids[decision["outcome"]["candidate"]]
    return dict(earlier, family=args.family, exit=result["exit"], record=dict(earlier["record"], decision=decision))


def run_task(task, args):
    """Picks for one task and keeps what came of it."""
    kept = args.out / "tasks" / f"{task['task_id']}.json"
    if kept.exists() or args.table:
        return json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else None
    if not task["repo"].is_dir():
        raise Trouble(f"{task['repo']} is missing: make the repositories with --make-repos, or give --repos")
    if args.proved_by:
        result = pick_again(task, args)
    else:
        result = dict(pick(task, task["candidates"], args, args.more), plain=plain_git_takes(task))
    if result:
        kept.parent.mkdir(parents=True, exist_ok=True)
        partial = kept.with_suffix(".partial")
        partial.write_text(json.dumps(result) + "\n", encoding="utf-8")
        partial.replace(kept)
    return result


def record_of(text):
    try:
        return json.loads(text)
    except ValueError:
        return None


def run_all(tasks, args):
    """Each task with its result; some at a time, told as they end, returned in order."""
    def one(task):
        was_there = (args.out / "tasks" / f"{task['task_id']}.json").exists()
        result = run_task(task, args)
        if result and not was_there:
            print(f"{task['task_id']}: exit {result['exit']}, {result['seconds']} s", file=sys.stderr, flush=True)
        return task, result
    with ThreadPoolExecutor(max_workers=args.jobs) as pool:
        return [(task, result) for task, result in pool.map(one, tasks) if result]


# Reading


def right(candidate):
    return candidate.get("reported") == "resolved"


def standing(record, row):
    """`refused`, `failed`, `unproved` or `passed`, as the engine means it: equal trees were gated once."""
    if row["admission"]["kind"] != "admitted":
        return "refused"
    stands = row.get("same_as") or row["candidate"]["id"]
    gates = next(other["gates"] for other in record["candidates"] if other["candidate"]["id"] == stands)
    kinds = {gate["verdict"]["kind"] for gate in gates}
    if "fail" in kinds:
        return "failed"
    return "unproved" if "infra" in kinds or not kinds - {"skipped"} else "passed"


def digest(task, result):
    """What the table needs of one task."""
    record, candidates = result["record"], task["candidates"]
    if record is None:
        return {"task": task["task_id"], "broken": (result["stderr"].strip() or "no record").splitlines()[-1],
                "rows": [], "seconds": result["seconds"], "right": [right(one) for one in candidates]}
    rows = []
    for number, (one, row) in enumerate(zip(candidates, record["candidates"], strict=True)):
        admission = row["admission"]
        rows.append({
            "id": row["candidate"]["id"], "right": right(one), "system": one.get("system") or one.get("agent"),
            "standing": standing(record, row), "tree": admission.get("tree"), "plain": result["plain"][number],
            "repairs": [repair["code"] for repair in admission.get("repairs", [])],
            "refusal": admission.get("code"), "reported": one.get("reported"),
        })
    outcome = record["decision"]["outcome"]
    return {
        "task": task["task_id"], "broken": None, "rows": rows, "seconds": result["seconds"],
        "right": [row["right"] for row in rows],
        "base": [(gate["gate"], gate["verdict"]["kind"]) for gate in record["base"]["gates"]],
        "base_reason": next((gate["verdict"].get("reason") for gate in record["base"]["gates"]
                             if gate["verdict"]["kind"] != "pass"), None),
        "winner": outcome.get("candidate"), "reason": outcome.get("reason"),
        "confidence": record["decision"]["confidence"],
        "gate_millis": [gate["millis"] for row in record["candidates"] for gate in row["gates"]
                        if gate["gate"] == "typecheck" and gate["verdict"]["kind"] in ("pass", "fail")],
        "base_millis": sum(gate["millis"] for gate in record["base"]["gates"]),
    }


def share(values):
    values = list(values)
    return sum(values) / len(values) if values else 0.0


def median(values):
    return sorted(values)[len(values) // 2] if values else 0


def chosen(task):
    return next((row for row in task["rows"] if row["id"] == task.get("winner")), None)


def vote(rows):
    """The chance that the tree with most proposals is right, when a draw decides between equals."""
    sizes = Counter(row["tree"] for row in rows)
    most = max(sizes.values(), default=0)
    by_tree = defaultdict(list)
    for row in rows:
        by_tree[row["tree"]].append(row["right"])
    return share(share(by_tree[tree]) for tree, size in sizes.items() if size == most)


def scores(task):
    """For each way of choosing, the chance that it gives a right diff of this task."""
    applies = [row for row in task["rows"] if row["standing"] != "refused"]
    passes = [row for row in task["rows"] if row["standing"] == "passed"]
    choice = chosen(task)
    return {
        "bakeoff pick": float(bool(choice and choice["right"])),
        "random among all": share(task["right"]),
        "random among what applies": share(row["right"] for row in applies),
        "random among what passes the check": share(row["right"] for row in passes),
        "vote over equal trees that apply": vote(applies),
        "vote over equal trees that pass": vote(passes),
        "oracle among all": float(any(task["right"])),
        "oracle among what passes the check": float(any(row["right"] for row in passes)),
    }


def best_system(tasks):
    """The system that is right most often, known only in hindsight."""
    wins = Counter()
    for task in tasks:
        wins.update({row["system"] for row in task["rows"] if row["right"]})
    return min(wins.items(), key=lambda item: (-item[1], item[0]), default=("none", 0))


def interval(differences, rounds=10000, seed=1):
    """The middle 95 % of the mean difference when tasks are drawn anew, with replacement (a paired bootstrap)."""
    draw, count = random.Random(seed), len(differences)
    means = sorted(sum(draw.choices(differences, k=count)) / count for _ in range(rounds))
    return means[int(0.025 * rounds)], means[int(0.975 * rounds)]


# Printing


def table(head, body):
    """A Markdown table."""
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in body:
        print("| " + " | ".join(str(cell) for cell in row) + " |")
    print()


def task_row(task):
    count = Counter(row["standing"] for row in task["rows"])
    rows, choice = task["rows"], chosen(task)
    repaired = sum(bool(row["repairs"]) for row in rows if row["standing"] != "refused")
    if task["broken"]:
        said = f"no record: {task['broken']}"
    elif choice:
        said = f"{choice['id']} ({choice['system']}), {task['confidence']}"
    else:
        said = f"no winner: {(task['reason'] or '').replace('_', ' ')}"
    base = " ".join(kind for gate, kind in task.get("base", []) if gate == "typecheck") or "-"
    return [task["task"], len(task["right"]), len(rows) - count["refused"], repaired, base, count["passed"],
            count["failed"], count["unproved"], sum(task["right"]), said,
            (choice["reported"] or "unknown") if choice else "-", f"{task['seconds']:.0f}"]


def print_tasks(tasks):
    table(["task", "diffs", "apply", "of these repaired", "base check", "pass", "fail", "unproved", "right by report",
           "choice", "its report", "s"], [task_row(task) for task in tasks])


def print_totals(tasks):
    all_scores = [scores(task) for task in tasks]
    names = list(all_scores[0])
    picks = [score["bakeoff pick"] for score in all_scores]
    body = []
    for name in names:
        values = [score[name] for score in all_scores]
        low, high = interval([a - b for a, b in zip(picks, values)])
        ahead = "" if name == "bakeoff pick" else f"{low:+.3f} to {high:+.3f}"
        body.append([name, f"{sum(values):.1f}", f"{share(values):.3f}", ahead])
    system, wins = best_system(tasks)
    body.append([f"best single system in hindsight ({system})", f"{wins:.1f}", f"{wins / len(tasks):.3f}", ""])
    table(["way of choosing", f"right, of {len(tasks)} tasks", "share", "how far `bakeoff pick` is ahead (95 % interval)"], body)


def print_confidence(tasks):
    body = []
    for confidence in CONFIDENCES:
        picks = [chosen(task) for task in tasks if chosen(task) and task["confidence"] == confidence]
        if picks:
            body.append([confidence, len(picks), sum(pick["right"] for pick in picks),
                         f"{share(pick['right'] for pick in picks):.2f}"])
    reasons = Counter(task["reason"] or "no record" for task in tasks if not chosen(task))
    body += [[f"no winner: {reason.replace('_', ' ')}", count, "-", "-"] for reason, count in sorted(reasons.items())]
    table(["confidence", "choices", "right by report", "precision"], body)


def print_diffs(tasks):
    rows = [row for task in tasks for row in task["rows"]]
    count = Counter(row["standing"] for row in rows)
    plain = sum(not row["plain"] for row in rows)
    percent = lambda number: f"{100 * number / max(1, len(rows)):.1f} %"
    body = [["diffs", len(rows), ""], ["`git apply` refuses", plain, percent(plain)],
            ["refused by admission", count["refused"], percent(count["refused"])],
            ["refused though `git apply` takes it", sum(row["plain"] and row["standing"] == "refused" for row in rows), ""],
            ["right by report, yet refused", sum(row["right"] and row["standing"] == "refused" for row in rows), ""]]
    for state in ("passed", "failed", "unproved"):
        body.append([f"{state} the check" if state != "unproved" else "unproved: the check could not run", count[state],
                     percent(count[state])])
    body.append(["right by report, yet failed the check", sum(row["right"] and row["standing"] == "failed" for row in rows), ""])
    table(["what", "diffs", "share"], body)
    said = Counter(row["refusal"] for row in rows if row["standing"] == "refused")
    mended = Counter(code for row in rows for code in set(row["repairs"]))
    tell = lambda counts: ", ".join(f"{code} {number}" for code, number in sorted(counts.items())) or "none"
    print(f"Refusals: {tell(said)}. Repairs: {tell(mended)}.\n")


def print_speed(tasks):
    seconds = [task["seconds"] for task in tasks]
    gates = [millis for task in tasks for millis in task.get("gate_millis", [])]
    print(f"Wall time of a task: median {median(seconds):.1f} s, longest {max(seconds):.1f} s. Base gates: median "
          f"{median([task.get('base_millis', 0) for task in tasks]) / 1000:.1f} s. Check of a candidate: median "
          f"{median(gates) / 1000:.1f} s over {len(gates)} checks.\n")


def report(results):
    tasks = [digest(task, result) for task, result in results]
    if not tasks:
        raise Trouble("no task has a result yet")
    print_totals(tasks)
    print_confidence(tasks)
    print_diffs(tasks)
    print_speed(tasks)
    print_tasks(tasks)
    for task in tasks:
        if task.get("base_reason"):
            print(f"- {task['task']}: {task['base_reason']}")
    return tasks


# Speed


def cold(task, patch, command):
    """Seconds of what one would do by hand: a fresh worktree, the diff, the same check into a fresh target folder."""
    with tempfile.TemporaryDirectory() as temporary:
        tree = Path(temporary) / "tree"
        began = time.monotonic()
        git(task["repo"], "worktree", "add", "-q", "--detach", str(tree))
        git(tree, "apply", "-", input=patch.encode())
        env = dict(os.environ, CARGO_NET_OFFLINE="true")
        subprocess.run(command, shell=True, cwd=tree, env=env, capture_output=True, check=False)
        took = time.monotonic() - began
        git(task["repo"], "worktree", "remove", "--force", str(tree))
    return took


def speed(task, args, most=3):
    """A line of the speed table: the gates of a few candidates that pass, one at a time, against `cold`."""
    before = digest(task, run_task(task, args))
    passing = [number for number, row in enumerate(before["rows"]) if row["plain"] and row["standing"] == "passed"][:most]
    if not passing:
        return [task["task_id"], "0", "-", "-", "-", "-"]
    args = argparse.Namespace(**vars(args))
    args.out = args.out / "speed"
    (args.out / "no-config/bakeoff").mkdir(parents=True, exist_ok=True)
    (args.out / "no-config/bakeoff/config.toml").write_text("[gates]\nparallel = 1\n")
    some = [task["candidates"][number] for number in passing]
    record = pick(task, some, args, args.more)["record"]
    seconds = lambda gates: sum(gate["millis"] for gate in gates) / 1000
    warm = [seconds(row["gates"]) for row in record["candidates"] if row["gates"]]
    command = record["base"]["gates"][-1]["command"]
    layered, fresh = median(warm), median([cold(task, one["patch"], command) for one in some])
    return [task["task_id"], len(warm), f"{seconds(record['base']['gates']):.1f}", f"{layered:.1f}", f"{fresh:.1f}",
            f"{fresh / layered:.1f}"]


def print_speeds(tasks, args):
    table(["task", "candidates", "base check, once, s", "gates of a candidate, s", "fresh worktree and check, s", "ratio"],
          [speed(task, args) for task in tasks])


# The command line


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, help="the folder of tasks")
    parser.add_argument("--repos", type=Path, help="the tasks' repositories (default: OUT/repos)")
    parser.add_argument("--make-repos", type=Path, metavar="GIT_DIRS", help="make the missing repositories from these, and stop")
    parser.add_argument("--out", type=Path, default=Path("pools-out"), help="where results are kept")
    parser.add_argument("--bakeoff", type=Path, default=HERE / "target/release/bakeoff", help="the program")
    parser.add_argument("--family", choices=["agent", "maker"], default="agent",
                        help="whose voice a diff is: its agent (default), or its agent with its model's maker")
    parser.add_argument("--jobs", type=int, default=1, help="tasks at once (default: 1)")
    parser.add_argument("--only", nargs="+", metavar="TASK", help="only these tasks")
    parser.add_argument("--table", action="store_true", help="run nothing, print what is kept")
    parser.add_argument("--proved-by", type=Path, metavar="OUT",
                        help="choose anew among what passed there, without running gates")
    parser.add_argument("--speed", nargs="+", metavar="TASK", help="measure the gates of these tasks, print only that")
    parser.add_argument("--selfcheck", action="store_true", help="check this script on a pool that it makes")
    argv = sys.argv[1:]
    split = argv.index("--") if "--" in argv else len(argv)
    args = parser.parse_args(argv[:split])
    args.more = argv[split + 1:]
    if not args.folder and not args.selfcheck:
        parser.error("a folder of tasks is needed")
    args.bakeoff, args.out = args.bakeoff.absolute(), args.out.absolute()
    args.repos = (args.repos or args.out / "repos").absolute()
    args.proved_by = args.proved_by and args.proved_by.absolute()
    return args


def main():
    args = arguments()
    try:
        if args.selfcheck:
            sys.dont_write_bytecode = True
            import pools_selfcheck
            return pools_selfcheck.run(args)
        tasks = read_tasks(args.folder, args.repos)
        if args.only or args.speed:
            tasks = [task for task in tasks if task["task_id"] in (args.speed or args.only)]
        if args.make_repos:
            for task in tasks:
                make_repo(task, args.make_repos)
        elif args.speed:
            print_speeds(tasks, args)
        else:
            report(run_all(tasks, args))
    except Trouble as trouble:
        print(f"error: {trouble}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
