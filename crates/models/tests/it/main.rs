//! The client against a scripted provider, over real sockets.

#![cfg(test)]

mod bodies;
mod catalogue;
mod fixtures;
mod oauth;
mod stream;
