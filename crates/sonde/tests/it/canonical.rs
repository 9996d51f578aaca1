use std::io::Write as _;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};

use convoke_sonde::json::{MAX_DEPTH, canonical, well_formed};

#[track_caller]
fn check(text: &str, expect: &str) {
    assert_eq!(canonical(text).as_deref(), Ok(expect), "{text}");
    assert_eq!(canonical(expect).as_deref(), Ok(expect), "a canonical text is its own form");
}

/// Every trap of the field facts' section 6, and those beside them.
const TRAPS: &[(&str, &str)] = &[
    (r#"{ "a" : 1 , "b" : [ 1 , 2 ] }"#, r#"{"a":1,"b":[1,2]}"#),
    ("0.5", "0.5"),
    ("1e-7", "1e-7"),
    ("1E-07", "1e-7"),
    ("1.0", "1"),
    ("-0", "0"),
    ("-0.0", "0"),
    ("-0e5", "0"),
    ("1152921504606846977", "1152921504606847000"),
    ("9007199254740993", "9007199254740992"),
    ("123456789012345678901234567890", "1.2345678901234568e+29"),
    ("1e21", "1e+21"),
    ("999999999999999999999", "1e+21"),
    ("100000000000000000000", "100000000000000000000"),
    ("0.000001", "0.000001"),
    ("0.0000001", "1e-7"),
    ("1e400", "null"),
    ("-1e400", "null"),
    ("5e-324", "5e-324"),
    ("1e-400", "0"),
    ("1.7976931348623157e308", "1.7976931348623157e+308"),
    ("2.2250738585072011e-308", "2.225073858507201e-308"),
    ("0.1e1", "1"),
    ("123.456e3", "123456"),
    ("-1.5E+2", "-150"),
    ("952245734532603.25", "952245734532603.2"),
    ("4.35", "4.35"),
    ("0.1", "0.1"),
    ("1e23", "1e+23"),
    (r#"{"b":1,"10":2,"2":3}"#, r#"{"2":3,"10":2,"b":1}"#),
    (r#"{"x":{"b":1,"1":[{"z":0,"0":1}]}}"#, r#"{"x":{"1":[{"0":1,"z":0}],"b":1}}"#),
    (r#"{"01":1,"-1":2,"1.0":3,"0":4}"#, r#"{"0":4,"01":1,"-1":2,"1.0":3}"#),
    (r#"{"4294967295":1,"4294967294":2,"a":3}"#, r#"{"4294967294":2,"4294967295":1,"a":3}"#),
    (r#"{"4294967296":1,"7":2}"#, r#"{"7":2,"4294967296":1}"#),
    (r#"{"a":1,"b":2,"a":3}"#, r#"{"a":3,"b":2}"#),
    (r#"{"5":1,"5":2}"#, r#"{"5":2}"#),
    (r#"{"\u0061":1,"a":2}"#, r#"{"a":2}"#),
    (r#"{"__proto__":1,"constructor":2}"#, r#"{"__proto__":1,"constructor":2}"#),
    (r#""\u00e9""#, "\"é\""),
    ("\"é\u{7f}\u{2028}\u{2029}\"", "\"é\u{7f}\u{2028}\u{2029}\""),
    (r#""\/""#, r#""/""#),
    (r#""\u0000\u001f\b\t\n\f\r\"\\""#, r#""\u0000\u001f\b\t\n\f\r\"\\""#),
    (r#""\u0008\u0009\u000A\u000C\u000D""#, r#""\b\t\n\f\r""#),
    (r#""\uD83D\uDE00""#, "\"😀\""),
    (r#""\uD83D""#, r#""\ud83d""#),
    (r#""\uDE00\uD83D""#, r#""\ude00\ud83d""#),
    (r#""\uD83D\uD83D\uDE00x""#, "\"\\ud83d😀x\""),
    (r#""\uD83D\n""#, r#""\ud83d\n""#),
    (r#"{"\ud800":"\udfff"}"#, r#"{"\ud800":"\udfff"}"#),
    ("\u{20}\t\r\n[]\n", "[]"),
    ("{}", "{}"),
    ("[null,true,false]", "[null,true,false]"),
];

#[test]
fn the_traps_come_out_as_javascript_prints_them() {
    for (text, expect) in TRAPS {
        check(text, expect);
    }
}

#[test]
fn what_json_parse_refuses_is_refused() {
    for text in [
        "",
        " ",
        "{",
        "[1,]",
        "{\"a\":}",
        "{a:1}",
        "01",
        "+1",
        ".5",
        "1.",
        "1e",
        "NaN",
        "Infinity",
        "\"\u{1}\"",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\"\\u12\"",
        "\"",
        "nul",
        "1 2",
        "[1 2]",
        "{\"a\" 1}",
        "\u{feff}1",
        "'a'",
        "\u{a0}1",
    ] {
        assert!(canonical(text).is_err(), "{text:?}");
    }
    let deep = format!("{}{}", "[".repeat(MAX_DEPTH + 2), "]".repeat(MAX_DEPTH + 2));
    assert!(canonical(&deep).is_err());
    let huge = "[".repeat(1_000_000);
    assert!(canonical(&huge).is_err(), "and the stack is not exhausted");
}

#[test]
fn many_keys_do_not_cost_their_square() {
    let keys: Vec<String> = (0..50_000).map(|i| format!("\"k{i}\":{i}")).collect();
    let text = format!("{{{}}}", keys.join(","));
    assert_eq!(canonical(&text).as_deref(), Ok(text.as_str()));
}

#[test]
fn lone_surrogates_are_replaced_for_others_and_pairs_are_not() {
    assert_eq!(well_formed(r#"{"a":"\ud83d x"}"#), "{\"a\":\"\u{FFFD} x\"}");
    assert_eq!(well_formed(r#"["\\ud83d","\ud83d\ude00"]"#), "[\"\\\\ud83d\",\"😀\"]");
    assert_eq!(well_formed("[1.0]"), "[1.0]", "untouched where there is nothing to replace");
}

/// JSON text, not values: odd spellings are the point.
fn json_text() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        any::<f64>().prop_map(|f| if f.is_finite() { format!("{f:e}") } else { "1e999".into() }),
        any::<i64>().prop_map(|i| i.to_string()),
        "-?(0|[1-9][0-9]{0,24})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?",
    ];
    let unit = prop_oneof![
        4 => any::<char>().prop_filter("bare", |c| *c >= ' ' && *c != '"' && *c != '\\').prop_map(String::from),
        2 => any::<u16>().prop_map(|u| format!("\\u{u:04x}")),
        2 => (0xD800u16..0xE000).prop_map(|u| format!("\\u{u:04X}")),
        1 => "\\\\[\"\\\\/bfnrt]",
    ];
    let text = prop::collection::vec(unit, 0..8).prop_map(|units| format!("\"{}\"", units.concat()));
    let key =
        prop_oneof!["\"[0-9]{1,11}\"".prop_map(String::from), "\"[ab]{0,2}\"".prop_map(String::from), text.clone(),];
    let space = "[ \t\r\n]{0,2}";
    let leaf = prop_oneof![number, text, Just("null".into()), Just("true".into()), Just("false".into())];
    leaf.prop_recursive(4, 48, 8, move |inner| {
        prop_oneof![
            (prop::collection::vec(inner.clone(), 0..8), space)
                .prop_map(|(items, space)| format!("[{space}{}{space}]", items.join(&format!(",{space}")))),
            (prop::collection::vec((key.clone(), inner), 0..8), space).prop_map(|(members, space)| {
                let members: Vec<String> = members.iter().map(|(k, v)| format!("{k}{space}:{v}")).collect();
                format!("{{{space}{}{space}}}", members.join(","))
            }),
        ]
    })
}

/// Asks the real thing. Absent (a machine without Node), the property below still holds the printer to itself.
fn node(lines: &[String]) -> Option<Vec<String>> {
    const SCRIPT: &str = "const r=require('readline').createInterface({input:process.stdin,crlfDelay:Infinity});\
        r.on('line',l=>console.log(JSON.stringify(JSON.stringify(JSON.parse(JSON.parse(l))))))";
    let mut child =
        Command::new("node").args(["-e", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
    let mut input = child.stdin.take().expect("piped");
    let text: String =
        lines.iter().map(|l| serde_json::to_string(l).expect("a text") + "\n").collect::<Vec<_>>().concat();
    let feeder = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().expect("node ends");
    feeder.join().expect("the feeder ends").expect("node reads");
    assert!(output.status.success(), "node failed");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    Some(text.lines().map(|l| serde_json::from_str(l).expect("a text")).collect())
}

#[test]
fn generated_values_come_out_as_node_prints_them() {
    let strategy = json_text();
    let mut runner = TestRunner::new(Config::default());
    let mut texts: Vec<String> = TRAPS.iter().map(|(text, _)| (*text).to_owned()).collect();
    for _ in 0..4_000 {
        texts.push(strategy.new_tree(&mut runner).expect("a value").current());
    }
    let ours: Vec<String> = texts.iter().map(|t| canonical(t).expect("generated JSON is JSON")).collect();
    for (text, printed) in texts.iter().zip(&ours) {
        assert_eq!(canonical(printed).as_ref(), Ok(printed), "{text}");
    }
    let Some(nodes) = node(&texts) else {
        convoke_testing::skip("node is not installed, so what it prints is not compared");
        return;
    };
    assert_eq!(nodes.len(), ours.len());
    for ((text, ours), node) in texts.iter().zip(&ours).zip(&nodes) {
        assert_eq!(ours, node, "{text}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_and_never_panics(text in ".{0,64}") {
        if let Ok(printed) = canonical(&text) {
            prop_assert_eq!(canonical(&printed), Ok(printed.clone()));
        }
        let _ = well_formed(&text);
    }
}
