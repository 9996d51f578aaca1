//! A hub's own certificate: it says, signed with the hub's key, that its TLS key is the hub's.
//!
//! Whoever knows the hub's public key needs no authority then: an agent has it from its enrolment. The hub puts a signature
//! over the certificate's public key into an extension. Names and dates of such a certificate do not count; that whoever
//! shows it has its key, the handshake proves.

use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use x509_parser::prelude::FromDer as _;

/// The extension's name: an arc for experiments under a UUID of our own (2.25).
pub const OID: [u64; 3] = [2, 25, 208_511_704_731_236_183];

/// What the signature begins with, so that it can never be taken for one over anything else.
const LABEL: &[u8] = b"convoke tls key v1\0";

/// What the hub signs: for a certificate with this public key (SubjectPublicKeyInfo, DER).
pub fn signed_text(public_key: &[u8]) -> Vec<u8> {
    [LABEL, public_key].concat()
}

/// Whether a certificate (DER) is of the hub with this key.
pub fn is_of_hub(certificate: &[u8], hub_key: &[u8; 32]) -> bool {
    let Ok((_, certificate)) = x509_parser::certificate::X509Certificate::from_der(certificate) else { return false };
    let name = x509_parser::oid_registry::Oid::from(&OID);
    let Ok(name) = name else { return false };
    let mut found = certificate.extensions().iter().filter(|extension| extension.oid == name);
    let (Some(extension), None) = (found.next(), found.next()) else { return false };
    let text = signed_text(certificate.public_key().raw);
    UnparsedPublicKey::new(&ED25519, hub_key).verify(&text, extension.value).is_ok()
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
    use rcgen::{CertificateParams, CustomExtension, KeyPair, PublicKeyData as _};

    use super::*;

    fn certificate(of: &KeyPair, signed: &[u8], signer: &Ed25519KeyPair) -> Vec<u8> {
        let mut params = CertificateParams::new(["hub".to_owned()]).expect("a name");
        let signature = signer.sign(&signed_text(signed)).as_ref().to_vec();
        params.custom_extensions.push(CustomExtension::from_oid_content(&OID, signature));
        params.self_signed(of).expect("signed").der().to_vec()
    }

    #[test]
    fn only_a_key_that_the_hub_signed_is_the_hubs() {
        let [hub, other] = [1, 2].map(|n| Ed25519KeyPair::from_seed_unchecked(&[n; 32]).expect("a key"));
        let [key, another] = [(); 2].map(|()| KeyPair::generate().expect("a key"));
        let hub_key: [u8; 32] = hub.public_key().as_ref().try_into().expect("32 bytes");
        let own = key.subject_public_key_info();
        assert!(is_of_hub(&certificate(&key, &own, &hub), &hub_key));
        assert!(!is_of_hub(&certificate(&another, &own, &hub), &hub_key), "another key with the hub's signature");
        assert!(!is_of_hub(&certificate(&key, &own, &other), &hub_key), "another hub");
        let plain = CertificateParams::new(["hub".to_owned()]).expect("a name").self_signed(&key).expect("signed");
        assert!(!is_of_hub(plain.der(), &hub_key) && !is_of_hub(b"nonsense", &hub_key));
    }
}
