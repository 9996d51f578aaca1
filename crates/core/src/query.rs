//! The query language for machines, one for the page, the command line and the API: `tag:lab AND NOT os:windows`.
//!
//! ```text
//! query  = and { "OR" and }
//! and    = not { ["AND"] not }
//! not    = "NOT" not | "(" query ")" | term
//! term   = [field ":"] text          a text with blanks or brackets stands in quotes
//! ```
//!
//! A text without a field looks for itself within id, name and host. `AND`, `OR` and `NOT` are words in capitals.

use crate::glob;

/// Longest query, in bytes.
pub const MAX_QUERY: usize = 1024;
/// Most brackets and `NOT`s within each other.
const MAX_DEPTH: usize = 32;

/// A query that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    /// All of them.
    And(Vec<Self>),
    /// One of them.
    Or(Vec<Self>),
    /// Not this.
    Not(Box<Self>),
    /// One property.
    Term(Field, String),
}

/// What a term looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// Id, name and host: the text stands somewhere in one of them.
    Any,
    /// The id; `*` stands for any text, as in all fields below.
    Id,
    /// The name that it enrolled with, or its host's.
    Name,
    /// A tag.
    Tag,
    /// The worst of its sections: `ok`, `warn`, `crit`, `unknown`.
    Health,
    /// The protocol: `kenny`, `sonde`.
    Protocol,
    /// The agent's version.
    Version,
    /// The system: `linux`, `windows`, `macos`, `other`.
    Os,
    /// `online`, `unstable`, `offline`.
    State,
    /// `unpaired`, `pending`, `trusted`, `revoked`.
    Trust,
    /// `true`, `false`.
    Online,
}

impl Field {
    const ALL: [(&'static str, Self); 10] = [
        ("id", Self::Id),
        ("name", Self::Name),
        ("tag", Self::Tag),
        ("health", Self::Health),
        ("protocol", Self::Protocol),
        ("version", Self::Version),
        ("os", Self::Os),
        ("state", Self::State),
        ("trust", Self::Trust),
        ("online", Self::Online),
    ];

    /// The words that it can be, where there are only some.
    const fn words(self) -> &'static [&'static str] {
        match self {
            Self::Any | Self::Id | Self::Name | Self::Tag | Self::Version => &[],
            Self::Health => &["ok", "warn", "crit", "unknown"],
            Self::Protocol => &["kenny", "sonde", "yonexus", "kibitz"],
            Self::Os => &["linux", "windows", "macos", "other"],
            Self::State => &["online", "unstable", "offline"],
            Self::Trust => &["unpaired", "pending", "trusted", "revoked"],
            Self::Online => &["true", "false"],
        }
    }
}

/// Why a text is no query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// Too long.
    #[error("a query has at most {MAX_QUERY} bytes")]
    TooLong,
    /// Nested too deeply.
    #[error("a query has at most {MAX_DEPTH} brackets within each other")]
    TooDeep,
    /// A quote that does not end.
    #[error("a quote in the query does not end")]
    OpenQuote,
    /// A bracket that does not end.
    #[error("a bracket in the query is not closed")]
    OpenBracket,
    /// Something is missing.
    #[error("the query ends where a term is expected; write one as in `tag:lab`")]
    Ends,
    /// Something stands where it cannot.
    #[error("`{0}` cannot stand there in the query")]
    Unexpected(String),
    /// No such field.
    #[error("`{0}` is no field of a query; there are {known}", known = known())]
    UnknownField(String),
    /// No such word.
    #[error("`{field}:` is one of {allowed}", allowed = words.join(", "))]
    UnknownWord {
        /// Of which field.
        field: &'static str,
        /// What there is.
        words: &'static [&'static str],
    },
}

fn known() -> String {
    Field::ALL.map(|(name, _)| name).join(", ")
}

/// What a query is asked about.
pub trait Subject {
    /// Whether one of the texts that the field has fits. [`Field::Any`] stands for id, name and host.
    fn has(&self, field: Field, fits: &dyn Fn(&str) -> bool) -> bool;
}

impl Query {
    /// Reads a query. An empty one is `None`: it asks for everything.
    pub fn parse(text: &str) -> Result<Option<Self>, QueryError> {
        if text.len() > MAX_QUERY {
            return Err(QueryError::TooLong);
        }
        let mut reader = Reader { tokens: tokens(text)?, at: 0 };
        if reader.tokens.is_empty() {
            return Ok(None);
        }
        let query = reader.any(0)?;
        match reader.next() {
            None => Ok(Some(query)),
            Some(token) => Err(QueryError::Unexpected(token.shown())),
        }
    }

    /// Whether a subject fits.
    pub fn fits(&self, subject: &impl Subject) -> bool {
        match self {
            Self::And(all) => all.iter().all(|query| query.fits(subject)),
            Self::Or(any) => any.iter().any(|query| query.fits(subject)),
            Self::Not(query) => !query.fits(subject),
            Self::Term(Field::Any, text) => {
                let text = text.to_lowercase();
                subject.has(Field::Any, &|has| has.to_lowercase().contains(&text))
            }
            Self::Term(field, text) => {
                let text = text.to_lowercase();
                subject.has(*field, &|has| glob::matches(&text, &has.to_lowercase()))
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Open,
    Close,
    /// A word as it stands, and how much of it stands before the first quote: there a colon ends a field's name.
    Word {
        text: String,
        plain: usize,
    },
}

impl Token {
    fn shown(&self) -> String {
        match self {
            Self::Open => "(".into(),
            Self::Close => ")".into(),
            Self::Word { text, .. } => text.chars().take(40).collect(),
        }
    }

    fn is(&self, word: &str) -> bool {
        matches!(self, Self::Word { text, plain } if text == word && *plain == text.len())
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, QueryError> {
    let mut tokens = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(first) = chars.peek().copied() {
        match first {
            '(' | ')' => {
                chars.next();
                tokens.push(if first == '(' { Token::Open } else { Token::Close });
            }
            c if c.is_whitespace() => drop(chars.next()),
            _ => {
                let (mut word, mut plain) = (String::new(), None);
                while let Some(c) = chars.next_if(|c| !c.is_whitespace() && !"()".contains(*c)) {
                    if c != '"' {
                        word.push(c);
                        continue;
                    }
                    plain.get_or_insert(word.len());
                    loop {
                        match chars.next() {
                            Some('"') => break,
                            Some(c) => word.push(c),
                            None => return Err(QueryError::OpenQuote),
                        }
                    }
                }
                let plain = plain.unwrap_or(word.len());
                tokens.push(Token::Word { text: word, plain });
            }
        }
    }
    Ok(tokens)
}

struct Reader {
    tokens: Vec<Token>,
    at: usize,
}

impl Reader {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token
    }

    fn take(&mut self, word: &str) -> bool {
        let is = self.peek().is_some_and(|token| token.is(word));
        self.at += usize::from(is);
        is
    }

    fn any(&mut self, depth: usize) -> Result<Query, QueryError> {
        let mut any = vec![self.all(depth)?];
        while self.take("OR") {
            any.push(self.all(depth)?);
        }
        Ok(one_or(any, Query::Or))
    }

    fn all(&mut self, depth: usize) -> Result<Query, QueryError> {
        let mut all = vec![self.one(depth)?];
        loop {
            let is_said = self.take("AND");
            let goes_on = self.peek().is_some_and(|token| *token != Token::Close && !token.is("OR"));
            if !is_said && !goes_on {
                return Ok(one_or(all, Query::And));
            }
            all.push(self.one(depth)?);
        }
    }

    fn one(&mut self, depth: usize) -> Result<Query, QueryError> {
        if depth > MAX_DEPTH {
            return Err(QueryError::TooDeep);
        }
        if self.take("NOT") {
            return Ok(Query::Not(Box::new(self.one(depth + 1)?)));
        }
        match self.next() {
            None => Err(QueryError::Ends),
            Some(Token::Open) => {
                let query = self.any(depth + 1)?;
                match self.next() {
                    Some(Token::Close) => Ok(query),
                    _ => Err(QueryError::OpenBracket),
                }
            }
            Some(token) if token == Token::Close || token.is("AND") || token.is("OR") => {
                Err(QueryError::Unexpected(token.shown()))
            }
            Some(Token::Word { text, plain }) => term(&text, plain),
            Some(Token::Close) => Err(QueryError::Ends),
        }
    }
}

fn one_or(mut queries: Vec<Query>, many: fn(Vec<Query>) -> Query) -> Query {
    match queries.len() {
        1 => queries.remove(0),
        _ => many(queries),
    }
}

fn term(text: &str, plain: usize) -> Result<Query, QueryError> {
    let Some(colon) = text[..plain].find(':') else { return Ok(Query::Term(Field::Any, text.to_owned())) };
    let (name, value) = (&text[..colon], &text[colon + 1..]);
    let known = Field::ALL.into_iter().find(|(known, _)| *known == name);
    let Some((name, field)) = known else {
        return Err(QueryError::UnknownField(name.chars().take(40).collect()));
    };
    if value.is_empty() {
        return Err(QueryError::Ends);
    }
    let words = field.words();
    // A pattern may fit several of the words; one that fits none was meant otherwise.
    if !words.is_empty() && !words.iter().any(|word| glob::matches(&value.to_lowercase(), word)) {
        return Err(QueryError::UnknownWord { field: name, words });
    }
    Ok(Query::Term(field, value.to_owned()))
}

#[cfg(test)]
mod tests;
