//! The Sonde protocol from outside: the canonical printer against Node, golden frames, both ends together.

mod canonical;
mod fixtures;
mod pair;
