//! The doors of the wire protocols: kenny agents, Sonde agents, Yonexus clients, rooms. Each has its link, its adapter
//! for the gate, its HTTP routes and its MCP tools in a folder of its own.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`kenny`] | `/agent/ws`, enrolment, updates |
//! | [`sonde`] | `/ws/agent`, `/api/v1`, probes and runbooks |
//! | [`yonexus`] | `/yonexus`, clients, pairings, rules, messages |
//! | [`rooms`] | `/rooms/<name>/ws`, rooms |
//! | [`tool_routes`] | the tools and probes of an agent, with schemas |
//! | `follow` | what other hubs changed |
//! | `tunnel` | what kenny and Sonde tunnels share |
//! | [`ws`] | the hub's WebSockets |
//! | `upgrades` | the routes that become WebSockets |

mod follow;
mod inbox;
pub mod joined;
pub mod kenny;
pub mod rooms;
pub mod sonde;
pub mod tool_routes;
mod tunnel;
pub mod upgrades;
pub mod ws;
pub mod yonexus;

use std::ops::Deref;
use std::sync::Arc;

use async_trait::async_trait;
use axum::extract::FromRef;
use axum::http::Method;
use convoke_api::inbox::Inbox;
use convoke_core::grant::Right;
use convoke_core::id::{PeerId, Protocol, TokenId};
use convoke_doors::Doors;
use convoke_gate::calls::Adapters;
use convoke_gate::hub::Hub;
use convoke_gate::operators::Caller;
use convoke_gate::operators::throttle::Throttle;
use convoke_gate::part::{Followed, Gauge, Part};
use convoke_gate::settings::Settings;
use convoke_gate::shares::Shares;
use convoke_mcp::Toolset;
use convoke_store::{PeerLink, Store, StoreError};
use prometheus_client::registry::Registry;

use crate::kenny::adapter::KennyAdapter;
use crate::kenny::downloads::Downloads;
use crate::kenny::files::Transfers;
use crate::kenny::tools::{Catalogue, ManyTools};
use crate::rooms::Rooms;
use crate::rooms::adapter::RoomAdapter;
use crate::rooms::tools::RoomTools;
use crate::sonde::Sonde;
use crate::sonde::adapter::SondeAdapter;
use crate::sonde::tools::SondeTools;
use crate::ws::Budget;
use crate::yonexus::Yonexus;
use crate::yonexus::adapter::YonexusAdapter;
use crate::yonexus::tools::RuleTools;

/// What the wires keep beside the gate.
#[derive(Clone, Debug)]
pub struct State {
    /// What is particular to Sonde agents.
    pub sonde: Arc<Sonde>,
    /// Yonexus: clients, pairings, rules.
    pub yonexus: Arc<Yonexus>,
    /// Rooms.
    pub rooms: Arc<Rooms>,
    /// Short-lived links to agent binaries.
    pub downloads: Arc<Downloads>,
    /// Files on their way to and from machines.
    pub transfers: Arc<Transfers>,
    /// Memory for large messages of peers.
    pub receive_budget: Arc<Budget>,
    /// Shares for connections that are still proving who they are, so that strangers do not crowd out those that are in.
    pub handshakes: Arc<Shares>,
    /// Slows who shows wrong enrolment tokens.
    pub enrolments: Arc<Throttle>,
}

impl State {
    /// Starts from what is stored.
    pub async fn load(store: &dyn Store, settings: &Settings) -> Result<Self, StoreError> {
        let registry = sonde::registry::Registry::load(store.sonde_agents().await?, store.sonde_tokens().await?);
        Ok(Self {
            sonde: Arc::new(Sonde::new(registry)),
            yonexus: Arc::new(Yonexus::load(store, settings).await?),
            rooms: Arc::new(Rooms::load(store, settings).await?),
            downloads: Arc::default(),
            transfers: Arc::default(),
            receive_budget: Budget::new(settings.hub.max_bytes_arriving),
            handshakes: Shares::new(settings.kenny.max_handshakes),
            enrolments: Arc::default(),
        })
    }
}

#[async_trait]
impl Part for State {
    fn register(&self, registry: &mut Registry) {
        self.yonexus.metrics.register(registry.sub_registry_with_prefix("yonexus"));
    }

    fn gauges(&self) -> Vec<Gauge> {
        let (clients, rooms) = (&self.yonexus.clients, &self.rooms);
        vec![
            ("bytes_arriving", "Bytes of large messages being received", self.receive_budget.held() as u64),
            ("yonexus_clients", "Yonexus clients on the allow-list", clients.count() as u64),
            ("yonexus_clients_online", "Yonexus clients online", clients.online() as u64),
            ("yonexus_pairings", "Pairings under way", clients.pairings().len() as u64),
            ("rooms", "Rooms there are", rooms.count() as u64),
            ("room_participants", "Participants in rooms", rooms.present() as u64),
            ("room_assistants", "Assistants that are in rooms", rooms.assistants.count() as u64),
            ("room_peers", "Peers connected to the broker of mesh rooms", rooms.peers() as u64),
        ]
    }

    fn token_revoked(&self, token: TokenId) {
        self.rooms.assistants.token_revoked(token);
    }

    fn waiting(&self, hub: &Hub, caller: &Caller, inbox: &mut Inbox) {
        inbox::add(hub, caller, inbox);
    }

    fn agent_removed(&self, agent: &PeerId) {
        self.sonde.registry.remove(agent);
    }

    async fn follow(&self, hub: &Hub, changed: Followed<'_>) -> Result<(), StoreError> {
        follow::changed(&Wires::of(hub), changed).await
    }

    async fn link_stands(&self, hub: &Hub, peer: &PeerId, link: Option<&PeerLink>) -> Result<(), StoreError> {
        follow::link_stands(&Wires::of(hub), peer, link).await
    }
}

/// A handle on the hub with what the wires keep beside it.
#[derive(Clone, Debug)]
pub struct Wires {
    hub: Hub,
    /// What is particular to Sonde agents.
    pub sonde: Arc<Sonde>,
    /// Yonexus: clients, pairings, rules.
    pub yonexus: Arc<Yonexus>,
    /// Rooms.
    pub rooms: Arc<Rooms>,
    /// Short-lived links to agent binaries.
    pub downloads: Arc<Downloads>,
    /// Files on their way to and from machines.
    pub transfers: Arc<Transfers>,
    /// Memory for large messages of peers.
    pub receive_budget: Arc<Budget>,
    /// Shares for connections that are still proving who they are.
    pub handshakes: Arc<Shares>,
    /// Slows who shows wrong enrolment tokens.
    pub enrolments: Arc<Throttle>,
}

impl Wires {
    /// Of this hub.
    pub fn of(hub: &Hub) -> Self {
        let State { sonde, yonexus, rooms, downloads, transfers, receive_budget, handshakes, enrolments } =
            State::clone(&hub.part());
        Self { hub: hub.clone(), sonde, yonexus, rooms, downloads, transfers, receive_budget, handshakes, enrolments }
    }
}

impl Deref for Wires {
    type Target = Hub;

    fn deref(&self) -> &Hub {
        &self.hub
    }
}

impl FromRef<Wires> for Hub {
    fn from_ref(wires: &Wires) -> Self {
        wires.hub.clone()
    }
}

/// The protocols, as the gate sees them.
pub fn adapters() -> Adapters {
    Adapters::default()
        .with(Protocol::Kenny, KennyAdapter)
        .with(Protocol::Sonde, SondeAdapter)
        .with(Protocol::Yonexus, YonexusAdapter)
        .with(Protocol::Kibitz, RoomAdapter)
}

/// The protocols' MCP tools, in the order in which they are listed.
pub fn toolsets() -> Vec<Box<dyn Toolset>> {
    vec![Box::new(ManyTools), Box::new(RuleTools), Box::new(RoomTools), Box::new(SondeTools), Box::new(Catalogue)]
}

/// Opens the protocols' doors, each with the right it needs.
#[rustfmt::skip]
pub fn open(doors: Doors) -> Doors {
    use Right::{Approve, Call, OwnCredential, Policy, Public, Trust, View, Withdraw};
    use kenny::{enrol_routes, file_routes, update_routes};
    use sonde::routes as v1;
    use yonexus::{routes as clients, rule_routes as rules};
    let hub = doors.hub().clone();
    let wires = Wires::of(&hub);
    doors
        .with_state(wires)
        .open(Method::GET, "/agent/ws", OwnCredential, upgrades::kenny)
        .open(Method::GET, "/ws/agent", OwnCredential, upgrades::sonde)
        .open(Method::GET, "/yonexus", OwnCredential, upgrades::yonexus)
        .open_for_participants("/rooms/{room}/ws", upgrades::room)
        .open_for_participants("/peerjs", upgrades::peerjs)
        .open_for_participants("/api/turn", rooms::turn::turn)
        .open(Method::GET, "/peerjs/id", Public, rooms::routes::peer_id)
        .open(Method::POST, "/api/agents/{id}/token", Trust, enrol_routes::mint_token)
        .open(Method::POST, "/api/agents/{id}/enroll", OwnCredential, enrol_routes::enrol)
        .open(Method::POST, "/api/agents/{id}/rotate-key", Trust, enrol_routes::rotate_key)
        .open(Method::POST, "/api/agents/{id}/update", Call, update_routes::update)
        .open(Method::GET, "/api/agents/{id}/tools", View, tool_routes::tools)
        .open(Method::GET, "/d/binary/{link}", OwnCredential, update_routes::binary)
        .open(Method::POST, "/api/agents/{id}/files", View, file_routes::make)
        .open(Method::GET, "/api/agents/{id}/files/{link}", View, file_routes::state)
        .open(Method::GET, "/api/agents/{id}/files/{link}/data", View, file_routes::read)
        .open_for_calls(Method::PUT, "/api/agents/{id}/files/{link}/data", View, file_routes::write)
        .open(Method::GET, "/d/file/{link}", OwnCredential, file_routes::fetch)
        .open_for_calls(Method::PUT, "/d/file/{link}", OwnCredential, file_routes::send)
        .open(Method::POST, "/api/v1/enrollment-tokens", Trust, v1::mint)
        .open(Method::GET, "/api/v1/enrollment-tokens", Trust, v1::tokens)
        .open(Method::POST, "/api/v1/probe", Call, v1::probe)
        .open(Method::POST, "/api/v1/diagnose", Call, v1::diagnose)
        .open(Method::POST, "/api/v1/health-check", Call, v1::health_check)
        .open(Method::GET, "/api/v1/agents", View, v1::agents)
        .open(Method::GET, "/api/v1/agents/{id}", View, v1::agent)
        .open(Method::GET, "/api/v1/packs", View, v1::packs)
        .open(Method::GET, "/api/v1/capabilities", View, v1::capabilities)
        .open(Method::GET, "/api/v1/runbooks", View, v1::runbooks)
        .open(Method::GET, "/api/v1/ca", View, v1::ca)
        .open(Method::POST, "/api/agents/{id}/accept", Trust, v1::accept)
        .open(Method::POST, "/api/agents/{id}/join", Trust, joined::join)
        .open(Method::POST, "/api/agents/{id}/split", Withdraw, joined::split)
        .open(Method::GET, "/api/yonexus/clients", View, clients::clients)
        .open(Method::POST, "/api/yonexus/clients", Trust, clients::allow)
        .open(Method::GET, "/api/yonexus/clients/{identifier}", View, clients::client)
        .open(Method::DELETE, "/api/yonexus/clients/{identifier}", Withdraw, clients::remove)
        .open(Method::POST, "/api/yonexus/clients/{identifier}/revoke", Withdraw, clients::revoke)
        .open(Method::POST, "/api/yonexus/clients/{identifier}/rotate-key", Trust, clients::rotate_key)
        .open(Method::GET, "/api/yonexus/pairings", View, clients::pairings)
        .open(Method::POST, "/api/yonexus/pairings/{identifier}", Approve, clients::decide)
        .open(Method::GET, "/api/rules", View, rules::list)
        .open(Method::POST, "/api/rules", Policy, rules::put)
        .open(Method::DELETE, "/api/rules/{rule}", Policy, rules::delete)
        .open(Method::POST, "/api/rules/{rule}/test", View, rules::test)
        .open(Method::GET, "/api/messages", View, rules::inbox)
        .open(Method::POST, "/api/messages", Call, rules::send)
        .open(Method::GET, "/api/rooms", View, rooms::routes::list)
        .open(Method::POST, "/api/rooms", Trust, rooms::routes::create)
        .open(Method::GET, "/api/rooms/{room}", View, rooms::routes::show)
        .open(Method::GET, "/api/rooms/{room}/door", Public, rooms::routes::door)
        .open(Method::DELETE, "/api/rooms/{room}", Withdraw, rooms::routes::remove)
        .open(Method::PATCH, "/api/rooms/{room}/grants/{participant}", Trust, rooms::routes::grant)
        .open(Method::PATCH, "/api/rooms/{room}/participants/{participant}", Trust, rooms::routes::change)
        .open(Method::POST, "/api/rooms/{room}/kick", Withdraw, rooms::routes::kick)
        .open(Method::POST, "/api/rooms/{room}/admit", Trust, rooms::routes::admit)
        .open(Method::POST, "/api/rooms/{room}/posts", Policy, rooms::routes::set_posts)
        .open(Method::POST, "/api/rooms/{room}/admission", Trust, rooms::routes::set_admission)
        .open(Method::POST, "/api/rooms/{room}/invites", Trust, rooms::routes::invite)
        .open(Method::POST, "/api/rooms/{room}/pass", View, rooms::routes::pass)
        .open(Method::DELETE, "/api/rooms/{room}/invites/{invite}", Withdraw, rooms::routes::revoke_invite)
        .open(Method::POST, "/api/rooms/{room}/keys", Trust, rooms::routes::add_key)
        .open(Method::DELETE, "/api/rooms/{room}/keys/{key}", Withdraw, rooms::routes::remove_key)
        .with_state(hub)
}
