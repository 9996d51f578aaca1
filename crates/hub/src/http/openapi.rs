//! The OpenAPI document, made from the handlers.

use axum::body::Body;
use axum::http::Response;
use utoipa::OpenApi;
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::{Object, ObjectBuilder, Schema, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ContentBuilder, Ref, RefOr};

use super::extract::json_bytes;

#[derive(OpenApi)]
#[openapi(
    info(title = "Convoke hub", description = "Machines, agent programs, people and coding sessions under one identity, one policy and one record."),
    paths(
        super::agents::list, super::agents::show, super::agents::patch, super::agents::remove, super::agents::mint_token,
        super::agents::enrol, super::agents::revoke, super::agents::rotate_key, super::downloads::update,
        super::downloads::binary, super::calls::call, super::calls::show, super::calls::take_back, super::fleet::overview, super::fleet::snapshot,
        super::fleet::history, super::fleet::health, super::approvals::list, super::approvals::decide,
        super::policy::deny_rules, super::policy::put_deny_rule, super::policy::delete_deny_rule,
        super::policy::confirm_rules, super::policy::put_confirm_rule, super::policy::delete_confirm_rule,
        super::tokens::list, super::tokens::mint, super::tokens::revoke, super::record::journal,
        super::record::checkpoints, super::record::logs, super::events::stream,
        super::operations::about, super::yonexus::clients, super::yonexus::allow, super::yonexus::client,
        super::yonexus::remove, super::yonexus::revoke, super::yonexus::rotate_key, super::yonexus::pairings,
        super::yonexus::decide, super::rules::list, super::rules::put, super::rules::delete, super::rules::test,
        super::rules::inbox, super::rules::send,
        super::rooms::list, super::rooms::create, super::rooms::show, super::rooms::remove, super::rooms::grant,
        super::rooms::kick, super::rooms::admit, super::rooms::invite, super::rooms::add_key, super::rooms::remove_key,
        super::v1::mint, super::v1::tokens, super::v1::probe, super::v1::diagnose,
        super::v1::health_check, super::v1::agents, super::v1::agent, super::v1::packs, super::v1::capabilities,
        super::v1::runbooks, super::v1::ca, super::v1::accept,
    ),
    components(schemas(convoke_api::ErrorBody)),
    security(("bearer" = [])),
    modifiers(&Bearer),
)]
struct Document;

struct Bearer;

impl utoipa::Modify for Bearer {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("bearer", SecurityScheme::Http(scheme));
        components.schemas.insert(SONDE_ERROR.into(), sonde_error());
        for (path, item) in &mut document.paths.paths {
            let methods = ["get", "post", "put", "patch", "delete"];
            let operations = [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete];
            for (method, operation) in methods.into_iter().zip(operations) {
                let Some(operation) = operation else { continue };
                operation.operation_id = Some(id_of(method, path));
                add_refusals(path, operation);
                complete(path, operation);
            }
        }
    }
}

/// A name for an operation that no other has: handlers have short names that several share.
fn id_of(method: &str, path: &str) -> String {
    let words = path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    std::iter::once(method).chain(words).collect::<Vec<_>>().join("_")
}

/// The name of what Sonde's own doors answer instead of [`convoke_api::ErrorBody`].
const SONDE_ERROR: &str = "SondeError";

fn sonde_error() -> RefOr<Schema> {
    ObjectBuilder::new().property("error", Object::with_type(Type::String)).required("error").into()
}

/// What every door may answer besides what it is for, so that no handler has to repeat it.
const REFUSALS: [(&str, &str); 10] = [
    ("400", "A parameter or the body is not as it must be."),
    ("401", "No token, or none that is known here."),
    ("403", "The token's role or scopes do not include this."),
    ("404", "There is nothing of this name, or not within reach."),
    ("408", "The body did not come in time."),
    ("409", "It does not fit what is there."),
    ("413", "The body is too large."),
    ("421", "The hub does not go by the name in `Host`."),
    ("429", "Too many calls, or too many wrong tokens from this address."),
    ("503", "The hub is busy, stopping, or cannot write."),
];

fn add_refusals(path: &str, operation: &mut Operation) {
    let (is_api, has_body) = (path.starts_with("/api/"), operation.request_body.is_some());
    for (status, _) in REFUSALS {
        let may_be = match status {
            "401" => !path.starts_with("/d/"),
            "403" | "421" | "429" | "503" => is_api,
            "404" => path.contains('{'),
            "408" | "413" => has_body,
            "409" => false,
            _ => true,
        };
        if may_be && !operation.responses.responses.contains_key(status) {
            operation.responses.responses.insert(status.into(), utoipa::openapi::Response::default().into());
        }
    }
}

/// Says of every answer what it is, where its handler does not.
fn complete(path: &str, operation: &mut Operation) {
    let error = if path.starts_with("/api/v1/") { SONDE_ERROR } else { "ErrorBody" };
    for (status, response) in &mut operation.responses.responses {
        let RefOr::T(response) = response else { continue };
        let words = REFUSALS.iter().find(|(known, _)| known == status).map(|(_, words)| *words);
        if response.description.is_empty() {
            let done = if status == "202" { "It waits for a person." } else { "As asked." };
            response.description = words.unwrap_or(done).into();
        }
        if response.content.is_empty() {
            let (kind, schema) = match (words, path.starts_with("/d/")) {
                (Some(_), _) => ("application/json", Ref::from_schema_name(error).into()),
                (None, true) => ("application/octet-stream", RefOr::from(Object::with_type(Type::String))),
                (None, false) => ("application/json", RefOr::from(Object::with_type(Type::Object))),
            };
            let schema: RefOr<Schema> = schema;
            response.content.insert(kind.into(), ContentBuilder::new().schema(Some(schema)).build().into());
        }
    }
}

/// `/api/openapi.json`.
pub(super) async fn document() -> Response<Body> {
    json_bytes(text())
}

/// The document as text.
pub(super) fn text() -> String {
    Document::openapi().to_json().unwrap_or_else(|_| "{}".into())
}
