//! The schema, its error messages word by word, what an untrusted repository may set, and lanes.

use std::path::Path;

use insta::assert_snapshot;
use secrecy::ExposeSecret;

use super::*;
use crate::model::{Origin, Wire, WorkerLimits};

fn load(
    user: &str,
    repository: &str,
    trusted: bool,
    env: &[(&str, &str)],
) -> Result<Config, ConfigError> {
    let lookup =
        |name: &str| env.iter().find(|(known, _)| *known == name).map(|(_, v)| (*v).to_owned());
    Config::load(&Sources {
        user: Some((PathBuf::from("config.toml"), user.to_owned())),
        repository: (!repository.is_empty()).then(|| repository.to_owned()),
        trusted,
        env: &lookup,
    })
}

fn told(user: &str) -> String {
    load(user, "", false, &[]).unwrap_err().to_string()
}

fn refused(repository: &str) -> String {
    load("[lanes.fast]\nmodel = \"ollama:m\"\n", repository, false, &[]).unwrap_err().to_string()
}

#[test]
fn later_layers_win_and_every_value_knows_its_origin() {
    let user =
        "[gates]\ncheck = \"a\"\ntest = \"u\"\ntimeout_seconds = 5\n[limits]\nbudget_usd = 2\n";
    let env = [("BAKEOFF_GATES_TEST", "e"), ("BAKEOFF_LIMITS_MAX_PARALLEL", "9")];
    let mut config = load(user, "[gates]\ncheck = \"b\"\n", false, &env).unwrap();
    config.limits.max_parallel.flag(Some(3));
    config.limits.max_seconds.flag(None);
    let gates = &config.gates;
    assert_eq!(
        (gates.check.value.as_deref(), &gates.check.origin),
        (Some("b"), &Origin::Repository)
    );
    assert_eq!(gates.test.value.as_deref(), Some("e"));
    assert_eq!(gates.test.origin.to_string(), "$BAKEOFF_GATES_TEST");
    assert_eq!((gates.timeout_seconds.value, &gates.timeout_seconds.origin), (5, &Origin::User));
    assert_eq!((gates.parallel.value, &gates.parallel.origin), (2, &Origin::Default));
    assert_eq!(config.limits.budget.value, Some(MicroUsd(2_000_000)));
    assert_eq!(
        (config.limits.max_parallel.value, &config.limits.max_parallel.origin),
        (3, &Origin::Flag)
    );
    assert_eq!(config.limits.max_seconds.value, None);
    // contract R25 together: what is set by default
    let worker = config.limits.worker();
    assert_eq!(
        (worker.max_tool_iterations, worker.max_seconds, worker.max_tokens),
        (90, None, None)
    );
}

// contract R25
#[test]
fn workers_have_the_promised_limits_where_nobody_sets_any() {
    // contract C10 in part: the ceiling's default
    let config = load("", "", false, &[]).unwrap();
    let limits = config.limits.worker();
    assert_eq!((limits.max_tool_iterations, limits.max_seconds), (90, None));
    assert_eq!((limits.max_tokens, limits.budget), (None, None));
    let workers = config.workers.plan();
    assert_eq!((workers.job_seconds, workers.heal_rounds, workers.code), (1800, 1, true));
    assert_eq!(workers.nested.turns, 30);
}

#[test]
fn text_that_is_not_toml_is_told_with_its_line() {
    assert_snapshot!(told("[gates]\ncheck = \"cargo check\ntest = 1\n"), @r#"
    config.toml:2:21: not valid TOML: invalid basic string, expected `"`
      |
    2 | check = "cargo check
      |                     ^
      help: mend this line; `bakeoff init` writes a whole example
    "#);
    assert_snapshot!(told("[gates\n"), @r#"
    config.toml:1:7: not valid TOML: unclosed table, expected `]`
      |
    1 | [gates
      |       ^
      help: mend this line; `bakeoff init` writes a whole example
    "#);
    assert_snapshot!(told("[gates]\ncheck = \"a\"\ncheck = \"b\"\n"), @r#"
    config.toml:3:1: not valid TOML: duplicate key
      |
    3 | check = "b"
      | ^^^^^
      help: mend this line; `bakeoff init` writes a whole example
    "#);
}

#[test]
fn unknown_keys_suggest_the_nearest() {
    assert_snapshot!(told("[gates]\nchekc = \"cargo check\"\n"), @r#"
    config.toml:2:1: unknown key `chekc` in [gates]
      |
    2 | chekc = "cargo check"
      | ^^^^^
      help: did you mean `check`?
    "#);
    assert_snapshot!(told("[gate]\n"), @r#"
    config.toml:1:2: unknown key `gate`
      |
    1 | [gate]
      |  ^^^^
      help: did you mean `gates`?
    "#);
    assert_snapshot!(told("[judges]\nvoters = 3\n"), @r#"
    config.toml:2:1: unknown key `voters` in [judges]
      |
    2 | voters = 3
      | ^^^^^^
      help: known here: enabled, use, models, synth, finalists, skeptics, fix_rounds
    "#);
    assert_snapshot!(told("[providers.mine]\nurl = \"http://h\"\n"), @r#"
    config.toml:1:12: provider `mine` has no `base_url`
      |
    1 | [providers.mine]
      |            ^^^^
      help: add base_url = "http://HOST:PORT/v1"
    config.toml:2:1: unknown key `url` in [providers.mine]
      |
    2 | url = "http://h"
      | ^^^
      help: known here: wire, base_url, key_env, default_models, prices, script, headers, body, deadlines, output_limit
    "#);
}

#[test]
fn wrong_values_say_what_belongs_there() {
    assert_snapshot!(told("[limits]\nmax_parallel = \"four\"\nmax_seconds = -1\nbudget_usd = \"5\"\n"), @r#"
    config.toml:2:16: `limits.max_parallel` is the text "four"
      |
    2 | max_parallel = "four"
      |                ^^^^^^
      help: it takes a whole number of at least 1
    config.toml:3:15: `limits.max_seconds` is the whole number -1
      |
    3 | max_seconds = -1
      |               ^^
      help: it takes a whole number of at least 1, or 0 for no limit
    config.toml:4:14: `limits.budget_usd` is the text "5"
      |
    4 | budget_usd = "5"
      |              ^^^
      help: it takes US dollars, as a number of at least 0
    "#);
    assert_snapshot!(told("\tgates = 3\n"), @r#"
    config.toml:1:10: `gates` is the whole number 3, not a table
      |
    1 | 	gates = 3
      | 	        ^
      help: write it as `[gates]`
    "#);
    assert_snapshot!(told("[gates]\nprotect = [\"[\"]\nmemory_mb = 1\ndisk_mb = 0\n"), @r#"
    config.toml:2:11: `gates.protect` is a list
      |
    2 | protect = ["["]
      |           ^^^^^
      help: it takes a list of glob patterns; "[" is none (unclosed character class; missing ']')
    config.toml:3:13: `gates.memory_mb` is the whole number 1
      |
    3 | memory_mb = 1
      |             ^
      help: it takes a whole number of MiB, at least 64
    config.toml:4:11: `gates.disk_mb` is the whole number 0
      |
    4 | disk_mb = 0
      |           ^
      help: it takes a whole number of MiB, at least 16
    "#);
    assert_snapshot!(told("[gates]\ndir = \"../x\"\ncarry = [\".git\"]\nenv = [\"A=b\"]\n"), @r#"
    config.toml:2:7: `gates.dir` is the text "../x"
      |
    2 | dir = "../x"
      |       ^^^^^^
      help: it takes a directory below the repository's top, without `..`
    config.toml:3:9: `gates.carry` is a list
      |
    3 | carry = [".git"]
      |         ^^^^^^^^
      help: it takes a list of paths below the repository's top, without `..` or `.git`
    config.toml:4:7: `gates.env` is a list
      |
    4 | env = ["A=b"]
      |       ^^^^^^^
      help: it takes a list of names of environment variables (names only, no values)
    "#);
    assert_snapshot!(told("[providers.openai]\nkey_env = \"sk-live-0123\"\n"), @r#"
    config.toml:2:11: `providers.openai.key_env` is not a name
      |
    2 | key_env = …
      |           ^
      help: it takes the name of an environment variable, never the key itself
    "#);
    assert_snapshot!(told("[lanes.\"a/b\"]\nmodel = \"x\"\n[lanes.ok]\nmodel = \"gpt\"\nattempts = 0\ntemperature = 3\n"), @r#"
    config.toml:1:8: bad lane name `a/b`
      |
    1 | [lanes."a/b"]
      |        ^^^^^
      help: a name has 1 to 40 letters, digits, `-`, `_` or `.`
    config.toml:4:9: `lanes.ok.model` is the text "gpt"
      |
    4 | model = "gpt"
      |         ^^^^^
      help: it takes a model as "PROVIDER:MODEL"
    config.toml:5:12: `lanes.ok.attempts` is the whole number 0
      |
    5 | attempts = 0
      |            ^
      help: it takes a whole number from 1 to 1000
    config.toml:6:15: `lanes.ok.temperature` is the whole number 3
      |
    6 | temperature = 3
      |               ^
      help: it takes a number from 0 to 2
    "#);
    assert_snapshot!(told("[providers.mine.prices]\n\"m\" = { input = 1.0 }\n"), @r#"
    config.toml:1:12: provider `mine` has no `base_url`
      |
    1 | [providers.mine.prices]
      |            ^^^^
      help: add base_url = "http://HOST:PORT/v1"
    config.toml:2:1: `providers.mine.prices.m` lacks a price
      |
    2 | "m" = { input = 1.0 }
      | ^^^
      help: write { input = …, output = … } in US dollars per million tokens
    "#);
    let env = [("BAKEOFF_LIMITS_BUDGET_USD", "lots")];
    assert_snapshot!(load("", "", false, &env).unwrap_err(), @r#"
    $BAKEOFF_LIMITS_BUDGET_USD: the value "lots" is not right
      help: it takes US dollars, as a number of at least 0
    "#);
}

#[test]
fn an_untrusted_repository_says_how_it_is_checked_and_nothing_else() {
    let fine = "[gates]\ncheck = \"c\"\ntest = \"t\"\nsetup = \"s\"\ndir = \"sub\"\ncarry = [\"node_modules\"]\n\
                timeout_seconds = 1800\n[tools]\ngrep = false\n[lanes.fast]\n";
    let config = load(
        "[lanes.fast]\nmodel = \"ollama:m\"\n[lanes.deep]\nmodel = \"ollama:d\"\n",
        fine,
        false,
        &[],
    )
    .unwrap();
    assert_eq!(config.gates.dir.value, "sub");
    assert!(!config.tools["grep"].value);
    assert_eq!(config.lane_names, ["fast"]);
    assert_snapshot!(refused(
        "[gates]\nsetup = \"npm ci\"\nsetup_network = true\nenv = [\"TOKEN\"]\ncarry = [\".env\"]\nparallel = 64\n\
         [providers.openai]\nbase_url = \"http://evil\"\n[judges]\nuse = [\"mine\"]\n[limits]\nbudget_usd = 900\n\
         [lanes.fast]\nmodel = \"openai:x\"\n[lanes.other]\n[tools]\ngrep = true\n"
    ), @r#"
    bakeoff.toml:3:1: `gates.setup_network` needs trust: it gives code a network
      |
    3 | setup_network = true
      | ^^^^^^^^^^^^^
    bakeoff.toml:4:1: `gates.env` needs trust: it passes the operator's environment to code
      |
    4 | env = ["TOKEN"]
      | ^^^
    bakeoff.toml:5:1: `gates.carry` needs trust: `.env` looks like a secret, and a gate's output can reach a model
      |
    5 | carry = [".env"]
      | ^^^^^
    bakeoff.toml:6:1: `gates.parallel` needs trust: it sets what of this machine a run may use
      |
    6 | parallel = 64
      | ^^^^^^^^
    bakeoff.toml:7:12: `providers.openai` needs trust: it names a server and a key that goes there
      |
    7 | [providers.openai]
      |            ^^^^^^
    bakeoff.toml:10:1: `judges.use` needs trust: it names who judges what this repository produces
       |
    10 | use = ["mine"]
       | ^^^
    bakeoff.toml:12:1: `limits.budget_usd` needs trust: it sets what a run may spend
       |
    12 | budget_usd = 900
       | ^^^^^^^^^^
    bakeoff.toml:14:1: `lanes.fast.model` needs trust: it may only name lanes; their models and attempts spend the operator's money
       |
    14 | model = "openai:x"
       | ^^^^^
    bakeoff.toml:15:8: `lanes.other` needs trust: the operator's config.toml has no lane of that name
       |
    15 | [lanes.other]
       |        ^^^^^
    bakeoff.toml:17:1: `tools.grep` needs trust: only the operator switches a tool on
       |
    17 | grep = true
       | ^^^^
    this repository is not trusted to set what is named above: read its bakeoff.toml, then run `bakeoff trust`, or take those keys out
    "#);
}

#[test]
fn a_trusted_repository_may_set_all_of_it() {
    let text = "[providers.mine]\nwire = \"anthropic\"\nbase_url = \"http://127.0.0.1:1/\"\nkey_env = \"MINE_KEY\"\n\
                default_models = [\"m1\"]\n[providers.mine.prices]\nm1 = { input = 1, output = 2.5 }\n\
                [lanes.a]\nmodel = \"mine:m1\"\nattempts = 2\ntemperature = 0.5\nfamily = \"f\"\n\
                [gates]\nsetup_network = true\nenv = [\"TOKEN\"]\n";
    let config = load("", text, true, &[("MINE_KEY", "k")]).unwrap();
    let mine = config.provider("mine").unwrap();
    assert_eq!(mine.wire.value, Wire::Anthropic);
    assert_eq!(mine.base_url.value, "http://127.0.0.1:1");
    assert_eq!(mine.prices["m1"].output, 2.5);
    let lanes = config.lanes(&[], None).unwrap();
    assert_eq!((lanes[0].attempts, lanes[0].temperature), (2, Some(0.5)));
    assert_eq!(lanes[0].family.as_str(), "f");
    assert!(load("", text, false, &[]).is_err());
}

#[test]
fn keys_come_from_the_environment_and_are_never_shown() {
    let env = [("OPENAI_API_KEY", "sk-very-secret"), ("OPENAI_BASE_URL", "http://127.0.0.1:9/v1/")];
    let config = load("", "", false, &env).unwrap();
    let openai = config.provider("openai").unwrap();
    assert_eq!(openai.key.as_ref().unwrap().expose_secret(), "sk-very-secret");
    assert_eq!(openai.base_url.value, "http://127.0.0.1:9/v1");
    assert!(!format!("{config:?}").contains("very-secret"));
    let blank = load("", "", false, &[("OPENAI_API_KEY", " ")]).unwrap();
    assert!(!blank.provider("openai").unwrap().is_ready());
}

#[test]
fn a_lane_on_the_command_line() {
    let parse = |text: &str| {
        let spec = parse_lane(text).unwrap();
        (spec.name, spec.model.map(|model| (model.provider, model.model)), spec.attempts)
    };
    let model = |p: &str, m: &str| Some((p.to_owned(), m.to_owned()));
    assert_eq!(parse("fast=openai:gpt-x:3"), ("fast".into(), model("openai", "gpt-x"), Some(3)));
    assert_eq!(
        parse("l=ollama:qwen2.5-coder:7b"),
        ("l".into(), model("ollama", "qwen2.5-coder:7b"), None)
    );
    assert_eq!(
        parse("l=ollama:qwen2.5-coder:7b:3"),
        ("l".into(), model("ollama", "qwen2.5-coder:7b"), Some(3))
    );
    assert_eq!(
        parse("r=openrouter:anthropic/claude:2"),
        ("r".into(), model("openrouter", "anthropic/claude"), Some(2))
    );
    // A model that is itself a number is no count.
    assert_eq!(parse("n=p:7"), ("n".into(), model("p", "7"), None));
    assert_eq!(parse("fast"), ("fast".into(), None, None));
    let wrong = |text: &str| parse_lane(text).unwrap_err().to_string();
    assert_snapshot!(wrong("openai:gpt-x"), @"lane `openai:gpt-x`: the name is missing; write NAME=PROVIDER:MODEL[:COUNT], for example fast=openai:gpt-6.1-terra:3, or the NAME of a lane in the config");
    assert_snapshot!(wrong("a=gpt-x"), @"lane `a=gpt-x`: the model is not PROVIDER:MODEL; write NAME=PROVIDER:MODEL[:COUNT], for example fast=openai:gpt-6.1-terra:3, or the NAME of a lane in the config");
    assert_snapshot!(wrong("a=openai:gpt-x:0"), @"lane `a=openai:gpt-x:0`: the count is not from 1 to 1000; write NAME=PROVIDER:MODEL[:COUNT], for example fast=openai:gpt-6.1-terra:3, or the NAME of a lane in the config");
    assert_snapshot!(wrong("a/b=openai:gpt-x"), @"lane `a/b=openai:gpt-x`: a name has 1 to 40 letters, digits, `-`, `_` or `.`; write NAME=PROVIDER:MODEL[:COUNT], for example fast=openai:gpt-6.1-terra:3, or the NAME of a lane in the config");
}

#[test]
fn one_key_and_nothing_else_gives_lanes() {
    let config = load("", "", false, &[("ANTHROPIC_API_KEY", "k")]).unwrap();
    let lanes = config.lanes(&[], None).unwrap();
    assert!(lanes.len() >= 2 && lanes.iter().all(|lane| lane.model.provider == "anthropic"));
    assert_eq!(lanes.iter().map(|lane| lane.attempts).sum::<u32>(), DEFAULT_ATTEMPTS);
    assert_eq!(lanes[0].family.as_str(), "anthropic");
    // Two keys: one lane for each, so that the voices are independent.
    let both = [("ANTHROPIC_API_KEY", "k"), ("OPENAI_API_KEY", "k")];
    let lanes = load("", "", false, &both).unwrap().lanes(&[], Some(5)).unwrap();
    let told: Vec<_> = lanes.iter().map(|lane| (lane.family.as_str(), lane.attempts)).collect();
    assert_eq!(told, [("openai", 3), ("anthropic", 2)]);
    // Fewer runs than lanes: the last lanes go.
    assert_eq!(load("", "", false, &both).unwrap().lanes(&[], Some(1)).unwrap().len(), 1);
}

#[test]
fn lanes_that_can_not_be_are_told_before_a_run() {
    let user =
        "[lanes.fast]\nmodel = \"ollama:m\"\nattempts = 3\n[lanes.deep]\nmodel = \"openai:g\"\n";
    let config = load(user, "", false, &[]).unwrap();
    let wrong = |lanes: &[&str], config: &Config| {
        let specs: Vec<LaneSpec> = lanes.iter().map(|text| parse_lane(text).unwrap()).collect();
        config.lanes(&specs, None).unwrap_err().to_string()
    };
    assert_snapshot!(wrong(&["fsat"], &config), @"unknown lane `fsat` (did you mean `fast`?); a new lane is written fsat=PROVIDER:MODEL[:COUNT]");
    assert_snapshot!(wrong(&["a=opnai:x"], &config), @"unknown provider `opnai` (did you mean `openai`?); known: anthropic, litellm, llamacpp, ollama, openai, openrouter, vllm; another one needs [providers.opnai] in config.toml");
    assert_snapshot!(wrong(&["a=openai:x"], &config), @"lane `a`: provider `openai` has no key: set $OPENAI_API_KEY, or `key_env` in [providers.openai] of config.toml");
    assert_snapshot!(wrong(&["a=ollama:x", "a=ollama:y"], &config), @"lane `a` is named twice; names are unique");
    assert_snapshot!(wrong(&["a=ollama:x:999", "b=ollama:x:999"], &config), @"1998 worker runs are more than the 1000 that one run may have");
    let none = load("", "", false, &[]).unwrap();
    assert_snapshot!(wrong(&[], &none), @"no model can be asked: set one of $ANTHROPIC_API_KEY, $OPENAI_API_KEY, $OPENROUTER_API_KEY, or name a lane on a server that needs no key, for example --lane local=ollama:MODEL");
    assert_snapshot!(wrong(&["fast"], &none), @"unknown lane `fast` (the config defines no lanes); a new lane is written fast=PROVIDER:MODEL[:COUNT]");
    // A count of the file stands; one on the command line, for all, outranks it.
    let fast = [parse_lane("fast").unwrap()];
    assert_eq!(config.lanes(&fast, None).unwrap()[0].attempts, 3);
    assert_eq!(config.lanes(&fast, Some(7)).unwrap()[0].attempts, 7);
}

#[test]
fn two_servers_of_one_model_are_one_family() {
    assert_eq!(maker("openrouter", "anthropic/claude-x"), maker("anthropic", "claude-x"));
    assert_eq!(maker("ollama", "qwen2.5-coder:7b"), "qwen");
    assert_eq!(maker("openrouter", "acme/zed"), "acme");
    assert_eq!(maker("vllm", "zed"), "vllm");
}

// contract C33-trust-1
#[test]
fn trust_is_bound_to_place_and_content() {
    let dir = tempfile::tempdir().unwrap();
    let store = TrustStore::at(dir.path().join("deep/trust.json"));
    let hash = content_hash([("bakeoff.toml", &b"a"[..])]);
    let (here, there) = (Path::new("/w/here"), Path::new("/w/there"));
    assert!(!store.is_trusted(here, &hash).unwrap());
    store.trust(here, &hash).unwrap();
    assert!(store.is_trusted(here, &hash).unwrap());
    assert!(!store.is_trusted(there, &hash).unwrap());
    assert!(!store.is_trusted(here, &content_hash([("bakeoff.toml", &b"b"[..])])).unwrap());
    assert!(store.revoke(here).unwrap() && !store.is_trusted(here, &hash).unwrap());
    std::fs::write(dir.path().join("deep/trust.json"), "{").unwrap();
    assert!(store.is_trusted(here, &hash).is_err());
}

#[test]
fn parts_of_files_never_pass_for_each_other() {
    let one = content_hash([("a", &b"bc"[..])]);
    assert_ne!(one, content_hash([("ab", &b"c"[..])]));
    assert_ne!(one, content_hash([("a", &b"b"[..]), ("c", &b""[..])]));
    let two = [("x", &b"1"[..]), ("y", &b"2"[..])];
    assert_eq!(content_hash(two), content_hash([two[1], two[0]]));
}

#[test]
fn many_writers_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = TrustStore::at(dir.path().join("trust.json"));
    std::thread::scope(|scope| {
        for index in 0..8 {
            let store = store.clone();
            scope.spawn(move || store.trust(Path::new(&format!("/r{index}")), "h").unwrap());
        }
    });
    assert!((0..8).all(|index| store.is_trusted(Path::new(&format!("/r{index}")), "h").unwrap()));
}

#[test]
fn the_starter_file_is_read_back_as_what_was_found() {
    let text = starter(Some("cargo check --message-format=json"), None);
    let config = load("", &text, false, &[]).unwrap();
    assert_eq!(config.gates.check.value.as_deref(), Some("cargo check --message-format=json"));
    assert_eq!(config.gates.test.value, None);
    // With every comment that holds a setting taken off it is a whole, valid example.
    let whole: String = starter(None, None)
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(inner)
                if inner.starts_with('[')
                    || inner.split_once(" = ").is_some_and(|(k, _)| !k.contains(' ')) =>
            {
                format!("{inner}\n")
            }
            _ => format!("{line}\n"),
        })
        .collect();
    let config = load("", &whole, true, &[]).unwrap();
    assert_eq!(config.gates.dir.value, "packages/core");
    assert_eq!(config.provider("local").unwrap().key_env.value, None);
}

const REQUESTS: &str = r#"
[providers.mine]
base_url = "http://127.0.0.1:1/v1"
key_env = ""
output_limit = "max_tokens"
headers = { x-team = "blue", X-Pass = "$MINE_PASS" }
body = { reasoning = { effort = "high", max = 0x10 }, top_p = 0.5, stops = ["a", 1, true] }
[providers.mine.deadlines]
connect = 3
first_byte = 900
"#;

#[test]
fn what_requests_carry_is_read_and_its_secrets_come_from_the_environment() {
    let config = load(REQUESTS, "", false, &[("MINE_PASS", "hush-hush")]).unwrap();
    let mine = config.provider("mine").unwrap();
    let request = &mine.request;
    let values: Vec<_> = request
        .headers
        .iter()
        .map(|header| (header.name.as_str(), header.value.as_ref().unwrap().expose_secret()))
        .collect();
    assert_eq!(values, [("x-team", "blue"), ("X-Pass", "hush-hush")]);
    let body = serde_json::json!({"reasoning": {"effort": "high", "max": 16}, "top_p": 0.5, "stops": ["a", 1, true]});
    assert_eq!(serde_json::Value::Object(request.body.value.clone()), body);
    assert_eq!(request.deadlines.first_byte.value, Some(900));
    assert_eq!(request.deadlines.whole.value, None);
    assert_snapshot!(request.described().join("\n"), @r"
    headers x-team, X-Pass (values hidden)
    body fields reasoning, top_p, stops
    deadlines connect 3 s, first byte 900 s
    answers limited by max_tokens
    ");
    let shown = format!("{config:?} {:?}", request.described());
    assert!(!shown.contains("hush") && !shown.contains("blue"), "{shown}");
    assert!(mine.is_ready());
    // Without its variable the provider can't be asked, and that is told before a run.
    let config = load(REQUESTS, "", false, &[]).unwrap();
    let missing = config.provider("mine").unwrap().missing_key().unwrap();
    assert!(missing.contains("X-Pass") && missing.contains("$MINE_PASS"), "{missing}");
}

#[test]
fn what_requests_can_not_carry_is_told_without_showing_it() {
    for (line, told) in [
        ("headers = { x = \"$not a name hush\" }", "providers.mine.headers.x"),
        ("headers = { \"x y\" = \"hush\" }", "letters, digits and dashes"),
        ("headers = { x = \"hush\\nhush\" }", "one line of text"),
        ("headers = { x = 7 }", "one line of text"),
        ("body = { at = 2026-01-01 }", "that JSON can hold"),
        ("body = [1]", "a table of fields"),
        ("deadlines = { idle = 0 }", "whole seconds from 1 to 86400"),
        ("deadlines = { idles = 1 }", "did you mean `idle`"),
        ("output_limit = \"tokens\"", "max_completion_tokens"),
    ] {
        let text = format!("[providers.mine]\nbase_url = \"http://x/v1\"\n{line}\n");
        let error = load(&text, "", false, &[]).unwrap_err().to_string();
        assert!(error.contains(told), "{line}: {error}");
        assert!(!error.contains("hush"), "{error}");
    }
}

#[test]
fn a_lane_names_models_that_take_over() {
    let text = "[providers.a]\nbase_url = \"http://a/v1\"\n[providers.b]\nbase_url = \"http://b/v1\"\nkey_env = \"B_KEY\"\n\
                [lanes.l]\nmodel = \"a:m\"\nfallback = [\"b:n\", \"a:o\"]\n";
    let config = load(text, "", false, &[("B_KEY", "k")]).unwrap();
    let lanes = config.lanes(&[], None).unwrap();
    let names: Vec<_> = lanes[0].fallback.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["b:n", "a:o"]);
    // What can't be asked when it is needed is told at once.
    let error = load(text, "", false, &[]).unwrap().lanes(&[], None).unwrap_err();
    assert!(
        error.to_string().contains("lane `l`, fallback") && error.to_string().contains("$B_KEY")
    );
    let unknown = text.replace("b:n", "c:n");
    let error = load(&unknown, "", false, &[]).unwrap().lanes(&[], None).unwrap_err();
    assert!(error.to_string().contains("unknown provider `c`"), "{error}");
    // A repository may not say where the operator's money goes.
    let error = load(text, "[lanes.l]\nfallback = [\"a:x\"]\n", false, &[("B_KEY", "k")]);
    assert!(error.unwrap_err().to_string().contains("fallback` needs trust"));
}

#[test]
fn a_lanes_own_limits_stand_in_for_those_of_every_worker_within_what_the_command_says() {
    let text = "[limits]\nlane_tokens = 1000\nmax_turn_seconds = 60\n[providers.a]\nbase_url = \"http://a/v1\"\n\
                [lanes.l]\nmodel = \"a:m\"\nturns = 200\ntokens = 5000\nseconds = 0\n\
                [lanes.m]\nmodel = \"a:m\"\nbudget_usd = 0.25\n[lanes.n]\nmodel = \"a:m\"\ntokens = 1000\n";
    let limits = |config: &Config| {
        let lanes = config.lanes(&[], None).unwrap();
        lanes.into_iter().map(|lane| lane.limits).collect::<Vec<_>>()
    };
    let mut config = load(text, "", false, &[]).unwrap();
    let usual = config.limits.worker();
    let own = WorkerLimits {
        max_tool_iterations: 200,
        max_tokens: Some(5000),
        max_seconds: None,
        ..usual
    };
    let priced = WorkerLimits { budget: Some(MicroUsd(250_000)), ..usual };
    assert_eq!(limits(&config), [Some(own), Some(priced), None]);
    config.limits.lane_tokens.flag(Some(Some(2000)));
    config.limits.max_tool_iterations.flag(Some(20));
    let found = limits(&config);
    let seconds = |at: usize| found[at].map(|limits| limits.max_seconds);
    let tokens = |at: usize| found[at].map(|limits| limits.max_tokens);
    assert_eq!((tokens(0), tokens(2)), (Some(Some(2000)), Some(Some(1000))));
    assert_eq!((seconds(0), found[0].unwrap().max_tool_iterations), (Some(None), 20));
    let error = load("[lanes.l]\nmodel = \"a:m\"\nturns = 0\n", "", false, &[]).unwrap_err();
    assert!(error.to_string().contains("at least 1"), "{error}");
    let error = load(text, "[lanes.l]\ntokens = 9\n", false, &[]).unwrap_err();
    assert!(error.to_string().contains("tokens` needs trust"), "{error}");
}
