//! The secret key of a channel's header checks, which its two ends derive and never send.
//!
//! Each side draws a pair of keys (X25519, RFC 7748) for every channel, and sends its public one in
//! CONFIRM or ACCEPT. The channel's key is HKDF-SHA-256 (RFC 5869) of the shared secret that both
//! compute from these, and of the contents of the messages. Hosts that only observe the set-up do
//! not learn the key; a host that can change its messages may act as a man in the middle.

use fairway_ub::setup::Terms;
use fairway_ub::wire::{CheckKey, KEY_LEN};
use hkdf::Hkdf;
use sha2::Sha256;
use x25519_dalek::{PublicKey, StaticSecret};

/// The purpose of the key (the `info` of HKDF), so that no other use of the same secret yields the
/// same key.
const PURPOSE: &[u8] = b"fairway header check, protocol 5";

/// One side's keys for one channel.
pub(crate) struct KeyPair {
    secret: StaticSecret,
    public: [u8; KEY_LEN],
}

impl KeyPair {
    /// Derives the pair from `random`, which must come from the system's random source.
    pub(crate) fn new(random: [u8; KEY_LEN]) -> KeyPair {
        let secret = StaticSecret::from(random);
        let public = PublicKey::from(&secret).to_bytes();
        KeyPair { secret, public }
    }

    /// The public key, which CONFIRM or ACCEPT carries to the other side.
    pub(crate) fn public(&self) -> [u8; KEY_LEN] {
        self.public
    }

    /// Returns the channel's key, given the `other` side's public key. `None` if that is one of the
    /// few that yield the same shared secret with every private key.
    pub(crate) fn agree(&self, other: &[u8; KEY_LEN], terms: &Terms) -> Option<CheckKey> {
        let shared = self.secret.diffie_hellman(&PublicKey::from(*other));
        if !shared.was_contributory() {
            return None;
        }
        let mut key = [0; CheckKey::BYTES];
        let expanded =
            Hkdf::<Sha256>::new(Some(PURPOSE), shared.as_bytes()).expand(&terms.bytes(), &mut key);
        expanded.ok().map(|()| CheckKey::new(&key))
    }
}

impl std::fmt::Debug for KeyPair {
    /// Prints the public key only.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyPair").field("public", &self.public).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use fairway_ub::setup::End;
    use fairway_ub::wire::{Cna, Tpn};

    use super::*;

    fn terms(client: &KeyPair, server: &KeyPair) -> Terms {
        let end = |cna, key| End { cna: Cna::new(cna), tpn: Tpn::new(cna + 1), key };
        Terms { nonce: 5, client: end(1, client.public()), server: end(7, server.public()) }
    }

    #[test]
    fn both_sides_derive_one_key_and_a_third_another() {
        let [client, server, third] = [1, 2, 3].map(|byte| KeyPair::new([byte; 32]));
        let terms = terms(&client, &server);
        let key = client.agree(&server.public(), &terms);
        assert!(key.is_some());
        assert_eq!(key, server.agree(&client.public(), &terms));
        assert_ne!(key, third.agree(&server.public(), &terms));
        assert_ne!(key, Some(CheckKey::PUBLIC));
    }

    #[test]
    fn everything_that_was_said_counts() {
        let [client, server] = [1, 2].map(|byte| KeyPair::new([byte; 32]));
        let terms = terms(&client, &server);
        let key = |terms: &Terms| client.agree(&server.public(), terms);
        let changes: [fn(&mut Terms); 4] = [
            |terms| terms.nonce ^= 1,
            |terms| terms.client.tpn = Tpn::new(99),
            |terms| terms.server.cna = Cna::new(99),
            |terms| terms.server.key[31] ^= 1,
        ];
        for (number, change) in changes.iter().enumerate() {
            let mut other = terms;
            change(&mut other);
            assert_ne!(key(&other), key(&terms), "change {number}");
        }
    }

    #[test]
    fn public_key_that_gives_no_secret_is_refused() {
        let client = KeyPair::new([1; 32]);
        assert_eq!(client.agree(&[0; 32], &terms(&client, &client)), None);
    }
}
