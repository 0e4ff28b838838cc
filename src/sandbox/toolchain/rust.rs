//! Rust: rustup's toolchains or the system's cargo, with a private cargo home.
//!
//! The user's cargo home stays where it is by path, but in the job it is an empty directory in
//! which only downloaded sources, programs and a harmless config are shown. Never a credentials file.

use std::path::{Path, PathBuf};

use super::Search;

/// Adds cargo, rustc and what they need.
pub(super) fn find(search: &mut Search<'_>) {
    let Some(cargo) = search.program("cargo") else { return };
    search.program("rustc");
    let cargo_home = cargo_home(search, &cargo);
    let rustup_home = rustup_home(search, &cargo_home);
    search.tmp(&cargo_home);
    for part in ["bin", "registry", "git"] {
        search.show_again(&cargo_home.join(part));
    }
    for name in ["config.toml", "config"] {
        let config = cargo_home.join(name);
        if is_harmless(&config) {
            search.show_again(&config);
            break;
        }
    }
    search.toolchains.caches.extend(super::caches::of_cargo(&cargo_home));
    search.env("CARGO_HOME", cargo_home);
    if let Some(home) = rustup_home {
        // The programs in `bin` are rustup's proxies: they choose the toolchain by the repository's
        // own file, and hand over to the real one.
        for part in ["toolchains", "settings.toml"] {
            search.show(&home.join(part));
        }
        search.env("RUSTUP_HOME", home);
        search.env("RUSTUP_AUTO_INSTALL", "0");
    }
    search.env("CARGO_NET_OFFLINE", "true");
    search.env("CARGO_TERM_COLOR", "never");
}

/// The directory above cargo's own, as in container images, or the one in the home directory.
fn cargo_home(search: &Search<'_>, cargo: &Path) -> PathBuf {
    let above = cargo.parent().and_then(Path::parent);
    let own = above.filter(|dir| {
        let system = ["/", "/usr", "/usr/local"].iter().any(|system| *dir == Path::new(system));
        !system && (dir.join("registry").is_dir() || dir.join("bin/rustup").is_file())
    });
    own.map_or_else(|| search.home.join(".cargo"), Path::to_owned)
}

/// Where rustup keeps its toolchains, when there is a rustup: beside the cargo home, by default.
fn rustup_home(search: &Search<'_>, cargo_home: &Path) -> Option<PathBuf> {
    let beside = cargo_home.parent().unwrap_or(search.home);
    let homes = [beside.join(".rustup"), beside.join("rustup"), search.home.join(".rustup")];
    homes.into_iter().find(|home| home.join("toolchains").is_dir())
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
