use convoke_core::journal::Kind;
use convoke_core::secret::SecretBytes;
use convoke_store::RoomRow;

use super::{Backend, at, record, records};

fn room(name: &str) -> RoomRow {
    RoomRow { name: name.into(), body: "{}".into(), key: SecretBytes::new(name.as_bytes()), created_at: at(1) }
}

pub(crate) async fn rooms_survive_a_restart_with_their_keys(backend: &impl Backend) {
    let store = backend.open();
    for name in ["standup", "lab"] {
        assert!(store.add_room(room(name), record(Kind::Grant)).await.expect("keeps"));
    }
    assert!(!store.add_room(room("lab"), record(Kind::Grant)).await.expect("answers"), "a name is taken once");
    let changed = store.set_room("lab", "{\"open\":true}".into(), Some(record(Kind::Grant))).await;
    assert!(changed.expect("keeps"));
    assert!(store.set_room("lab", "{\"open\":false}".into(), None).await.expect("keeps"));
    assert!(!store.set_room("none", "{}".into(), Some(record(Kind::Grant))).await.expect("answers"));
    store.close().await.expect("closes");
    let store = backend.open();
    let kept = store.rooms().await.expect("reads");
    assert_eq!(kept, [RoomRow { body: "{\"open\":false}".into(), ..room("lab") }, room("standup")]);
    assert!(store.remove_room("lab", record(Kind::Grant)).await.expect("removes"));
    assert!(!store.remove_room("lab", record(Kind::Grant)).await.expect("answers"));
    assert_eq!(store.rooms().await.expect("reads").len(), 1);
    assert_eq!(records(&*store).await, 4, "what changed nothing is not recorded");
}
