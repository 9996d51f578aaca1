//! Turns: what a person says and everything that follows from it.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`turn`] | a turn, its events and how it stands |
//! | [`held`] | what is held back of a stream |
//! | [`queue`] | the turns of a session, one after another |
//! | [`doors`] | the methods of the protocol |
//! | [`run`] | a turn at work: model, tools, model, … |
//! | [`request`] | a conversation as a model gets it |
//! | [`question`] | questions to the person |

pub(crate) mod doors;
mod held;
pub(crate) mod plugin;
pub(crate) mod question;
pub(crate) mod queue;
pub(crate) mod request;
pub(crate) mod run;
pub(crate) mod tools;
pub(crate) mod turn;
