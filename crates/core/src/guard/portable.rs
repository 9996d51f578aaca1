//! Which rules may be kept: a pattern must mean the same in Rust's `regex` and in Python's `re`, since agents of both
//! kinds enforce it, and must stay within bounds.
//!
//! The same holds for ASCII text. Beyond it the two differ in which letters `\w` and `\b` know, which no rule for
//! commands or paths should depend on.

use regex::RegexBuilder;
use regex_syntax::ast::{
    self, AssertionKind, Ast, ClassSetBinaryOp, ClassSetItem, Flag, Flags, FlagsItemKind, GroupKind, HexLiteralKind,
    Literal, LiteralKind, Span,
};

use super::{Guard, MAX_OPERATOR_RULES, Rule};

/// Longest pattern, in bytes.
pub(super) const MAX_PATTERN_BYTES: usize = 1000;
/// Longest reason, in characters.
pub(super) const MAX_REASON_CHARS: usize = 500;
/// Largest compiled pattern. A pattern that needs more is a counted repetition gone wild.
pub(super) const MAX_COMPILED_BYTES: usize = 256 << 10;
/// Deepest nesting of groups.
const MAX_DEPTH: u32 = 40;

/// Why a rule is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// The id is no id.
    #[error("`id` must be 1 to 64 lower-case letters, digits, '_', '.' or '-'")]
    Id,
    /// The id is that of a builtin rule.
    #[error("`id` names a builtin rule, which cannot be replaced; choose another")]
    IdBuiltin,
    /// Another operator rule has the id.
    #[error("`id` is used by an earlier rule; choose another")]
    IdTaken,
    /// The pattern is empty or too long.
    #[error("`pattern` must be 1 to {MAX_PATTERN_BYTES} bytes")]
    PatternLength,
    /// The pattern cannot be read.
    #[error("`pattern` cannot be read: {0} (look-around and back-references are not supported)")]
    Syntax(String),
    /// The pattern could mean something else to a part of the fleet.
    #[error("`pattern` uses {what} at byte {at}, which Rust and Python agents read differently; {instead}")]
    NotPortable {
        /// The construct.
        what: &'static str,
        /// The offset at which it starts.
        at: usize,
        /// The text to write instead.
        instead: &'static str,
    },
    /// The pattern compiles to too much.
    #[error("`pattern` is too large when compiled; use smaller counted repetitions")]
    TooLarge,
    /// The reason is empty or too long.
    #[error("`reason` must be 1 to {MAX_REASON_CHARS} characters")]
    ReasonLength,
    /// There are enough rules.
    #[error("there are {MAX_OPERATOR_RULES} rules already, which is the most; remove one or join patterns with '|'")]
    TooMany,
}

/// Whether an operator's rule may be kept.
pub fn validate(rule: &Rule) -> Result<(), RuleError> {
    let id_ok = (1..=64).contains(&rule.id.len())
        && rule.id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_.-".contains(&b));
    if !id_ok {
        return Err(RuleError::Id);
    }
    if Guard::builtin_rules().iter().any(|builtin| builtin.id == rule.id) {
        return Err(RuleError::IdBuiltin);
    }
    if !(1..=MAX_REASON_CHARS).contains(&rule.reason.chars().count()) {
        return Err(RuleError::ReasonLength);
    }
    if !(1..=MAX_PATTERN_BYTES).contains(&rule.pattern.len()) {
        return Err(RuleError::PatternLength);
    }
    portable(&rule.pattern)?;
    compiles(&rule.pattern)
}

/// A pattern that a text must match as a whole: of `git status`, a text that goes on with `; rm` is no match.
#[derive(Clone, Debug)]
pub struct Whole(regex::Regex);

impl Whole {
    /// The pattern, which must be one by itself: one that closes a bracket of ours would be no whole match any more.
    pub fn new(pattern: &str) -> Result<Self, RuleError> {
        compiles(pattern)?;
        let built = RegexBuilder::new(&format!(r"\A(?:{pattern})\z")).size_limit(2 * MAX_COMPILED_BYTES).build();
        built.map(Self).map_err(|error| RuleError::Syntax(error.to_string()))
    }

    /// Whether the whole text is a match.
    pub fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

/// Whether a pattern can be matched at all, within its bound.
pub(super) fn compiles(pattern: &str) -> Result<(), RuleError> {
    RegexBuilder::new(pattern).size_limit(MAX_COMPILED_BYTES).build().map(drop).map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => RuleError::TooLarge,
        other => RuleError::Syntax(other.to_string()),
    })
}

/// Whether the pattern is in the subset that both engines read alike.
pub(super) fn portable(pattern: &str) -> Result<(), RuleError> {
    let ast = ast::parse::ParserBuilder::new()
        .nest_limit(MAX_DEPTH)
        .build()
        .parse(pattern)
        .map_err(|error| RuleError::Syntax(format!("{} at byte {}", error.kind(), error.span().start.offset)))?;
    ast::visit(&ast, Portable { pattern })
}

/// Walks a pattern and stops at the first construct that is not portable.
struct Portable<'p> {
    pattern: &'p str,
}

fn no<T>(what: &'static str, span: &Span, instead: &'static str) -> Result<T, RuleError> {
    Err(RuleError::NotPortable { what, at: span.start.offset, instead })
}

fn literal(literal: &Literal) -> Result<(), RuleError> {
    match literal.kind {
        LiteralKind::HexBrace(HexLiteralKind::X | HexLiteralKind::UnicodeShort | HexLiteralKind::UnicodeLong) => {
            no("a braced escape", &literal.span, r"write \xHH or \uHHHH")
        }
        _ => Ok(()),
    }
}

fn flags(flags: &Flags) -> Result<(), RuleError> {
    for item in &flags.items {
        match item.kind {
            FlagsItemKind::Negation
            | FlagsItemKind::Flag(Flag::CaseInsensitive | Flag::MultiLine | Flag::DotMatchesNewLine) => {}
            FlagsItemKind::Flag(_) => return no("a flag other than i, m or s", &item.span, "leave it out"),
        }
    }
    Ok(())
}

impl ast::Visitor for Portable<'_> {
    type Output = ();
    type Err = RuleError;

    fn finish(self) -> Result<(), RuleError> {
        Ok(())
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), RuleError> {
        match ast {
            Ast::Flags(set) => {
                // Python takes flags for the whole pattern, at its very start, and only ever turns them on there.
                if set.span.start.offset != 0 {
                    return no("flags behind the start", &set.span, "scope them as in (?i:…)");
                }
                if set.flags.items.iter().any(|item| item.kind.is_negation()) {
                    return no("a flag turned off for the whole pattern", &set.span, "scope it as in (?-i:…)");
                }
                flags(&set.flags)
            }
            Ast::Literal(found) => literal(found),
            Ast::Assertion(assertion) => match assertion.kind {
                AssertionKind::StartLine
                | AssertionKind::EndLine
                | AssertionKind::StartText
                | AssertionKind::WordBoundary
                | AssertionKind::NotWordBoundary => Ok(()),
                AssertionKind::EndText => no(r"\z", &assertion.span, "write $"),
                _ => no("a half word boundary", &assertion.span, r"write \b"),
            },
            Ast::ClassUnicode(class) => no("a Unicode class", &class.span, "list the characters"),
            Ast::Repetition(repetition) => {
                // `a{ 2}` counts in Rust and is text in Python.
                if self.pattern[repetition.op.span.start.offset..repetition.op.span.end.offset]
                    .contains(char::is_whitespace)
                {
                    return no("white space in a count", &repetition.op.span, "leave it out");
                }
                match *repetition.ast {
                    // `a*+` repeats a repetition in Rust and forbids backtracking in Python.
                    Ast::Repetition(_) => no("a repeated repetition", &repetition.op.span, "put the first in (?:…)"),
                    Ast::Assertion(_) => no("a repeated assertion", &repetition.op.span, "leave it out"),
                    _ => Ok(()),
                }
            }
            Ast::Group(group) => match &group.kind {
                GroupKind::CaptureIndex(_) => Ok(()),
                GroupKind::CaptureName { starts_with_p: false, .. } => {
                    no("(?<name>…)", &group.span, "write (?P<name>…) or (?:…)")
                }
                GroupKind::CaptureName { name, .. } => {
                    match name.name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric()) {
                        true => Ok(()),
                        false => no("a group name", &name.span, "use letters, digits and '_'"),
                    }
                }
                GroupKind::NonCapturing(set) => flags(set),
            },
            _ => Ok(()),
        }
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), RuleError> {
        match item {
            ClassSetItem::Literal(found) => literal(found),
            ClassSetItem::Range(range) => literal(&range.start).and_then(|()| literal(&range.end)),
            ClassSetItem::Ascii(class) => no("a POSIX class", &class.span, "list the characters"),
            ClassSetItem::Unicode(class) => no("a Unicode class", &class.span, "list the characters"),
            ClassSetItem::Bracketed(class) => no("a class in a class", &class.span, r"escape the bracket as \["),
            ClassSetItem::Empty(_) | ClassSetItem::Perl(_) | ClassSetItem::Union(_) => Ok(()),
        }
    }

    fn visit_class_set_binary_op_pre(&mut self, op: &ClassSetBinaryOp) -> Result<(), RuleError> {
        no("an operation on classes", &op.span, "list the characters")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::AppliesTo;

    fn with(pattern: &str) -> Result<(), RuleError> {
        let applies_to = AppliesTo::Posix;
        validate(&Rule { id: "x".into(), applies_to, pattern: pattern.into(), reason: "because".into() })
    }

    #[test]
    fn patterns_that_both_engines_read_alike_are_taken() {
        for pattern in [
            r"(?i)\brm\s+-rf\b",
            r"^a.*?b+c{2,3}$",
            r"(?ims)x|(?i:y)(?-i:z)",
            r"[^\s;|&\n-]",
            "(?P<name>a)",
            r"[]a]\x41\u0042\.\-\/",
            r"\Aa\B",
            "[a-z&|~]",
        ] {
            assert_eq!(with(pattern), Ok(()), "{pattern}");
        }
    }

    #[test]
    fn patterns_that_python_reads_differently_are_refused() {
        for pattern in [
            r"\pL",
            r"[\p{Greek}]",
            r"\x{41}",
            r"[\u{41}-z]",
            r"a\z",
            "[a[b]]",
            "[a-z&&b]",
            "[a--b]",
            "[a~~b]",
            "[[:alpha:]]",
            "(?U)a",
            "(?u)a",
            "(?R)a",
            "(?x)a",
            "(?-u:a)",
            "(?<n>a)",
            "a(?i)b",
            "((?i)a)",
            "(?-i)a",
            r"\b{start}a",
            r"\<a",
            r"a\b{end-half}",
            "a*+",
            "a{2}{3}",
            "^*a",
            "a{ 2}",
            "(?P<ä>a)",
        ] {
            assert!(matches!(with(pattern), Err(RuleError::NotPortable { .. })), "{pattern}: {:?}", with(pattern));
        }
        for pattern in ["(", r"(a)\1", "a(?=b)", "[z-a]", "*"] {
            assert!(matches!(with(pattern), Err(RuleError::Syntax(_))), "{pattern}: {:?}", with(pattern));
        }
    }

    #[test]
    fn bounds_are_kept_and_told() {
        let rule = |id: &str, pattern: &str, reason: &str| {
            validate(&Rule {
                id: id.into(),
                applies_to: AppliesTo::Path,
                pattern: pattern.into(),
                reason: reason.into(),
            })
        };
        assert_eq!(rule("", "a", "b"), Err(RuleError::Id));
        assert_eq!(rule("A", "a", "b"), Err(RuleError::Id));
        assert_eq!(rule(&"a".repeat(65), "a", "b"), Err(RuleError::Id));
        assert_eq!(rule("path_ntds", "a", "b"), Err(RuleError::IdBuiltin));
        assert_eq!(rule("a", "", "b"), Err(RuleError::PatternLength));
        assert_eq!(rule("a", &"a".repeat(1001), "b"), Err(RuleError::PatternLength));
        assert_eq!(rule("a", "a", ""), Err(RuleError::ReasonLength));
        assert_eq!(rule("a", "a", &"ä".repeat(500)), Ok(()));
        assert_eq!(rule("a", "a", &"ä".repeat(501)), Err(RuleError::ReasonLength));
        assert_eq!(rule("a", r"(\w{100}){100}", "b"), Err(RuleError::TooLarge));
        assert!(matches!(
            rule("a", &format!("{}a{}", "(".repeat(60), ")".repeat(60)), "b"),
            Err(RuleError::Syntax(_))
        ));
        let told = rule("a", r"a\z", "b").expect_err("not portable").to_string();
        assert_eq!(told, r"`pattern` uses \z at byte 1, which Rust and Python agents read differently; write $");
    }
}
