//! The proof that a kenny agent and a Sonde agent are one machine: the kenny agent's key signs the Sonde agent's id, and the
//! Sonde agent shows that. Both then say so, and a name proves nothing. Our own addition to both protocols.

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};

use crate::wire_bytes::{self, SIGNATURE_LEN};

/// Nothing else that the key signs begins so.
const PURPOSE: &str = "convoke: two tunnels of one machine";

/// What is signed: no id has a line break.
fn signed(machine: &str, sonde: &str) -> String {
    format!("{PURPOSE}\n{machine}\n{sonde}")
}

/// Signs that the Sonde agent of this id is the second tunnel of the machine.
pub fn sign(key: &SigningKey, machine: &str, sonde: &str) -> String {
    wire_bytes::encode(&key.sign(signed(machine, sonde).as_bytes()).to_bytes())
}

/// Whether the machine's key signed that.
pub fn verify(key: &VerifyingKey, machine: &str, sonde: &str, signature: &str) -> bool {
    wire_bytes::decode::<SIGNATURE_LEN>(signature).is_ok_and(|bytes| {
        key.verify_strict(signed(machine, sonde).as_bytes(), &Signature::from_bytes(&bytes)).is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_holds_for_one_key_one_machine_and_one_agent() {
        let (key, other) = (SigningKey::from_bytes(&[1; 32]), SigningKey::from_bytes(&[2; 32]));
        let proof = sign(&key, "pc", "u");
        assert!(verify(&key.verifying_key(), "pc", "u", &proof));
        for (key, machine, sonde, proof) in [
            (&other, "pc", "u", proof.as_str()),
            (&key, "pc-2", "u", &proof),
            (&key, "pc", "v", &proof),
            (&key, "pc", "u", "AAAA"),
            (&key, "pc", "u", ""),
        ] {
            assert!(!verify(&key.verifying_key(), machine, sonde, proof), "{machine} {sonde} {proof}");
        }
    }
}
