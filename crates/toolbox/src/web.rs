//! The web: one page, or a search.

mod address;
mod client;
mod fetch;
mod page;
mod search;

pub(crate) use client::{Reach, Web};
pub(crate) use fetch::fetch_content;
pub(crate) use search::web_search;
