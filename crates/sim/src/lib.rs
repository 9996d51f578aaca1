//! Simulated agents.
