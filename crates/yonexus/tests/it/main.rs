//! The protocol's behaviour: golden frames, pairing, proofs, windows, and what no sequence of frames can do.

mod both_ends;
mod fixtures;
mod pairing;
mod proofs;
mod properties;
mod session;
mod support;
