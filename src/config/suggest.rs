//! The nearest known word to a misspelt one.

/// The word of `known` nearest to `word`, when it is near enough to be meant: at most a third of its
/// letters differ (Damerau-Levenshtein distance with adjacent swaps).
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|each| (distance(&word.to_lowercase(), &each.to_lowercase()), each))
        .filter(|(far, each)| *far <= each.chars().count().max(word.chars().count()).div_ceil(3))
        .min_by_key(|(far, _)| *far)
        .map(|(_, each)| each)
}

/// What to say to somebody who wrote `word` where one of `known` belongs.
pub fn advice(word: &str, known: &[&str]) -> String {
    match nearest(word, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known here: {}", known.join(", ")),
    }
}

fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    rows[0] = (0..=b.len()).collect();
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let change = usize::from(a[i - 1] != b[j - 1]);
            let mut best =
                (rows[i - 1][j] + 1).min(rows[i][j - 1] + 1).min(rows[i - 1][j - 1] + change);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_only_what_may_be_meant() {
        assert_eq!(nearest("chekc", ["check", "test"]), Some("check"));
        assert_eq!(nearest("budget", ["budget_usd", "test"]), Some("budget_usd"));
        assert_eq!(nearest("voters", ["models", "synth"]), None);
        assert_eq!(nearest("max_paralel", ["max_parallel", "max_seconds"]), Some("max_parallel"));
        assert_eq!(advice("zzz", &["a", "b"]), "known here: a, b");
    }
}
