//! Tokens and money.

/// What a request used, as its provider counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Tokens that went in, cached ones included.
    pub input: u64,
    /// Of those, read from the provider's cache.
    pub cached_input: u64,
    /// Of those, written to the provider's cache.
    pub cache_write: u64,
    /// Tokens that came out, reasoning included.
    pub output: u64,
    /// Of those, reasoning.
    pub reasoning: u64,
    /// All together.
    pub total: u64,
    /// In US dollars, where the provider says it.
    pub cost: Option<f64>,
}

/// What a model's tokens cost, in US dollars per token.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Price {
    /// Per input token.
    pub input: f64,
    /// Per input token from the cache; `None`: as any other.
    pub cached_input: Option<f64>,
    /// Per input token written to the cache; `None`: as any other.
    pub cache_write: Option<f64>,
    /// Per output token.
    pub output: f64,
    /// Per request.
    pub request: f64,
    /// The longest input for which it holds; `None`: any.
    pub most_input: Option<u64>,
}

impl Price {
    /// What this usage costs, unless the provider said it already. `None`: the price does not hold for it.
    pub fn cost(&self, usage: &Usage) -> Option<f64> {
        if usage.cost.is_some() {
            return usage.cost;
        }
        if self.most_input.is_some_and(|most| usage.input > most) {
            return None;
        }
        let cached = usage.cached_input.min(usage.input);
        let written = usage.cache_write.min(usage.input - cached);
        let plain = usage.input - cached - written;
        let cost = self.request
            + plain as f64 * self.input
            + cached as f64 * self.cached_input.unwrap_or(self.input)
            + written as f64 * self.cache_write.unwrap_or(self.input)
            + usage.output as f64 * self.output;
        Some(cost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_tokens_cost_what_they_cost() {
        let price = Price { input: 2.0, cached_input: Some(0.5), output: 8.0, ..Price::default() };
        let usage = Usage { input: 10, cached_input: 4, output: 3, total: 13, ..Usage::default() };
        assert_eq!(price.cost(&usage), Some(6.0 * 2.0 + 4.0 * 0.5 + 3.0 * 8.0));
        assert_eq!(price.cost(&Usage { cost: Some(1.5), ..usage }), Some(1.5), "the provider's word counts");
        let nonsense = Usage { input: 1, cached_input: 5, cache_write: 5, ..Usage::default() };
        assert_eq!(price.cost(&nonsense), Some(0.5), "more cached than sent is no reason to overflow");
    }
}
