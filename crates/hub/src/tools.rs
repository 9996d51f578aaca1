//! The MCP tools of this hub: its own, and those of each protocol that it speaks, put together in the order in which they
//! are listed.

use std::sync::LazyLock;

use convoke_mcp::{HubTools, Tools, Toolset};

/// Every tool.
pub static TOOLS: LazyLock<Tools> = LazyLock::new(|| {
    let own: Box<dyn Toolset> = Box::new(HubTools);
    Tools::new(std::iter::once(own).chain(convoke_wires::toolsets()).collect())
});

#[cfg(test)]
mod tests {
    use convoke_core::effect::Effect;
    use convoke_core::grant::{Grant, Role, Scopes};
    use convoke_kenny::tools as kenny;

    use super::*;
    use convoke_mcp::Need;
    use convoke_mcp::toolset::AGENT;

    fn names(role: Role, scopes: &str) -> Vec<&'static str> {
        let scopes: Scopes = serde_json::from_str(scopes).expect("scopes");
        TOOLS.visible(&Grant { role, scopes }).map(|e| e.name).collect()
    }

    #[test]
    fn the_list_is_stable() {
        let all: Vec<_> = TOOLS.iter().map(|e| e.name).collect();
        insta::assert_snapshot!(all.join("\n"));
        let mut unique = all.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), all.len());
    }

    #[test]
    fn a_caller_does_not_see_what_it_may_never_use() {
        let viewer = names(Role::Viewer, "{}");
        assert!(viewer.contains(&"fs_read") && viewer.contains(&"list_agents") && viewer.contains(&"call_agents"));
        assert!(!viewer.contains(&"shell_exec") && !viewer.contains(&"screen_capture"));
        let narrow = names(Role::Operator, r#"{"tools":["fs_*"]}"#);
        assert_eq!(narrow.iter().filter(|n| n.starts_with("fs_")).count(), 4);
        assert!(!narrow.contains(&"net_config"));
        assert!(!names(Role::Operator, r#"{"tools":[]}"#).contains(&"call_agents"));
        assert!(!narrow.contains(&"probe") && narrow.contains(&"list_capabilities"));
        for scopes in [r#"{"tools":["system.*"]}"#, r#"{"tools":["own.thing"],"effects":["manage"]}"#] {
            assert!(names(Role::Operator, scopes).contains(&"probe"), "{scopes}");
        }
        assert!(names(Role::Viewer, "{}").contains(&"health_check"));
        assert_eq!(names(Role::Operator, "{}").len(), TOOLS.iter().count());
    }

    #[test]
    fn hints_match_the_effect_and_arguments_do_not_collide() {
        for entry in TOOLS.iter() {
            let Need::Call(effect) = entry.need else { continue };
            let tool = kenny::find(entry.name).expect("one of the catalogue");
            assert_eq!(effect, tool.effect, "{}", tool.name);
            assert!(tool.arg(AGENT).is_none(), "{}: `agent` is the hub's", tool.name);
            let hints = entry.tool.annotations.as_ref().expect("hints");
            assert_eq!(hints.read_only_hint, Some(tool.effect == Effect::Observe), "{}", tool.name);
            assert_eq!(hints.destructive_hint, Some(tool.destructive), "{}", tool.name);
            assert!(entry.tool.output_schema.is_some(), "{}", tool.name);
            assert_eq!(entry.tool.input_schema["additionalProperties"], false, "{}", tool.name);
        }
    }

    #[test]
    fn the_missing_scope_is_named() {
        let viewer = Grant { role: Role::Viewer, scopes: Scopes::default() };
        let entry = TOOLS.find("shell_exec").expect("in the list");
        assert_eq!(entry.scope(&entry.check(&viewer).expect_err("too weak")), "manage");
        let scopes = Scopes { tools: Some(vec![]), ..Scopes::default() };
        let none = Grant { role: Role::Operator, scopes };
        assert_eq!(entry.scope(&entry.check(&none).expect_err("left out")), "tools:shell_exec");
    }

    #[test]
    fn the_scope_that_is_named_helps() {
        for (scopes, name, scope) in [
            (r#"{"tools":["probe"]}"#, "probe", "tools:*.*"),
            (r#"{"tools":["diagnose"]}"#, "diagnose", "tools:*.*"),
            (r#"{"tools":["call_agents"]}"#, "call_agents", "tools:*"),
            (r#"{"tools":[]}"#, "fs_list", "tools:fs_list"),
            (r#"{"effects":[]}"#, "probe", "observe"),
            (r#"{"effects":[]}"#, "call_agents", "observe"),
            (r#"{"effects":["observe"]}"#, "shell_exec", "manage"),
        ] {
            let scopes: Scopes = serde_json::from_str(scopes).expect("scopes");
            let mut grant = Grant { role: Role::Operator, scopes };
            let entry = TOOLS.find(name).expect("in the list");
            let named = entry.scope(&entry.check(&grant).expect_err("left out"));
            assert_eq!(named, scope, "{name}");
            match named.strip_prefix("tools:") {
                Some(glob) => grant.scopes.tools.get_or_insert_default().push(glob.into()),
                None => {
                    let effect = Effect::ALL.into_iter().find(|effect| effect.name() == named).expect("an effect");
                    grant.scopes.effects.get_or_insert_default().push(effect);
                }
            }
            assert!(entry.check(&grant).is_ok(), "{name} with {named}");
        }
    }
}
