//! One account of a ledger: ceilings of money and tokens, and what is spent, held and set aside.
//! Pure; never here: whom it waits for.

use crate::model::{MicroUsd, Usage};

/// Money and tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Money, as far as prices are known.
    pub money: MicroUsd,
    /// Tokens, in and out.
    pub tokens: u64,
}

impl Amount {
    /// What calls used.
    pub fn of(usage: &Usage) -> Self {
        Self { money: usage.cost.known, tokens: usage.tokens() }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.money.0 = self.money.0.saturating_add(other.money.0);
        self.tokens = self.tokens.saturating_add(other.tokens);
    }

    pub(super) fn take(&mut self, other: Self) {
        self.money.0 = self.money.0.saturating_sub(other.money.0);
        self.tokens = self.tokens.saturating_sub(other.tokens);
    }
}

/// What an account may come to; nothing set means no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ceiling {
    /// The most money.
    pub money: Option<MicroUsd>,
    /// The most tokens.
    pub tokens: Option<u64>,
}

impl Ceiling {
    /// The same without the part that is kept for a worker's last summary (contract R27).
    pub(super) fn for_work(self) -> Self {
        let less = |all: u64| all - all / SUMMARY_RESERVE_DIVISOR;
        Self { money: self.money.map(|most| MicroUsd(less(most.0))), tokens: self.tokens.map(less) }
    }
}

/// The last summaries' part of a ceiling is one in so many.
pub const SUMMARY_RESERVE_DIVISOR: u64 = 10;

/// What a ledger, or one lane of it, holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerTotals {
    /// What calls cost.
    pub spent: Amount,
    /// The most that calls can have cost whose cost is not known: broken off, or not counted.
    pub held: Amount,
    /// The most that calls under way can cost.
    pub reserved: Amount,
}

/// Whether a call fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// It does.
    Now,
    /// It may, once calls under way cost less than they might.
    Later,
    /// It never will: not the money.
    NoMoney,
    /// It never will: not the tokens.
    NoTokens,
}

impl LedgerTotals {
    pub(super) fn fit(&self, most: Amount, ceiling: Ceiling) -> Fit {
        let mut gone = self.spent;
        gone.add(self.held);
        gone.add(most);
        let passes = |gone: Amount| {
            let money = ceiling.money.is_some_and(|most| gone.money > most);
            (money, ceiling.tokens.is_some_and(|most| gone.tokens > most))
        };
        match passes(gone) {
            (true, _) => return Fit::NoMoney,
            (_, true) => return Fit::NoTokens,
            _ => {}
        }
        gone.add(self.reserved);
        if passes(gone) == (false, false) { Fit::Now } else { Fit::Later }
    }
}
