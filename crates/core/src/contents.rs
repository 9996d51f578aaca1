//! Which contents somebody may read who may only look: those below certain folders.

/// Whether a path lies in one of these folders, as far as its name tells. A relative one lies in none, and so does one
/// that goes up. A folder with a drive or a `\` is one of Windows: there case and kind of slash do not count.
pub fn lies_below<D: AsRef<str>>(path: &str, folders: &[D]) -> bool {
    folders.iter().map(AsRef::as_ref).any(|folder| {
        let of_windows = folder.contains('\\') || folder.as_bytes().get(1) == Some(&b':');
        let [path, folder] = [path, folder].map(|text| parts(text, of_windows));
        match (path, folder) {
            (Some(path), Some(folder)) => path.len() > folder.len() && path.starts_with(&folder),
            _ => false,
        }
    })
}

/// The names of an absolute path, one after another.
fn parts(path: &str, of_windows: bool) -> Option<Vec<String>> {
    let text = if of_windows { path.replace('\\', "/").to_ascii_lowercase() } else { path.to_owned() };
    let has_drive = text.as_bytes().get(1) == Some(&b':') && text.as_bytes().get(2) == Some(&b'/');
    let is_absolute = if of_windows { has_drive } else { text.starts_with('/') };
    let parts: Vec<String> =
        text.split('/').filter(|part| !part.is_empty() && *part != ".").map(Into::into).collect();
    (is_absolute && !parts.iter().any(|part| part == ".." || part.contains('\0'))).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_lies_below_a_folder_by_whole_names() {
        let folders = ["/var/log", "C:/Windows/Logs"];
        for path in ["/var/log/syslog", "/var//log/./nginx/access.log", r"c:\windows\LOGS\x.log", "C:/Windows/Logs/x"]
        {
            assert!(lies_below(path, &folders), "{path}");
        }
        for path in [
            "/var/log",
            "/var/logs/x",
            "/var/log/../lib/x",
            "/VAR/LOG/x",
            "var/log/x",
            "",
            "/",
            r"C:\Windows\Logs\..\x",
            r"D:\Windows\Logs\x",
            r"\\?\C:\Windows\Logs\x",
            r"C:Windows\Logs\x",
            r"\var\log\x",
        ] {
            assert!(!lies_below(path, &folders), "{path}");
        }
        assert!(!lies_below::<&str>("/var/log/x", &[]));
        assert!(lies_below("/x", &["/"]));
    }
}
