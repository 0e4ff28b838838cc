//! Files that by their name hold secrets: tools neither print nor search them.
//!
//! A matter of policy, not of containment: a worker's workspace holds only what the base commit holds.

use std::collections::BTreeSet;
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

/// The names as patterns (`*`, `?`, `[!…]`) of a file's own name, in lower case: exactly those that
/// [`is_secret`] knows.
pub fn exclude_patterns() -> impl Iterator<Item = String> {
    let names = NAMES.iter().map(|name| (*name).to_owned());
    names.chain(ENDINGS.iter().map(|ending| format!("?*{ending}"))).chain(env_patterns())
}

/// The directories all of whose files count, in lower case.
pub fn exclude_directories() -> impl Iterator<Item = &'static str> {
    DIRECTORIES.iter().copied()
}

/// Directories of which one file counts, with that file, in lower case.
pub fn exclude_pairs() -> impl Iterator<Item = (&'static str, &'static str)> {
    PAIRS.iter().copied()
}

/// `.env.…` but for samples. Patterns have no "not", so that the endings are told apart letter by letter from the
/// last: what goes on as no sample does is a secret.
fn env_patterns() -> impl Iterator<Item = String> {
    let tails = SAMPLES.iter().flat_map(|sample| (1..=sample.len()).map(|at| &sample[at..]));
    let tails: BTreeSet<&str> = tails.filter(|tail| !SAMPLES.contains(tail)).collect();
    tails.into_iter().flat_map(|tail| {
        let before = |sample: &&str| sample.strip_suffix(tail)?.chars().next_back();
        let letters: BTreeSet<char> = SAMPLES.iter().filter_map(before).collect();
        let letters: String = letters.into_iter().collect();
        [format!(".env.{tail}"), format!(".env.*[!{letters}]{tail}")]
    })
}

/// A pattern that takes letters in either case, for programs that heed it.
pub fn in_any_case(pattern: &str) -> String {
    let mut written = String::new();
    let mut in_set = false;
    for c in pattern.chars() {
        in_set = (in_set || c == '[') && c != ']';
        match (c.is_ascii_alphabetic(), in_set) {
            (true, true) => written.extend([c, c.to_ascii_uppercase()]),
            (true, false) => written.extend(['[', c, c.to_ascii_uppercase(), ']']),
            (false, _) => written.push(c),
        }
    }
    written
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

    /// The patterns say of every name what `is_secret` says of it.
    #[test]
    fn patterns_and_names_agree() {
        let patterns: Vec<globset::GlobMatcher> = exclude_patterns()
            .map(|pattern| globset::Glob::new(&in_any_case(&pattern)).unwrap().compile_matcher())
            .collect();
        let mut names: Vec<String> = NAMES.iter().map(|name| (*name).to_owned()).collect();
        for ending in ENDINGS {
            names.extend([(*ending).to_owned(), format!("x{ending}"), format!("x{ending}.rs")]);
        }
        let suffixes = [
            "",
            "local",
            "e",
            "le",
            "xample",
            "te",
            "late",
            "production.local",
            "examples",
            "t",
            "st",
        ];
        for suffix in suffixes.iter().chain(SAMPLES) {
            names.extend([
                format!(".env.{suffix}"),
                format!(".env.my-{suffix}"),
                format!(".env{suffix}"),
            ]);
        }
        names.extend(["main.rs", "env", "config.json", "hosts.yml"].map(str::to_owned));
        for name in names.iter().flat_map(|name| [name.clone(), name.to_uppercase()]) {
            let found = patterns.iter().any(|pattern| pattern.is_match(&name));
            assert_eq!(found, is_secret(Path::new(&name)), "{name}");
        }
    }
}
