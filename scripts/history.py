#!/usr/bin/env python3
"""Makes real diffs out of repositories' histories and holds `bakeoff gate` against git and the true trees.

Each commit's change is written in several forms (contexts of 0, 1, 3 and 8 lines, renames and copies, binary, mails,
other prefixes, other algorithms, no git headers) and must be admitted with the commit's own tree, as `git apply` does on a
temporary index. The same diffs with text around them, damaged, and on another base must never get another tree than
git's. With --honest each commit's plain diff goes through admission and the rules about protected files, with gates that
always pass: none of them may be refused or lose by the rules alone.

  scripts/history.py GIT_DIR… --diffs 2000             # GIT_DIR is a git directory or a clone
  scripts/history.py GIT_DIR… --honest 200             # commits that change source code
  scripts/history.py --selfcheck                       # both, on a repository that it makes

Exit code: 0 when everything agrees, 1 when something does not, 2 when it could not be run.
"""

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
GIT = ["git", "-c", "core.autocrlf=false", "-c", "core.quotePath=true", "-c", "diff.renames=false", "-c", "core.abbrev=12",
       "-c", "user.name=history", "-c", "user.email=history@example.invalid"]

# What each form adds to `git diff-tree -p`.
FORMS = {
    "plain": ["-U3"],
    "full ids": ["-U3", "--full-index", "--binary"],
    "no context": ["-U0"],
    "one line of context": ["-U1"],
    "eight lines of context": ["-U8"],
    "whole functions": ["-W"],
    "renames and copies": ["-M", "-C", "--find-copies-harder"],
    "renames below 50 %": ["-M20%", "-U1"],
    "rewrites broken up": ["-B", "-M"],
    "no prefixes": ["--no-prefix"],
    "mnemonic prefixes": ["--src-prefix=i/", "--dst-prefix=w/"],
    "patience": ["--patience"],
    "minimal": ["--minimal", "--no-indent-heuristic"],
    "hunks joined": ["--inter-hunk-context=6"],
}
SOURCES = re.compile(r"\.(rs|py|ts|tsx|mts|cts|js|jsx|mjs|cjs|go)$")
TESTS = re.compile(r"(^|/)(tests?|__tests__|testdata|spec|specs|fixtures|benches|examples)/|(^|/)test_[^/]*$"
                   r"|_test\.[a-z]+$|\.(test|spec)\.[a-z]+$|(^|/)conftest\.py$")
# What the rules refuse whatever the diff looks like: git's own files, and names that some system can't hold.
BY_RULE = {"path-git", "device-name", "bad-path", "path-collision", "embedded-repository", "link-target", "too-many-lines",
           "too-many-files", "too-large", "long-line", "binary-too-large", "invisible-characters"}


class Trouble(Exception):
    """Something that the operator has to mend."""


def git(where, *args, check=True, **more):
    done = subprocess.run([*GIT, "--git-dir", str(where), *args], capture_output=True, check=False, **more)
    if check and done.returncode:
        raise Trouble(f"git {' '.join(args)}: {done.stderr.decode(errors='replace').strip()}")
    return done


def git_dir(path):
    """The git directory of a clone, or of a folder that holds a bare one."""
    for candidate in (path / ".git", path / "repo", path):
        if (candidate / "objects").is_dir():
            return candidate.absolute()
    raise Trouble(f"{path} is no git directory and no clone")


def commits(where, rng):
    """Commits with one parent, as (commit, parent), in a random order."""
    rows = git(where, "log", "--all", "--no-merges", "--format=%H %P", text=True).stdout.split("\n")
    pairs = [tuple(row.split()) for row in rows if len(row.split()) == 2]
    rng.shuffle(pairs)
    return pairs


def tree_of(where, commit):
    return git(where, "rev-parse", f"{commit}^{{tree}}", text=True).stdout.strip()


# The forms of a diff


def diff(where, parent, commit, options):
    return git(where, "diff-tree", "-p", *options, parent, commit).stdout


def mail(where, commit):
    return git(where, "format-patch", "--stdout", "-1", "--binary", "--full-index", commit).stdout


def without_headers(text):
    """What plain `diff -u` writes; none where that can't say what is done."""
    if re.search(rb"^(new file|deleted file|old mode|rename|copy|GIT binary|similarity)", text, re.M):
        return None
    return re.sub(rb"^(diff --git|index) .*\n", b"", text, flags=re.M)


def undamaged(where, parent, commit):
    """Name and diff of every form that this commit can be written in."""
    for name, options in FORMS.items():
        yield name, diff(where, parent, commit, options)
    yield "a mail", mail(where, commit)
    yield "no git headers", without_headers(diff(where, parent, commit, ["-U3"]))


def wrapped(text):
    """The same diff in what models and mail programs put around it: the tree must be the commit's, too."""
    yield "fenced, with prose", b"Here is the change:\n\n```diff\n" + text + b"```\n\nIt does what was asked.\n"
    yield "no final line feed", text[:-1] if text.endswith(b"\n") else None
    yield "bare blank context", re.sub(rb"^ $", b"", text, flags=re.M)


def damaged(text, rng):
    """The same diff with something wrong in it."""
    lines = text.splitlines(keepends=True)
    at = rng.randrange(len(lines))
    headers = [number for number, line in enumerate(lines) if line.startswith(b"@@ -")]
    yield "a line lost", b"".join(lines[:at] + lines[at + 1:])
    yield "a line twice", b"".join(lines[:at + 1] + lines[at:])
    yield "cut off", b"".join(lines[:at + 1])
    yield "carriage returns", text.replace(b"\n", b"\r\n")
    if headers:
        at = rng.choice(headers)
        shift = lambda found: str(int(found.group()) + rng.choice([-7, -2, 2, 9, 40])).replace("-", "").encode()
        yield "hunk elsewhere", b"".join(lines[:at] + [re.sub(rb"\d+", shift, lines[at], count=1)] + lines[at + 1:])
        yield "wrong counts", b"".join(lines[:at] + [re.sub(rb",\d+", b",3", lines[at])] + lines[at + 1:])


# Verdicts


class Git:
    """What `git apply` makes of diffs on one base: a temporary index, new objects beside the repository's."""

    def __init__(self, where, folder):
        self.where, self.folder = where, folder
        (folder / "objects").mkdir(parents=True, exist_ok=True)
        self.env = dict(os.environ, GIT_INDEX_FILE=str(folder / "index"), GIT_OBJECT_DIRECTORY=str(folder / "objects"),
                        GIT_ALTERNATE_OBJECT_DIRECTORIES=str(where / "objects"))

    def base(self, commit):
        git(self.where, "read-tree", commit, env=self.env)
        shutil.copy(self.folder / "index", self.folder / "base")

    def tree(self, text, *options):
        shutil.copy(self.folder / "base", self.folder / "index")
        done = git(self.where, "apply", "--cached", "--whitespace=nowarn", *options, "-", input=text, env=self.env, check=False)
        if done.returncode:
            return None
        return git(self.where, "write-tree", env=self.env, text=True).stdout.strip()


def environment(out):
    """The environment without anything that could be a key, with a home and a configuration of its own."""
    secret = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|^BAKEOFF_|^GIT_", re.I)
    env = {name: value for name, value in os.environ.items() if not secret.search(name)}
    return dict(env, BAKEOFF_HOME=str(out / "home"), XDG_CONFIG_HOME=str(out / "config"))


def gate(args, where, base, diffs, *more):
    """The record of `bakeoff gate` on some diffs, all on one base."""
    folder = args.out / "diffs"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for number, text in enumerate(diffs):
        (folder / f"{number:04}.diff").write_bytes(text)
    command = [str(args.bakeoff), "gate", "--json", "--quiet", "-C", str(where), "--base", base, *more, str(folder)]
    run = subprocess.run(command, capture_output=True, env=environment(args.out), check=False)
    try:
        return json.loads(run.stdout)
    except ValueError:
        raise Trouble(f"{' '.join(command)}: {run.stderr.decode(errors='replace').strip()}") from None


def open_rules(args):
    """Lets binary contents, links and submodules in: the histories have them."""
    folder = args.out / "config/bakeoff"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text("[patch]\nbinary = true\nlinks = true\nsubmodules = true\n")


# Agreement


class Tally:
    """Counts by group and form, and what disagreed."""

    def __init__(self):
        self.rows, self.wrong, self.codes = defaultdict(Counter), [], defaultdict(Counter)

    def add(self, group, form, outcome, code=None):
        self.rows[group, form][outcome] += 1
        if code:
            self.codes[group][code] += 1

    def blame(self, commit, form, text, why, out):
        name = out / "wrong" / f"{commit[:12]}-{form.replace(' ', '-').replace(',', '')}.diff"
        name.parent.mkdir(parents=True, exist_ok=True)
        name.write_bytes(text)
        self.wrong.append(f"{commit[:12]}, {form}: {why} ({name})")


def judge(tally, args, commit, group, form, text, row, theirs, true):
    """One verdict against git's tree and, where the diff is whole, against the commit's."""
    admission = row["admission"]
    tree, code = admission.get("tree"), admission.get("code")
    repairs = [repair["code"] for repair in admission.get("repairs", [])]
    blame = lambda why: tally.blame(commit, form, text, why, args.out)
    whole = group in ("whole", "wrapped")
    if tree is None:
        by_rule = code in BY_RULE
        tally.add(group, form, "by rule" if by_rule else "refused, git too" if theirs is None else "refused, git takes it", code)
        # Git can't read every diff that it writes (-W gives hunks that overlap), and reads some wrong.
        misread = form == "no prefixes" and code == "no-prefix" and theirs != true
        if whole and not by_rule and theirs is not None and not misread:
            blame(f"refused as {code}: {admission.get('message')}")
    elif whole:
        fine = tree == true and (group == "wrapped" or not set(repairs) - {"mail", "no-prefix"})
        tally.add(group, form, "same" if theirs == tree else "admitted, git refuses", ",".join(repairs) or None)
        if not fine:
            blame(f"{tree} with repairs {repairs}, but the commit's tree is {true}")
        elif group == "whole" and form != "no prefixes" and theirs != tree:
            blame(f"{tree} is right, but git has {theirs}")
    else:
        outcome = "same" if theirs == tree else "admitted, git refuses" if theirs is None else "ANOTHER TREE"
        tally.add(group, form, outcome)
        if theirs is not None and theirs != tree or theirs is None and not repairs:
            blame(f"{tree} with repairs {repairs}, but git has {theirs}")


def work_of(where, parent, commit, rng, full):
    """What is tried of one commit on its parent: group, form and diff."""
    whole = [("whole", form, text) for form, text in undamaged(where, parent, commit)]
    plain = whole[1][2]
    if not full:
        return whole
    return [*whole, *(("wrapped", form, text) for form, text in wrapped(plain)),
            *(("damaged", form, text) for form, text in damaged(plain, rng))]


def usable(text):
    return text and b"\0" not in text and not re.search(rb"^Binary files .* differ$", text, re.M)


def one_base(tally, args, theirs, where, base, commit, tries, true):
    tries = [(group, form, text) for group, form, text in tries if usable(text)]
    if not tries:
        return 0
    record = gate(args, where, base, [text for _, _, text in tries], "--no-check")
    theirs.base(base)
    for (group, form, text), row in zip(tries, record["candidates"], strict=True):
        flags = {flag["code"] for flag in row["admission"].get("flags", [])}
        options = ["--unidiff-zero"] if form == "no context" or "zero-context" in flags else []
        judge(tally, args, commit, group, form, text, row, theirs.tree(text, *options), true)
    return sum(group == "whole" and row["admission"].get("code") not in BY_RULE
               for (group, _, _), row in zip(tries, record["candidates"]))


def agreement(args):
    """Until there are enough whole diffs: each commit on its parent, and on an older base."""
    open_rules(args)
    tally, rng, made, used = Tally(), random.Random(args.seed), 0, 0
    share = -(-args.diffs // len(args.git_dirs))
    for where in args.git_dirs:
        theirs, pairs, mine = Git(where, args.out / "git"), commits(where, rng), 0
        for number, (commit, parent) in enumerate(pairs):
            if mine >= share:
                break
            if not is_there(where, parent, commit):
                continue
            tries = work_of(where, parent, commit, rng, full=number % 2 == 0)
            mine += one_base(tally, args, theirs, where, parent, commit, tries, tree_of(where, commit))
            used += 1
            other = pairs[(number + 1) % len(pairs)][1] if number % 4 == 1 else older(where, parent)
            if number % 2 == 0 and other:
                moved = [("another base", form, text) for _, form, text in tries[:7]]
                one_base(tally, args, theirs, where, other, commit, moved, None)
        print(f"{where}: {mine} diffs", file=sys.stderr, flush=True)
        made += mine
    report_agreement(tally, made, used)
    if made < args.diffs:
        raise Trouble(f"the histories give only {made} diffs of the {args.diffs} that are wanted")
    return tally.wrong


def is_there(where, parent, commit):
    """Whether a commit changes anything, and a partial copy of its repository holds what it changes."""
    done = git(where, "diff-tree", "-r", "--shortstat", parent, commit, check=False)
    return done.returncode == 0 and done.stdout.strip() != b""


def older(where, commit, most=40):
    """A commit some way before another one, where there is one."""
    found = git(where, "rev-list", "--first-parent", f"--max-count={most}", commit, text=True).stdout.split()
    return found[-1] if len(found) > 1 else None


def table(head, body):
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in body:
        print("| " + " | ".join(str(cell) for cell in row) + " |")
    print()


def report_agreement(tally, made, used):
    outcomes = ["same", "admitted, git refuses", "refused, git too", "refused, git takes it", "by rule", "ANOTHER TREE"]
    body = [[group, form, sum(row.values()), *(row[outcome] or "" for outcome in outcomes)]
            for (group, form), row in tally.rows.items()]
    body.sort(key=lambda row: ["whole", "wrapped", "damaged", "another base"].index(row[0]))
    print(f"{made} whole diffs of {used} commits; {sum(row[2] for row in body)} diffs in all.\n")
    table(["diffs", "form", "count", *outcomes], body)
    for group, codes in tally.codes.items():
        print(f"{group}: " + ", ".join(f"{code} {count}" for code, count in codes.most_common()) + "\n")


# Honest commits


def is_code(where, parent, commit):
    """Whether a commit changes source code that is no test."""
    names = git(where, "diff-tree", "-r", "--name-only", "-z", parent, commit).stdout.decode(errors="replace").split("\0")
    return any(SOURCES.search(name) and not TESTS.search(name) for name in names)


def honest(args):
    """Commits that change source code, under the default rules and gates that always pass."""
    rng, wrong, total, codes = random.Random(args.seed), [], Counter(), Counter()
    share, body = -(-args.honest // len(args.git_dirs)), []
    shutil.rmtree(args.out / "config", ignore_errors=True)
    for where in args.git_dirs:
        count = Counter()
        for commit, parent in commits(where, rng):
            if count["commits"] == share:
                break
            if is_code(where, parent, commit) and is_there(where, parent, commit):
                honest_one(args, where, parent, commit, count, codes, wrong)
        print(f"{where}: {count['commits']} commits", file=sys.stderr, flush=True)
        name = where.parent.name if where.name in ("repo", ".git") else where.name
        body.append([name, *(count[key] for key in KEYS)])
        total.update(count)
    table(["repository", *KEYS], [*body, ["all", *(total[key] for key in KEYS)]])
    print("Flags: " + ", ".join(f"{code} {number}" for code, number in codes.most_common()) + "\n")
    if total["commits"] < args.honest:
        raise Trouble(f"the histories give only {total['commits']} commits of the {args.honest} that are wanted")
    return wrong


KEYS = ["commits", "refused", "need a setting", "lost by a rule", "not proved", "flagged", "can win"]
# Refusals that say which setting of the operator lets such a change in.
SETTINGS = {"binary", "link", "gitlink", "too-large", "too-many-lines"}


def honest_one(args, where, parent, commit, count, codes, wrong):
    text = diff(where, parent, commit, ["-M", "--binary", "--full-index"])
    record = gate(args, where, parent, [text], "--check", "true", "--test", "true")
    row = record["candidates"][0]
    count["commits"] += 1
    admission, verdicts = row["admission"], [gate["verdict"] for gate in row["gates"]]
    bad = next((verdict for verdict in verdicts if verdict["kind"] != "pass"), None)
    if admission.get("code") in SETTINGS:
        count["need a setting"] += 1
    elif admission["kind"] != "admitted":
        count["refused"] += 1
        wrong.append(f"{where} {commit[:12]}: refused as {admission['code']}: {admission['message']}")
    elif bad and "comes from the base" in bad.get("reason", ""):
        count["lost by a rule"] += 1
        wrong.append(f"{where} {commit[:12]}: {bad['reason']}")
    elif bad:
        count["not proved"] += 1
        wrong.append(f"{where} {commit[:12]}: {bad.get('reason')}")
    else:
        count["can win"] += 1
    flags = {flag["code"] for flag in admission.get("flags", [])}
    count["flagged"] += bool(flags)
    codes.update(flags)


# The command line


def selfcheck(args):
    """A small history with every kind of change, through both modes."""
    with tempfile.TemporaryDirectory() as temporary:
        args.out = Path(temporary) / "out"
        args.git_dirs = [make_history(Path(temporary) / "repo")]
        args.diffs, args.honest = args.diffs or 90, args.honest or 5
        checks = {"whole diffs agree with git and with the true trees": agreement(args), "honest commits can win": honest(args)}
    for wrong in (line for lines in checks.values() for line in lines):
        print(wrong)
    failed = sum(bool(wrong) for wrong in checks.values())
    for name, wrong in checks.items():
        print(f"{'FAILED' if wrong else 'ok'}: {name}")
    print(f"test result: {'FAILED' if failed else 'ok'}. {len(checks) - failed} passed; {failed} failed")
    return 1 if failed else 0


def make_history(folder):
    """Ten commits: edits, renames, copies, modes, binary contents, line ends, odd names, a link."""
    run = lambda *command: subprocess.run([*GIT, "-C", str(folder), *command], check=True, capture_output=True)
    folder.mkdir()
    run("init", "-q", ".")
    text = "".join(f"def f{n}():\n    return {n}\n\n\n" for n in range(30))
    files = {"src/app.py": text, "src/other.py": text.replace("f", "g"), "README.md": "# Tiny\n", "crlf.txt": "a\r\nb\r\nc\r\n",
             "open.txt": "a\nb", "na\u00efve name.txt": "x\n", "empty.py": ""}

    def commit(message, change):
        for name, contents in change.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            if contents is not None:
                path.write_bytes(contents if isinstance(contents, bytes) else contents.encode())
        run("add", "-A")
        run("commit", "-q", "--allow-empty", "-m", message)

    commit("base", files)
    edited = text.replace("return 7\n", "return 70\n").replace("def f20", "def h20")
    commit("two hunks\n\n---\n- a\n+ b\n@@x\n", {"src/app.py": edited})
    commit("a file moves and changes", {"src/app.py": None, "lib/app.py": edited.replace("return 3\n", "return 30\n")})
    commit("a copy, a new and a deleted file", {"lib/copy.py": edited, "src/new.py": "x = 1\n", "src/other.py": None})
    (folder / "lib/app.py").chmod(0o755)
    commit("a mode", {"src/new.py": "x = 2\n"})
    commit("binary contents", {"data.bin": bytes(range(256)) * 8, "lib/bin.py": "DATA = 'data.bin'\n"})
    commit("binary contents change", {"data.bin": bytes(range(256)) * 8 + b"\0more", "lib/bin.py": "DATA = 'data'\n"})
    commit("line ends", {"crlf.txt": "a\r\nB\r\nc\r\n", "open.txt": "a\nb\nc", "lib/bin.py": "DATA = 'd'"})
    commit("odd names", {"na\u00efve name.txt": "y\n", "tab\there.txt": "z\n", "src/quote\"d.py": "q = 1\n", "empty.py": None})
    commit("the end gains a line feed", {"open.txt": "a\nb\nc\n", "lib/bin.py": "DATA = 'd'\n", "none.py": ""})
    return git_dir(folder)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("git_dirs", nargs="*", type=Path, metavar="GIT_DIR", help="repositories with history")
    parser.add_argument("--diffs", type=int, metavar="N", help="make at least N whole diffs, and damaged ones beside them")
    parser.add_argument("--honest", type=int, metavar="N", help="take N commits through the rules")
    parser.add_argument("--seed", type=int, default=1, help="which commits are drawn (default: 1)")
    parser.add_argument("--out", type=Path, default=Path("history-out"), help="where diffs that disagree are kept")
    parser.add_argument("--bakeoff", type=Path, default=HERE / "target/release/bakeoff", help="the program")
    parser.add_argument("--selfcheck", action="store_true", help="check the script on a history that it makes")
    args = parser.parse_args()
    if not args.selfcheck and not (args.git_dirs and (args.diffs or args.honest)):
        parser.error("repositories are needed, with --diffs N or --honest N")
    args.bakeoff, args.out = args.bakeoff.absolute(), args.out.absolute()
    return args


def main():
    args = arguments()
    try:
        if args.selfcheck:
            return selfcheck(args)
        args.git_dirs = [git_dir(path) for path in args.git_dirs]
        wrong = (agreement(args) if args.diffs else []) + (honest(args) if args.honest else [])
    except Trouble as trouble:
        print(f"error: {trouble}", file=sys.stderr)
        return 2
    for line in wrong:
        print(line)
    print(f"{len(wrong)} disagree" if wrong else "all agree")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
