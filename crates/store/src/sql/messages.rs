//! Clients, rules, the inbox and the outbox behind [`Messages`].

use std::sync::Arc;

use async_trait::async_trait;
use convoke_core::id::TokenId;
use convoke_core::journal::Draft;
use convoke_core::time::Timestamp;

use super::clients::SealedClient;
use super::writer::{SMALL, Tx};
use super::{SqlStore, clients, outbox, people};
use crate::Result;
use crate::{ClientRow, MessageFilter, MessageRow, Messages, OutboxRow, OutboxTotal, RuleRow};

#[async_trait]
impl Messages for SqlStore {
    async fn clients(&self) -> Result<Vec<ClientRow>> {
        let key = Arc::clone(&self.key);
        self.readers.read(move |conn| clients::all(conn, &key, None)).await
    }

    async fn client(&self, identifier: &str) -> Result<Option<ClientRow>> {
        let (identifier, key) = (identifier.to_owned(), Arc::clone(&self.key));
        self.readers.read(move |conn| Ok(clients::all(conn, &key, Some(&identifier))?.pop())).await
    }

    async fn put_client(&self, client: ClientRow, record: Option<Draft>) -> Result<()> {
        let sealed = SealedClient::new(&self.key, client)?;
        self.queue.run(SMALL, move |tx| clients::put(tx, &sealed, record.as_ref())).await
    }

    async fn withdraw_client(&self, client: ClientRow, record: Option<Draft>) -> Result<()> {
        let sealed = SealedClient::new(&self.key, client)?;
        self.queue.withdraw(SMALL, move |tx| clients::put(tx, &sealed, record.as_ref())).await
    }

    async fn remove_client(&self, identifier: &str, record: Draft) -> Result<bool> {
        let identifier = identifier.to_owned();
        self.queue.withdraw(SMALL, move |tx| clients::remove(tx, &identifier, &record)).await
    }

    async fn rules(&self) -> Result<Vec<RuleRow>> {
        let key = Arc::clone(&self.key);
        self.readers.read(move |conn| outbox::rules(conn, &key)).await
    }

    async fn put_rule(&self, rule: RuleRow, record: Draft) -> Result<()> {
        let purpose = outbox::rule_purpose(&rule.rule);
        let sealed = rule.secret.as_ref().map(|secret| self.key.seal(&purpose, secret.reveal())).transpose()?;
        let weight = SMALL + rule.body.len();
        self.queue.run(weight, move |tx| outbox::put_rule(tx, &rule, sealed.as_deref(), &record)).await
    }

    async fn delete_rule(&self, rule: &str, record: Draft) -> Result<bool> {
        let rule = rule.to_owned();
        self.queue.withdraw(SMALL, move |tx| outbox::delete_rule(tx, &rule, &record)).await
    }

    async fn put_message(&self, message: MessageRow, most: u64) -> Result<i64> {
        let weight = SMALL + message.content.len();
        self.queue.run(weight, move |tx| outbox::put_message(tx, &message, most)).await
    }

    async fn messages(&self, filter: MessageFilter) -> Result<Vec<MessageRow>> {
        self.readers.read(move |conn| outbox::messages(conn, &filter)).await
    }

    async fn put_outbox(&self, message: OutboxRow, destinations: Vec<String>) -> Result<i64> {
        let weight = SMALL + message.content.len() + 64 * destinations.len();
        self.queue.run(weight, move |tx| outbox::put_outbox(tx, &message, &destinations)).await
    }

    async fn put_outbox_of(&self, by: TokenId, message: OutboxRow, to: Vec<String>) -> Result<Option<i64>> {
        let weight = SMALL + message.content.len() + 64 * to.len();
        let keep = move |tx: &mut Tx<'_>| match people::is_revoked(tx.conn, by)? {
            true => Ok(None),
            false => outbox::put_outbox(tx, &message, &to).map(Some),
        };
        self.queue.run(weight, keep).await
    }

    async fn outbox(&self, destination: &str, after: i64, limit: u32, now: Timestamp) -> Result<Vec<OutboxRow>> {
        let destination = destination.to_owned();
        let hub_id = self.hub_id;
        self.readers.read(move |conn| outbox::outbox(conn, hub_id, &destination, after, limit, now)).await
    }

    async fn delivered(&self, destination: &str, messages: Vec<i64>) -> Result<()> {
        let destination = destination.to_owned();
        self.queue.run(SMALL, move |tx| outbox::delivered(tx, &destination, &messages)).await
    }

    async fn outbox_totals(&self) -> Result<Vec<OutboxTotal>> {
        let hub_id = self.hub_id;
        self.readers.read(move |conn| outbox::totals(conn, hub_id)).await
    }

    async fn lapse(&self, now: Timestamp, inbox_before: Option<Timestamp>) -> Result<u64> {
        let mut lapsed = 0;
        loop {
            // In pieces, so that others get their turn between them.
            let (piece, more) = self.queue.run(SMALL, move |tx| outbox::lapse(tx, now, inbox_before)).await?;
            lapsed += piece;
            if !more {
                return Ok(lapsed);
            }
        }
    }
}
