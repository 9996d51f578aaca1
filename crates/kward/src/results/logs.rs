//! Sums over the log of numbers.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

results! {
    /// `logging/tokenCsv`.
    Csv {
        /// With a header line.
        csv: String,
    }
}

/// `logging/stats`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogStats {
    /// What was asked for.
    pub range: LogRange,
    /// Where the logs are.
    pub log_dir: String,
    /// Only these are counted.
    pub enabled_categories: Vec<String>,
    /// Records in range.
    pub record_count: u64,
    /// Per category.
    pub records_by_category: BTreeMap<String, u64>,
    /// Per event.
    pub records_by_event: BTreeMap<String, u64>,
    /// Tokens.
    pub usage_stats: UsageStats,
    /// Durations.
    pub performance: Performance,
    /// Tool calls.
    pub tools: ToolStats,
    /// Errors, without their messages.
    pub errors: ErrorStats,
}

results! {
    /// A span of time.
    LogRange {
        /// As asked.
        input: String,
        /// How many.
        count: u64,
        /// Of what, singular.
        unit: String,
        /// Its beginning.
        start_at: String,
        /// Now.
        end_at: String,
    }
    /// Tokens in a span of time.
    UsageStats {
        /// Requests.
        model_usage_events: u64,
        /// Sums, by the log's own names.
        totals: BTreeMap<String, u64>,
    }
    /// Durations in a span of time.
    Performance {
        /// Per event.
        events: BTreeMap<String, PerformanceEvent>,
    }
    /// Durations of one kind.
    PerformanceEvent {
        /// How many.
        count: u64,
        /// How they ended.
        statuses: BTreeMap<String, u64>,
        /// Absent without a duration.
        duration_ms: Option<DurationMs>,
    }
    /// Milliseconds.
    DurationMs {
        /// The shortest.
        min: f64,
        /// The mean.
        avg: f64,
        /// The longest.
        max: f64,
    }
    /// Tool calls in a span of time.
    ToolStats {
        /// How many.
        calls: u64,
        /// Of their results.
        result_bytes: u64,
        /// Per tool.
        by_name: BTreeMap<String, u64>,
        /// Per outcome.
        by_status: BTreeMap<String, u64>,
    }
    /// Errors in a span of time.
    ErrorStats {
        /// How many.
        count: u64,
        /// Per event.
        by_event: BTreeMap<String, u64>,
        /// Per kind.
        by_class: BTreeMap<String, u64>,
        /// Per provider.
        by_provider: BTreeMap<String, u64>,
        /// Per code.
        by_code: BTreeMap<String, u64>,
    }
}
