//! What is carried, and what setup and the base's gates wrote, as a worker sees it in a whole run.

use std::fs;

use super::support::place::{Done, Place, git};

/// One lane that looks at what lies under its workspace, changes it, and then does its task.
const LOOKS: &str = r#"
version = 1
[[worker]]
[[worker.turns]]
calls = [
    { name = "list_dir", arguments = { path = "deps" } },
    { name = "read_file", arguments = { path = "made.txt" } },
    { name = "read_file", arguments = { path = "out/checked.txt" } },
    { name = "code_execution", arguments = { code = "print(open('deps/lib.txt').read().strip(), 'for code')" } },
]
[[worker.turns]]
capture = { dep = '(lib\.txt  \d+)', code = '(carried for code)', made = '(by setup)', checked = '(by check|no file or directory)' }
calls = [
    { name = "edit_file", arguments = { path = "deps/lib.txt", old_string = "carried", new_string = "cracked" } },
    { name = "write_file", arguments = { path = "deps/new.txt", content = "new\n" } },
    { name = "write_file", arguments = { path = "made.txt", content = "by the worker\n" } },
    { name = "write_file", arguments = { path = "value.txt", content = "2\n" } },
]
[[worker.turns]]
capture = { dep = '(lib\.txt  \d+)', code = '(carried for code)', made = '(by setup)', checked = '(by check|no file or directory)' }
calls = [{ name = "submit", arguments = { answer = "{dep}, {code}, {made}, {checked}", claims = [] } }]
"#;

const GATES: &str =
    "[gates]\ncarry = [\"deps\"]\nsetup = \"sh setup.sh\"\ncheck = \"sh check.sh\"\n";
const LANE: &str = "[judges]\nenabled = false\n[lanes.one]\nmodel = \"scripted:m\"\n";

/// A checkout with a directory that is carried, which git does not even ignore, and commands that write.
fn place() -> Place {
    let place = Place::new();
    place.write("setup.sh", "cat deps/lib.txt && echo by setup > made.txt\n");
    let check = "grep -qx '[12]' value.txt && grep -qx carried deps/lib.txt && grep -qx 'by setup' made.txt \
                 && mkdir -p out && echo by check > out/checked.txt\n";
    place.write("check.sh", check);
    place.write(".gitignore", "/out/\n");
    place.commit("gates that need what git does not have");
    place.write("deps/lib.txt", "carried\n");
    place.configure(GATES, LANE);
    place.script(LOOKS);
    place
}

#[test]
fn a_worker_sees_what_the_gates_have_and_hands_in_its_edit_alone() {
    let place = place();
    for round in ["made", "kept"] {
        place.run(["run", "raise the value"]).exits(0);
        let record = place.record();
        let answer = record["candidates"][0]["candidate"]["answer"].as_str().unwrap();
        assert_eq!(answer, "lib.txt  8, carried for code, by setup, by check", "{round}");
        let diff = place.run(["diff"]).exits(0).out;
        let paths: Vec<&str> = diff.lines().filter(|line| line.starts_with("diff ")).collect();
        assert_eq!(paths, ["diff --git a/value.txt b/value.txt"], "{round}: {diff}");
        assert_eq!(fs::read_to_string(place.repo.join("deps/lib.txt")).unwrap(), "carried\n");
        place.nothing_left(round);
    }
    place.run(["apply"]).exits(0);
    assert_eq!(git(&place.repo, &["status", "--short"]), " M value.txt\n?? deps/\n");
}

#[test]
fn what_gates_wrote_with_a_secret_is_not_shown_to_a_worker() {
    let place = place();
    let gates =
        "[gates]\ncarry = [\"deps\", \".env\"]\nsetup = \"sh setup.sh\"\ncheck = \"sh check.sh\"\n";
    place.write(".env", "TOKEN=hunter2\n");
    place.write("deps/.env", "TOKEN=hunter3\n");
    place.configure(gates, LANE);
    let looks = LOOKS.replace("made = '(by setup)'", "made = '(no file or directory)'");
    place.script(&looks.replace("by the worker", "by setup"));
    place.run(["run", "raise the value"]).exits(0);
    let record = place.record();
    let answer = record["candidates"][0]["candidate"]["answer"].as_str().unwrap();
    assert!(answer.starts_with("lib.txt  8, ") && !answer.contains("by "), "{answer}");
}

#[test]
fn what_gates_wrote_with_a_password_in_an_address_is_not_shown_either() {
    let place = place();
    place.configure(
        "[gates]\ncarry = [\"deps\"]\nsetup = \"sh setup.sh\"\ncheck = \"sh check.sh\"\n",
        LANE,
    );
    for (address, shown) in [("postgres://db/x", true), ("postgres://me:hunter22@db/x", false)] {
        let made = if shown { "(by setup)" } else { "(no file or directory)" };
        let looks = LOOKS.replace("made = '(by setup)'", &format!("made = '{made}'"));
        place.script(&if shown { looks } else { looks.replace("by the worker", "by setup") });
        let mut command = place.bakeoff(["run", "raise the value", "--env", "DATABASE_URL"]);
        command.env("DATABASE_URL", address);
        Done::run(command).exits(0);
        let record = place.record();
        let answer = record["candidates"][0]["candidate"]["answer"].as_str().unwrap();
        assert_eq!(answer.contains("by "), shown, "{address}: {answer}");
    }
}

/// Without any command there are no gates to stand on anything, and a worker sees what is carried.
#[test]
fn a_run_without_commands_shows_what_is_carried() {
    let place = place();
    place.configure("[gates]\ncarry = [\"deps\"]\n", LANE);
    let looks = LOOKS.replace("made = '(by setup)'", "made = '(no file or directory)'");
    place.script(&looks);
    place.run(["run", "raise the value", "--no-check"]).exits(0);
    let record = place.record();
    let answer = record["candidates"][0]["candidate"]["answer"].as_str().unwrap();
    assert!(answer.starts_with("lib.txt  8, "), "{answer}");
}
