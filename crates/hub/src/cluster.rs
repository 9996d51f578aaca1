//! A hub as one of several: how it joins the others, and what it does beside them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use convoke_bus::{Bus, Nats};
use convoke_gate::cluster::{Cluster, ClusterInit, follow, upkeep};
use convoke_gate::hub::Hub;
use convoke_gate::settings::Settings;
use convoke_store::{Announced, Store, StoreError};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::start::StartError;

/// How long a stop waits for what other hubs should know.
const LAST_WORD: Duration = Duration::from_secs(3);

/// Connects to the bus, where several hubs share a database.
pub(crate) async fn bus(settings: &Settings) -> Result<Option<Arc<dyn Bus>>, StartError> {
    let Some(url) = &settings.bus.url else { return Ok(None) };
    let nats = Nats::connect(url.reveal()).await?;
    Ok(Some(Arc::new(nats)))
}

/// Takes this hub's place among the others.
pub(crate) fn join(
    store: &dyn Store,
    settings: &Settings,
    bus: Option<Arc<dyn Bus>>,
    asked_at: Duration,
    (listen, tls): (SocketAddr, Option<&TlsAcceptor>),
) -> Result<Option<Cluster>, StartError> {
    let (Some(of), Some(bus)) = (store.membership(), bus) else { return Ok(None) };
    let address = match &settings.hub.address {
        Some(address) => address.clone(),
        None if listen.ip().is_unspecified() => {
            return Err(StartError::Address(
                "this hub listens on every address, so name the one by which the other hubs reach it",
            ));
        }
        None => format!("{}://{listen}", if tls.is_some() { "https" } else { "http" }),
    };
    let announced = Announced { address, pin: None };
    let http = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
    let http = http.build().map_err(|_| StartError::Key("cannot make a client for other hubs"))?;
    Ok(Some(Cluster::new(store, ClusterInit { of, bus, http, announced, asked_at })))
}

/// What a hub does beside others, until it stops.
#[derive(Debug, Default)]
pub(crate) struct Tasks(Vec<JoinHandle<()>>);

/// Begins to follow the others, and reads which links they hold.
pub(crate) async fn begin(hub: &Hub) -> Result<Tasks, StoreError> {
    if hub.cluster.is_none() {
        return Ok(Tasks::default());
    }
    follow::links(hub, None).await?;
    Ok(Tasks(vec![tokio::spawn(upkeep::run(hub.clone())), tokio::spawn(follow::run(hub.clone()))]))
}

impl Tasks {
    /// Ends the lease: what this hub held is free for others.
    pub(crate) async fn end(self, hub: &Hub) {
        let Some(cluster) = &hub.cluster else { return };
        cluster.stop();
        self.0.iter().for_each(JoinHandle::abort);
        if tokio::time::timeout(LAST_WORD, hub.store.release()).await.is_err() {
            tracing::warn!("cannot end the lease; other hubs wait until it is over");
        }
    }
}
