//! Pictures that a person names in what they type: a `data:` address, a Markdown image, the path of a file. They are
//! attached, as if the person had attached them.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::files::picture_kind;

/// Pictures that are taken from one text.
const MOST: usize = 8;

/// Largest picture, decoded, in bytes.
const MAX_BYTES: usize = 20 * 1024 * 1024;

/// All pictures of a text together, in bytes.
const MAX_ALL: usize = 40 * 1024 * 1024;

/// Most words of a text that are tried as paths.
const MOST_CANDIDATES: usize = 256;

/// A longer word is no path.
const LONGEST_PATH: usize = 4096;

/// Names that are looked for where systems put screenshots, if nothing of that name is in the workspace.
const SCREENSHOTS: [&str; 4] = ["screenshot", "screen shot", "pasted-image", "pasted_image"];

const EXTENSIONS: [&str; 5] = [".png", ".jpg", ".jpeg", ".gif", ".webp"];

/// Where paths are looked for.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    /// The workspace, for relative paths.
    pub root: &'a Path,
    /// The person's own directory, for `~` and for screenshots.
    pub home: &'a Path,
}

/// A picture.
#[derive(Clone, PartialEq, Eq)]
pub struct Picture {
    /// Its file's name.
    pub name: Option<String>,
    /// `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
    pub mime_type: &'static str,
    /// Base64.
    pub data: String,
}

impl std::fmt::Debug for Picture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Picture")
            .field("name", &self.name)
            .field("base64_bytes", &self.data.len())
            .finish_non_exhaustive()
    }
}

/// The pictures that a text names, and the text. Of an address that is a picture itself, a word is left: a model would
/// otherwise get it twice, once as millions of letters.
pub fn pictures_in(text: &str, places: Places<'_>) -> (String, Vec<Picture>) {
    let mut found = Found::default();
    let text = without_addresses(text, &mut found);
    let mut seen: Vec<PathBuf> = Vec::new();
    for candidate in candidates(&text) {
        let Some(path) = resolve(&candidate, places).filter(|path| !seen.contains(path)) else { continue };
        if let Some((kind, bytes)) = picture_at(&path) {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            found.add(name, kind, &bytes);
        }
        seen.push(path);
    }
    (text, found.pictures)
}

#[derive(Default)]
struct Found {
    pictures: Vec<Picture>,
    bytes: usize,
}

impl Found {
    fn add(&mut self, name: Option<String>, mime_type: &'static str, bytes: &[u8]) -> bool {
        if self.pictures.len() >= MOST || self.bytes + bytes.len() > MAX_ALL {
            return false;
        }
        self.bytes += bytes.len();
        self.pictures.push(Picture { name, mime_type, data: STANDARD.encode(bytes) });
        true
    }
}

/// Takes `data:image/…;base64,…` out of a text.
fn without_addresses(text: &str, found: &mut Found) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("data:image/") {
        let (before, address) = rest.split_at(at);
        out.push_str(before);
        let data = data_of(address);
        let decoded = data.and_then(|data| STANDARD.decode(data).ok()).filter(|bytes| bytes.len() <= MAX_BYTES);
        let picture = decoded.and_then(|bytes| Some((picture_kind(&bytes)?, bytes)));
        match (data, picture) {
            (Some(data), Some((kind, bytes))) if found.add(None, kind, &bytes) => {
                out.push_str("[image]");
                rest = &address[address.find(',').map_or(0, |comma| comma + 1) + data.len()..];
            }
            _ => {
                let (scheme, after) = address.split_at("data:".len());
                out.push_str(scheme);
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

/// The base64 of an address that begins here.
fn data_of(address: &str) -> Option<&str> {
    let kind = address.strip_prefix("data:image/")?;
    let kinds = ["png", "jpeg", "jpg", "gif", "webp"];
    let data = kinds.iter().find_map(|name| kind.strip_prefix(name)?.strip_prefix(";base64,"))?;
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=');
    Some(&data[..data.find(|c| !is_part(c)).unwrap_or(data.len())])
}

/// What may be a picture's path, each once, in the order of the text.
fn candidates(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut add = |candidate: &str| {
        let candidate = candidate.trim().trim_matches(['"', '\'', '`', '<', '>']);
        if found.len() >= MOST_CANDIDATES || candidate.len() > LONGEST_PATH {
            return;
        }
        let may_be = candidate.starts_with("file://") || has_extension(candidate);
        if may_be && !found.iter().any(|known| known == candidate) {
            found.push(candidate.to_owned());
        }
    };
    // Most texts name no picture: this check is cheap.
    let lower = text.to_ascii_lowercase();
    if !EXTENSIONS.iter().any(|extension| lower.contains(extension)) {
        return Vec::new();
    }
    for line in text.lines() {
        for image in line.split("![").skip(1) {
            if let Some((_, path)) = image.split_once("](") {
                add(path.split([')', ' ']).next().unwrap_or_default());
            }
        }
        for word in words(line) {
            add(word
                .trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '}'])
                .trim_start_matches(['(', '[', '{']));
        }
        // A path with blanks, alone on its line.
        add(line);
    }
    found
}

fn has_extension(path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    EXTENSIONS.iter().any(|extension| lower.ends_with(extension))
}

/// The words of a line as a shell sees them: blanks may be quoted. A quotation mark that is never closed is none.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None::<char>);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            ('\\', None) if letters.peek().is_some_and(|next| next.is_whitespace()) => word.extend(letters.next()),
            ('"' | '\'', None) if word.is_empty() => quote = Some(letter),
            (letter, Some(open)) if letter == open => quote = None,
            (letter, None) if letter.is_whitespace() => words.push(std::mem::take(&mut word)),
            (letter, _) => word.push(letter),
        }
    }
    if quote.is_some() {
        return line.split_whitespace().map(str::to_owned).collect();
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

fn resolve(candidate: &str, places: Places<'_>) -> Option<PathBuf> {
    let plain = match candidate.strip_prefix("file://") {
        Some(_) => url::Url::parse(candidate).ok()?.to_file_path().ok()?,
        None => match candidate.strip_prefix("~/") {
            Some(rest) => places.home.join(rest),
            None => places.root.join(candidate),
        },
    };
    if plain.is_file() {
        return Some(plain);
    }
    let lower = candidate.to_ascii_lowercase();
    if candidate.contains('/') || !SCREENSHOTS.iter().any(|name| lower.starts_with(name)) {
        return None;
    }
    let desks = ["Desktop", "Downloads", "Pictures"].map(|name| places.home.join(name));
    let places = desks.into_iter().chain([std::env::temp_dir()]);
    places.map(|place| place.join(candidate)).find(|path| path.is_file())
}

/// A picture is known by its first bytes, whatever its name.
fn picture_at(path: &Path) -> Option<(&'static str, Vec<u8>)> {
    let file = std::fs::File::open(path).ok()?;
    let length = file.metadata().ok().filter(|metadata| metadata.is_file())?.len();
    if length > MAX_BYTES as u64 {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).ok()?;
    let kind = picture_kind(&bytes).filter(|_| bytes.len() <= MAX_BYTES)?;
    Some((kind, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PNG: &[u8] = &[0x89, b'P', b'N', b'G', 0x0D, 0x0A, 0x1A, 0x0A, 1, 2, 3];

    fn desk() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for path in ["project/a.png", "project/sub/b c.PNG", "home/d.png", "home/Desktop/Screenshot 1.png"] {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, PNG).unwrap();
        }
        std::fs::write(dir.path().join("project/text.png"), "no picture").unwrap();
        dir
    }

    #[track_caller]
    fn check(dir: &Path, text: &str, names: &[&str]) {
        let (root, home) = (dir.join("project"), dir.join("home"));
        let (kept, pictures) = pictures_in(text, Places { root: &root, home: &home });
        let found: Vec<&str> = pictures.iter().map(|picture| picture.name.as_deref().unwrap()).collect();
        assert_eq!(found, names, "{text}");
        assert_eq!(kept, text);
    }

    #[test]
    fn paths_are_found_however_they_are_written() {
        let dir = desk();
        let dir = dir.path();
        check(dir, "look at a.png, please", &["a.png"]);
        check(dir, "(a.png) and `a.png`", &["a.png"]);
        check(dir, "![alt](a.png) \"sub/b c.PNG\"", &["a.png", "b c.PNG"]);
        check(dir, "sub/b\\ c.PNG", &["b c.PNG"]);
        check(dir, "see\nsub/b c.PNG\n", &["b c.PNG"]);
        check(dir, "~/d.png", &["d.png"]);
        check(dir, &format!("file://{}/project/sub/b%20c.PNG", dir.display()), &["b c.PNG"]);
        check(dir, "Screenshot\\ 1.png", &["Screenshot 1.png"]);
        for nothing in
            ["text.png", "missing.png", "a.pn", "it's a.jpg", "no path", "", "d.png", "../home", "file://x/a.png"]
        {
            check(dir, nothing, &[]);
        }
    }

    #[test]
    fn an_address_that_is_a_picture_becomes_one() {
        let places = Places { root: Path::new("/nowhere"), home: Path::new("/nowhere") };
        let address = format!("data:image/png;base64,{}", STANDARD.encode(PNG));
        let (text, pictures) = pictures_in(&format!("before {address} after"), places);
        assert_eq!(text, "before [image] after");
        assert_eq!((pictures[0].mime_type, &pictures[0].data), ("image/png", &STANDARD.encode(PNG)));
        for nothing in
            ["data:image/png;base64,", "data:image/png;base64,AAAA", "data:image/", "data:image/png,é data:"]
        {
            assert_eq!(pictures_in(nothing, places), (nothing.to_owned(), Vec::new()));
        }
        let many = format!("{address} ").repeat(MOST + 3);
        assert_eq!(pictures_in(&many, places).1.len(), MOST);
    }

    #[test]
    fn a_text_of_nothing_but_names_is_no_burden() {
        let names: String = (0..200_000).map(|number| format!("{number}.png ")).collect();
        assert_eq!(candidates(&names).len(), MOST_CANDIDATES);
        let places = Places { root: Path::new("/nowhere"), home: Path::new("/nowhere") };
        let addresses = "data:image/".repeat(200_000);
        assert_eq!(pictures_in(&addresses, places), (addresses, Vec::new()));
    }
}
