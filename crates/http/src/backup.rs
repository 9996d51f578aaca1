//! A backup of the hub, made and handed out in one go.

use std::io;
use std::path::Path;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, Response, StatusCode, header};
use convoke_api::backup::BackupRequest;
use convoke_core::journal::{Decision, Draft, Kind};
use convoke_core::secret::SecretText;
use convoke_store::backup::Manifest;
use futures_util::stream;
use serde_json::json;
use tokio::fs;
use tokio::io::AsyncReadExt as _;

use convoke_doors::ApiError;
use convoke_doors::extract::{By, Json};
use convoke_gate::clock;
use convoke_gate::hub::Hub;
use convoke_gate::operators::Caller;

/// The folder in the data directory in which a backup is made.
const FOLDER: &str = "backup.tmp";
/// Shortest passphrase.
const MIN_PASSPHRASE: usize = 8;
/// Space that stays free beside a backup.
const SPARE_BYTES: u64 = 64 << 20;

#[utoipa::path(post, path = "/api/backup", request_body = BackupRequest,
    responses((status = 200, content_type = "application/octet-stream", body = String), (status = 409), (status = 507)), tag = "hub")]
/// Make a backup of the hub while it runs, and download it. One at a time.
pub async fn make(
    State(hub): State<Hub>,
    By(caller): By,
    Json(asked): Json<BackupRequest>,
) -> Result<Response<Body>, ApiError> {
    let passphrase = passphrase(asked)?;
    let turn = hub.backups.clone().try_acquire_owned().map_err(|_| {
        ApiError::conflict("another backup is being made or downloaded").hint("try again when it is done")
    })?;
    let has_key = passphrase.is_some();
    let (file, length, manifest) = written(&hub, passphrase).await?;
    hub.store.append(record(&caller, &manifest, has_key)).await?;
    // The next one is made when this one has been taken, so that no more than one takes space.
    let chunks = stream::unfold((file, turn), async |(mut file, turn)| {
        let mut chunk = vec![0; 256 * 1024];
        match file.read(&mut chunk).await {
            Ok(0) => None,
            Ok(n) => {
                chunk.truncate(n);
                Some((Ok::<_, io::Error>(chunk), (file, turn)))
            }
            Err(why) => Some((Err(why), (file, turn))),
        }
    });
    let mut response = Response::new(Body::from_stream(chunks));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CONTENT_LENGTH, length.into());
    let disposition = HeaderValue::from_static("attachment; filename=\"convoke.backup\"");
    headers.insert(header::CONTENT_DISPOSITION, disposition);
    Ok(response)
}

fn passphrase(asked: BackupRequest) -> Result<Option<SecretText>, ApiError> {
    let passphrase = asked.passphrase.map(|given| given.0);
    match &passphrase {
        Some(text) if text.reveal().chars().count() < MIN_PASSPHRASE => {
            Err(ApiError::bad_request(format!("`passphrase` must have at least {MIN_PASSPHRASE} characters")))
        }
        _ => Ok(passphrase),
    }
}

/// Makes the backup, and opens it: the file has no name any more, so that nothing is left of it when the download ends.
async fn written(hub: &Hub, passphrase: Option<SecretText>) -> Result<(fs::File, u64, Manifest), ApiError> {
    let disk = hub.store.disk();
    if let (Some(used), Some(free)) = (disk.used_bytes, disk.free_bytes)
        && free < used.saturating_add(SPARE_BYTES)
    {
        let message = format!("a backup needs as much space as the database ({used} bytes) and {free} are free");
        let hint = "free some, or run `convoke backup create` to another disk";
        return Err(ApiError::new(StatusCode::INSUFFICIENT_STORAGE, "no_space", message).hint(hint));
    }
    let folder = hub.data.join(FOLDER);
    let failed = |why: io::Error| failed(&folder, &why);
    // What an interrupted one left.
    match fs::remove_dir_all(&folder).await {
        Err(why) if why.kind() != io::ErrorKind::NotFound => return Err(failed(why)),
        _ => fs::create_dir(&folder).await.map_err(failed)?,
    }
    let path = folder.join("convoke.backup");
    let made = hub.store.backup(&path, passphrase).await;
    let opened = match made {
        Ok(manifest) => fs::File::open(&path).await.map(|file| (file, manifest)).map_err(failed),
        Err(why) => Err(why.into()),
    };
    fs::remove_dir_all(&folder).await.map_err(failed)?;
    let (file, manifest) = opened?;
    let length = file.metadata().await.map_err(failed)?.len();
    Ok((file, length, manifest))
}

fn failed(folder: &Path, why: &io::Error) -> ApiError {
    tracing::error!(%why, folder = %folder.display(), "cannot make a backup");
    ApiError::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "store",
        format!("cannot make a backup in the data directory: {why}"),
    )
}

fn record(caller: &Caller, manifest: &Manifest, has_key: bool) -> Draft {
    let mut record = Draft::new(clock::now(), Kind::Hub).detail(&json!({
        "what": "backup made", "journal_seq": manifest.journal_seq, "bytes": manifest.db_bytes,
        "key_id": manifest.key_id, "with_key": has_key,
    }));
    record.who = Some(caller.token.name.clone());
    record.door = Some(caller.door);
    record.decision = Some(Decision::Allowed);
    record
}
