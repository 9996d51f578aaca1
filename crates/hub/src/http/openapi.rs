//! The OpenAPI document, made from the handlers.

use axum::body::Body;
use axum::http::Response;
use utoipa::OpenApi;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ContentBuilder, Ref, ResponseBuilder};

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
        super::record::checkpoints, super::record::logs,
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
        for (path, item) in &mut document.paths.paths {
            let operations = [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete];
            for operation in operations.into_iter().flatten() {
                add_refusals(path, operation);
            }
        }
    }
}

/// What every door may answer besides what it is for, so that no handler has to repeat it.
fn add_refusals(path: &str, operation: &mut Operation) {
    let has_body = operation.request_body.is_some();
    let refusals = [
        ("400", true, "A parameter or the body is not as it must be."),
        ("401", !path.starts_with("/d/"), "No token, or none that is known here."),
        ("403", path.starts_with("/api/"), "The token's role or scopes do not include this."),
        ("404", path.contains('{'), "There is nothing of this name, or not within reach."),
        ("408", has_body, "The body did not come in time."),
        ("413", has_body, "The body is too large."),
        ("429", path.starts_with("/api/"), "Too many calls, or too many wrong tokens from this address."),
        ("503", path.starts_with("/api/"), "The hub is busy, stopping, or cannot write."),
    ];
    for (status, may_be, words) in refusals {
        if may_be && !operation.responses.responses.contains_key(status) {
            let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("ErrorBody"))).build();
            let response = ResponseBuilder::new().description(words).content("application/json", content).build();
            operation.responses.responses.insert(status.into(), response.into());
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
