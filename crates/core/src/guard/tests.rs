use std::io::Write;
use std::process::{Command, Stdio};

use proptest::prelude::*;

use super::*;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    group: AppliesTo,
    text: String,
    rule: Option<String>,
}

fn refused() -> Vec<Row> {
    serde_json::from_str(include_str!("../../../../fixtures/guard/refused.json")).expect("a table of rows")
}

fn allowed() -> Vec<Row> {
    serde_json::from_str(include_str!("../../../../fixtures/guard/allowed.json")).expect("a table of rows")
}

/// Ways around rules that were found, and innocent commands that look like one.
fn ways_around() -> (Vec<Row>, Vec<Row>) {
    let bypasses = include_str!("../../../../fixtures/guard/bypasses.json");
    let innocents = include_str!("../../../../fixtures/guard/innocents.json");
    let rows = |text| serde_json::from_str(text).expect("a table of rows");
    (rows(bypasses), rows(innocents))
}

fn check(guard: &Guard, group: AppliesTo, text: &str) -> Option<String> {
    guard.check(&[Surface { group, text: Cow::Borrowed(text) }]).map(|hit| hit.rule)
}

fn rule(id: &str, group: AppliesTo, pattern: &str) -> Rule {
    Rule { id: id.into(), applies_to: group, pattern: pattern.into(), reason: "because".into() }
}

#[track_caller]
fn none_wrong(wrong: Vec<String>) {
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_row_of_the_refused_table_is_refused_by_its_rule() {
    let (guard, rows) = (Guard::builtin(), refused());
    assert!(rows.len() >= 160, "{} rows", rows.len());
    none_wrong(
        rows.iter()
            .filter_map(|row| {
                let got = check(&guard, row.group, &row.text);
                (got.is_none() || got != row.rule).then(|| format!("{:?}: {row:?}", got))
            })
            .collect(),
    );
    let shown: HashSet<&str> = rows.iter().filter_map(|row| row.rule.as_deref()).collect();
    none_wrong(
        Guard::builtin_rules().iter().map(|r| r.id.clone()).filter(|id| !shown.contains(id.as_str())).collect(),
    );
}

#[test]
fn a_received_rule_holds_whatever_its_form_as_long_as_it_compiles() {
    let odd = Rule { reason: String::new(), ..rule("An Odd Id!", AppliesTo::Posix, r"\x{6e}map\b") };
    let taken = rule("posix_mkfs", AppliesTo::Posix, "tcpdump");
    let broken = rule("broken", AppliesTo::Posix, "(unclosed");
    let (guard, refused) = Guard::with_received_rules(&[odd, broken, taken]);
    assert!(matches!(refused.as_slice(), [(id, RuleError::Syntax(_))] if id == "broken"), "{refused:?}");
    assert_eq!(check(&guard, AppliesTo::Posix, "nmap 10.0.0.1").as_deref(), Some("An Odd Id!"));
    assert_eq!(check(&guard, AppliesTo::Posix, "tcpdump -i any").as_deref(), Some("posix_mkfs"));
    assert!(check(&guard, AppliesTo::Posix, "rm -rf /").is_some(), "and the builtin ones hold too");
}

#[test]
fn every_row_of_the_allowed_table_passes() {
    let (guard, rows) = (Guard::builtin(), allowed());
    assert!(rows.len() >= 160, "{} rows", rows.len());
    none_wrong(
        rows.iter()
            .filter_map(|row| check(&guard, row.group, &row.text).map(|got| format!("{got}: {row:?}")))
            .collect(),
    );
}

#[test]
fn known_ways_around_the_rules_are_closed() {
    let (guard, (bypasses, innocents)) = (Guard::builtin(), ways_around());
    assert!(bypasses.len() >= 80 && innocents.len() >= 80, "{} and {}", bypasses.len(), innocents.len());
    let wrong = bypasses.iter().chain(&innocents).filter_map(|row| {
        let got = check(&guard, row.group, &row.text);
        (got != row.rule).then(|| format!("{got:?}: {row:?}"))
    });
    none_wrong(wrong.collect());
}

#[test]
fn builtin_rules_keep_the_bounds_of_operator_rules() {
    let mut ids = HashSet::new();
    for builtin in Guard::builtin_rules() {
        assert!(ids.insert(&builtin.id), "{} is there twice", builtin.id);
        assert_eq!(validate(builtin), Err(RuleError::IdBuiltin));
        assert_eq!(validate(&Rule { id: "x".into(), ..builtin.clone() }), Ok(()), "{}", builtin.id);
        // A Unicode word boundary keeps the automaton from reading text that is not ASCII, and costs a hundredfold.
        assert!(!builtin.pattern.contains(r"\b"), "{}", builtin.id);
    }
}

#[test]
fn the_first_in_catalogue_order_names_the_refusal_and_builtins_come_first() {
    let (guard, refused) =
        Guard::with_operator_rules(&[rule("a", AppliesTo::Posix, "^rm"), rule("b", AppliesTo::Posix, "rm|ls")]);
    assert_eq!(refused, []);
    assert_eq!(check(&guard, AppliesTo::Posix, "rm -rf /").as_deref(), Some("posix_rm_rf_root"));
    assert_eq!(check(&guard, AppliesTo::Posix, "rm x").as_deref(), Some("a"));
    assert_eq!(check(&guard, AppliesTo::Posix, "'l's").as_deref(), Some("b"));
    assert_eq!(check(&guard, AppliesTo::Powershell, "rm x"), None);
    let surfaces = [
        Surface { group: AppliesTo::SelfProtection, text: "rm -rf /opt/convoke /etc".into() },
        Surface { group: AppliesTo::Posix, text: "rm -rf /opt/convoke /etc".into() },
    ];
    let hit = guard.check(&surfaces).expect("both refuse it");
    assert_eq!((hit.rule.as_str(), hit.builtin), ("posix_rm_system_dir", true));
}

#[test]
fn a_bad_operator_rule_is_told_and_takes_no_other_with_it() {
    let mut rules = vec![
        rule("ok", AppliesTo::Path, "(?i)secret"),
        rule("bad", AppliesTo::Path, "("),
        rule("ok", AppliesTo::Path, "y"),
        rule("path_ntds", AppliesTo::Path, "z"),
    ];
    rules.extend((0..MAX_OPERATOR_RULES).map(|i| rule(&format!("n{i}"), AppliesTo::Posix, &format!("word{i}$"))));
    let (guard, refused) = Guard::with_operator_rules(&rules);
    let told: Vec<&str> = refused.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(told, ["bad", "ok", "path_ntds", &format!("n{}", MAX_OPERATOR_RULES - 1)]);
    assert_eq!(refused[1].1, RuleError::IdTaken);
    assert_eq!(refused[3].1, RuleError::TooMany);
    assert_eq!(check(&guard, AppliesTo::Path, "/a/Secret").as_deref(), Some("ok"));
    assert_eq!(check(&guard, AppliesTo::Posix, "word7\n").as_deref(), Some("n7"));
}

/// Python's verdict for each row: whether any builtin rule of the group matches any form.
const JUDGE: &str = r#"
import json, re, sys
asked = json.load(sys.stdin)
rules = [(group, re.compile(pattern)) for group, pattern in asked["rules"]]
print(json.dumps([[i for i, (g, p) in enumerate(rules) if g == group and any(p.search(f) for f in forms)]
                  for group, forms in asked["rows"]]))
"#;

#[test]
fn python_agrees_on_every_rule_for_every_row() {
    let (bypasses, innocents) = ways_around();
    let rows: Vec<Row> = refused().into_iter().chain(allowed()).chain(bypasses).chain(innocents).collect();
    let rules = Guard::builtin_rules();
    let asked = serde_json::json!({
        "rules": rules.iter().map(|r| (r.applies_to, &r.pattern)).collect::<Vec<_>>(),
        "rows": rows.iter().map(|row| {
            // Python needs no form without the last line break: its `$` matches before one.
            let forms = normal::forms(row.group, &row.text);
            let forms = forms.iter().filter(|form| Some(*form) != row.text.strip_suffix('\n'));
            (row.group, forms.map(str::to_owned).collect::<Vec<_>>())
        }).collect::<Vec<_>>(),
    });
    let python = Command::new("python3").args(["-c", JUDGE]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let Ok(mut python) = python else {
        convoke_testing::skip("python3 is not installed, so its verdicts are not compared");
        return;
    };
    python.stdin.take().expect("piped").write_all(asked.to_string().as_bytes()).expect("python reads");
    let output = python.wait_with_output().expect("python ends");
    assert!(output.status.success(), "a pattern does not compile in Python");
    let theirs: Vec<Vec<usize>> = serde_json::from_slice(&output.stdout).expect("verdicts");
    let ours: Vec<regex::Regex> =
        rules.iter().map(|r| regex::Regex::new(&r.pattern).expect("builtins compile")).collect();
    for (row, theirs) in rows.iter().zip(theirs) {
        let forms = normal::forms(row.group, &row.text);
        let hits = |i: &usize| rules[*i].applies_to == row.group && forms.iter().any(|form| ours[*i].is_match(form));
        let ours: Vec<usize> = (0..rules.len()).filter(hits).collect();
        assert_eq!(ours, theirs, "{row:?}");
    }
}

#[test]
fn words_by_the_thousand_do_not_get_past_the_guard() {
    let guard = Guard::builtin();
    let words: String = (0..3_000).map(|n| format!(" x{n}")).collect();
    for text in [
        format!("cd /etc; cat{words}; rm -rf *"),
        format!("cd /etc; cat{words}; cd / && cat a a a a && rm -rf *"),
        format!("cd /tmp; rm{words}; cd /; rm -rf etc"),
        format!("cd /tmp; rm -f{words}; find / -delete"),
    ] {
        assert!(check(&guard, AppliesTo::Posix, &text).is_some(), "{}", &text[text.len() - 40..]);
    }
    assert!(check(&guard, AppliesTo::Posix, &format!("cd /srv/app && touch{words} && ls")).is_none());
}

#[test]
fn a_long_text_meets_the_rules_that_a_short_one_meets() {
    let guard = Guard::builtin();
    let rows: Vec<Row> = refused().into_iter().chain(allowed()).collect();
    let mut wrong = Vec::new();
    for group in AppliesTo::ALL {
        for set in builtin_sets(group) {
            let singly = set.compile_singly().expect("each compiles that compiles with others");
            for row in rows.iter().filter(|row| row.group == group) {
                let at_once = set.patterns.matches(&row.text).iter().next();
                let one_by_one = singly.iter().position(|pattern| pattern.is_match(&row.text));
                if at_once != one_by_one {
                    wrong.push(format!("{at_once:?} {one_by_one:?}: {row:?}"));
                }
            }
        }
    }
    none_wrong(wrong);
    // Of several rules that refuse it, the first in catalogue order names the refusal, as with a short one.
    let both = "rm -rf /\ncat /etc/shadow\n";
    let long = format!("{both}{}", "true\n".repeat(AT_ONCE));
    assert_eq!(check(&guard, AppliesTo::Posix, &long), check(&guard, AppliesTo::Posix, both));
    let (guard, _) = Guard::with_operator_rules(&[rule("no-nmap", AppliesTo::Posix, r"\bnmap\b")]);
    let long = format!("{}nmap localhost", "true\n".repeat(AT_ONCE));
    assert_eq!(check(&guard, AppliesTo::Posix, &long).as_deref(), Some("no-nmap"));
    assert_eq!(check(&guard, AppliesTo::Posix, &"true\n".repeat(AT_ONCE)), None);
    let surface = |text: &str| [Surface { group: AppliesTo::Posix, text: text.to_owned().into() }];
    assert!(Guard::is_long(&surface(&long)) && !Guard::is_long(&surface(both)));
}

#[test]
fn long_texts_cost_no_more_than_their_length() {
    let guard = Guard::builtin();
    for piece in [
        "rm -rf ./a ",
        "find / -name x ",
        "curl x | ",
        "é $IFS ${IFS \\ ` ' + ",
        "Get-Content \"a\" + ",
        "{a,b}{c,d}{e,f}{g,{h,i}} ",
        "{{{{{{{{,",
        "a/./b/.",
        "*?[a-",
        "wget x/a; less a; ",
        "cd /etc; ",
        "cd /srv/x; cat a * ",
        "(cd a; ls | (",
        "sudo env ls . ",
    ] {
        let text = piece.repeat((64 << 10) / piece.len());
        let surfaces = AppliesTo::ALL.map(|group| Surface { group, text: Cow::Borrowed(&text) });
        let started = std::time::Instant::now();
        assert_eq!(guard.check(&surfaces), None, "{piece}");
        // Generous, since tests run unoptimised and beside others; a square would take minutes.
        assert!(started.elapsed().as_secs() < 10, "{piece}: {:?}", started.elapsed());
    }
}

fn any_group() -> impl Strategy<Value = AppliesTo> {
    prop::sample::select(AppliesTo::ALL.to_vec())
}

proptest! {
    #[test]
    fn check_never_panics(group in any_group(), text in "(\\PC|[\\\\'\"`^$ \n\r/.:{}]|IFS){0,80}") {
        check(&Guard::builtin(), group, &text);
    }

    #[test]
    fn operator_rules_never_let_a_refused_text_pass(
        row in 0..refused().len(),
        patterns in prop::collection::vec(("[a-z]{1,3}", any_group(), "(?s:.{0,12})"), 0..6),
    ) {
        let row = &refused()[row];
        let rules: Vec<Rule> = patterns.iter().map(|(id, group, pattern)| rule(id, *group, pattern)).collect();
        let (guard, _) = Guard::with_operator_rules(&rules);
        prop_assert_eq!(check(&guard, row.group, &row.text), row.rule.clone());
    }

    #[test]
    fn quoting_does_not_get_past_the_guard(at in 0..16usize, quote in prop::sample::select(vec!["\\", "''", "\"\""])) {
        let mut text = "rm -rf / && true".to_owned();
        text.insert_str(at.min(7), quote);
        prop_assert_eq!(check(&Guard::builtin(), AppliesTo::Posix, &text), Some("posix_rm_rf_root".to_owned()));
    }
}
