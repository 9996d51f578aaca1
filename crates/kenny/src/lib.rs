//! The kenny wire protocol (contract v0.8), both sides of it: frames and their codec, the mutual-auth transcript, the
//! tool catalogue, and the hub's and the agent's end of a tunnel as deterministic state machines.
//!
//! The crate is strict in what it writes (exactly the contract's keys, in the contract's order) and lenient in what it
//! reads (unknown keys are skipped, unknown frame types, tools and error codes are values): the programs in the field
//! speak 0.8 to 0.17, and none of them may lose its tunnel over a field that we have not heard of.
//!
//! Deliberately absent: sockets, clocks, randomness, the store, and any knowledge of tokio or HTTP. Nonces, keys and
//! the time are passed in; what to send, to start or to close comes out as values.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`frame`] | the frames of both directions, decoding without building trees, encoding |
//! | [`version`] | protocol versions, compared as numbers |
//! | [`policy`] | deny rules as they travel in a `policy` frame, and who understands which |
//! | [`transcript`] | the bytes that both sides sign |
//! | [`enrol`] | the public key of an enrolment |
//! | [`tools`] | the tool catalogue: effects, arguments, what the guard looks at |
//! | [`heartbeat`] | when to ping, when a peer is gone |
//! | [`inflight`] | requests that wait for their response |
//! | [`hub`] | the hub's end of a tunnel |
//! | [`agent`] | the agent's end of a tunnel |
//! | [`close`] | WebSocket close codes |
//! | [`wire_bytes`] | keys, nonces and signatures in base64 |

pub mod agent;
pub mod close;
pub mod enrol;
pub mod frame;
pub mod heartbeat;
pub mod hub;
pub mod inflight;
pub mod joined;
pub mod policy;
pub mod tools;
pub mod transcript;
pub mod version;
pub mod wire_bytes;
