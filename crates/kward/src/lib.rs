//! The Kward RPC protocol, version 1: how a user interface talks to a coding backend over a pair of pipes.
//!
//! Strict in what it writes (result keys, event names and messages that clients match are fixed by the contract and
//! kept in `fixtures/kward`), lenient in what it reads (unknown parameters are skipped, header lines may end in LF).
//!
//! Deliberately absent: pipes, files, clocks, randomness, and any knowledge of models or tools. Bytes go in and frames
//! come out; parameters go in and types come out.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`frame`] | `Content-Length` framing: bounded, and able to find its feet again |
//! | [`rpc`] | JSON-RPC 2.0: requests, responses, notifications, error codes |
//! | [`methods`] | the table of methods: name, parameters, result, order, weight |
//! | [`params`] | what the methods take |
//! | [`results`] | what they answer |
//! | [`events`] | notifications |
//! | [`capabilities`] | what `initialize` tells a client |
//! | [`attachment`] | images that come with a turn |
//! | [`question`] | what may be asked of a person |
//! | [`tool`] | tool calls as clients see them: names, arguments, results |
//! | [`transcript`] | stored messages as clients see them |
//! | [`schema`] | the JSON Schema of all of it |

pub mod attachment;
pub mod capabilities;
pub mod events;
pub mod frame;
pub mod methods;
pub mod params;
pub mod question;
pub mod results;
pub mod rpc;
pub mod schema;
pub mod tool;
pub mod transcript;
