//! Sonde agents with certificates: the mutual-TLS listener, keys of their own, signatures, revocation, strangers.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use convoke_sonde::json::canonical;
use rcgen::{CertificateParams, KeyPair, PKCS_RSA_SHA256, RsaKeySize, SigningKey as _};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{self, Message};

use crate::sonde::{envelope, field_register, join, knock, response, token};
use crate::support::{PATIENCE, TestHub};
use futures_util::{SinkExt as _, StreamExt as _};

const TLS: &[(&str, &str)] = &[("sonde.tls_listen", "127.0.0.1:0"), ("sonde.cache_s", "0")];

struct Secure(WebSocketStream<TlsStream<TcpStream>>);

impl Secure {
    async fn next(&mut self) -> Result<Value, Option<u16>> {
        tokio::time::timeout(PATIENCE, async {
            loop {
                match self.0.next().await {
                    Some(Ok(Message::Text(text))) => return Ok(serde_json::from_str(&text).expect("JSON")),
                    Some(Ok(Message::Close(frame))) => return Err(frame.map(|f| f.code.into())),
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return Err(None),
                }
            }
        })
        .await
        .expect("in time")
    }

    async fn send(&mut self, frame: &Value) {
        self.0.send(Message::text(frame.to_string())).await.expect("sends");
    }
}

async fn ca(hub: &TestHub) -> CertificateDer<'static> {
    let hub = hub.hub();
    convoke_wires::Wires::of(hub).sonde.ca(&*hub.store).await.expect("a CA").cert_der()
}

/// Knocks at the listener, trusting its CA, with this certificate and this bearer.
async fn knock_tls(hub: &TestHub, identity: Option<(&str, &str)>, bearer: Option<&str>) -> Result<Secure, String> {
    let address = hub.running.as_ref().expect("runs").sonde_tls.expect("listens");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(ca(hub).await).expect("a root");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots);
    let config = match identity {
        None => config.with_no_client_auth(),
        Some((cert, key)) => config
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(cert.as_bytes()).expect("a certificate")],
                PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key"),
            )
            .expect("an identity"),
    };
    let stream = TcpStream::connect(address).await.expect("connects");
    let name = ServerName::try_from("localhost").expect("a name");
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(|e| e.to_string())?;
    let mut request =
        format!("wss://localhost:{}/ws/agent", address.port()).into_client_request().expect("a request");
    if let Some(bearer) = bearer {
        request.headers_mut().insert("authorization", format!("Bearer {bearer}").parse().expect("a header"));
    }
    match tokio_tungstenite::client_async(request, stream).await {
        Ok((socket, _)) => Ok(Secure(socket)),
        Err(tungstenite::Error::Http(response)) => Err(response.status().as_u16().to_string()),
        // With TLS 1.3 a refused client certificate shows at the first read.
        Err(why) => Err(why.to_string()),
    }
}

fn sign(key: &KeyPair, mut frame: Value) -> Value {
    let text = canonical(&frame["payload"].to_string()).expect("JSON");
    frame["signature"] = STANDARD.encode(key.sign(text.as_bytes()).expect("signs")).into();
    frame
}

fn verify(ca: &CertificateDer<'_>, frame: &Value) -> bool {
    // The whole frame was parsed, so key order is lost: printed in the order of the fields that the hub writes.
    let payload = frame["payload"].clone();
    let key = webpki_key(ca);
    let signature = STANDARD.decode(frame["signature"].as_str().expect("a text")).expect("base64");
    let keys: Vec<&str> = match frame["type"].as_str() {
        Some("probe.request") => vec!["probe", "params", "timeout", "requestedBy", "requestId"],
        _ => vec!["agentId", "certPem", "keyPem", "caCertPem", "apiKey", "warning"],
    };
    let members: Vec<String> =
        keys.iter().filter_map(|k| payload.get(*k).map(|v| format!("{}:{v}", Value::from(*k)))).collect();
    let text = format!("{{{}}}", members.join(","));
    aws_lc_rs::signature::UnparsedPublicKey::new(&aws_lc_rs::signature::RSA_PKCS1_2048_8192_SHA256, &key)
        .verify(text.as_bytes(), &signature)
        .is_ok()
}

/// The public key inside a certificate: the RSA key is the only SEQUENCE of that shape in it.
fn webpki_key(cert: &CertificateDer<'_>) -> Vec<u8> {
    let anchor = webpki_anchor(cert);
    // `TrustAnchor` holds the SPKI without its outer SEQUENCE header.
    let mut spki = vec![0x30, 0x82, (anchor.len() >> 8) as u8, anchor.len() as u8];
    spki.extend_from_slice(&anchor);
    spki
}

fn webpki_anchor(cert: &CertificateDer<'_>) -> Vec<u8> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(cert.clone().into_owned()).expect("a root");
    roots.roots[0].subject_public_key_info.to_vec()
}

fn own_key() -> (KeyPair, String) {
    let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).expect("a key");
    let csr = CertificateParams::default().serialize_request(&key).expect("a request").pem().expect("PEM");
    (key, csr)
}

#[tokio::test]
async fn a_field_agent_gets_its_key_over_tls_comes_back_by_certificate_and_signs() {
    let hub = TestHub::with(TLS).await;
    let bearer = token(&hub).await;
    let mut socket = knock_tls(&hub, None, Some(&bearer)).await.expect("enrols over TLS");
    socket.send(&envelope("agent.register", None, &field_register("web-1"))).await;
    let ack = socket.next().await.expect("an ack");
    let payload = &ack["payload"];
    assert!(verify(&ca(&hub).await, &ack), "the ack is signed with the CA's key");
    let (cert, key) =
        (payload["certPem"].as_str().expect("a certificate"), payload["keyPem"].as_str().expect("a key"));
    assert!(payload["caCertPem"].as_str().is_some_and(|c| c.contains("BEGIN CERTIFICATE")));
    drop(socket);

    let mut socket = knock_tls(&hub, Some((cert, key)), None).await.expect("the certificate is enough");
    socket.send(&envelope("agent.register", None, &field_register("web-1"))).await;
    let id = socket.next().await.expect("an ack")["payload"]["agentId"].as_str().expect("an id").to_owned();
    let signer = KeyPair::from_pem(key).expect("a key");
    let beat = envelope("agent.heartbeat", Some(&id), &json!({}));
    socket.send(&beat).await;
    assert_eq!(socket.next().await.expect("told")["error"], "Signature required");
    let (other, _) = own_key();
    socket.send(&sign(&other, beat.clone())).await;
    assert_eq!(socket.next().await.expect("told")["error"], "Signature verification failed");
    socket.send(&sign(&signer, beat)).await;
    let ask = hub.post("/api/v1/probe", json!({"agent": "web-1", "probe": "system.cpu.usage"}));
    let (reply, ()) = tokio::join!(ask, async {
        let request = socket.next().await.expect("a request");
        assert!(verify(&ca(&hub).await, &request), "requests are signed: {request}");
        let data = json!({"b": 1.0, "10": -0.0, "2": 1e21, "text": "é\u{2028}"});
        let answer = envelope("probe.response", Some(&id), &response(&request, data));
        socket.send(&sign(&signer, answer)).await;
    });
    assert_eq!(reply.status, 200, "{reply:?}");
}

#[tokio::test]
async fn an_api_key_alone_does_not_displace_an_agent_with_a_certificate() {
    let hub = TestHub::with(TLS).await;
    let mut socket = knock_tls(&hub, None, Some(&token(&hub).await)).await.expect("enrols");
    socket.send(&envelope("agent.register", None, &field_register("web-1"))).await;
    let ack = socket.next().await.expect("an ack");
    let payload = &ack["payload"];
    let text = |name: &str| payload[name].as_str().expect("is in the ack").to_owned();
    let (api_key, cert, key, id) = (text("apiKey"), text("certPem"), text("keyPem"), text("agentId"));
    drop(socket);
    let mut socket = knock_tls(&hub, Some((&cert, &key)), None).await.expect("the certificate is enough");
    let register = envelope("agent.register", None, &field_register("web-1"));
    socket.send(&register).await;
    assert_eq!(socket.next().await.expect("an ack")["payload"]["agentId"], id.as_str());

    let mut with_token = register.clone();
    with_token["payload"]["enrollmentToken"] = token(&hub).await.into();
    let (other, _) = own_key();
    for (frame, why) in [
        (register.clone(), "Signature required"),
        (sign(&other, register.clone()), "Signature verification failed"),
        (with_token, "the name is taken"),
    ] {
        let mut plain = knock(&hub, Some(&api_key), "").await.expect("upgrades");
        plain.send(frame.to_string()).await;
        let told = plain.next().await.expect("told");
        assert!(told.contains(why), "{told}");
        let mut secure = knock_tls(&hub, None, Some(&api_key)).await.expect("upgrades");
        secure.send(&frame).await;
        let told = secure.next().await.expect("told").to_string();
        assert!(told.contains(why), "{told}");
    }
    let shown = hub.get(&format!("/api/agents/sonde:{id}")).await;
    assert_eq!((&shown.body["online"], &shown.body["auth"]), (&json!(true), &json!("certificate")), "{shown:?}");
    // With its key it comes in by the plain port, too.
    let signer = KeyPair::from_pem(&key).expect("a key");
    let mut plain = knock(&hub, Some(&api_key), "").await.expect("upgrades");
    plain.send(sign(&signer, register).to_string()).await;
    assert!(plain.next().await.expect("an ack").contains(&id));
}

#[tokio::test]
async fn an_agent_keeps_its_own_key_and_gets_a_certificate_for_it() {
    let hub = TestHub::with(TLS).await;
    let (key, csr) = own_key();
    let mut register = field_register("web-1");
    register["csr"] = csr.into();
    let agent = join(&hub, &token(&hub).await, &register).await;
    let payload = &agent.ack["payload"];
    assert!(payload.get("keyPem").is_none(), "the private key never left the agent");
    let cert = payload["certPem"].as_str().expect("a certificate").to_owned();
    let api_key = payload["apiKey"].as_str().expect("a key").to_owned();
    register.as_object_mut().expect("an object").remove("csr");

    // Even with the key of the plain port: from now on everything is signed, the registration first.
    let mut socket = knock(&hub, Some(&api_key), "").await.expect("upgrades");
    socket.send(envelope("agent.register", None, &register).to_string()).await;
    let told = socket.next().await.expect("told");
    assert!(told.contains("Signature required"), "{told}");
    let mut socket = knock(&hub, Some(&api_key), "").await.expect("upgrades");
    socket.send(sign(&key, envelope("agent.register", None, &register)).to_string()).await;
    assert!(socket.next().await.expect("an ack").contains(&agent.id));
    let mut socket = knock_tls(&hub, Some((&cert, &key.serialize_pem())), None).await.expect("by certificate");
    socket.send(&sign(&key, envelope("agent.register", None, &register))).await;
    assert_eq!(socket.next().await.expect("an ack")["payload"]["agentId"], agent.id.as_str());

    let mut stolen = register.clone();
    stolen["name"] = "web-2".into();
    let mut socket = knock_tls(&hub, Some((&cert, &key.serialize_pem())), None).await.expect("by certificate");
    socket.send(&sign(&key, envelope("agent.register", None, &stolen))).await;
    assert!(socket.next().await.expect("told")["payload"]["error"].as_str().is_some_and(|e| e.contains("web-1's")));
}

#[tokio::test]
async fn strangers_and_revoked_certificates_are_refused() {
    let hub = TestHub::with(TLS).await;
    let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).expect("a key");
    let stranger =
        CertificateParams::new(vec!["web-1".into()]).expect("names").self_signed(&key).expect("a certificate");
    let bearer = token(&hub).await;
    let refused = knock_tls(&hub, Some((&stranger.pem(), &key.serialize_pem())), Some(&bearer)).await;
    assert!(refused.is_err(), "a stranger's certificate is refused even with a good token");
    assert_eq!(knock_tls(&hub, None, None).await.err().as_deref(), Some("401"));

    let (key, csr) = own_key();
    let mut register = field_register("web-1");
    register["csr"] = csr.into();
    let mut socket = knock_tls(&hub, None, Some(&bearer)).await.expect("enrols");
    socket.send(&envelope("agent.register", None, &register)).await;
    let ack = socket.next().await.expect("an ack");
    let cert = ack["payload"]["certPem"].as_str().expect("a certificate").to_owned();
    let id = ack["payload"]["agentId"].as_str().expect("an id").to_owned();
    assert_eq!(hub.post(&format!("/api/agents/sonde:{id}/revoke"), json!({})).await.status, 200);
    assert_eq!(socket.next().await, Err(Some(4001)));
    let again = knock_tls(&hub, Some((&cert, &key.serialize_pem())), None).await;
    assert_eq!(again.err().as_deref(), Some("401"), "a revoked certificate opens nothing");
}

#[tokio::test]
async fn a_certificate_request_that_is_none_is_refused_and_the_token_is_still_good() {
    let hub = TestHub::with(TLS).await;
    let bearer = token(&hub).await;
    let mut register = field_register("web-1");
    register["csr"] = "nonsense".into();
    let mut socket = knock(&hub, Some(&bearer), "").await.expect("upgrades");
    socket.send(envelope("agent.register", None, &register).to_string()).await;
    assert!(socket.next().await.expect("told").contains("certificate request"));
    let agent = join(&hub, &bearer, &field_register("web-1")).await;
    assert!(agent.ack["payload"].get("certPem").is_none(), "the plain port hands out no private key");
}

#[tokio::test]
async fn the_cas_certificate_is_read_as_a_file_or_as_json() {
    let hub = TestHub::with(TLS).await;
    let ask = async |query: &str| {
        let request =
            hub.http_client.get(format!("{}/api/v1/ca{query}", hub.http)).bearer_auth(crate::support::TOKEN);
        let reply = request.send().await.expect("answers");
        let kind = reply.headers()["content-type"].to_str().expect("text").to_owned();
        (reply.status().as_u16(), kind, reply.text().await.expect("a body"))
    };
    let (status, kind, file) = ask("?format=pem").await;
    assert_eq!((status, kind.as_str()), (200, "application/x-pem-file"));
    assert_eq!(CertificateDer::from_pem_slice(file.as_bytes()).expect("PEM"), ca(&hub).await);
    for query in ["", "?format=json"] {
        let (status, kind, body) = ask(query).await;
        assert_eq!((status, kind.as_str()), (200, "application/json"));
        assert_eq!(serde_json::from_str::<Value>(&body).expect("JSON")["caCertPem"], file.as_str());
    }
    assert_eq!(ask("?format=der").await.0, 400);
}

#[tokio::test]
async fn the_ca_and_its_certificates_survive_a_restart() {
    let mut hub = TestHub::with(TLS).await;
    let (key, csr) = own_key();
    let mut register = field_register("web-1");
    register["csr"] = csr.into();
    let agent = join(&hub, &token(&hub).await, &register).await;
    let cert = agent.ack["payload"]["certPem"].as_str().expect("a certificate").to_owned();
    let before = ca(&hub).await;
    hub.restart(TLS).await;
    assert_eq!(ca(&hub).await, before);
    register.as_object_mut().expect("an object").remove("csr");
    let mut socket = knock_tls(&hub, Some((&cert, &key.serialize_pem())), None).await.expect("by certificate");
    socket.send(&sign(&key, envelope("agent.register", None, &register))).await;
    assert_eq!(socket.next().await.expect("an ack")["payload"]["agentId"], agent.id.as_str());
}
