//! Deny rules for the files of this very hub, wherever they are: the built-in rules know them by their usual names only.

use std::path::Path;

use convoke_core::guard::{AppliesTo, Rule};

/// The rules for a data directory and, where there is one, the key of the certificate.
pub fn rules(data: &Path, tls_key: Option<&Path>) -> Vec<Rule> {
    let rule = |id: &str, pattern: String, reason: &str| Rule {
        id: id.into(),
        applies_to: AppliesTo::Path,
        pattern,
        reason: reason.into(),
    };
    let inside = r"[\\/]+(?:hub\.db|hub\.json|data\.key|clients|convoke\.toml)";
    let data = rule("hub_data", format!("{}{inside}", pattern(data)), "It is the data of this hub.");
    let key = tls_key
        .map(|key| rule("hub_tls_key", format!("{}$", pattern(key)), "It is the key of this hub's certificate."));
    [Some(data), key].into_iter().flatten().collect()
}

/// Matches a path as it was given and as it really is, with either slash.
fn pattern(path: &Path) -> String {
    let real = path.canonicalize().ok();
    let absolute = std::path::absolute(path).ok();
    let mut ways: Vec<String> =
        [real, absolute].iter().flatten().map(|path| literal(&path.to_string_lossy())).collect();
    ways.dedup();
    format!("(?i)^(?:{})", ways.join("|"))
}

fn literal(path: &str) -> String {
    let letter = |c: char| match c {
        '/' | '\\' => r"[\\/]+".to_owned(),
        c if c.is_alphanumeric() || c == '_' => c.to_string(),
        c => format!("[{}{c}]", if "^[]\\-".contains(c) { "\\" } else { "" }),
    };
    path.trim_start_matches(r"\\?\").chars().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use convoke_core::guard::{Guard, Surface};

    use super::*;

    #[test]
    fn the_files_of_the_hub_are_refused_whatever_its_directory_is_called() {
        let dir = tempfile::tempdir().expect("a directory");
        let data = dir.path().join("h-1 (old) [x]^$");
        std::fs::create_dir(&data).expect("made");
        let key = dir.path().join("site.pem");
        let rules = rules(&data, Some(&key));
        let (guard, refused) = Guard::with_operator_rules(&rules);
        assert!(refused.is_empty(), "{refused:?}");
        let hit = |path: &Path| {
            let text = path.to_string_lossy();
            let texts = [text.clone().into_owned(), text.replace('/', "\\")];
            let surfaces = texts.map(|text| Surface { group: AppliesTo::Path, text: text.into() });
            guard.check(&surfaces).map(|hit| hit.rule)
        };
        assert_eq!(hit(&data.join("clients/a.json")).as_deref(), Some("hub_data"));
        assert_eq!(hit(&data.join("convoke.toml")).as_deref(), Some("hub_data"));
        assert_eq!(hit(&data.join("hub.db-tail")).as_deref(), Some("hub_data"));
        assert_eq!(hit(&key).as_deref(), Some("hub_tls_key"));
        assert_eq!(hit(&data.join("agent/work/out.txt")), None);
        assert_eq!(hit(&dir.path().join("site.pem.txt")), None);
    }
}
