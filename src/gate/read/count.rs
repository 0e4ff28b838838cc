//! How many tests a runner says that it ran. Quiet runners name only what failed, so that the number
//! is all that tells a mended test from one that was never run.
//!
//! Skipped and ignored tests did not run. Errors of set-up are not counted: a test with one may be
//! counted as passed too.

use std::ops::ControlFlow;

/// Of `pytest`: its last line, `1 failed, 2 passed in 0.02s`. What the tests print stands above it.
pub fn pytest(output: &str) -> Option<u32> {
    output.lines().rev().find_map(|line| {
        let told = line.trim_matches(['=', ' ']);
        let (counts, _) = told.rsplit_once(" in ")?;
        sum(counts.split(", "), &["passed", "failed", "xfailed", "xpassed"])
            .or_else(|| (counts == "no tests ran").then_some(0))
    })
}

/// Of libtest, one line a target: `test result: ok. 2 passed; 0 failed; …`; of `cargo nextest`:
/// `Summary [   0.005s] 3 tests run: 2 passed, 1 failed`.
pub fn cargo(output: &str) -> Option<u32> {
    let line = |line: &str| {
        if let Some(rest) = line.strip_prefix("test result: ") {
            let (_, counts) = rest.split_once(". ")?;
            return sum(counts.split("; "), &["passed", "failed"]);
        }
        let rest = line.trim_start().strip_prefix("Summary [")?;
        let (_, rest) = rest.split_once("] ")?;
        sum(rest.split(", ").take(1), &["test run:", "tests run:"])
    };
    total(output.lines().filter_map(line))
}

/// Of `go test` without `-v`: packages, because it does not count tests.
pub fn go(output: &str) -> Option<u32> {
    let ran = |line: &str| {
        let (word, rest) = line.split_once('\t')?;
        let did = matches!(word.trim_end(), "ok" | "FAIL") && !rest.ends_with(" failed]");
        did.then_some(1)
    };
    total(output.lines().filter_map(ran))
}

/// Of anything else: whatever of the above is there, and the runners of JavaScript. Node: `# pass 2`;
/// Jest and Vitest: `Tests: 1 failed, 2 passed, 3 total`; Mocha: `2 passing (5ms)`.
pub fn any(output: &str) -> Option<u32> {
    total([pytest(output), cargo(output), unittest(output), script(output)].into_iter().flatten())
}

/// Of `unittest`: `Ran 7 tests in 0.002s`, less what `FAILED (failures=2, skipped=1)` says was skipped.
pub fn unittest(output: &str) -> Option<u32> {
    let ran = output.lines().rev().find_map(|line| {
        let (number, _) = line.strip_prefix("Ran ")?.split_once(" test")?;
        number.parse::<u32>().ok()
    })?;
    let skipped = output.lines().rev().find_map(|line| {
        let (_, rest) = line.split_once("skipped=")?;
        rest.split([',', ')']).next()?.parse::<u32>().ok()
    });
    Some(ran.saturating_sub(skipped.unwrap_or(0)))
}

/// Of the runners of JavaScript.
pub fn script(output: &str) -> Option<u32> {
    total(output.lines().filter_map(script_line))
}

fn script_line(line: &str) -> Option<u32> {
    let line = line.trim();
    if let Some(rest) = line.strip_prefix(['#', 'ℹ']) {
        let (word, number) = rest.trim_start().split_once(' ')?;
        return matches!(word, "pass" | "fail").then(|| number.parse().ok()).flatten();
    }
    if let Some(rest) = line.strip_prefix("Tests:").or_else(|| line.strip_prefix("Tests  ")) {
        return sum(rest.split([',', '|', '(']), &["passed", "failed"]);
    }
    let (told, rest) = line.split_once("ing").unwrap_or((line, ""));
    (rest.is_empty() || rest.starts_with(" ("))
        .then(|| sum([told].into_iter(), &["pass", "fail"]))?
}

/// The numbers that stand before one of the words; none when no word is there.
fn sum<'a>(parts: impl Iterator<Item = &'a str>, words: &[&str]) -> Option<u32> {
    let number = |part: &str| {
        let (number, word) = part.trim().split_once(' ')?;
        // Newer libtests and Vitest put more behind the word: `3 passed (3)`.
        let word = word.split(" (").next().unwrap_or(word);
        let end = word.split_once(": ").map_or(word.len(), |(head, _)| head.len() + 1);
        words.contains(&&word[..end]).then(|| number.parse().ok()).flatten()
    };
    total(parts.filter_map(number))
}

/// The sum, if there is anything to sum; a number that does not fit is no number.
fn total(numbers: impl Iterator<Item = u32>) -> Option<u32> {
    let mut numbers = numbers;
    let first = numbers.next()?;
    let folded = numbers.try_fold(first, |sum: u32, next| match sum.checked_add(next) {
        Some(sum) => ControlFlow::Continue(sum),
        None => ControlFlow::Break(()),
    });
    match folded {
        ControlFlow::Continue(sum) => Some(sum),
        ControlFlow::Break(()) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runners_counts_are_read() {
        assert_eq!(pytest(".F\n1 failed, 1 passed in 0.02s\n"), Some(2));
        assert_eq!(pytest("===== 3 passed, 2 skipped, 1 error in 0.02s (0:00:01) ====\n"), Some(3));
        assert_eq!(pytest("no tests ran in 0.01s\n"), Some(0));
        assert_eq!(pytest("1 passed in our hearts\n2 passed in 0.1s\n"), Some(2));
        assert_eq!(pytest("nothing\n"), None);
        let libtest = "running 2 tests\n.F\ntest result: FAILED. 1 passed; 1 failed; 3 ignored; 0 measured; 0 filtered out\n\
                       test result: ok. 4 passed; 0 failed; 0 ignored\n";
        assert_eq!(cargo(libtest), Some(6));
        let nextest = "     Summary [   0.005s] 3 tests run: 2 passed, 1 failed, 0 skipped\n";
        assert_eq!(cargo(nextest), Some(3));
        let packages = "ok  \tx/a\t0.1s\nFAIL\tx/b\t0.2s\n?   \tx/c\t[no test files]\nFAIL\tx/d [build failed]\n";
        assert_eq!(go(packages), Some(2));
        assert_eq!(any("# tests 3\n# pass 2\n# fail 1\n"), Some(3));
        assert_eq!(any("ℹ pass 2\nℹ fail 0\n"), Some(2));
        assert_eq!(any("Tests:       1 failed, 2 passed, 3 total\n"), Some(3));
        assert_eq!(any("      Tests  1 failed | 2 passed (3)\n"), Some(3));
        assert_eq!(any("  2 passing (5ms)\n  1 failing\n"), Some(3));
        assert_eq!(any("something is missing\n"), None);
    }
}
