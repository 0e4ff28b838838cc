//! What may have been meant by a revision that is not there. Pure but for reading reference names.

use git2::Repository;

/// A hint from a semicolon on, or nothing.
pub(crate) fn revision(repo: &Repository, rev: &str) -> String {
    let mut near: Vec<(usize, String)> = names(repo)
        .into_iter()
        .map(|name| (distance(rev.as_bytes(), name.as_bytes()), name))
        .filter(|(far, name)| *far <= 2.max(rev.len() / 3) || name.ends_with(&format!("/{rev}")))
        .collect();
    near.sort();
    near.dedup();
    let near: Vec<String> = near.into_iter().take(3).map(|(_, name)| format!("{name:?}")).collect();
    if !near.is_empty() {
        return format!("; did you mean {}?", near.join(" or "));
    }
    if repo.is_shallow() {
        return "; the clone is shallow, `git fetch --unshallow` brings the rest".into();
    }
    "; `git log --oneline --all` lists what there is".into()
}

fn names(repo: &Repository) -> Vec<String> {
    let Ok(references) = repo.references() else { return Vec::new() };
    let short = references.flatten().take(20_000);
    short.filter_map(|r| r.shorthand().ok().map(str::to_owned)).collect()
}

/// The Levenshtein distance.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn distance_counts_single_edits() {
        assert_eq!(distance(b"main", b"main"), 0);
        assert_eq!(distance(b"mian", b"main"), 2);
        assert_eq!(distance(b"", b"abc"), 3);
        assert_eq!(distance(b"feature", b"features"), 1);
    }
}
