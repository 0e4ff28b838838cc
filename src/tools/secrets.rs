//! Files that by their name hold secrets: tools neither print nor search them.
//!
//! A matter of policy, not of containment: a worker's workspace holds only what the base commit holds.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Whole names, in lower case.
const NAMES: &[&str] = &[
    ".env",
    ".envrc",
    ".netrc",
    "_netrc",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".mylogin.cnf",
    ".git-credentials",
    ".htpasswd",
    ".s3cfg",
    ".boto",
    ".dockercfg",
    ".terraformrc",
    ".vault-token",
    ".vault_pass",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ecdsa_sk",
    "id_ed25519",
    "id_ed25519_sk",
    "credentials",
    "credentials.json",
    "credentials.toml",
    "credentials.yml",
    "credentials.yaml",
    "credentials.db",
    "secrets.json",
    "secrets.toml",
    "secrets.yml",
    "secrets.yaml",
    "secrets.env",
    "client_secret.json",
    "service-account.json",
    "service_account.json",
    "kubeconfig",
];
/// Endings, in lower case.
const ENDINGS: &[&str] = &[
    ".pem",
    ".key",
    ".p12",
    ".pfx",
    ".pkcs12",
    ".jks",
    ".keystore",
    ".kdbx",
    ".ppk",
    ".tfvars",
    ".tfstate",
    ".ovpn",
];
/// Directories all of whose files count, in lower case.
const DIRECTORIES: &[&str] = &[".ssh", ".gnupg", ".aws", ".password-store"];
/// A directory and a file in it that counts, in lower case.
const PAIRS: &[(&str, &str)] =
    &[(".docker", "config.json"), (".kube", "config"), ("gh", "hosts.yml")];
/// `.env.…` files that are made to be shown.
const SAMPLES: &[&str] = &["example", "sample", "template", "dist", "defaults", "schema"];

/// Whether a path's name says that it holds secrets.
pub fn is_secret(path: &Path) -> bool {
    let mut names = path.iter().map(|name| name.to_string_lossy().to_lowercase());
    let Some(last) = names.next_back() else { return false };
    let above: Vec<String> = names.collect();
    let pair = |(directory, file): &(&str, &str)| {
        *file == last && above.last().is_some_and(|a| a == directory)
    };
    is_secret_name(&last)
        || DIRECTORIES.contains(&last.as_str())
        || above.iter().any(|name| DIRECTORIES.contains(&name.as_str()))
        || PAIRS.iter().any(pair)
}

fn is_secret_name(name: &str) -> bool {
    if let Some(suffix) = name.strip_prefix(".env.") {
        return !SAMPLES.iter().any(|sample| suffix.ends_with(sample));
    }
    NAMES.contains(&name) || ENDINGS.iter().any(|ending| name.ends_with(ending) && name != *ending)
}

/// The patterns as `grep`'s `--exclude` and git's pathspecs take them.
pub fn exclude_patterns() -> impl Iterator<Item = String> {
    let names = NAMES.iter().map(|name| (*name).to_owned());
    names.chain(ENDINGS.iter().map(|ending| format!("*{ending}"))).chain(no_samples())
}

/// `.env.*` but for the samples, in patterns that know no exception: for each part of samples that can stand at
/// a name's end, what has there another letter before it than a sample has, and what is this part alone.
fn no_samples() -> impl Iterator<Item = String> {
    let ends = |sample: &&'static str| {
        let sample = *sample;
        (1..=sample.len()).map(move |at| (&sample[at..], &sample[at - 1..at]))
    };
    let mut before: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (end, letter) in SAMPLES.iter().flat_map(ends) {
        before.entry(end).or_default().insert(letter);
    }
    before.into_iter().flat_map(|(end, letters)| {
        let letters: String = letters.into_iter().collect();
        [format!(".env.*[!{letters}]{end}"), format!(".env.{end}")]
    })
}

/// The directories as `grep`'s `--exclude-dir` takes them.
pub fn exclude_directories() -> impl Iterator<Item = &'static str> {
    DIRECTORIES.iter().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_leave_out_what_is_known_by_name_and_no_sample() {
        let globs: Vec<_> = exclude_patterns()
            .map(|pattern| globset::Glob::new(&pattern).unwrap().compile_matcher())
            .collect();
        let names = [
            ".env",
            ".env.",
            ".env.e",
            ".env.le",
            ".env.ample",
            ".env.local",
            ".env.xample",
            ".env.test",
        ];
        let names = names.iter().map(|name| (*name).to_owned());
        let samples = SAMPLES
            .iter()
            .flat_map(|sample| [format!(".env.{sample}"), format!(".env.a.{sample}")]);
        for name in names.chain(samples).chain(["a.pem", "id_rsa", "key.rs"].map(str::to_owned)) {
            let left_out = globs.iter().any(|glob| glob.is_match(&name));
            assert_eq!(left_out, is_secret(Path::new(&name)), "{name}");
        }
    }

    #[test]
    fn secrets_are_known_by_name() {
        for path in [
            ".env",
            "app/.env.local",
            "ID_RSA",
            ".aws/credentials",
            "x/.ssh/config",
            "server.key",
            ".npmrc",
        ] {
            assert!(is_secret(Path::new(path)), "{path}");
        }
        for path in [
            ".env.example",
            "src/env.rs",
            "id_rsa.pub",
            "key.rs",
            "",
            "credentials.rs",
            "docs/.pem",
        ] {
            assert!(!is_secret(Path::new(path)), "{path}");
        }
    }
}
