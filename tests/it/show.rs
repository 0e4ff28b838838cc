//! What `show` says of whole runs, word for word: one for each way in which a choice can end.
//!
//! `BAKEOFF_BLESS=1` writes the pages again.

use std::path::PathBuf;

use super::support::place::{Place, writes};

/// A run on scripted models, and what is shown of it.
struct Case {
    name: &'static str,
    /// Lanes and what each writes.
    lanes: &'static [(&'static str, &'static str)],
    /// The judges' script; none is asked without one.
    judges: &'static str,
    synthesizer: &'static str,
    exit: i32,
}

const NO_SYNTHESIZER: &str = "";

const PREFERS_333: &str = "[[judge]]\nprefer = [\"+444\", \"+333\", \"+222\"]\n[judge.reply]\ncapture = { nonce = '\"nonce\": \"([^\"]+)\"' }\n\
    text = '{\"nonce\": \"{nonce}\", \"choice\": \"{choice}\", \"reason\": \"it is larger\", \"evidence\": [\"{quote}\"], \"vetoes\": []}'\n";

const PREFERS_THE_OLD: &str = "[[judge]]\nprefer = [\"+333\", \"+222\", \"+444\"]\n[judge.reply]\ncapture = { nonce = '\"nonce\": \"([^\"]+)\"' }\n\
    text = '{\"nonce\": \"{nonce}\", \"choice\": \"{choice}\", \"reason\": \"it is enough\", \"evidence\": [\"{quote}\"], \"vetoes\": []}'\n";

const TIES: &str = "[[judge]]\nalways = \"tie\"\n[judge.reply]\ncapture = { nonce = '\"nonce\": \"([^\"]+)\"' }\n\
    text = '{\"nonce\": \"{nonce}\", \"choice\": \"tie\", \"reason\": \"both do it\", \"evidence\": [], \"vetoes\": []}'\n";

const VETOES: &str = "[[judge]]\nprefer = [\"+333\", \"+222\"]\n[judge.reply]\ncapture = { nonce = '\"nonce\": \"([^\"]+)\"' }\n\
    text = '{\"nonce\": \"{nonce}\", \"choice\": \"{choice}\", \"reason\": \"neither may ship\", \"evidence\": [\"{quote}\"], \"vetoes\": [\"first\", \"second\"]}'\n";

const PROPOSES_444: &str = "[[synthesizer]]\n[[synthesizer.turns]]\ntext = \"\"\"\nOne further.\n\n```diff\n--- a/value.txt\n+++ b/value.txt\n@@ -1 +1 @@\n-1\n+444\n```\n\"\"\"\n";

const TWO: &[(&str, &str)] = &[("one", "222"), ("two", "333")];

const CASES: [Case; 8] = [
    Case {
        name: "clear_winner",
        lanes: TWO,
        judges: PREFERS_333,
        synthesizer: NO_SYNTHESIZER,
        exit: 0,
    },
    Case { name: "tie", lanes: TWO, judges: TIES, synthesizer: NO_SYNTHESIZER, exit: 1 },
    Case { name: "all_vetoed", lanes: TWO, judges: VETOES, synthesizer: NO_SYNTHESIZER, exit: 1 },
    Case {
        name: "all_failed",
        lanes: &[("one", "none"), ("two", "nil")],
        judges: PREFERS_333,
        synthesizer: NO_SYNTHESIZER,
        exit: 1,
    },
    Case {
        name: "synthesized_winner",
        lanes: TWO,
        judges: PREFERS_333,
        synthesizer: PROPOSES_444,
        exit: 0,
    },
    Case {
        name: "synthesized_loser",
        lanes: TWO,
        judges: PREFERS_THE_OLD,
        synthesizer: PROPOSES_444,
        exit: 0,
    },
    Case {
        name: "one_lane_only",
        lanes: &[("one", "222")],
        judges: PREFERS_333,
        synthesizer: NO_SYNTHESIZER,
        exit: 0,
    },
    Case {
        name: "two_equal_trees",
        lanes: &[("one", "222"), ("two", "222")],
        judges: PREFERS_333,
        synthesizer: NO_SYNTHESIZER,
        exit: 0,
    },
];

fn page(case: &Case, script: &str) -> String {
    let place = Place::new();
    let lane = |(name, _): &(&str, &str)| {
        format!("[lanes.{name}]\nmodel = \"scripted:{name}\"\nfamily = \"{name}\"\n")
    };
    let lanes: String = case.lanes.iter().map(lane).collect();
    let judges = "[judges]\nuse = [\"correctness\", \"scope\"]\nmodels = [\"scripted:judge\"]\n\
                  [workers]\nheal_rounds = 0\n";
    place.configure(
        "[gates]\ncheck = \"sh check.sh\"\ntest = \"sh test.sh\"\n",
        &format!("{judges}{lanes}"),
    );
    place.script(script);
    let mut args = vec!["run", "Make the value larger."];
    if case.synthesizer.is_empty() {
        args.push("--no-synth");
    }
    place.run(args).exits(case.exit);
    let shown = place.run(["show", "latest"]).exits(0).out;
    redacted(&shown, &place)
}

/// Without what differs from run to run: ids, times, places.
fn redacted(text: &str, place: &Place) -> String {
    let text = text.replace(&place.dir.display().to_string(), "[dir]");
    let word = |word: &str| -> String {
        let bare = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        let is_hex = bare.len() >= 7
            && bare.chars().all(|c| c.is_ascii_hexdigit() || c == '-')
            && bare.chars().any(|c| c.is_ascii_digit());
        let is_time = bare.contains(':') && bare.starts_with(|c: char| c.is_ascii_digit());
        match is_hex || is_time {
            true => word.replace(bare, "[x]"),
            false => word.to_owned(),
        }
    };
    let line = |line: &str| {
        let words: Vec<String> = line.split(' ').map(word).collect();
        seconds(&words).trim_end().to_owned()
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n") + "\n"
}

/// A number before a unit of time is left out, and so are the blanks that only align it.
fn seconds(words: &[String]) -> String {
    let mut kept: Vec<String> = Vec::new();
    for word in words {
        let unit = ["ms", "s", "ms,", "s,", "min", "s)", "ms)", "s;"].contains(&word.as_str());
        let number =
            kept.last().is_some_and(|last| last.trim_start_matches('(').parse::<f64>().is_ok());
        if unit && number {
            kept.pop();
            kept.push("[n]".to_owned());
        }
        kept.push(word.clone());
    }
    let mut text = String::new();
    for word in kept.iter().filter(|word| !word.is_empty()) {
        text.push_str(if text.is_empty() { "" } else { " " });
        text.push_str(word);
    }
    text
}

fn compare(name: &str, page: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join(format!("tests/it/snapshots/show/{name}.txt"));
    if std::env::var_os("BAKEOFF_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, page).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(page, kept, "{name}: if that is right, run it with BAKEOFF_BLESS=1");
}

#[test]
fn every_end_of_a_choice_is_shown_as_it_is() {
    for case in &CASES {
        let script = format!("{}{}{}", writes(case.lanes), case.judges, case.synthesizer);
        compare(case.name, &page(case, &script));
    }
}

#[test]
fn partial_work_alone_is_shown_and_not_chosen() {
    let quits = |(lane, value): &(&str, &str)| {
        format!(
            "[[worker]]\nlane = \"{lane}\"\n[[worker.turns]]\ncalls = [{{ name = \"write_file\", arguments = {{ path = \
             \"value.txt\", content = \"{value}\\n\" }} }}]\n[[worker.turns]]\ntext = \"That is it.\"\n[[worker.turns]]\ntext \
             = \"That is it.\"\n"
        )
    };
    let workers: String = TWO.iter().map(quits).collect();
    let case = Case {
        name: "partial_only",
        lanes: TWO,
        judges: TIES,
        synthesizer: NO_SYNTHESIZER,
        exit: 1,
    };
    compare(case.name, &page(&case, &format!("version = 1\n{workers}{TIES}")));
}
