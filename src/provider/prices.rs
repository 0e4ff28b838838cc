//! What tokens cost.
//!
//! Lives here: the operator's own prices first, then the bundled price list (`genai-prices`). A model
//! in neither has no price: its cost is unknown and never 0. Never here: IO, budgets.

use std::collections::BTreeMap;

use genai_prices::{PriceRequest, Usage as Counted, UsageKey};

use crate::model::{Cost, MicroUsd, Usage};

/// A model's price as the operator states it, in US dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    /// Input that is not read from a cache.
    pub input: f64,
    /// Output, reasoning included.
    pub output: f64,
    /// Input read from a cache; the price of input when not stated.
    pub cache_read: Option<f64>,
    /// Input written to a cache; the price of input when not stated.
    pub cache_write: Option<f64>,
}

impl Price {
    /// The price of a model that costs nothing.
    pub const FREE: Self = Self { input: 0.0, output: 0.0, cache_read: None, cache_write: None };

    fn cost(&self, usage: &Usage) -> Option<MicroUsd> {
        // Dollars per million tokens are millionths of a dollar per token.
        let micro = usage.input_tokens as f64 * self.input
            + usage.output_tokens as f64 * self.output
            + usage.cache_read_tokens as f64 * self.cache_read.unwrap_or(self.input)
            + usage.cache_write_tokens as f64 * self.cache_write.unwrap_or(self.input);
        charged(micro / 1e6)
    }
}

/// The prices of one provider's models.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pricing {
    provider: String,
    base_url: Option<String>,
    own: BTreeMap<String, Price>,
    all: Option<Price>,
}

impl Pricing {
    /// The prices of the provider with this name in the config, which should be its name in the price
    /// list, too (`openai`, `anthropic`, `openrouter`, …).
    pub fn new(provider: impl Into<String>) -> Self {
        Self { provider: provider.into(), ..Self::default() }
    }

    /// Also looks the provider up by its base URL, when the price list has none of its name.
    pub fn with_base_url(mut self, url: impl Into<String>) -> Self {
        self.base_url = Some(url.into());
        self
    }

    /// With the operator's price of one model.
    pub fn with_price(mut self, model: impl Into<String>, price: Price) -> Self {
        self.own.insert(model.into(), price);
        self
    }

    /// Prices of a provider whose models cost nothing, such as a script.
    pub fn free() -> Self {
        Self { all: Some(Price::FREE), ..Self::default() }
    }

    /// The provider's name in the config.
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// What a call cost. Unknown when the model has no price, and when the server counted nothing
    /// although a price is known.
    pub fn cost(&self, model: &str, usage: &Usage) -> Cost {
        if usage.tokens() == 0 && self.own_price(model) != Some(Price::FREE) {
            return Cost::UNKNOWN;
        }
        match self.amount(model, usage) {
            Some(known) => Cost { known, partly_unknown: false },
            None => Cost::UNKNOWN,
        }
    }

    /// The most that a call can cost with at most these tokens: all input is taken as read without a
    /// cache or as written to it, whichever costs more. `None` when the model has no price.
    pub fn most(&self, model: &str, input_tokens: u64, output_tokens: u64) -> Option<MicroUsd> {
        let plain = Usage { input_tokens, output_tokens, ..Usage::default() };
        let cache_write_tokens = input_tokens;
        let written = Usage { cache_write_tokens, output_tokens, ..Usage::default() };
        self.amount(model, &plain).max(self.amount(model, &written))
    }

    fn own_price(&self, model: &str) -> Option<Price> {
        self.own.get(model).copied().or(self.all)
    }

    fn amount(&self, model: &str, usage: &Usage) -> Option<MicroUsd> {
        match self.own_price(model) {
            Some(price) => price.cost(usage),
            None => listed(&self.provider, None, model, usage)
                .or_else(|| listed("", self.base_url.as_deref(), model, usage)),
        }
    }
}

/// What a call cost by the bundled price list.
pub fn cost(provider: &str, model: &str, usage: &Usage) -> Cost {
    Pricing::new(provider).cost(model, usage)
}

/// The most that a call can cost by the bundled price list; `None` when it has no such model.
pub fn most(
    provider: &str,
    model: &str,
    input_tokens: u64,
    output_tokens: u64,
) -> Option<MicroUsd> {
    Pricing::new(provider).most(model, input_tokens, output_tokens)
}

/// A sum that is too large to be counted is the largest: a server's nonsense makes nothing free.
fn charged(usd: f64) -> Option<MicroUsd> {
    MicroUsd::from_usd(usd).or((usd > 0.0).then_some(MicroUsd(u64::MAX)))
}

fn listed(provider: &str, url: Option<&str>, model: &str, usage: &Usage) -> Option<MicroUsd> {
    let input = usage.read_tokens();
    // The list's input includes what went through a cache.
    let mut counted = Counted::from([
        (UsageKey::INPUT_TOKENS, input as f64),
        (UsageKey::OUTPUT_TOKENS, usage.output_tokens as f64),
    ]);
    for (key, tokens) in [
        (UsageKey::CACHE_READ_TOKENS, usage.cache_read_tokens),
        (UsageKey::CACHE_WRITE_TOKENS, usage.cache_write_tokens),
    ] {
        if tokens > 0 {
            counted.insert(key, tokens as f64);
        }
    }
    let request = PriceRequest::new(model, &counted);
    let request = match (provider, url) {
        // Neither: the list would guess a provider from the model's name.
        ("", None) => return None,
        ("", Some(url)) => request.with_provider_api_url(url),
        (provider, _) => request.with_provider_id(provider),
    };
    let price = genai_prices::calculate(&request).ok()?;
    charged(price.total_price)
}

#[cfg(test)]
mod tests {
    use super::*;

    const USAGE: Usage = Usage {
        calls: 1,
        input_tokens: 1_000_000,
        output_tokens: 100_000,
        cache_read_tokens: 0,
        cache_write_tokens: 0,
        cost: Cost::UNKNOWN,
    };

    #[test]
    fn listed_models_have_a_price_and_others_have_none() {
        let cost = cost("openai", "gpt-4o", &USAGE);
        assert_eq!(cost, Cost { known: MicroUsd(3_500_000), partly_unknown: false });
        assert_eq!(super::cost("openai", "no-such-model", &USAGE), Cost::UNKNOWN);
        assert_eq!(super::cost("my-server", "gpt-4o", &USAGE), Cost::UNKNOWN);
        assert_eq!(most("my-server", "gpt-4o", 1, 1), None);
        let by_url = Pricing::new("work").with_base_url("https://api.openai.com/v1");
        assert_eq!(by_url.cost("gpt-4o", &USAGE), cost);
        let local = Pricing::new("local").with_base_url("http://127.0.0.1:8080/v1");
        assert_eq!(local.cost("gpt-4o", &USAGE), Cost::UNKNOWN);
    }

    #[test]
    fn caches_have_prices_of_their_own_and_the_most_counts_the_dearer_one() {
        let model = "claude-sonnet-4-5";
        let cached = Usage { input_tokens: 0, cache_read_tokens: 1_000_000, ..USAGE };
        let plain = cost("anthropic", model, &USAGE).known;
        assert!(cost("anthropic", model, &cached).known < plain);
        let most = most("anthropic", model, 100_000, 10_000).unwrap();
        let written =
            Usage { input_tokens: 0, cache_write_tokens: 100_000, output_tokens: 10_000, ..USAGE };
        assert_eq!(most, cost("anthropic", model, &written).known);
    }

    #[test]
    fn the_operators_price_comes_first_and_nothing_counted_is_unknown() {
        let price = Price { input: 1.0, output: 10.0, cache_read: Some(0.1), cache_write: None };
        let own = Pricing::new("openai").with_price("gpt-4o", price);
        assert_eq!(own.cost("gpt-4o", &USAGE).known, MicroUsd(2_000_000));
        assert_eq!(own.most("gpt-4o", 10, 1), Some(MicroUsd(20)));
        let nothing = Usage { calls: 1, ..Usage::default() };
        assert_eq!(own.cost("gpt-4o", &nothing), Cost::UNKNOWN);
        assert_eq!(Pricing::free().cost("any", &nothing), Cost::default());
        assert_eq!(Pricing::free().most("any", 10, 10), Some(MicroUsd(0)));
    }
}
