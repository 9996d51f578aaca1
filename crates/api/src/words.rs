//! Words that the API uses, as its OpenAPI document tells them: what a text may be, read from the lists that the program
//! itself goes by. Only what is closed is here; codes of errors and kinds of records are open.

use convoke_core::approval::ApprovalState as Approvals;
use convoke_core::call::CallState as Calls;
use convoke_core::health::Status;
use convoke_core::{door, effect, grant, guard, id, peer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type};
use utoipa::{PartialSchema, ToSchema};

/// A type without values that only has a schema: one of these words.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident: $words:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub enum $name {}

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                ObjectBuilder::new().schema_type(Type::String).enum_values(Some($words)).into()
            }
        }

        impl ToSchema for $name {}
    )*};
}

words! {
    /// The role of a token.
    Role: grant::Role::ALL.map(grant::Role::name);
    /// A right that somebody has.
    Right: grant::Right::HELD.map(grant::Right::name);
    /// The trust in a peer.
    Trust: peer::Trust::ALL.map(peer::Trust::name);
    /// The liveness of a peer.
    Liveness: peer::Liveness::ALL.map(peer::Liveness::name);
    /// The effect of a call.
    Effect: effect::Effect::ALL.map(effect::Effect::name);
    /// The door of a call.
    Door: door::Door::ALL.map(door::Door::name);
    /// The protocol of a peer.
    Protocol: id::Protocol::ALL.map(id::Protocol::name);
    /// The texts that a deny rule examines.
    AppliesTo: guard::AppliesTo::ALL.map(guard::AppliesTo::name);
    /// The state of an approval.
    ApprovalState: Approvals::ALL.map(Approvals::name);
    /// The same, or any.
    ApprovalFilter: Approvals::ALL.map(Approvals::name).into_iter().chain(["all"]);
    /// The state of a call.
    CallState: Calls::ALL.map(Calls::name);
    /// The health of a machine; `unknown` before its first snapshot.
    Health: ["unknown"].into_iter().chain(Status::ALL.map(Status::name));
    /// Whether a token is good.
    TokenState: ["active", "paused", "expired", "revoked"];
    /// How loud a log line is.
    Level: ["error", "warn", "info", "debug", "trace"];
}

/// A moment: RFC 3339, in UTC.
#[derive(Debug)]
pub enum Time {}

impl PartialSchema for Time {
    fn schema() -> RefOr<Schema> {
        let format = SchemaFormat::KnownFormat(KnownFormat::DateTime);
        ObjectBuilder::new().schema_type(Type::String).format(Some(format)).into()
    }
}

impl ToSchema for Time {}
