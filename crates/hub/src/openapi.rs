//! The OpenAPI document, made from the handlers.

use axum::body::Body;
use axum::http::Response;
use utoipa::OpenApi;
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::{Object, ObjectBuilder, Schema, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ContentBuilder, Ref, RefOr};

use convoke_doors::extract::json_bytes;

#[derive(OpenApi)]
#[openapi(
    info(title = "Convoke hub", description = "Machines, agent programs, people and coding sessions under one identity, one policy and one record."),
    paths(
        convoke_http::agents::list, convoke_http::agents::show, convoke_http::agents::patch, convoke_http::agents::remove, convoke_wires::kenny::enrol_routes::mint_token,
        convoke_wires::kenny::enrol_routes::enrol, convoke_http::agents::revoke, convoke_wires::kenny::enrol_routes::rotate_key, convoke_wires::kenny::update_routes::update, convoke_wires::tool_routes::tools,
        convoke_wires::kenny::update_routes::binary, convoke_wires::kenny::file_routes::make, convoke_wires::kenny::file_routes::state,
        convoke_wires::kenny::file_routes::read, convoke_wires::kenny::file_routes::write, convoke_wires::kenny::file_routes::fetch, convoke_wires::kenny::file_routes::send,
        convoke_http::calls::call, convoke_http::calls::list, convoke_http::calls::show, convoke_http::calls::take_back, convoke_http::fleet::overview, convoke_http::fleet::snapshot,
        convoke_http::fleet::history, convoke_http::section_history::history, convoke_http::fleet::health, convoke_http::approvals::list, convoke_http::approvals::decide,
        convoke_http::policy::deny_rules, convoke_http::policy::put_deny_rule, convoke_http::policy::delete_deny_rule,
        convoke_http::policy::confirm_rules, convoke_http::policy::put_confirm_rule, convoke_http::policy::delete_confirm_rule,
        convoke_http::tokens::list, convoke_http::tokens::mint, convoke_http::tokens::revoke, convoke_http::assistants::pause, convoke_http::record::journal,
        convoke_http::inbox::inbox, convoke_http::session::who, convoke_http::session::sign_in, convoke_http::session::sign_out, convoke_http::session::step_up,
        convoke_http::session::link, convoke_http::open_page::open, convoke_http::session::list, convoke_http::session::end_one,
        convoke_http::grants::list, convoke_http::grants::give, convoke_http::grants::end, convoke_http::notices::list, convoke_http::notices::add,
        convoke_http::notices::remove, convoke_http::notices::test,
        convoke_http::fleet_history::history, convoke_http::fleet_history::at, convoke_http::runs::list, convoke_http::runs::show, convoke_http::approvals::show, convoke_http::policy_test::test, convoke_http::policy_test::replay,
        convoke_http::export::journal, convoke_http::export::agents,
        convoke_http::passkeys::support, convoke_http::passkeys::sign_in, convoke_http::passkeys::challenge, convoke_http::passkeys::list, convoke_http::passkeys::begin,
        convoke_http::passkeys::add, convoke_http::passkeys::remove, convoke_http::totp::begin, convoke_http::totp::confirm, convoke_http::totp::remove,
        convoke_http::users::list, convoke_http::users::add, convoke_http::users::change, convoke_http::users::remove, convoke_http::users::link,
        convoke_http::record::checkpoints, convoke_http::record::logs, convoke_http::events::stream,
        convoke_http::operations::about, convoke_http::backup::make, convoke_http::operations::settings, convoke_http::hubs::list, convoke_http::hubs::parcel, convoke_wires::yonexus::routes::clients, convoke_wires::yonexus::routes::allow, convoke_wires::yonexus::routes::client,
        convoke_wires::yonexus::routes::remove, convoke_wires::yonexus::routes::revoke, convoke_wires::yonexus::routes::rotate_key, convoke_wires::yonexus::routes::pairings,
        convoke_wires::yonexus::routes::decide, convoke_wires::yonexus::rule_routes::list, convoke_wires::yonexus::rule_routes::put, convoke_wires::yonexus::rule_routes::delete, convoke_wires::yonexus::rule_routes::test,
        convoke_wires::yonexus::rule_routes::inbox, convoke_wires::yonexus::rule_routes::send,
        convoke_wires::rooms::turn::turn, convoke_wires::rooms::routes::list, convoke_wires::rooms::routes::create, convoke_wires::rooms::routes::show, convoke_wires::rooms::routes::door, convoke_wires::rooms::routes::remove, convoke_wires::rooms::routes::grant,
        convoke_wires::rooms::routes::kick, convoke_wires::rooms::routes::admit, convoke_wires::rooms::routes::invite, convoke_wires::rooms::routes::pass, convoke_wires::rooms::routes::change, convoke_wires::rooms::routes::set_admission, convoke_wires::rooms::routes::set_posts, convoke_wires::rooms::routes::revoke_invite, convoke_wires::rooms::routes::add_key, convoke_wires::rooms::routes::remove_key,
        convoke_wires::sonde::routes::mint, convoke_wires::sonde::routes::tokens, convoke_wires::sonde::routes::probe, convoke_wires::sonde::routes::diagnose,
        convoke_wires::sonde::routes::health_check, convoke_wires::sonde::routes::agents, convoke_wires::sonde::routes::agent, convoke_wires::sonde::routes::packs, convoke_wires::sonde::routes::capabilities,
        convoke_wires::sonde::routes::runbooks, convoke_wires::sonde::routes::ca, convoke_wires::sonde::routes::accept,
        convoke_wires::joined::join, convoke_wires::joined::split,
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
const REFUSALS: [(&str, &str); 12] = [
    ("400", "A parameter or the body is invalid."),
    ("401", "The token is missing or not valid."),
    ("403", "The token's role or scopes do not include this."),
    ("404", "It does not exist, or is outside the token's scopes."),
    ("408", "The body did not arrive in time."),
    ("409", "It conflicts with the present state."),
    ("413", "The body is too large."),
    ("421", "The hub does not have the name in `Host`."),
    ("429", "Too many calls, or too many wrong tokens from this address."),
    ("502", "What it was sent to did not take it."),
    ("503", "The hub is busy, stopping, or cannot write."),
    ("507", "The disk has not enough space for it."),
];

fn add_refusals(path: &str, operation: &mut Operation) {
    let (is_api, has_body) = (path.starts_with("/api/"), operation.request_body.is_some());
    for (status, _) in REFUSALS {
        let may_be = match status {
            "401" => !path.starts_with("/d/"),
            "403" | "421" | "429" | "503" => is_api,
            "404" => path.contains('{'),
            "408" | "413" => has_body,
            "409" | "502" | "507" => false,
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
pub async fn document() -> Response<Body> {
    json_bytes(text())
}

/// The document as text.
pub(super) fn text() -> String {
    Document::openapi().to_json().unwrap_or_else(|_| "{}".into())
}
