//! The protocol from outside, in one program so that it links once.

mod fixtures;
mod handshake;
mod live;
mod properties;
mod support;
