//! Properties that hold for every payload, not only for valid ones.

use proptest::prelude::*;
use serde_json::value::RawValue;

use crate::health::fields::Field;
use crate::health::{MAX_SUMMARY, Os, SECTIONS, evaluate};
use crate::time::Timestamp;

/// Any JSON, with the words that rules look for likelier than others.
fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let word = prop_oneof![
        proptest::sample::select(vec![
            "status",
            "summary",
            "volumes",
            "percent_used",
            "enabled",
            "last_scan",
            "recent",
            "result",
            "pending",
            "health_percent",
            "eol_date",
            "sensors",
            "temperature_c",
            "events",
            "stability_index",
            "ports",
            "port",
            "address",
            "accounts",
            "count",
            "deny_logon",
            "restore_points",
            "latest",
            "gateway",
            "reference",
            "loss_percent",
            "ok",
            "2026-06-04",
            "2026-06-04T18:00:00Z",
            "-009999-01-01T00:00:00Z",
            "::1",
            "9999-12-31",
        ])
        .prop_map(str::to_owned),
        ".{0,12}",
    ];
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        word.clone().prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 64, 8, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
            proptest::collection::vec((word.clone(), inner), 0..8)
                .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn nothing_an_agent_sends_is_an_error(payload in any_json(), pretty: bool, now in any::<i64>()) {
        let text = if pretty { serde_json::to_string_pretty(&payload) } else { serde_json::to_string(&payload) };
        let raw = RawValue::from_string(text.expect("serialises")).expect("JSON");
        for section in SECTIONS.iter().map(|s| s.name).chain(["listening_ports", "local_accounts", "logon_failures"])
            .chain(["backup_status", "net_quality", "web_activity"])
        {
            let health = evaluate(section, &raw, Os::Windows, Timestamp::from_millis(now));
            prop_assert!(health.summary.chars().count() <= MAX_SUMMARY);
        }
    }

    #[test]
    fn fields_are_found_where_a_json_parser_finds_them(payload in any_json(), pretty: bool) {
        let text = if pretty { serde_json::to_string_pretty(&payload) } else { serde_json::to_string(&payload) };
        let raw = RawValue::from_string(text.expect("serialises")).expect("JSON");
        // Read back, because a parser may give the last digit of a number away.
        let payload: serde_json::Value = serde_json::from_str(raw.get()).expect("JSON");
        let parse = |field: Field<'_>| field.raw().map(|text| serde_json::from_str::<serde_json::Value>(text).expect("JSON"));
        for name in ["status", "volumes", "count", "absent"] {
            prop_assert_eq!(parse(Field::of(&raw).pick([name])[0]), payload.get(name).cloned());
        }
        let mut elements = Vec::new();
        let is_array = Field::of(&raw).each(|element| elements.extend(parse(element)));
        prop_assert_eq!(is_array.then_some(&elements), payload.as_array());
    }
}
