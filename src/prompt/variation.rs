//! A nudge for each attempt of a lane, so that attempts at one task don't all go the same way.
//!
//! Lives here: the list. Never here: chance; the attempt's number alone decides.

const VARIATIONS: [&str; 6] = [
    "Start from the code that fails or is missing, and follow its callers before you decide where the change belongs.",
    "Start from the tests nearest to the task: they show which behaviour the maintainers rely on.",
    "Before you edit, think of two different places where the change could be made, and take the one that leaves less to explain.",
    "Look first for how this repository already solves a similar problem, and do it the same way.",
    "Give particular care to the edges: empty input, errors, repeated calls, concurrent use, and what callers rely on today.",
    "Prefer changing existing code to adding new code; look for what can stay as it is.",
];

/// The nudge of an attempt (from 1). The first attempt has none: it is the plain task.
pub fn variation(attempt: u32) -> Option<&'static str> {
    let index = usize::try_from(attempt.checked_sub(2)?).ok()?;
    VARIATIONS.get(index % VARIATIONS.len()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_attempt_is_plain_and_neighbours_differ() {
        assert_eq!(variation(1), None);
        for attempt in 2..40 {
            assert_ne!(variation(attempt), variation(attempt + 1));
        }
    }
}
