//! The Sonde wire protocol, both sides of it: envelopes in the contract's shape and in the shape that the programs in
//! the field speak, the hub's and the agent's end of a link as deterministic state machines, the text that is signed,
//! attestation, packs as data, runbooks, and the scrubbing of what leaves a machine.
//!
//! Where contract and field differ, both are taken. What is written is understood by both wherever one frame can be;
//! where it cannot (a refusal, the list of packs), the peer's own first message says which of the two it speaks.
//!
//! Deliberately absent: sockets, clocks, randomness, the store, cryptography. Keys are behind two small traits, ids
//! and the time are passed in; what to send, to start or to close comes out as values.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`json`] | JSON as JavaScript would print it: what signatures are made over |
//! | [`envelope`] | the envelope and the eight message types |
//! | [`register`] | `agent.register`, in both shapes |
//! | [`ack`] | `hub.ack`, `hub.reject`, `hub.update_available`, the bare error frame |
//! | [`probe`] | `probe.request`, `probe.response`, `probe.error`, in both shapes |
//! | [`sign`] | who signs and verifies |
//! | [`pending`] | requests that wait for their answer |
//! | [`hub`] | the hub's end of a link |
//! | [`agent`] | the agent's end of a link |
//! | [`attest`] | what an agent says about itself, compared field by field |
//! | [`builtin`] | the packs and runbooks that come with the program |
//! | [`version`] | agent versions, compared as numbers |
//! | [`manifest`] | packs as data |
//! | [`params`] | a probe's parameters, validated |
//! | [`runbook`] | runbooks: steps, thresholds, findings |
//! | [`scrub`] | secrets out of what is sent |

pub mod ack;
pub mod agent;
pub mod attest;
pub mod builtin;
pub mod envelope;
pub mod hub;
pub mod json;
pub mod manifest;
pub mod params;
pub mod pending;
pub mod probe;
pub mod register;
pub mod runbook;
pub mod scrub;
pub mod sign;
pub mod version;

use std::time::Duration;

/// Time since an arbitrary start that the caller chose; it only moves forward.
pub type Mono = Duration;
