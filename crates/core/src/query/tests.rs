use proptest::prelude::*;

use super::*;

/// `id`, `name` and so on, each with its texts.
struct Machine(Vec<(Field, &'static str)>);

impl Subject for Machine {
    fn has(&self, field: Field, fits: &dyn Fn(&str) -> bool) -> bool {
        let is_meant = |of: Field| of == field || field == Field::Any && matches!(of, Field::Id | Field::Name);
        self.0.iter().any(|(of, text)| is_meant(*of) && fits(text))
    }
}

fn machine() -> Machine {
    use Field::{Health, Id, Name, Online, Os, Protocol, State, Tag, Trust, Version};
    Machine(vec![
        (Id, "web-1"),
        (Name, "Laptop"),
        (Tag, "lab"),
        (Tag, "floor 2"),
        (Health, "warn"),
        (Protocol, "kenny"),
        (Version, "0.17.2"),
        (Os, "linux"),
        (State, "unstable"),
        (Trust, "trusted"),
        (Online, "true"),
    ])
}

fn check(text: &str, fits: bool) {
    let query = Query::parse(text).unwrap_or_else(|why| panic!("{text}: {why}")).expect("asks for something");
    assert_eq!(query.fits(&machine()), fits, "{text}");
}

#[test]
fn terms_are_joined_negated_and_grouped() {
    for (text, fits) in [
        ("tag:lab AND NOT os:windows", true),
        ("tag:lab AND os:windows", false),
        ("tag:lab os:linux", true),
        ("tag:lab os:windows", false),
        ("os:windows OR tag:lab", true),
        ("os:windows OR os:macos", false),
        ("os:windows OR os:linux AND tag:none", false),
        ("(os:windows OR os:linux) AND tag:lab", true),
        ("NOT (os:windows OR tag:none)", true),
        ("NOT NOT tag:lab", true),
        ("(((tag:lab)))", true),
        ("NOT tag:lab OR tag:lab", true),
        ("os:linux(tag:none)", false),
    ] {
        check(text, fits);
    }
}

#[test]
fn fields_take_patterns_and_free_text_looks_within_names() {
    for (text, fits) in [
        ("web", true),
        ("WEB", true),
        ("lapto", true),
        ("lab", false),
        ("id:web-1", true),
        ("id:web", false),
        ("id:web-*", true),
        ("name:laptop", true),
        ("version:0.17.*", true),
        ("version:0.18.*", false),
        ("health:warn", true),
        ("state:unstable", true),
        ("state:on*", false),
        ("online:true", true),
        ("trust:trusted", true),
        ("protocol:kenny", true),
        ("tag:\"floor 2\"", true),
        ("\"tag:lab\"", false),
        ("\"AND\"", false),
        ("and", false),
    ] {
        check(text, fits);
    }
}

#[test]
fn what_is_wrong_is_said() {
    for (text, why) in [
        ("tag:lab AND", "ends where a term is expected"),
        ("NOT", "ends where"),
        ("tag:", "ends where"),
        ("(tag:lab", "not closed"),
        ("()", "`)` cannot stand there"),
        ("tag:lab)", "`)` cannot stand there"),
        ("OR tag:lab", "`OR` cannot stand there"),
        ("a AND OR b", "`OR` cannot stand there"),
        ("\"open", "quote"),
        ("host:x", "`host` is no field"),
        ("os:beos", "`os:` is one of linux, windows"),
        ("health:bad", "one of ok, warn"),
        (&"(".repeat(100), "brackets within"),
        (&"NOT ".repeat(100), "brackets within"),
        (&"a".repeat(MAX_QUERY + 1), "at most"),
    ] {
        let told = Query::parse(text).expect_err(text).to_string();
        assert!(told.contains(why), "{text}: {told}");
    }
    for empty in ["", "  \t"] {
        assert_eq!(Query::parse(empty), Ok(None));
    }
}

/// A query as a person would write it.
fn written(query: &Query) -> String {
    let each = |all: &[Query], word: &str| all.iter().map(written).collect::<Vec<_>>().join(word);
    match query {
        Query::And(all) => format!("({})", each(all, " AND ")),
        Query::Or(any) => format!("({})", each(any, " OR ")),
        Query::Not(query) => format!("NOT {}", written(query)),
        Query::Term(Field::Any, text) => format!("\"{text}\""),
        Query::Term(field, text) => {
            let name = Field::ALL.into_iter().find(|(_, of)| of == field).map_or("", |(name, _)| name);
            format!("{name}:\"{text}\"")
        }
    }
}

fn queries() -> impl Strategy<Value = Query> {
    let text = "[a-zA-Z0-9 ()*:._-]{1,12}";
    let term = prop_oneof![
        text.prop_map(|text| Query::Term(Field::Any, text)),
        text.prop_map(|text| Query::Term(Field::Tag, text)),
        text.prop_map(|text| Query::Term(Field::Id, text)),
        Just(Query::Term(Field::Os, "linux".into())),
    ];
    term.prop_recursive(5, 40, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 2..4).prop_map(Query::And),
            prop::collection::vec(inner.clone(), 2..4).prop_map(Query::Or),
            inner.prop_map(|query| Query::Not(Box::new(query))),
        ]
    })
}

proptest! {
    /// What is written is what is read.
    #[test]
    fn a_query_reads_back(query in queries()) {
        let text = written(&query);
        prop_assume!(text.len() <= MAX_QUERY);
        prop_assert_eq!(Query::parse(&text), Ok(Some(query)), "{}", text);
    }

    /// Nothing that anybody writes does more than be refused, and what a query says of a machine, its negation denies.
    #[test]
    fn any_text_is_read_or_refused(text in "[a-z:*\"() ANDORT]{0,60}") {
        if let Ok(Some(query)) = Query::parse(&text) {
            let fits = query.fits(&machine());
            prop_assert_eq!(Query::Not(Box::new(query)).fits(&machine()), !fits);
        }
    }
}
