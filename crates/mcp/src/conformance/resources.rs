//! The suite's resources.

use rmcp::model::{
    ListResourceTemplatesResult, ListResourcesResult, ReadResourceResponse, ReadResourceResult, Resource,
    ResourceContents, ResourceTemplate,
};
use serde_json::json;

use super::{Fixtures, PNG};

const TEXT: &str = "test://static-text";
const BINARY: &str = "test://static-binary";
const WATCHED: &str = "test://watched-resource";

impl Fixtures {
    /// The hub's resources, and the suite's.
    pub fn resources(&self, mut list: ListResourcesResult) -> ListResourcesResult {
        let all = [(TEXT, "text/plain"), (BINARY, "image/png"), (WATCHED, "text/plain")];
        list.resources.extend(all.map(|(uri, kind)| {
            Resource::new(uri, uri).with_description("A fixture of the conformance suite.").with_mime_type(kind)
        }));
        list
    }

    /// The hub's templates, and the suite's.
    pub fn templates(&self, mut list: ListResourceTemplatesResult) -> ListResourceTemplatesResult {
        let template = ResourceTemplate::new("test://template/{id}/data", "template")
            .with_description("A fixture of the conformance suite.")
            .with_mime_type("application/json");
        list.resource_templates.push(template);
        list
    }

    /// Whether a resource is one of the suite's.
    pub fn is_resource(&self, uri: &str) -> bool {
        self.read_resource(uri).is_some()
    }

    /// Reads one of the suite's.
    pub fn read_resource(&self, uri: &str) -> Option<ReadResourceResponse> {
        let contents = match uri {
            TEXT => ResourceContents::text("This is the content of the static text resource.", uri),
            BINARY => ResourceContents::blob(PNG, uri).with_mime_type("image/png"),
            WATCHED => ResourceContents::text("Watched resource content.", uri),
            _ => {
                let id = uri.strip_prefix("test://template/")?.strip_suffix("/data")?;
                let text = json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
                ResourceContents::text(text.to_string(), uri).with_mime_type("application/json")
            }
        };
        Some(ReadResourceResult::new(vec![contents]).into())
    }
}
