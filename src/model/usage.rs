//! Tokens and money. An unknown price stays unknown: it is never counted as 0.

use std::fmt;
use std::ops::AddAssign;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An amount of money in millionths of a US dollar.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct MicroUsd(pub u64);

impl MicroUsd {
    /// From dollars, rounded up to the next millionth, so that a reservation is never too small.
    /// `None` for a negative, infinite or not-a-number amount.
    pub fn from_usd(usd: f64) -> Option<Self> {
        let micro = (usd * 1e6 - 1e-6).ceil();
        (usd.is_finite() && usd >= 0.0 && micro < u64::MAX as f64)
            .then_some(Self(micro.max(0.0) as u64))
    }

    /// In dollars.
    pub fn usd(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

impl fmt::Display for MicroUsd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "${:.4}", self.usd())
    }
}

/// What something cost: known in part or whole, and whether some of it has no known price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// The part whose price is known.
    pub known: MicroUsd,
    /// True when some calls' price is unknown, so that the real cost is higher than `known`.
    pub partly_unknown: bool,
}

impl Cost {
    /// The cost of a call whose model has no known price.
    pub const UNKNOWN: Self = Self { known: MicroUsd(0), partly_unknown: true };
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.known.0, self.partly_unknown) {
            (0, true) => f.write_str("price unknown"),
            (_, true) => write!(f, "{} + unknown", self.known),
            (_, false) => write!(f, "{}", self.known),
        }
    }
}

/// What models were asked and answered, as their servers counted it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Requests that a model answered.
    pub calls: u64,
    /// Input tokens that were not read from a cache.
    pub input_tokens: u64,
    /// Output tokens, reasoning included.
    pub output_tokens: u64,
    /// Input tokens that were read from the server's prefix cache.
    pub cache_read_tokens: u64,
    /// Input tokens that were written to the server's prefix cache.
    pub cache_write_tokens: u64,
    /// What that cost.
    pub cost: Cost,
}

impl Usage {
    /// All tokens, in and out. Sums of what servers say stay at the largest number: no count of theirs may wrap to a
    /// small one, under which a ceiling would hold.
    pub fn tokens(&self) -> u64 {
        self.read_tokens().saturating_add(self.output_tokens)
    }

    /// What this is more than `other`, number by number; nothing where it is less.
    pub fn beyond(&self, other: &Self) -> Self {
        Self {
            calls: self.calls.saturating_sub(other.calls),
            input_tokens: self.input_tokens.saturating_sub(other.input_tokens),
            output_tokens: self.output_tokens.saturating_sub(other.output_tokens),
            cache_read_tokens: self.cache_read_tokens.saturating_sub(other.cache_read_tokens),
            cache_write_tokens: self.cache_write_tokens.saturating_sub(other.cache_write_tokens),
            cost: Cost {
                known: MicroUsd(self.cost.known.0.saturating_sub(other.cost.known.0)),
                partly_unknown: self.cost.partly_unknown && !other.cost.partly_unknown,
            },
        }
    }

    /// All tokens that a model read, from a cache or not.
    pub fn read_tokens(&self) -> u64 {
        let cached = self.cache_read_tokens.saturating_add(self.cache_write_tokens);
        self.input_tokens.saturating_add(cached)
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        for (sum, more) in [
            (&mut self.calls, other.calls),
            (&mut self.input_tokens, other.input_tokens),
            (&mut self.output_tokens, other.output_tokens),
            (&mut self.cache_read_tokens, other.cache_read_tokens),
            (&mut self.cache_write_tokens, other.cache_write_tokens),
        ] {
            *sum = sum.saturating_add(more);
        }
        self.cost.known.0 = self.cost.known.0.saturating_add(other.cost.known.0);
        if other.cost.partly_unknown {
            self.cost.partly_unknown = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_is_too_large_to_be_added_stays_the_largest() {
        let most = Usage { input_tokens: u64::MAX, output_tokens: 1 << 63, ..Usage::default() };
        let mut sum = most;
        sum += most;
        assert_eq!(
            (sum.input_tokens, sum.output_tokens, sum.tokens()),
            (u64::MAX, u64::MAX, u64::MAX)
        );
        let cached = Usage { cache_read_tokens: u64::MAX, cache_write_tokens: 2, ..most };
        assert_eq!((cached.read_tokens(), cached.tokens()), (u64::MAX, u64::MAX));
    }

    #[test]
    fn money_rounds_up_and_refuses_nonsense() {
        assert_eq!(MicroUsd::from_usd(0.000_000_1), Some(MicroUsd(1)));
        assert_eq!(MicroUsd::from_usd(1.5), Some(MicroUsd(1_500_000)));
        assert_eq!(MicroUsd::from_usd(-1.0), None);
        assert_eq!(MicroUsd::from_usd(f64::NAN), None);
        assert_eq!(Cost::UNKNOWN.to_string(), "price unknown");
    }
}
