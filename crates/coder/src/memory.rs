//! Memories: facts that a person wants later sessions to know. Off by default.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`store`] | the three files |
//! | [`retrieve`] | which memories fit an input, and why |
//! | [`infer`] | what is worth remembering in what a person said |
//! | [`rewrite`] | the same in a model's words, where that is wanted |
//! | [`doors`] | the methods of the protocol |

mod doors;
mod infer;
mod retrieve;
mod rewrite;
mod store;

pub(crate) use retrieve::explanation;
pub(crate) use store::Memory;
