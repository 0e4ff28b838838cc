//! What the `bakeoff.toml` of a repository that nobody trusts may set, and why not the rest.
//!
//! It may say how it is checked and tested (the commands run in the sandbox, without a network), what
//! a setup without network does, which directories are carried along, and which of the operator's
//! lanes fit it. Whatever spends the operator's money, names a server, a key or a network, lets
//! something of the operator's environment in, or says who judges, needs `bakeoff trust`.

use toml::de::DeValue;

/// The longest time that an untrusted repository may ask for one gate's command, in seconds.
pub const MAX_UNTRUSTED_TIMEOUT: u64 = 3600;

/// Why an untrusted repository may not set the key `path` to `value`; `None` when it may.
pub fn refusal(path: &str, value: &DeValue<'_>) -> Option<String> {
    let (section, key) = path.split_once('.').unwrap_or((path, ""));
    match section {
        "gates" => gates(key, value),
        "tools" if value.as_bool() == Some(false) => None,
        "tools" => Some("only the operator switches a tool on".to_owned()),
        "lanes" if key.contains('.') => Some(
            "it may only name lanes; their models and attempts spend the operator's money"
                .to_owned(),
        ),
        "lanes" => None,
        "patch" if value.as_bool() == Some(false) => None,
        "patch" if path.starts_with("patch.max_") => {
            Some("it sets how large a change may be".to_owned())
        }
        "patch" => Some("it lets more in than text in regular files".to_owned()),
        // Like the test command it runs in the sandbox, on trees of the engine's own.
        "duels" if key == "command" => None,
        "duels" => Some("it names a model that writes tests, and how many are paid for".to_owned()),
        "design" => {
            Some("it writes instructions for workers and spends the operator's money".to_owned())
        }
        "judges" => Some("it names who judges what this repository produces".to_owned()),
        "providers" => Some("it names a server and a key that goes there".to_owned()),
        "limits" => Some("it sets what a run may spend".to_owned()),
        "workers" if path == "workers.sandbox" && value.as_str() == Some("strict") => None,
        "workers" => Some("it sets what models may start on this machine".to_owned()),
        "workspace" => Some("it shows its history to models".to_owned()),
        "side" => {
            Some("it spends the operator's money and shows earlier runs to models".to_owned())
        }
        "cache" => Some("it sets what of this machine's disk is used".to_owned()),
        _ => Some("nothing says that a stranger may set it".to_owned()),
    }
}

fn gates(key: &str, value: &DeValue<'_>) -> Option<String> {
    match key {
        "check" | "test" | "setup" | "dir" | "flaky" | "strict_tests" | "own_tests" | "protect" => {
            None
        }
        "carry" => secret_of(value).map(|name| {
            format!("`{name}` looks like a secret, and a gate's output can reach a model")
        }),
        "timeout_seconds" => (super::convert::positive(value).unwrap_or(0) > MAX_UNTRUSTED_TIMEOUT)
            .then(|| format!("more than {MAX_UNTRUSTED_TIMEOUT} seconds for one command")),
        "env" => Some("it passes the operator's environment to code".to_owned()),
        "setup_network" => Some("it gives code a network".to_owned()),
        "parallel" | "memory_mb" | "disk_mb" => {
            Some("it sets what of this machine a run may use".to_owned())
        }
        _ => Some("nothing says that a stranger may set it".to_owned()),
    }
}

/// The first path of a `carry` list whose name is one that secrets usually have.
fn secret_of(value: &DeValue<'_>) -> Option<String> {
    let paths = super::convert::texts(value).ok()?;
    paths.into_iter().find(|path| path.split('/').any(looks_secret))
}

fn looks_secret(name: &str) -> bool {
    const WHOLE: [&str; 10] = [
        ".npmrc", ".netrc", ".pypirc", ".aws", ".ssh", ".gnupg", ".kube", ".docker", ".envrc",
        ".azure",
    ];
    let name = name.to_lowercase();
    WHOLE.contains(&name.as_str())
        || name == ".env"
        || name.starts_with(".env.")
        || name.starts_with("id_rsa")
        || name.starts_with("id_ed25519")
        || name.contains("secret")
        || name.contains("credential")
        || [".pem", ".key", ".p12", ".pfx", ".keystore"].iter().any(|end| name.ends_with(end))
}
