//! The tools of a coding session, as a model calls them.
//!
//! A [`Toolbox`] belongs to one session with one workspace. [`Toolbox::specs`] is what a model is offered,
//! [`Toolbox::run`] runs a [`Call`] and always returns an [`Outcome`]: a failed tool is an answer to the model, never
//! an error of the session. The protocol defines how calls look in events and transcripts.
//!
//! What a caller can rely on:
//!
//! - **File tools stay inside the workspace**, symbolic links resolved. A path that leads out is refused, also when it
//!   is changed between check and use.
//! - **A file is replaced whole or not at all**, and only after it was read.
//! - **Cancelling a shell command, or its time-out, ends all processes that it started.**
//! - **Everything is bounded**: what is read, kept, searched, fetched, waited for. The limits are in [`limits`].
//!
//! Deliberately absent: approval and confinement of shell commands. The contract runs them as they are.

mod arguments;
mod call;
mod files;
pub mod front_matter;
pub mod limits;
mod outcome;
pub mod pictures;
pub mod questions;
mod search;
mod shell;
pub mod skills;
mod specs;
mod toolbox;
mod web;

pub use call::{Call, Live, Output, Stream};
pub use outcome::{Image, Outcome};
pub use questions::{Answer, QuestionHost};
pub use skills::Skill;
pub use toolbox::{Settings, ToolSpec, Toolbox};
