use super::*;

fn surface(group: AppliesTo, text: &str) -> Surface<'_> {
    Surface { group, text: Cow::Borrowed(text) }
}

#[test]
fn builtin_patterns_are_portable_and_within_bounds() {
    for rule in Guard::builtin_rules() {
        let renamed = Rule { id: "x".into(), ..rule.clone() };
        assert_eq!(validate(&renamed), Ok(()), "{}", rule.id);
    }
}

#[test]
fn removing_the_root_is_refused_and_removing_a_build_is_not() {
    let guard = Guard::builtin();
    let hit = guard.check(&[surface(AppliesTo::Posix, "rm -r -f /")]).expect("refused");
    assert_eq!((hit.rule.as_str(), hit.builtin), ("posix_rm_rf_root", true));
    assert_eq!(guard.check(&[surface(AppliesTo::Posix, "rm -rf ./build")]), None);
}
