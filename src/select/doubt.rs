//! What the gates leave to doubt of a survivor: failures of the base that it did not mend, and changes
//! that make a gate's word worth less.

use crate::model::{BaseComparison, Flag, GateKind, GateReport};

/// Flags of changes that can make a gate pass without the work being done. Most have honest uses, so
/// they disprove nobody.
const CODES: [&str; 8] = [
    "addresses-judge",
    "changes-only-tests",
    "detects-tests",
    "ends-the-process",
    "fits-tests",
    "imitates-a-runner",
    "silences-only",
    "weakens-tests",
];

/// What is left to doubt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Doubt {
    /// Failures of the base that its tests still show.
    pub left: u64,
    /// Tests of the base that fail on it and that it changed.
    pub contested: u64,
    /// Tests that fail now and then on it, and not on the base; and tests of its own that fail on it.
    pub shaky: u64,
    /// Whether it mended any failure of the base's tests.
    pub mended: bool,
    /// Codes of the flags that count, each once, sorted.
    pub codes: Vec<String>,
}

impl Doubt {
    /// What a survivor's gates and flags leave to doubt.
    pub fn of(gates: &[GateReport], flags: &[Flag]) -> Self {
        // Only tests say whether the work was done. What a typecheck still has against a base that
        // fails it is mostly old lints, and mending those says nothing of the task.
        let tests = || gates.iter().filter(|report| report.gate == GateKind::Test);
        let compared = || tests().filter_map(|report| report.base.as_ref());
        let mended = |base: &BaseComparison| {
            !base.fixed.is_empty() || (!base.base_passed && base.unchanged == 0)
        };
        let mut codes: Vec<String> = flags
            .iter()
            .map(|flag| flag.code.clone())
            .filter(|code| CODES.contains(&code.as_str()))
            .collect();
        codes.sort();
        codes.dedup();
        let flaky = |report: &GateReport| report.flaky.iter().filter(|test| !test.on_base).count();
        let failing = |report: &GateReport| report.own.as_ref().map_or(0, |own| own.failing);
        Self {
            contested: compared().map(|base| base.contested.len() as u64).sum(),
            shaky: tests().map(|report| flaky(report) as u64 + failing(report)).sum(),
            left: compared().map(|base| base.unchanged).sum(),
            mended: compared().any(mended),
            codes,
        }
    }

    /// Whether the gates' pass says little: nothing that failed on the base was mended, a flag counts, or
    /// its tests are shaky or contested.
    pub fn is_serious(&self) -> bool {
        self.is_unfit() || self.shaky > 0 || (self.left > 0 && !self.mended)
    }

    /// Whether the gates' word is not enough to pick it: a flag of a change that can make a gate pass
    /// without the work being done, or tests of the base that it changed and that fail on it. Judges may
    /// choose it, and so may a person.
    pub fn is_unfit(&self) -> bool {
        !self.codes.is_empty() || self.contested > 0
    }

    /// Tests of the base that fail on it, mended or contested ones not told apart.
    pub fn failing(&self) -> u64 {
        self.left + self.contested
    }

    /// In words, for a decision's reason.
    pub fn text(&self) -> Option<String> {
        let failures = match (self.left, self.mended) {
            (0, _) => None,
            (left, true) => Some(format!("failures of the base are still there ({left})")),
            (left, false) => Some(format!("no failure of the base is mended ({left} left)")),
        };
        let flags =
            (!self.codes.is_empty()).then(|| format!("it is flagged ({})", self.codes.join(", ")));
        let contested = (self.contested > 0)
            .then(|| format!("tests of the base that it changed fail on it ({})", self.contested));
        let shaky = (self.shaky > 0)
            .then(|| format!("tests are flaky on it, or its own fail ({})", self.shaky));
        let parts: Vec<String> =
            failures.into_iter().chain(contested).chain(shaky).chain(flags).collect();
        (!parts.is_empty()).then(|| parts.join(" and "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Diagnostic, OwnTests, Verdict};

    fn gate(base_passed: bool, unchanged: u64) -> GateReport {
        let base = BaseComparison { base_passed, unchanged, ..BaseComparison::default() };
        GateReport { base: Some(base), ..GateReport::bare(GateKind::Test, Verdict::Pass) }
    }

    fn flag(code: &str) -> Flag {
        Flag { code: code.to_owned(), path: None, detail: String::new() }
    }

    #[test]
    fn a_failure_that_stands_and_a_flag_that_counts_are_doubts() {
        let none = Doubt::of(&[gate(true, 0)], &[flag("touches-gate")]);
        assert!(!none.is_serious() && none.text().is_none());
        assert!(Doubt::of(&[gate(false, 0)], &[]).mended);
        let idle = Doubt::of(&[gate(false, 1)], &[]);
        assert_eq!(idle.text().as_deref(), Some("no failure of the base is mended (1 left)"));
        assert!(idle.is_serious());
        let lints = GateReport { gate: GateKind::Typecheck, ..gate(false, 7) };
        assert_eq!(Doubt::of(&[lints], &[]), Doubt::default());
        let mut contested = gate(true, 0);
        contested.base.as_mut().unwrap().contested = vec![Diagnostic {
            code: "t".to_owned(),
            path: String::new(),
            line: 0,
            message: String::new(),
        }];
        let doubt = Doubt::of(&[contested], &[]);
        assert!(doubt.is_unfit() && doubt.failing() == 1, "{doubt:?}");
        let own = OwnTests { failing: 2, ..OwnTests::default() };
        let shaky = Doubt::of(&[GateReport { own: Some(own), ..gate(true, 0) }], &[]);
        assert!(shaky.is_serious() && !shaky.is_unfit(), "{shaky:?}");
        let flagged = Doubt::of(&[], &[flag("weakens-tests"), flag("weakens-tests")]);
        assert_eq!(flagged.text().as_deref(), Some("it is flagged (weakens-tests)"));
    }
}
