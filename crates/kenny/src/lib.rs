//! The kenny v0.8 wire protocol.
