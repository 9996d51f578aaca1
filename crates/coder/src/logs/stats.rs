//! Sums over a span of time, for the categories that are on.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;

use convoke_kward::params;
use convoke_kward::results::{
    Csv, DurationMs, ErrorStats, LogRange, LogStats, Performance, PerformanceEvent, ToolStats, UsageStats,
};
use convoke_kward::rpc::RpcError;
use jiff::Timestamp;
use serde_json::Value;

use super::range::{Range, USAGE, Unit};
use super::write::Logs;
use crate::backend::Backend;
use crate::environment::shown;

const TOKENS: [&str; 5] =
    ["input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "total_tokens"];

/// Rows of a table; beyond them the last ones are left out and the table says so.
const MAX_ROWS: usize = 100_000;

struct Wanted {
    range: Range,
    categories: Vec<String>,
}

impl Backend {
    fn wanted(&self, range: Option<&str>) -> Result<Wanted, RpcError> {
        let now = Timestamp::from_millisecond(crate::clock::now().millis()).unwrap_or_default();
        let range = Range::parse(range, now).ok_or_else(|| RpcError::invalid_params(USAGE))?;
        let categories = self.log_switches().names();
        if categories.is_empty() {
            let why = "Telemetry logging is disabled. Enable logging and at least one category before using /stats.";
            return Err(RpcError::invalid_params(format!("{why} {USAGE}")));
        }
        Ok(Wanted { range, categories })
    }

    pub(crate) fn log_stats(&self, params: params::LogStats) -> Result<LogStats, RpcError> {
        let Wanted { range, categories } = self.wanted(params.range.as_deref())?;
        let mut stats = empty(&self.logs, &range, &categories);
        self.logs.each(&range, |record, _| {
            if categories.iter().any(|category| record["category"] == category.as_str()) {
                count(&mut stats, record);
            }
        });
        stats.performance.events.values_mut().for_each(settle);
        Ok(stats)
    }

    pub(crate) fn token_csv(&self, params: params::TokenCsv) -> Result<Csv, RpcError> {
        let Wanted { range, categories } = self.wanted(params.range.as_deref())?;
        let bucket = match params.bucket.as_deref().map(str::trim).filter(|bucket| !bucket.is_empty()) {
            None => range.unit,
            Some(name) => Unit::named(name).ok_or_else(|| {
                RpcError::invalid_params("Unknown bucket: take second, minute, hour, day, week, month or year")
            })?,
        };
        let mut rows: BTreeMap<(Timestamp, String, String), [u64; 6]> = BTreeMap::new();
        if categories.iter().any(|category| category == "tokens") {
            self.logs.each(&range, |record, at| {
                if record["event"] == "model_usage" && rows.len() < MAX_ROWS {
                    let text = |key: &str| record[key].as_str().unwrap_or_default().to_owned();
                    let row = rows.entry((bucket.begin(at), text("provider"), text("model"))).or_default();
                    row[0] += 1;
                    for (sum, key) in row[1..].iter_mut().zip(TOKENS) {
                        *sum += record["usage"][key].as_u64().unwrap_or(0);
                    }
                }
            });
        }
        let mut csv = format!("bucket_start,bucket_end,provider,model,events,{}\n", TOKENS.join(","));
        for ((start, provider, model), sums) in rows {
            let end = bucket.shift(start, 1).unwrap_or(start);
            let sums: Vec<String> = sums.iter().map(u64::to_string).collect();
            csv.push_str(&format!("{start},{end},{},{},{}\n", field(&provider), field(&model), sums.join(",")));
        }
        Ok(Csv { csv })
    }
}

impl Logs {
    /// Every record of a span of time, file by file, line by line.
    fn each(&self, range: &Range, mut take: impl FnMut(&Value, Timestamp)) {
        let first_day = range.start.to_string();
        let first_day = &first_day[..10.min(first_day.len())];
        let entries = std::fs::read_dir(self.dir()).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        paths.retain(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.ends_with(".jsonl") && name.get(..10).is_some_and(|day| day >= first_day)
        });
        paths.sort();
        for path in paths {
            let Ok(file) = std::fs::File::open(path) else { continue };
            for line in BufReader::new(file).split(b'\n').map_while(Result::ok) {
                let Ok(record) = serde_json::from_slice::<Value>(&line) else { continue };
                let at = record["timestamp"].as_str().and_then(|at| at.parse::<Timestamp>().ok());
                if let Some(at) = at.filter(|at| *at >= range.start && *at <= range.end) {
                    take(&record, at);
                }
            }
        }
    }
}

fn empty(logs: &Logs, range: &Range, categories: &[String]) -> LogStats {
    LogStats {
        range: LogRange {
            input: range.input.clone(),
            count: range.count,
            unit: range.unit.name().into(),
            start_at: range.start.to_string(),
            end_at: range.end.to_string(),
        },
        log_dir: shown(logs.dir()),
        enabled_categories: categories.to_vec(),
        record_count: 0,
        records_by_category: BTreeMap::new(),
        records_by_event: BTreeMap::new(),
        usage_stats: UsageStats {
            model_usage_events: 0,
            totals: TOKENS.iter().map(|key| ((*key).to_owned(), 0)).collect(),
        },
        performance: Performance { events: BTreeMap::new() },
        tools: ToolStats { calls: 0, result_bytes: 0, by_name: BTreeMap::new(), by_status: BTreeMap::new() },
        errors: ErrorStats {
            count: 0,
            by_event: BTreeMap::new(),
            by_class: BTreeMap::new(),
            by_provider: BTreeMap::new(),
            by_code: BTreeMap::new(),
        },
    }
}

fn count(stats: &mut LogStats, record: &Value) {
    let text = |key: &str| match &record[key] {
        Value::String(text) => Some(text.clone()),
        // Kward's codes are an HTTP status as often as a word.
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let (category, event) = (text("category").unwrap_or_default(), text("event").unwrap_or_default());
    stats.record_count += 1;
    *stats.records_by_category.entry(category.clone()).or_default() += 1;
    *stats.records_by_event.entry(event.clone()).or_default() += 1;
    match category.as_str() {
        "tokens" => {
            stats.usage_stats.model_usage_events += 1;
            for key in TOKENS {
                *stats.usage_stats.totals.entry(key.into()).or_default() +=
                    record["usage"][key].as_u64().unwrap_or(0);
            }
        }
        "performance" => {
            let of = stats.performance.events.entry(event).or_insert_with(|| PerformanceEvent {
                count: 0,
                statuses: BTreeMap::new(),
                duration_ms: None,
            });
            of.count += 1;
            if let Some(status) = text("status") {
                *of.statuses.entry(status).or_default() += 1;
            }
            if let Some(took) = record["duration_ms"].as_f64() {
                let sum = of.duration_ms.get_or_insert(DurationMs { min: took, avg: 0.0, max: took });
                // The sum until all are counted.
                sum.avg += took;
                sum.min = sum.min.min(took);
                sum.max = sum.max.max(took);
            }
        }
        "tools" => {
            stats.tools.calls += 1;
            stats.tools.result_bytes += record["result_bytes"].as_u64().unwrap_or(0);
            *stats.tools.by_name.entry(text("tool_name").unwrap_or_default()).or_default() += 1;
            *stats.tools.by_status.entry(text("status").unwrap_or_default()).or_default() += 1;
        }
        "errors" => {
            stats.errors.count += 1;
            *stats.errors.by_event.entry(event).or_default() += 1;
            for (key, by) in [
                ("error_class", &mut stats.errors.by_class),
                ("provider", &mut stats.errors.by_provider),
                ("error_code", &mut stats.errors.by_code),
            ] {
                if let Some(value) = text(key) {
                    *by.entry(value).or_default() += 1;
                }
            }
        }
        _ => {}
    }
}

fn settle(event: &mut PerformanceEvent) {
    if let Some(sum) = &mut event.duration_ms {
        sum.avg = (sum.avg / event.count as f64 * 1000.0).round() / 1000.0;
    }
}

/// A field of a table. A formula in a model's name is text, not a formula.
fn field(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@']);
    let text = if is_formula { format!("'{text}") } else { text.to_owned() };
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}
