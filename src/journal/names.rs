//! Which variables of an environment hold secrets, by their names and values.
//!
//! Never here: the process's own environment, which the caller passes in.

use std::path::Path;

use crate::model::address;

/// How a part of a name ends that says that the value is a secret, whatever else the name says.
const SECRETS: [&str; 14] = [
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
    "COOKIE",
];

/// Whole parts that say so unless the name goes on to something else, as in `SSH_AUTH_SOCK`.
const SHORT: [&str; 16] = [
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
    "WEBHOOK",
];

/// Last parts of names that are about a secret, and don't hold it.
const ABOUT: [&str; 15] = [
    "SOCK", "SOCKET", "FILE", "PATH", "DIR", "TYPE", "METHOD", "MODE", "HOST", "PORT", "USER",
    "USERNAME", "ENABLED", "TIMEOUT", "PROVIDER",
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
    let is_about = parts.last().is_some_and(|last| ABOUT.contains(last));
    let says = |part: &&str| {
        SECRETS.iter().any(|word| part.ends_with(word)) || (!is_about && SHORT.contains(part))
    };
    parts.iter().any(says)
}

/// What of a variable's value is secret: all of it where the name says so, unless it is the path of something
/// that is there; else the passwords of addresses in it.
pub(super) fn secrets_of(name: &str, value: &str) -> Vec<String> {
    let mut secrets = address::passwords(value);
    let path = Path::new(value);
    if names_secret(name) && !(path.is_absolute() && path.exists()) {
        secrets.push(value.to_owned());
    }
    secrets
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
            ("GOOGLE_APPLICATION_CREDENTIALS", path, &[]),
            ("GOOGLE_CREDENTIALS", "/no/such/file", &["/no/such/file"]),
        ] {
            assert_eq!(secrets_of(name, value), want, "{name}");
        }
    }
}
