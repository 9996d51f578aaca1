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

/// The page reads queries by itself; both are held to the same cases.
#[derive(serde::Deserialize)]
struct Cases {
    fits: Vec<(String, bool)>,
    refused: Vec<(String, String)>,
}

fn cases() -> Cases {
    serde_json::from_str(include_str!("../../../../fixtures/query/cases.json")).expect("cases")
}

#[test]
fn terms_are_joined_negated_and_grouped_and_take_patterns() {
    for (text, fits) in cases().fits {
        check(&text, fits);
    }
}

#[test]
fn what_is_wrong_is_said() {
    let refused = cases().refused;
    let deep = [("(".repeat(100), "brackets within"), ("NOT ".repeat(100), "brackets within")];
    let long = ("a".repeat(MAX_QUERY + 1), "at most");
    let own = deep.into_iter().chain([long]).map(|(text, why)| (text, why.to_owned()));
    for (text, why) in refused.into_iter().chain(own) {
        let told = Query::parse(&text).expect_err(&text).to_string();
        assert!(told.contains(&why), "{text}: {told}");
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
