//! Agents whose attestation changed.

use serde_json::{Value, json};

use crate::sonde::{enrolled, field_register, join, key, probe, refused};
use crate::support::TestHub;

#[tokio::test]
async fn a_first_start_raises_no_alarm_and_a_change_stays_flagged_until_accepted() {
    let mut hub = TestHub::start().await;
    let agent = enrolled(&hub, "web-1").await;
    let key = key(&agent);
    let mut register = field_register("web-1");
    register["attestation"]["configHash"] = "the configuration after enrolment".into();
    register["attestation"]["installedPacks"] = json!([{"name": "system", "version": "0.2.0"}]);
    let back = join(&hub, &key, &register).await;
    assert!(back.ack["payload"].get("warning").is_none(), "{}", back.ack);

    register["attestation"]["binaryHash"] = "another binary".into();
    for _ in 0..2 {
        let back = join(&hub, &key, &register).await;
        assert!(back.ack["payload"]["warning"].as_str().is_some_and(|w| w.contains("binaryHash")), "{}", back.ack);
        let shown = hub.get("/api/v1/agents/web-1").await.body;
        assert_eq!((&shown["status"], &shown["attestationMismatch"]), (&json!("degraded"), &json!(true)));
        assert_eq!(
            shown["attestation"]["changed"]["changes"][0],
            json!({"field": "binaryHash", "was": "aa", "now": "another binary"})
        );
    }
    let records = hub.journal("kind=trust").await;
    assert_eq!(records.len(), 1, "noticed once: {records:?}");

    hub.restart(&[("sonde.changed_agents", "restrict")]).await;
    let back = join(&hub, &key, &register).await;
    let reply = probe(&hub, "web-1", "system.cpu.usage", json!({})).await;
    assert_eq!(reply.status, 400, "{reply:?}");
    assert!(reply.body["error"].as_str().is_some_and(|e| e.contains("attestation")));
    // The gate decided so: the record says blocked, by which rule, and not allowed.
    let records = hub.journal("kind=call").await;
    let last = records.last().expect("the call's outcome");
    assert_eq!(
        (&last["decision"], &last["rule"], &last["outcome"]),
        (&json!("blocked"), &json!("sonde.changed_agents"), &json!("blocked"))
    );
    drop(back);
    hub.restart(&[("sonde.changed_agents", "refuse")]).await;
    let told = refused(&hub, &key, &register).await;
    assert!(told["payload"]["error"].as_str().is_some_and(|e| e.contains("binaryHash")), "{told}");

    let reply = hub.post(&format!("/api/agents/sonde:{}/accept", agent.id), json!({})).await;
    assert_eq!((reply.status, &reply.body["attestationMismatch"]), (200, &json!(false)), "{reply:?}");
    let back = join(&hub, &key, &register).await;
    assert!(back.ack["payload"].get("warning").is_none());
    let again = hub.post(&format!("/api/agents/sonde:{}/accept", agent.id), json!({})).await;
    assert_eq!(again.status, 409);
}

#[tokio::test]
async fn an_agent_that_changes_with_every_connection_does_not_fill_the_journal() {
    let hub = TestHub::start().await;
    let agent = enrolled(&hub, "web-1").await;
    let key = key(&agent);
    let mut register = field_register("web-1");
    drop(join(&hub, &key, &register).await);
    // Twice what is recorded in a minute, and some: one minute may end meanwhile.
    for n in 0..130 {
        register["attestation"]["binaryHash"] = format!("binary {n}").into();
        drop(join(&hub, &key, &register).await);
    }
    let records = hub.journal("kind=trust").await;
    assert!((61..=122).contains(&records.len()), "{}", records.len());
    let is_last = |record: &Value| record["detail"]["note"] == "further ones in this minute are only counted";
    assert!(records.iter().any(is_last), "the journal says that there were more: {:?}", records.last());
    let shown = hub.get("/api/v1/agents/web-1").await.body;
    assert_eq!(shown["attestation"]["changed"]["changes"][0]["now"], "binary 129");
}
