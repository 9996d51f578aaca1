//! Where the hub keeps things.
