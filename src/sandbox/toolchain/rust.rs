//! Rust: rustup's toolchains or the system's cargo, with a private cargo home.
//!
//! The user's cargo home stays where it is by path, but in the job it is an empty directory in
//! which only downloaded sources, programs and a harmless config are shown. Never a credentials file.

use std::path::Path;

use super::Search;

/// Adds cargo, rustc and what they need.
pub(super) fn find(search: &mut Search<'_>) {
    if search.program("cargo").is_none() {
        return;
    }
    search.program("rustc");
    let cargo_home = search.home.join(".cargo");
    let rustup_home = search.home.join(".rustup");
    search.tmp(&cargo_home);
    for part in ["bin", "registry", "git"] {
        search.show(&cargo_home.join(part));
    }
    for name in ["config.toml", "config"] {
        let config = cargo_home.join(name);
        if is_harmless(&config) {
            search.show(&config);
            break;
        }
    }
    // The programs in `bin` are rustup's proxies: they choose the toolchain by the repository's own
    // file, and hand over to the real one.
    for part in ["toolchains", "settings.toml"] {
        search.show(&rustup_home.join(part));
    }
    search.env("CARGO_HOME", cargo_home);
    if rustup_home.join("toolchains").is_dir() {
        search.env("RUSTUP_HOME", rustup_home);
        search.env("RUSTUP_AUTO_INSTALL", "0");
    }
    search.env("CARGO_NET_OFFLINE", "true");
    search.env("CARGO_TERM_COLOR", "never");
}

/// Whether a cargo config holds nothing that could be a secret.
fn is_harmless(config: &Path) -> bool {
    let Ok(text) = std::fs::read_to_string(config) else { return false };
    text.parse::<toml::Table>().is_ok_and(|table| !holds_secret(&toml::Value::Table(table)))
}

fn holds_secret(value: &toml::Value) -> bool {
    const KEYS: [&str; 7] =
        ["token", "secret-key", "password", "credential-provider", "proxy", "env", "include"];
    match value {
        toml::Value::Table(table) => {
            table.iter().any(|(key, value)| KEYS.contains(&key.as_str()) || holds_secret(value))
        }
        toml::Value::Array(values) => values.iter().any(holds_secret),
        // A name and a password in an address.
        toml::Value::String(text) => text.contains("://") && text.contains('@'),
        _ => false,
    }
}
