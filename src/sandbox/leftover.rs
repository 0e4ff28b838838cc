//! What a killed engine or warden left in a directory: entries that are named after a process that
//! is dead. Only finds; removing is the finder's own affair.

use std::path::{Path, PathBuf};

/// A name for the calling process's own entry: `prefix`, its id, `-`, `rest`.
pub(super) fn name(prefix: &str, rest: &str) -> String {
    format!("{prefix}{}-{rest}", std::process::id())
}

/// Entries of `dir` that were named by [`name`] in a process that is dead.
pub(super) fn of_the_dead(dir: &Path, prefix: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let dead = entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(|name| is_left_over(name, prefix)));
    dead.map(|entry| entry.path()).collect()
}

fn is_left_over(name: &str, prefix: &str) -> bool {
    let owner = name.strip_prefix(prefix).and_then(|rest| rest.split_once('-'));
    owner.is_some_and(|(pid, _)| {
        pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_dead_processes_made_is_left_over() {
        assert!(!is_left_over(&name("bakeoff-", "7"), "bakeoff-"));
        assert!(!is_left_over("user.slice", "bakeoff-"));
        assert!(!is_left_over("bakeoff-x-1", "bakeoff-"));
        assert!(is_left_over("bakeoff-4194305-1", "bakeoff-"));
    }
}
