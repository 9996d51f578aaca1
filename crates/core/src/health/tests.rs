//! The table's boundaries, one line each: the payload, and the verdict.

mod properties;

use serde_json::json;

use super::Os::{Linux, Macos, Other, Windows};
use super::*;

/// What every case is judged at.
const NOW: &str = "2026-06-04T18:00:00Z";

/// What a case expects: a rule's verdict, or that the agent's own status stands.
#[derive(Clone, Copy)]
enum Expect {
    Rule(Status),
    Agent,
}

const OK: Expect = Expect::Rule(Status::Ok);
const WARN: Expect = Expect::Rule(Status::Warn);
const CRIT: Expect = Expect::Rule(Status::Crit);
const AGENT: Expect = Expect::Agent;

fn judge(section: &str, payload: &str, os: Os) -> SectionHealth {
    let raw: &RawValue = serde_json::from_str(payload).expect("a test payload is JSON");
    evaluate(section, raw, os, Timestamp::parse(NOW).expect("a time"))
}

/// `fields` is the inside of the payload, without status and summary. Each case runs under every status the agent can
/// claim and in both orders, since a rule's verdict depends on neither.
#[track_caller]
fn check(section: &str, fields: &str, os: Os, expect: Expect) {
    for own in Status::ALL {
        let head = format!(r#""status":"{own}","summary":"said""#);
        for payload in [format!("{{{head},{fields}}}"), format!("{{ {fields} , {head} }}")] {
            let (status, ruled) = match expect {
                Expect::Rule(status) => (status, true),
                Expect::Agent => (own, false),
            };
            let expected = SectionHealth { status, summary: "said".into(), ruled };
            assert_eq!(judge(section, &payload, os), expected, "{section} {payload} on {os:?}");
        }
    }
}

#[test]
fn disk_goes_by_its_fullest_volume() {
    let check = |fields, expect| check("disk", fields, Linux, expect);
    check(r#""volumes":[{"percent_used":80}]"#, OK);
    check(r#""volumes":[{"percent_used":80.01}]"#, WARN);
    check(r#""volumes":[{"percent_used":94.99}]"#, WARN);
    check(r#""volumes":[{"percent_used":95}]"#, CRIT);
    check(r#""volumes":[{"percent_used":10},{"mount":"D:","percent_used":95.0},{"percent_used":20}]"#, CRIT);
    check(r#""volumes":[]"#, AGENT);
    check(r#""volumes":[{"mount":"C:"}]"#, AGENT);
    check(r#""volumes":[{"percent_used":"99"},{"percent_used":null},7,[99]]"#, AGENT);
    check(r#""volumes":[{"percent_used":true},{"percent_used":1e999}]"#, AGENT);
    check(r#""volumes":[{"percent_used":"99"},{"percent_used":81}]"#, WARN);
    check(r#""volumes":{"percent_used":99}"#, AGENT);
    check(r#""percent_used":99"#, AGENT);
}

#[test]
fn defender_off_is_critical_and_an_old_scan_a_warning() {
    let check = |fields, expect| check("defender", fields, Windows, expect);
    check(r#""enabled":true,"realtime_protection":true"#, OK);
    check(r#""enabled":false,"realtime_protection":true"#, CRIT);
    check(r#""enabled":true,"realtime_protection":false"#, CRIT);
    check(r#""enabled":false"#, CRIT);
    check(r#""enabled":false,"last_scan":"2026-05-01T03:00:00Z""#, CRIT);
    check(r#""enabled":true,"last_scan":"2026-05-21T18:00:00.000Z""#, OK);
    check(r#""enabled":true,"last_scan":"2026-05-21T18:00:00.001Z""#, OK);
    check(r#""enabled":true,"last_scan":"2026-05-21T17:59:59.999Z""#, WARN);
    check(r#""last_scan":"2026-05-21T19:59:59+02:00""#, WARN);
    check(r#""last_scan":"2026-05-21T17:59:59""#, WARN);
    check(r#""last_scan":"2026-05-22T17:59:59.5""#, OK);
    check(r#""last_scan":"2026-05-21""#, WARN);
    check(r#""last_scan":"2026-05-22""#, OK);
    check(r#""enabled":true,"last_scan":"never""#, OK);
    check(r#""enabled":null,"realtime_protection":"off","last_scan":17"#, AGENT);
    check(r#""threats_found":3"#, AGENT);
}

#[test]
fn a_scan_in_the_future_is_not_old() {
    check("defender", r#""enabled":true,"last_scan":"2031-01-01T00:00:00Z""#, Windows, OK);
    check("backup_status", r#""restore_points":{"latest":"2031-01-01T00:00:00Z"}"#, Windows, OK);
}

#[test]
fn win_update_warns_of_a_failed_one() {
    let check = |fields, expect| check("win_update", fields, Windows, expect);
    check(r#""recent":[{"result":"succeeded"},{"result":"failed"}]"#, WARN);
    check(r#""recent":[{"result":"f\u0061iled"}]"#, WARN);
    check(r#""recent":[{"result":"Failed"}]"#, WARN);
    check(r#""recent":[{"result":"succeeded"}]"#, OK);
    check(r#""recent":[]"#, OK);
    check(r#""recent":[{"result":false},"failed",{"title":"failed"}]"#, OK);
    check(r#""recent":null"#, AGENT);
    check(r#""last_check":"2026-06-03T09:00:00Z""#, AGENT);
}

#[test]
fn a_pending_reboot_warns() {
    let check = |fields, expect| check("reboot_pending", fields, Windows, expect);
    check(r#""pending":true"#, WARN);
    check(r#""pending":false"#, OK);
    check(r#""pending":"true""#, AGENT);
    check(r#""reasons":["WindowsUpdate"]"#, AGENT);
}

#[test]
fn battery_goes_by_what_is_left_of_its_capacity() {
    let check = |fields, expect| check("battery", fields, Macos, expect);
    check(r#""present":true,"health_percent":70"#, OK);
    check(r#""present":true,"health_percent":69.99"#, WARN);
    check(r#""health_percent":50"#, WARN);
    check(r#""health_percent":49.99"#, CRIT);
    check(r#""present":false,"health_percent":0"#, AGENT);
    check(r#""present":true,"health_percent":null"#, AGENT);
    check(r#""charge_percent":3"#, AGENT);
}

#[test]
fn memory_goes_by_what_is_used() {
    let check = |fields, expect| check("memory", fields, Linux, expect);
    check(r#""percent_used":85"#, OK);
    check(r#""percent_used":85.01"#, WARN);
    check(r#""percent_used":95.0"#, WARN);
    check(r#""percent_used":95.01"#, CRIT);
    check(r#""percent_used":-3"#, OK);
    check(r#""percent_used":"96""#, AGENT);
    check(r#""total_bytes":1,"used_bytes":1"#, AGENT);
}

#[test]
fn os_support_warns_ninety_days_ahead() {
    let check = |fields, expect| check("os_support", fields, Linux, expect);
    check(r#""eol":true"#, CRIT);
    check(r#""eol":false"#, OK);
    check(r#""eol":true,"eol_date":"2030-01-01""#, CRIT);
    check(r#""eol":false,"eol_date":"2020-01-01""#, CRIT);
    check(r#""eol_date":"2026-06-04T17:59:59.999Z""#, CRIT);
    check(r#""eol_date":"2026-06-04T18:00:00.000Z""#, WARN);
    check(r#""eol_date":"2026-09-02T18:00:00.000Z""#, WARN);
    check(r#""eol_date":"2026-09-02T18:00:00.001Z""#, OK);
    check(r#""eol_date":"2026-06-03""#, CRIT);
    check(r#""eol_date":"2026-06-04""#, WARN);
    check(r#""eol_date":"2026-09-02""#, WARN);
    check(r#""eol_date":"2026-09-03""#, OK);
    check(r#""eol_date":"2026-02-30""#, AGENT);
    check(r#""eol_date":20260603,"eol":null"#, AGENT);
    check(r#""eol":false,"eol_date":"2026-06""#, OK);
    check(r#""name":"Example OS""#, AGENT);
}

#[test]
fn thermals_go_by_the_hottest_sensor() {
    let check = |fields, expect| check("thermals", fields, Linux, expect);
    check(r#""sensors":[{"temperature_c":84.9}]"#, OK);
    check(r#""sensors":[{"temperature_c":40},{"temperature_c":85}]"#, WARN);
    check(r#""sensors":[{"temperature_c":94.9}]"#, WARN);
    check(r#""sensors":[{"temperature_c":95},{"temperature_c":null}]"#, CRIT);
    check(r#""sensors":[{"temperature_c":-273}]"#, OK);
    check(r#""sensors":[]"#, AGENT);
    check(r#""sensors":"hot""#, AGENT);
}

#[test]
fn reliability_counts_errors_and_their_kinds() {
    let check = |fields: &str, expect| check("reliability", fields, Windows, expect);
    check(r#""recent_crashes":14"#, OK);
    check(r#""recent_crashes":15"#, WARN);
    check(r#""recent_crashes":49"#, WARN);
    check(r#""recent_crashes":50"#, CRIT);
    check(r#""stability_index":6"#, OK);
    check(r#""stability_index":5.99"#, WARN);
    check(r#""stability_index":3.0"#, WARN);
    check(r#""stability_index":2.99"#, CRIT);
    check(r#""recent_crashes":0,"stability_index":2,"events":[]"#, CRIT);
    check(r#""events":[{"source":"a","event_id":1,"count":30},{"source":"a","event_id":2,"count":20}]"#, CRIT);
    check(r#""events":[{"source":"a","event_id":1,"count":14}]"#, OK);
    check(r#""events":[{"source":"a","event_id":1,"count":15}]"#, WARN);
    check(r#""recent_crashes":3,"events":[{"source":"a","event_id":1,"count":1,"level":"critical"}]"#, WARN);
    check(r#""recent_crashes":3,"events":[{"source":"a","event_id":1,"count":1,"level":"error"}]"#, OK);
    check(r#""recent_crashes":0,"events":[{"source":"a","event_id":1,"count":50,"level":"error"}]"#, CRIT);
    check(r#""recent_crashes":50,"events":[{"source":"a","event_id":1,"count":1}],"truncated":true"#, CRIT);
    check(r#""stability_index":null,"recent_crashes":"many","events":{}"#, AGENT);
    check(r#""window_days":7"#, AGENT);

    let events = |ids: &[u32]| {
        let events: Vec<_> = ids.iter().map(|id| json!({"source": "a", "event_id": id, "count": 1})).collect();
        format!(r#""events":{}"#, json!(events))
    };
    check(&events(&[1, 2, 3, 4, 5, 6, 7]), OK);
    check(&events(&[1, 2, 3, 4, 5, 6, 7, 7, 1]), OK);
    check(&events(&[1, 2, 3, 4, 5, 6, 7, 8]), WARN);
}

#[test]
fn a_remote_access_port_open_to_others_warns() {
    let check = |fields: &str, expect| check("listening_ports", fields, Linux, expect);
    for port in [22, 3389, 5900, 5985, 5986] {
        check(&format!(r#""ports":[{{"port":{port},"address":"0.0.0.0"}}]"#), WARN);
    }
    for port in [21, 23, 445, 5901, 65536] {
        check(&format!(r#""ports":[{{"port":{port},"address":"0.0.0.0"}}]"#), OK);
    }
    for local in ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "::1%lo", "::ffff:127.0.0.1", "localhost"] {
        check(&format!(r#""ports":[{{"address":"{local}","port":22}}]"#), OK);
    }
    for open in ["::", "*", "", "192.0.2.1", "fe80::1%eth0", "128.0.0.1", "127.0.0.1.example"] {
        check(&format!(r#""ports":[{{"address":"127.0.0.1","port":22}},{{"address":"{open}","port":22}}]"#), WARN);
    }
    check(r#""ports":[{"port":22}]"#, WARN);
    check(r#""ports":[{"port":"22","address":"0.0.0.0"},22]"#, OK);
    check(r#""ports":[]"#, OK);
    check(r#""ports":22"#, AGENT);
}

#[test]
fn local_accounts_that_are_open_or_contradict_themselves() {
    let on = |os, account: &str, expect| {
        check("local_accounts", &format!(r#""accounts":[{{"name":"a"}},{{{account}}}]"#), os, expect);
    };
    let open = r#""enabled":true,"is_admin":true,"password_required":false"#;
    on(Linux, &format!(r#"{open},"password_last_set":null"#), CRIT);
    on(Linux, &format!(r#"{open},"password_last_set":"2026-01-01T00:00:00Z""#), OK);
    on(Linux, open, OK);
    on(Linux, r#""enabled":false,"is_admin":true,"password_required":false,"password_last_set":null"#, OK);
    on(Linux, r#""enabled":true,"is_admin":false,"password_required":false,"password_last_set":null"#, OK);
    on(Linux, r#""enabled":true,"is_admin":true,"password_required":true,"password_last_set":null"#, OK);
    on(Windows, r#""enabled":true,"builtin_admin":true"#, WARN);
    on(Windows, r#""enabled":false,"builtin_admin":true"#, OK);
    on(Linux, r#""enabled":true,"builtin_admin":true"#, OK);
    on(Windows, r#""enabled":true,"builtin_guest":true"#, WARN);
    on(Windows, r#""enabled":false,"builtin_guest":true,"deny_logon":["network"]"#, OK);
    on(Windows, r#""enabled":true,"is_admin":true,"deny_logon":["network"]"#, WARN);
    on(Windows, r#""enabled":false,"is_admin":true,"deny_logon":["network"]"#, OK);
    on(Windows, r#""is_admin":true,"deny_logon":["network"]"#, WARN);
    on(Windows, r#""enabled":true,"is_admin":true,"deny_logon":[]"#, OK);
    on(Windows, r#""enabled":true,"is_admin":true,"deny_logon":"network""#, OK);
    on(Windows, r#""enabled":"yes","is_admin":1,"builtin_guest":true"#, OK);
    check("local_accounts", r#""accounts":[]"#, Windows, OK);
    check("local_accounts", r#""admins":["a"]"#, Windows, AGENT);
}

#[test]
fn fifteen_failed_sign_ins_warn() {
    let check = |fields, expect| check("logon_failures", fields, Linux, expect);
    check(r#""accounts":[{"count":14},{"count":14}],"unmatched_count":14"#, OK);
    check(r#""accounts":[{"count":2},{"count":15}],"unmatched_count":0"#, WARN);
    check(r#""accounts":[],"unmatched_count":15"#, WARN);
    check(r#""unmatched_count":14"#, OK);
    check(r#""accounts":[{"count":"99"}]"#, OK);
    check(r#""accounts":{"count":99},"unmatched_count":"99""#, AGENT);
    check(r#""count":99"#, AGENT);
}

#[test]
fn a_machine_without_any_backup_warns() {
    let check = |fields, expect| check("backup_status", fields, Windows, expect);
    let none =
        r#""restore_points":{"latest":null},"file_history":{"service_state":"stopped"},"onedrive":{"running":false}"#;
    check(none, WARN);
    check(r#""restore_points":{"latest":"2026-05-05T18:00:00.000Z"},"onedrive":{"running":false}"#, OK);
    check(r#""restore_points":{"latest":"2026-05-05T17:59:59.999Z"},"onedrive":{"running":false}"#, WARN);
    check(r#""restore_points":{"enabled":false,"latest":"2026-06-04T12:00:00Z"},"onedrive":{"running":false}"#, WARN);
    check(r#""restore_points":{"enabled":true,"latest":"2026-06-04T12:00:00Z"}"#, OK);
    check(r#""restore_points":{"enabled":false,"latest":null},"onedrive":{"running":true}"#, OK);
    check(r#""restore_points":{"latest":"2026-01-01T00:00:00Z"},"onedrive":{"running":true}"#, OK);
    check(r#""file_history":{"service_state":"running"}"#, OK);
    check(r#""file_history":{"service_state":"stopped"}"#, WARN);
    check(
        r#""restore_points":{"latest":null},"file_history":{"service_state":null},"onedrive":{"running":null}"#,
        AGENT,
    );
    check(r#""restore_points":null,"file_history":[],"onedrive":true"#, AGENT);
    check(r#""note":"nothing known""#, AGENT);
}

#[test]
fn net_quality_goes_by_loss_and_the_way_to_the_gateway() {
    let check = |fields, expect| check("net_quality", fields, Linux, expect);
    check(r#""gateway":{"latency_ms":2,"loss_percent":0},"reference":{"loss_percent":59.9}"#, OK);
    check(r#""gateway":{"latency_ms":2,"loss_percent":0},"reference":{"loss_percent":60}"#, CRIT);
    check(r#""gateway":{"latency_ms":100,"loss_percent":20}"#, OK);
    check(r#""gateway":{"latency_ms":100.1,"loss_percent":0}"#, WARN);
    check(r#""gateway":{"latency_ms":2,"loss_percent":20.1}"#, WARN);
    check(r#""gateway":{"latency_ms":null,"loss_percent":100},"reference":{"loss_percent":100}"#, CRIT);
    check(r#""gateway":{"latency_ms":null},"reference":{"latency_ms":900}"#, AGENT);
    check(r#""gateway":null,"reference":"1.1.1.1""#, AGENT);
}

#[test]
fn a_section_about_windows_with_nothing_in_it_is_no_warning_elsewhere() {
    for os in [Linux, Macos] {
        check("defender", r#""enabled":null,"last_scan":null,"threats":[]"#, os, OK);
        check("win_update", r#""recent":[],"last_check":null"#, os, OK);
        assert_eq!(judge("win_update", "null", os).status, Status::Ok);
    }
    check("win_update", r#""pending":3,"recent":[]"#, Linux, AGENT);
    check("memory", r#""total":null"#, Linux, AGENT);
    assert_eq!(judge("win_update", "null", Windows).status, Status::Warn);
}

#[test]
fn rules_about_windows_leave_other_systems_alone() {
    for os in [Linux, Macos, Other] {
        check("defender", r#""enabled":false"#, os, AGENT);
        check("win_update", r#""recent":[{"result":"failed"}]"#, os, AGENT);
        check("reboot_pending", r#""pending":true"#, os, AGENT);
        check("backup_status", r#""onedrive":{"running":false}"#, os, AGENT);
    }
}

#[test]
fn sections_without_a_rule_keep_the_agents_status() {
    for section in ["web_activity", "uptime", "firewall", "of_tomorrow", ""] {
        check(section, r#""percent_used":99,"volumes":[{"percent_used":99}],"pending":true"#, Windows, AGENT);
    }
}

#[test]
fn a_section_that_breaks_the_contract_warns_and_says_why() {
    let check = |section, payload, status, summary: &str, ruled| {
        let expected = SectionHealth { status, summary: summary.into(), ruled };
        assert_eq!(judge(section, payload, Linux), expected, "{payload}");
    };
    let no_object = "the section is not a JSON object";
    for payload in ["null", "[]", "7", r#""ok""#, r#"["status","ok"]"#] {
        check("uptime", payload, Status::Warn, no_object, false);
        check("disk", payload, Status::Warn, no_object, false);
    }
    let no_status = "the section has no status";
    check("uptime", "{}", Status::Warn, no_status, false);
    check("uptime", r#"{"status":null}"#, Status::Warn, no_status, false);
    check("uptime", r#"{"status":0,"summary":7}"#, Status::Warn, no_status, false);
    check("uptime", r#"{"summary":"up"}"#, Status::Warn, "the section has no status: up", false);
    let unknown = r#"the section's status "OK" is not ok, warn or crit"#;
    check("uptime", r#"{"status":"OK"}"#, Status::Warn, unknown, false);
    // A rule may only make such a section worse.
    check("memory", r#"{"percent_used":99}"#, Status::Crit, no_status, true);
    check("memory", r#"{"percent_used":90}"#, Status::Warn, no_status, true);
    check("memory", r#"{"percent_used":10}"#, Status::Warn, no_status, false);
}

#[test]
fn a_summary_is_bounded_by_characters() {
    let summary = |text: &str| judge("uptime", &json!({"status": "ok", "summary": text}).to_string(), Linux).summary;
    assert_eq!(summary(&"ü".repeat(MAX_SUMMARY)), "ü".repeat(MAX_SUMMARY));
    assert_eq!(summary(&"🦀".repeat(MAX_SUMMARY + 1)), "🦀".repeat(MAX_SUMMARY));
    assert_eq!(summary("a \"b\"\n"), "a \"b\"\n");
    let broken =
        judge("uptime", &json!({"status": "x".repeat(5000), "summary": "y".repeat(5000)}).to_string(), Linux);
    assert_eq!(broken.summary.chars().count(), MAX_SUMMARY);
    // What is no Unicode is no summary, and costs nothing but itself.
    check("memory", r#""note":"\ud800","\ud800":1e999,"percent_used":96"#, Linux, CRIT);
    assert_eq!(judge("uptime", r#"{"summary":"\ud800","status":"ok"}"#, Linux).summary, "");
}

#[test]
fn a_machine_is_as_well_as_its_worst_section() {
    assert_eq!(overall([]), Overall::Unknown);
    assert_eq!(overall([Status::Ok, Status::Ok]), Overall::Ok);
    assert_eq!(overall([Status::Ok, Status::Warn, Status::Ok]), Overall::Warn);
    assert_eq!(overall([Status::Crit, Status::Warn]), Overall::Crit);
    assert!(Overall::Unknown < Overall::from(Status::Ok));
}

#[test]
fn names_read_back() {
    for status in Status::ALL {
        assert_eq!(status.name().parse(), Ok(status));
        assert_eq!(serde_json::to_value(status).expect("serialises"), status.name());
        assert_eq!(serde_json::to_value(Overall::from(status)).expect("serialises"), Overall::from(status).name());
    }
    assert_eq!(Status::parse("Ok"), None);
}

#[test]
fn a_whole_snapshot() {
    let text = include_str!("../../../../fixtures/health/snapshot_windows.json");
    let snapshot: std::collections::BTreeMap<&str, &RawValue> =
        serde_json::from_str(text).expect("a map of sections");
    let mut names: Vec<_> = SECTIONS.iter().map(|section| section.name).collect();
    assert_eq!(SECTIONS.iter().filter(|section| section.mandatory).count(), 8);
    names.sort_unstable();
    assert!(snapshot.keys().copied().eq(names));

    let now = Timestamp::parse(NOW).expect("a time");
    let judged: Vec<_> = snapshot.iter().map(|(name, raw)| (*name, evaluate(name, raw, Windows, now))).collect();
    let bad: Vec<_> =
        judged.iter().filter(|(_, h)| h.status > Status::Ok).map(|(n, h)| (*n, h.status, h.ruled)).collect();
    assert_eq!(
        bad,
        [
            ("app_updates", Status::Warn, false),
            ("battery", Status::Warn, true),
            // The agent says `crit` at 91 %: the hub's boundary is the one that counts.
            ("disk", Status::Warn, true),
            ("services", Status::Warn, false),
            ("win_update", Status::Warn, true),
        ]
    );
    assert_eq!(overall(judged.iter().map(|(_, health)| health.status)), Overall::Warn);
}
