//! Lists that come in pages.

use std::collections::HashMap;

use anyhow::{Context as _, Result};
use convoke_api::Client;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// The most that the hub gives at once.
pub(super) const MOST: u32 = 1000;

/// A list of the hub, fetched page by page.
#[derive(Debug)]
pub(super) struct Pages<'a> {
    client: &'a Client,
    path: &'a str,
    key: &'a str,
    query: Map<String, Value>,
    left: Option<u64>,
    ended: bool,
}

impl<'a> Pages<'a> {
    /// The list under `key` at `path`; at most `limit` items of it.
    pub(super) fn new(
        client: &'a Client,
        path: &'a str,
        key: &'a str,
        query: &impl Serialize,
        limit: Option<u64>,
    ) -> Result<Self> {
        let Value::Object(query) = serde_json::to_value(query)? else { anyhow::bail!("a query is a JSON object") };
        Ok(Self { client, path, key, query, left: limit, ended: limit == Some(0) })
    }

    /// The next page; nothing after the last one.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Box<RawValue>>>> {
        if self.ended {
            return Ok(None);
        }
        let limit = self.left.map_or(MOST, |left| u32::try_from(left).unwrap_or(MOST).min(MOST));
        self.query.insert("limit".into(), limit.into());
        let mut page: HashMap<String, Box<RawValue>> = self.client.get(self.path, &self.query).await?;
        let items = page.remove(self.key).context("the hub's answer contains no list")?;
        let items: Vec<Box<RawValue>> = serde_json::from_str(items.get())?;
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(items.len() as u64);
        }
        match page.remove("next").map(|next| serde_json::from_str::<Value>(next.get())).transpose()? {
            Some(next) if !next.is_null() && self.left != Some(0) => {
                // Backwards where the query is.
                let is_back = self.query.get("before").is_some_and(|before| !before.is_null());
                self.query.insert(if is_back { "before" } else { "after" }.into(), next);
            }
            _ => self.ended = true,
        }
        Ok(Some(items))
    }

    /// All of it at once.
    pub(super) async fn all(mut self) -> Result<Vec<Box<RawValue>>> {
        let mut all = Vec::new();
        while let Some(page) = self.next().await? {
            all.extend(page);
        }
        Ok(all)
    }
}

/// The items as the API's JSON of one page that holds them all.
pub(super) fn joined<'a>(key: &'a str, items: &'a [Box<RawValue>]) -> HashMap<&'a str, &'a [Box<RawValue>]> {
    HashMap::from([(key, items)])
}
