//! Which variables of an environment hold secrets, by their names and values.
//!
//! Never here: the process's own environment, which the caller passes in.

use std::path::Path;

use crate::model::address;

/// How a part of a name ends that says that the value is a secret, unless the name goes on to something else.
const ENDINGS: [&str; 13] = [
    "KEY",
    "KEYS",
    "TOKEN",
    "SECRET",
    "SECRETS",
    "PASSWORD",
    "PASSWORDS",
    "PASSWD",
    "PASSPHRASE",
    "PASSCODE",
    "CREDENTIAL",
    "CREDENTIALS",
    "CREDS",
];

/// Words that end so and say nothing.
const OTHER_WORDS: [&str; 6] = ["MONKEY", "TURKEY", "DONKEY", "HOCKEY", "JOCKEY", "HOTKEY"];

/// Whole parts that say so, likewise.
const WORDS: [&str; 17] = [
    "PASS",
    "SSHPASS",
    "PGPASS",
    "DBPASS",
    "PWD",
    "DBPWD",
    "PAT",
    "AUTH",
    "AUTHORIZATION",
    "BASICAUTH",
    "JWT",
    "BEARER",
    "PSK",
    "DSN",
    "SAS",
    "COOKIE",
    "WEBHOOK",
];

/// Last parts of names that are about a secret, and don't hold it: `SSH_AUTH_SOCK`, `API_KEY_HEADER`.
const ABOUT: [&str; 48] = [
    "SOCK",
    "SOCKET",
    "FILE",
    "PATH",
    "DIR",
    "TYPE",
    "METHOD",
    "MODE",
    "HOST",
    "PORT",
    "USER",
    "USERNAME",
    "ENABLED",
    "TIMEOUT",
    "PROVIDER",
    "DOMAIN",
    "NAME",
    "ALGORITHM",
    "ALG",
    "BACKEND",
    "HEADER",
    "REALM",
    "ISSUER",
    "AUDIENCE",
    "SCOPE",
    "SCOPES",
    "EXPIRY",
    "EXPIRES",
    "TTL",
    "LENGTH",
    "MIN",
    "MAX",
    "COUNT",
    "VERSION",
    "ENDPOINT",
    "REGION",
    "CLASS",
    "HASHER",
    "POLICY",
    "PREFIX",
    "FORMAT",
    "STORE",
    "LIFETIME",
    "ROTATION",
    "MANAGER",
    "SECURE",
    "SAMESITE",
    "URI",
];

/// Values that stand in for a secret in examples and trials, and are ordinary words elsewhere.
const PLACEHOLDERS: [&str; 14] = [
    "password",
    "passw0rd",
    "postgres",
    "postgresql",
    "changeme",
    "change-me",
    "placeholder",
    "localhost",
    "development",
    "production",
    "disabled",
    "undefined",
    "not-needed",
    "no-key-required",
];

/// Whole names that are known to hold no secret.
const HARMLESS: [&str; 2] = ["PWD", "OLDPWD"];

/// Whether a variable's name says that its value is a secret. Parts stand between `_`, `-` or `.`, and
/// digits at their ends count nothing.
pub(super) fn names_secret(variable: &str) -> bool {
    let upper = variable.to_ascii_uppercase();
    if HARMLESS.contains(&upper.as_str()) {
        return false;
    }
    let parts = upper.split(['_', '-', '.']);
    let parts: Vec<&str> =
        parts.map(|part| part.trim_end_matches(|one: char| one.is_ascii_digit())).collect();
    // The address of a webhook is all that it takes to call it.
    let is_about = parts
        .last()
        .is_some_and(|last| ABOUT.contains(last) || *last == "URL" && !parts.contains(&"WEBHOOK"));
    let says = |part: &&str| {
        let ends = ENDINGS.iter().any(|word| part.ends_with(word)) && !OTHER_WORDS.contains(part);
        ends || WORDS.contains(part)
    };
    !is_about && parts.iter().any(says)
}

/// What of a variable's value is secret: all of it where the name says so, unless it is the path of something
/// that is there; else the passwords of addresses in it.
pub(super) fn secrets_of(name: &str, value: &str) -> Vec<String> {
    let mut secrets = address::passwords(value);
    secrets.retain(|secret| !is_placeholder(secret));
    let path = Path::new(value);
    if names_secret(name) && !(path.is_absolute() && path.exists()) && !is_placeholder(value) {
        secrets.push(value.to_owned());
    }
    secrets
}

fn is_placeholder(value: &str) -> bool {
    PLACEHOLDERS.iter().any(|known| value.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_secret_looking_names() {
        for name in [
            "OPENAI_API_KEY",
            "GITHUB_TOKEN",
            "DB_PASSWORD",
            "APIKEY",
            "DB_PASS",
            "PASSPHRASE",
            "MYSQL_PWD",
            "GITHUB_PAT",
            "GOOGLE_CREDENTIALS",
            "NPM_AUTH",
            "npm_config__auth",
            "npm_config_//registry/:_authToken",
            "dbPassword",
            "SSHPASS",
            "API_KEY2",
            "AWS_ACCESS_KEY_ID",
            "SENTRY_DSN",
            "x-api-key",
            "SLACK_WEBHOOK_URL",
        ] {
            assert!(names_secret(name), "{name}");
        }
        for name in [
            "PATH",
            "HOME",
            "KEYBOARD_LAYOUT",
            "TOKENIZERS_PARALLELISM",
            "SSH_AUTH_SOCK",
            "SSH_ASKPASS",
            "XAUTHORITY",
            "GPG_TTY",
            "PWD",
            "OLDPWD",
            "BAKEOFF_MAX_TOKENS",
            "LESSPATTERN",
            "BYPASS",
            "AUTHOR",
            "NPM_AUTH_TYPE",
            "COOKIE_DOMAIN",
            "SESSION_COOKIE_NAME",
            "AUTH0_DOMAIN",
            "AUTH_URL",
            "AUTH_BACKEND",
            "JWT_ALGORITHM",
            "TOKEN_TYPE",
            "API_KEY_HEADER",
            "KEY_FILE",
            "MONKEY",
            "",
        ] {
            assert!(!names_secret(name), "{name}");
        }
    }

    #[test]
    fn a_value_is_secret_by_its_name_or_by_the_address_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_str().unwrap();
        for (name, value, want) in [
            ("DB_PASS", "hunter22", &["hunter22"][..]),
            ("DATABASE_URL", "postgres://me:hunter22@db/x", &["hunter22"]),
            ("HTTPS_PROXY", "http://me:p%40ss@proxy:1", &["p%40ss", "p@ss"]),
            ("PYTHONPATH", "/usr/lib", &[]),
            ("DATABASE_URL", "postgres://app:password@db/x", &[]),
            ("DB_PASSWORD", "Postgres", &[]),
            ("GOOGLE_APPLICATION_CREDENTIALS", path, &[]),
            ("GOOGLE_CREDENTIALS", "/no/such/file", &["/no/such/file"]),
        ] {
            assert_eq!(secrets_of(name, value), want, "{name}");
        }
    }
}
