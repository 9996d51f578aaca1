//! The gate as it runs, and what every door shares: calls, approvals, policy, links, the registry of agents, tokens,
//! settings. It knows no protocol and no HTTP: protocols come as [`calls::Adapter`]s, and what other crates keep beside
//! the gate comes as a [`part::Part`].

pub mod adopt;
pub mod agents;
pub mod answers;
pub mod calls;
pub mod clock;
pub mod cluster;
pub mod events;
pub mod fleet;
pub mod grants;
pub mod hub;
pub mod link;
pub mod metrics;
pub mod notices;
pub mod operators;
pub mod own_files;
pub mod part;
pub mod people;
pub mod policy;
pub mod refusals;
pub mod resolve;
pub mod settings;
pub mod shares;
pub mod strangers;

pub use adopt::Adopted;
pub use hub::Hub;
