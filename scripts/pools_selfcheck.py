"""`pools.py --selfcheck`: the whole script on a pool of two tasks that it makes, and a look at what it says."""

import json
import os
import tempfile
from pathlib import Path

from pools import digest, environment, family, git, read_tasks, report, run_all, scores

FIX = """--- a/src/lib.rs
+++ b/src/lib.rs
@@ -1,3 +1,3 @@
 pub fn half(n: u32) -> u32 {
-    n / 3
+    {new}
 }
"""


def tiny_pool(folder):
    """A folder of two tasks: one with a right answer, one where nothing applies."""
    for name, patches in {"fix": ["n / 2", "n / 2", "n >> 1", "n.nonsense()", None], "none": [None]}.items():
        repo = folder / name / "repo"
        (repo / "src").mkdir(parents=True)
        (repo / "Cargo.toml").write_text('[package]\nname = "tiny"\nversion = "0.1.0"\nedition = "2021"\n')
        (repo / "src/lib.rs").write_text("pub fn half(n: u32) -> u32 {\n    n / 3\n}\n")
        git(repo, "init", "-q", ".")
        git(repo, "add", "-A")
        git(repo, "-c", "user.name=x", "-c", "user.email=x@example.invalid", "commit", "-q", "-m", "base")
        (folder / name / "task.json").write_text(json.dumps({"task_id": name}))
        with open(folder / name / "candidates.jsonl", "w", encoding="utf-8") as file:
            for number, new in enumerate(patches):
                patch = FIX.replace("{new}", new) if new else FIX.replace("half", "other")
                row = {"patch": patch, "agent": f"agent{number}", "model": "gpt-x",
                       "reported": "resolved" if new == "n / 2" else "unresolved"}
                file.write(json.dumps(row) + "\n")


def run(args):
    """Runs the whole script on a pool that it makes, and checks what it says."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        tiny_pool(folder / "pool")
        args.folder, args.out, args.repos, args.table = folder / "pool", folder / "out", folder / "none", False
        tasks = read_tasks(args.folder, args.repos)
        fix, none = report(run_all(tasks, args))
        kept = sorted((args.out / "tasks").iterdir())
        times = [path.stat().st_mtime_ns for path in kept]
        run_all(tasks, args)
        checks = {
            "standings": [row["standing"] for row in fix["rows"]] == ["passed"] * 3 + ["failed", "refused"],
            "the choice is right": scores(fix)["bakeoff pick"] == 1.0,
            "random is less": abs(scores(fix)["random among what applies"] - 0.5) < 1e-9,
            "the vote is right": scores(fix)["vote over equal trees that apply"] == 1.0,
            "no winner is told": none["winner"] is None and none["reason"] == "nothing_applied",
            "a finished task is not run again": times == [path.stat().st_mtime_ns for path in kept],
            "choosing anew gives the same": chosen_anew(tasks, args) == fix["winner"],
            "families": family({"agent": "a", "model": "Qwen3"}, "maker") == "a+alibaba",
            "no key gets through": "X_API_KEY" not in environment_with(args.out, X_API_KEY="1"),
        }
    for name, fine in checks.items():
        print(f"{'ok' if fine else 'FAILED'}: {name}")
    failed = sum(not fine for fine in checks.values())
    print(f"test result: {'FAILED' if failed else 'ok'}. {len(checks) - failed} passed; {failed} failed")
    return 1 if failed else 0


def chosen_anew(tasks, args):
    args.proved_by, args.out = args.out, args.out / "again"
    return digest(*run_all(tasks, args)[0])["winner"]


def environment_with(out, **more):
    os.environ.update(more)
    return environment(out)
