//! A web page as text: headings, lists, table cells and links, and nothing that only a browser needs.
//!
//! In one pass over the tokens of a tokenizer that takes any bytes in linear time. A page comes from a stranger: one of
//! two megabytes of half-open tags must not keep a processor busy for an hour.

use html5gum::{DefaultEmitter, Token, Tokenizer};
use url::Url;

/// Elements whose content nobody reads.
const UNSEEN: &[&[u8]] = &[b"script", b"style", b"noscript", b"template", b"svg", b"iframe", b"object", b"canvas"];

/// Elements that stand on lines of their own.
const BLOCKS: &[&[u8]] = &[
    b"address",
    b"article",
    b"aside",
    b"blockquote",
    b"dd",
    b"details",
    b"div",
    b"dl",
    b"dt",
    b"fieldset",
    b"figcaption",
    b"figure",
    b"footer",
    b"form",
    b"header",
    b"hr",
    b"main",
    b"nav",
    b"ol",
    b"p",
    b"pre",
    b"section",
    b"summary",
    b"table",
    b"title",
    b"ul",
];

/// The longest address of a link that is shown.
const LINK_BYTES: usize = 500;

/// A page's text. `base` is where it came from, for its links.
pub(super) fn text(html: &str, base: &Url) -> String {
    let mut emitter = DefaultEmitter::default();
    emitter.naively_switch_states(true);
    let mut writer = Writer::default();
    for token in Tokenizer::new_with_emitter(html, emitter).flatten() {
        match token {
            Token::StartTag(tag) => {
                let href = tag.attributes.get(&b"href"[..]).map(|href| String::from_utf8_lossy(href).into_owned());
                writer.open(&tag.name, href.and_then(|href| link(base, &href)), tag.self_closing);
            }
            Token::EndTag(tag) => writer.close(&tag.name),
            Token::String(text) => writer.text(&String::from_utf8_lossy(&text)),
            _ => {}
        }
    }
    writer.out.trim().to_owned()
}

/// Where a link leads, if it leads to another page.
fn link(base: &Url, href: &str) -> Option<String> {
    let href = href.trim();
    if href.is_empty() || href.starts_with('#') || href.len() > LINK_BYTES {
        return None;
    }
    let target = base.join(href).ok()?;
    matches!(target.scheme(), "http" | "https").then(|| target.to_string())
}

#[derive(Debug, Default)]
struct Writer {
    out: String,
    /// Line ends that come before the next word.
    lines: usize,
    /// A space that comes before the next word.
    space: bool,
    /// The unseen element that is open, and how often.
    unseen: Option<(Vec<u8>, usize)>,
    preformatted: usize,
    /// The open link's address, and where its text begins.
    link: Option<(String, usize)>,
}

impl Writer {
    fn open(&mut self, name: &[u8], link: Option<String>, is_closed: bool) {
        if let Some((unseen, depth)) = &mut self.unseen {
            *depth += usize::from(unseen == name && !is_closed);
            return;
        }
        match name {
            b"br" => self.lines = (self.lines + 1).min(2),
            b"li" => {
                self.break_lines(1);
                self.word("- ");
            }
            b"tr" => self.break_lines(1),
            b"td" | b"th" if self.lines == 0 && !self.out.is_empty() => self.word(" | "),
            b"a" => self.link = link.map(|link| (link, self.out.len())),
            [b'h', level @ b'1'..=b'6'] => {
                self.break_lines(2);
                let marks = "#".repeat(usize::from(level - b'0'));
                self.word(&format!("{marks} "));
            }
            _ if UNSEEN.contains(&name) && !is_closed => self.unseen = Some((name.to_vec(), 1)),
            _ if BLOCKS.contains(&name) => {
                self.preformatted += usize::from(name == b"pre");
                self.break_lines(2);
            }
            _ => {}
        }
    }

    fn close(&mut self, name: &[u8]) {
        if let Some((unseen, depth)) = &mut self.unseen {
            *depth -= usize::from(unseen == name);
            if *depth == 0 {
                self.unseen = None;
            }
            return;
        }
        match name {
            b"a" => {
                // A link without words, such as a picture's, says nothing.
                let link = self.link.take().filter(|(_, start)| !self.out[*start..].trim().is_empty());
                if let Some((link, _)) = link {
                    self.out.push_str(&format!(" ({link})"));
                }
            }
            b"li" | b"tr" => self.break_lines(1),
            [b'h', b'1'..=b'6'] => self.break_lines(2),
            _ if BLOCKS.contains(&name) => {
                self.preformatted -= usize::from(name == b"pre").min(self.preformatted);
                self.break_lines(2);
            }
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        if self.unseen.is_some() {
            return;
        }
        if self.preformatted > 0 {
            self.word(text);
            return;
        }
        for (index, word) in text.split(|c: char| c.is_ascii_whitespace()).enumerate() {
            self.space |= index > 0;
            if !word.is_empty() {
                self.word(word);
            }
        }
    }

    /// The next word begins so many lines further down.
    fn break_lines(&mut self, lines: usize) {
        self.lines = self.lines.max(lines);
    }

    fn word(&mut self, word: &str) {
        if self.lines > 0 && !self.out.is_empty() {
            self.out.extend(std::iter::repeat_n('\n', self.lines));
        } else if self.space && !self.out.is_empty() && !self.out.ends_with([' ', '\n']) {
            self.out.push(' ');
        }
        (self.lines, self.space) = (0, false);
        self.out.push_str(word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(html: &str, expected: &str) {
        assert_eq!(text(html, &Url::parse("https://example.org/docs/page").unwrap()), expected, "{html}");
    }

    #[test]
    fn pages_become_what_a_reader_sees() {
        check("", "");
        check("plain  text\n here", "plain text here");
        check("<p>One</p><p>Two <b>three</b>.</p>", "One\n\nTwo three.");
        check("<h2>Head</h2>Text<br>more", "## Head\n\nText\nmore");
        check("<ul><li>a</li><li>b</li></ul>", "- a\n- b");
        check("<table><tr><th>k</th><th>v</th></tr><tr><td>1</td><td>2</td></tr></table>", "k | v\n1 | 2");
        check("<pre>a\n  b</pre>", "a\n  b");
        check("&lt;p&gt; &amp; &eacute;&#x21;", "<p> & é!");
        check("<a href=\"../x?y=1\">link</a>", "link (https://example.org/x?y=1)");
        check("<a href=\"#here\">a</a> <a href=\"javascript:x()\">b</a> <a href=\"/c\"><img></a>", "a b");
    }

    #[test]
    fn what_only_a_browser_needs_is_left_out() {
        check("<title>T</title><script>if (a<b) x()</script><style>p{}</style><p>seen</p>", "T\n\nseen");
        check("<svg><svg>x</svg>y</svg>z<!-- note -->", "z");
        check("before<script>never closed <p>x", "before");
        check("</p></a></li></pre></script>text", "text");
    }

    #[test]
    fn hostile_pages_take_no_longer_than_others() {
        // Each took minutes with a converter that looks ahead; here they are over before anybody notices.
        for piece in ["<", "<a ", "&", "&a", "<script>", "<!--", "<div>", "<a href=\"", "<ul><li>", "</", "<td>"] {
            let page = piece.repeat(200_000 / piece.len());
            let shown = text(&page, &Url::parse("https://example.org/").unwrap());
            assert!(shown.len() <= 8 * page.len());
        }
    }

    proptest! {
        #[test]
        fn any_page_becomes_text(page in "(<|>|/|a|p|li|pre|script|style|svg|h1|td| |=|\"|&amp;|&#|href|é|\n){0,80}") {
            text(&page, &Url::parse("https://example.org/").unwrap());
        }
    }
}
