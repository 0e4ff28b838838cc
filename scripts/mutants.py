#!/usr/bin/env python3
"""Takes each protection out in turn and shows that its selftest goes red.

A mutant is one line of the sources, changed or taken out, or a few where one alone would still be held by another.
All are built in a copy of the working tree that
shares its target directory, so that only this crate is compiled again. There the program has another name, so
that no mutant takes the place of the real one.

    scripts/mutants.py                  every mutant, after the selftests without any
    scripts/mutants.py allowlist        those of one selftest
    scripts/mutants.py --list
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Where it is built: beside the real one, so that dependencies are there already.
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))

# The program's name in the copy.
PROGRAM = "bakeoff-mutant"

# Selftest, file, a line that stands there once (as it is, without indentation), what takes its place; and so on
# with further files and lines of the same mutant.
MUTANTS = [
    ("foreign-text-boundary", "src/fence/neutral.rs", "edits.extend(stream.markers());", ""),
    ("foreign-text-boundary", "src/prompt/fences.rs", "options.delimiters.extend(BLOCKS.map(String::from));", "let _ = BLOCKS;"),
    (
        "foreign-text-boundary",
        "src/prompt/fences.rs",
        "Field::Cut(text, options) => self.fence(text, options),",
        "Field::Cut(text, _) => Value::from(text.body()),",
    ),
    (
        "allowlist",
        "src/tools/allow/grammar.rs",
        'Err(format!("the option {name} is not on the list{way}"))',
        "drop(way); Ok(Take::Nothing)",
    ),
    ("allowlist", "src/tools/allow/tokens.rs", "if fine { Ok(()) } else { Err(meta(c)) }", "let _ = (fine, meta(c)); Ok(())"),
    (
        "sandbox-canaries",
        "src/sandbox/jail/mod.rs",
        "let network = if host_network { 0 } else { libc::CLONE_NEWNET };",
        "let network = if host_network { 0 } else { 0 };",
    ),
    ("sandbox-canaries", "src/sandbox/jail/start.rs", "limits::drop_privileges()?;", "let _ = limits::drop_privileges;"),
    ("crash-leaves-nothing", "src/sandbox/warden/server.rs", "while server.turn().is_ok() {}", "while { let _ = server.turn(); true } {}"),
    ("crash-leaves-nothing", "src/repo/lease.rs", "if leases.is_dir() {", "if leases.is_dir() && DEPTH == 0 {"),
    (
        "per-run-reap",
        "src/pipeline/work.rs",
        "Some(scope) => scope.finish().await,",
        "Some(scope) => { std::mem::forget(scope); Default::default() }",
    ),
    # The engine's own count stays right: what is looked for is processes.
    (
        "per-run-reap",
        "src/sandbox/warden/keeper.rs",
        "self.stop(id, true, Cause::Killed);",
        "let _ = id;",
        "src/sandbox/warden/keeper.rs",
        "self.table.waiting.push(Waiting { request, open, killed: 0, strays: Vec::new(), deadline });",
        "let killed = open.len() as u32; let open = HashSet::new(); "
        "self.table.waiting.push(Waiting { request, open, killed, strays: Vec::new(), deadline });",
    ),
    (
        "judge-red-team",
        "src/judge/control.rs",
        "let is_void = |control: &&Control| control.result != ControlResult::Cleared;",
        "let is_void = |_: &&Control| false;",
    ),
    (
        "duel-tells",
        "src/prompt/context/duel.rs",
        "let test = Field::Cut(test, FenceOptions::cut(DIFF_BYTES / 4, Keep::Ends));",
        "let test = Field::Trusted(test.body().to_owned());",
    ),
    (
        "duel-tells",
        "src/pipeline/duels.rs",
        "DuelResult::Told { .. } => judged = self.vote_anew(&duel, finalists).await?,",
        "DuelResult::Told { .. } => {}",
    ),
    (
        "codeexec-bash-jobs",
        "src/tools/run_bash.rs",
        "Ok(ToolOutput { handle: Some(id.to_string()), ..ToolOutput::ok(text) })",
        "Ok(ToolOutput { handle: None, ..ToolOutput::ok(text) })",
    ),
    ("one-notice-per-job", "src/jobs/table.rs", "if !silent {", "if silent {"),
    (
        "one-notice-per-job",
        "src/jobs/table.rs",
        "*notices = rest.into();",
        "*notices = rest.into_iter().chain(own.clone()).collect();",
    ),
    (
        "one-notice-per-job",
        "src/jobs/table.rs",
        "notices.retain(|one| !matches!(one, Notice::Ended { id, .. } if *id == entry.id));",
        "notices.retain(|_| true);",
    ),
    ("host-jobs-stay-host", "src/jobs/host.rs", "self.0.table.forget_ended();", ""),
    # The operator's commands in the table of the worker that began last.
    (
        "host-jobs-stay-host",
        "src/jobs/book.rs",
        "tables.push(table.downgrade());",
        "tables.push(table.downgrade()); *LAST.lock().unwrap() = Some(table.clone());",
        "src/jobs/book.rs",
        "/// All worker runs' tables. Clones share it.",
        "pub(super) static LAST: Mutex<Option<JobTable>> = Mutex::new(None);",
        "src/jobs/host.rs",
        "let entry = self.0.table.start_open(launcher, order, opening)?;",
        "let entry = super::book::LAST.lock().unwrap().clone().unwrap().start_open(launcher, order, opening)?;",
    ),
    ("pty-secret-never-stored", "src/jobs/keyboard.rs", "if self.secrets.add(secret.expose_secret()) {", "if !secret.expose_secret().contains('\\0') {"),
    ("pty-secret-never-stored", "src/cli/engine.rs", "dir.masker().learnt().clear();", ""),
    ("pty-secret-never-stored", "src/sandbox/warden/input.rs", "modes.local_modes.remove(LocalModes::ECHO);", ""),
    ("pty-secret-never-stored", "src/jobs/listen.rs", "} else if entry.is_alone() {", "} else if entry.alone.is_nobody() && TAIL == 0 {"),
    (
        "pty-secret-never-stored",
        "src/tools/registry.rs",
        "if let Cow::Owned(text) = context.hidden.hide(&output.text) {",
        "if false && let Cow::Owned(text) = context.hidden.hide(&output.text) {",
    ),
    ("partial-is-not-complete", "src/pipeline/run.rs", "&& row.candidate.stop.is_complete()", ""),
    (
        "verifier-is-the-bases",
        "src/gate/protect/mod.rs",
        "self.check.insert(change.path.clone(), change.base.clone());",
        "",
    ),
]


def copy_tree(to):
    """The files that git knows or would take, as they are now."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True,
    ).stdout
    for name in filter(None, listed.decode().split("\0")):
        source = ROOT / name
        if source.is_file() and not source.is_symlink():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, to / name)
    manifest = to / "Cargo.toml"
    text = manifest.read_text()
    real = '[[bin]]\nname = "bakeoff"\n'
    if text.count(real) != 1:
        sys.exit("Cargo.toml does not name the program as expected; mend scripts/mutants.py")
    manifest.write_text(text.replace(real, f'[[bin]]\nname = "{PROGRAM}"\n'))


def build(tree):
    """Builds the program; whether it could be built, and what the compiler said."""
    done = subprocess.run(
        ["cargo", "build", "--quiet", "--bin", PROGRAM, "--target-dir", str(TARGET)],
        cwd=tree, capture_output=True, text=True,
    )
    return done.returncode == 0, done.stderr


def selftests(names, home):
    """Whether they all pass, and what they said."""
    program = TARGET / "debug" / PROGRAM
    done = subprocess.run(
        [str(program), "selftest", *names], capture_output=True, text=True,
        env={**os.environ, "BAKEOFF_HOME": home},
    )
    return done.returncode, done.stdout + done.stderr


def mutate(path, line, instead):
    """Changes the one line in its file; gives the file as it was."""
    text = path.read_text()
    lines = text.split("\n")
    found = [at for at, one in enumerate(lines) if one.strip() == line]
    if len(found) != 1:
        sys.exit(f"{path}: {line!r} stands there {len(found)} times; mend scripts/mutants.py")
    lines[found[0]] = instead
    path.write_text("\n".join(lines))
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", help="only the mutants of these selftests")
    parser.add_argument("--list", action="store_true", help="list the mutants and build nothing")
    asked = parser.parse_args()
    chosen = [one for one in MUTANTS if not asked.names or one[0] in asked.names]
    if not chosen:
        sys.exit(f"no mutant of {', '.join(asked.names)}")
    if asked.list:
        for name, file, line, *_ in chosen:
            print(f"{name:<24} {file}: {line}")
        return
    survived = 0
    with tempfile.TemporaryDirectory(prefix="bakeoff-mutants-") as scratch:
        tree, home = pathlib.Path(scratch) / "tree", str(pathlib.Path(scratch) / "home")
        copy_tree(tree)
        fine, said = build(tree)
        if not fine:
            sys.exit(f"the tree can't be built:\n{said}")
        code, said = selftests(sorted({one[0] for one in chosen}), home)
        if code != 0:
            sys.exit(f"the selftests fail without any mutant:\n{said}")
        for name, *edits in chosen:
            begun = time.monotonic()
            file, line = edits[:2]
            before = [mutate(tree / edits[at], *edits[at + 1 : at + 3]) for at in range(0, len(edits), 3)]
            fine, said = build(tree)
            if not fine:
                sys.exit(f"{file} without {line!r} can't be built:\n{said}")
            code, said = selftests([name], home)
            # The last first: two edits may be of one file.
            for at, text in reversed(list(enumerate(before))):
                (tree / edits[3 * at]).write_text(text)
            red = code == 1
            survived += not red
            seconds = time.monotonic() - begun
            print(f"{'red ' if red else 'GREEN'} {name:<24} {file}: {line} ({seconds:.0f} s)", flush=True)
            if not red:
                print(said)
    (TARGET / "debug" / PROGRAM).unlink(missing_ok=True)
    print(f"mutants: {len(chosen) - survived} killed, {survived} survived")
    sys.exit(1 if survived else 0)


if __name__ == "__main__":
    main()
