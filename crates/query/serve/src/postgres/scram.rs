//! SCRAM-SHA-256 (RFC 5802 and 7677): a client proves that it knows the password, and the service that it knows it too. The
//! password is not sent, and who listens cannot use what is.
//!
//! ```text
//!   client                                                      service
//!     n,,n=,r=NONCE                                       -->
//!                                                         <--   r=NONCE+MORE,s=SALT,i=4096
//!     c=biws,r=NONCE+MORE,p=PROOF                         -->
//!                                                         <--   v=SIGNATURE
//! ```

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, Mac as _};
use kiln_program::Error;
use sha2::{Digest as _, Sha256};

use crate::address::{knows, random};

/// The name of the method.
pub const NAME: &str = "SCRAM-SHA-256";
/// How often the password is hashed, as PostgreSQL does.
const ROUNDS: u32 = 4096;
/// Maximum bytes of a client's message.
const MAX_BYTES: usize = 1024;

type Hash = [u8; 32];

/// What the service knows of the password.
pub struct Verifier {
    salt: [u8; 16],
    stored_key: Hash,
    server_key: Hash,
}

/// An exchange whose first message was answered.
pub struct Exchange<'v> {
    verifier: &'v Verifier,
    /// The client's first message without its header, and the answer.
    so_far: String,
    /// How the client's header reads in its last message.
    header: String,
    nonce: String,
}

impl Verifier {
    /// Prepares for a password.
    ///
    /// # Errors
    /// Returns [`Error::Os`] if the machine gives no random bytes.
    pub fn new(password: &str) -> Result<Verifier, Error> {
        Ok(Verifier::salted(password, random::<16>()?))
    }

    fn salted(password: &str, salt: [u8; 16]) -> Verifier {
        let salted = hashed(password.as_bytes(), &salt, ROUNDS);
        let stored_key = Sha256::digest(code(&salted, b"Client Key")).into();
        Verifier { salt, stored_key, server_key: code(&salted, b"Server Key") }
    }

    /// Answers a client's first message: the exchange, and the answer. `None` if the message is malformed, or the client
    /// insists on a channel that it could be bound to.
    ///
    /// # Errors
    /// As [`Verifier::new`].
    pub fn begin(&self, first: &[u8]) -> Result<Option<(Exchange<'_>, String)>, Error> {
        let more = BASE64.encode(random::<18>()?);
        Ok(self.answer(first, &more))
    }

    fn answer(&self, first: &[u8], more: &str) -> Option<(Exchange<'_>, String)> {
        let first = std::str::from_utf8(first).ok().filter(|first| first.len() <= MAX_BYTES)?;
        // `y`: the client could be bound to a channel, and takes it that the service could not.
        let rest = first.strip_prefix("n,").or_else(|| first.strip_prefix("y,"))?;
        let (identity, bare) = rest.split_once(',')?;
        let header = &first[..first.len() - bare.len()];
        if !(identity.is_empty() || identity.starts_with("a=")) || bare.starts_with("m=") {
            return None;
        }
        let nonce = bare.split(',').find_map(|part| part.strip_prefix("r=")).filter(|nonce| !nonce.is_empty())?;
        let nonce = format!("{nonce}{more}");
        let answer = format!("r={nonce},s={},i={ROUNDS}", BASE64.encode(self.salt));
        let so_far = format!("{bare},{answer}");
        Some((Exchange { verifier: self, so_far, header: BASE64.encode(header), nonce }, answer))
    }
}

impl Exchange<'_> {
    /// Checks a client's last message. Returns what proves to the client that the service knows the password; `None` if
    /// the client does not know it.
    pub fn end(&self, last: &[u8]) -> Option<String> {
        let last = std::str::from_utf8(last).ok().filter(|last| last.len() <= MAX_BYTES)?;
        let (without_proof, proof) = last.rsplit_once(",p=")?;
        let mut parts = without_proof.split(',');
        let is_ours =
            parts.next()?.strip_prefix("c=")? == self.header && parts.next()?.strip_prefix("r=")? == self.nonce;
        let proof: Hash = BASE64.decode(proof).ok()?.try_into().ok()?;
        let all = format!("{},{without_proof}", self.so_far);
        let signature = code(&self.verifier.stored_key, all.as_bytes());
        let client_key: Hash = std::array::from_fn(|at| proof[at] ^ signature[at]);
        let given = BASE64.encode(Sha256::digest(client_key));
        let is_known = knows(&BASE64.encode(self.verifier.stored_key), &given);
        (is_ours && is_known).then(|| format!("v={}", BASE64.encode(code(&self.verifier.server_key, all.as_bytes()))))
    }
}

/// The client's first message, out of the one of PostgreSQL's protocol that it is in: the method's name, a zero, a length,
/// and the message.
pub fn first(body: &[u8]) -> Option<&[u8]> {
    let rest = body.strip_prefix(NAME.as_bytes())?.strip_prefix(b"\0")?;
    let (length, first) = rest.split_first_chunk::<4>()?;
    (usize::try_from(u32::from_be_bytes(*length)).ok()? == first.len()).then_some(first)
}

/// The authentication code of a message (HMAC-SHA-256).
fn code(key: &[u8], message: &[u8]) -> Hash {
    let mut code = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length is taken");
    code.update(message);
    code.finalize().into_bytes().into()
}

/// A password hashed many times (PBKDF2, one block).
fn hashed(password: &[u8], salt: &[u8], rounds: u32) -> Hash {
    let mut last = code(password, &[salt, &1u32.to_be_bytes()].concat());
    let mut all = last;
    for _ in 1..rounds {
        last = code(password, &last);
        all.iter_mut().zip(last).for_each(|(byte, other)| *byte ^= other);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677, whose user and password are `user` and `pencil`.
    const FIRST: &str = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
    const MORE: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    const LAST: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                        p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

    fn verifier() -> Verifier {
        let salt = BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("it is base64");
        Verifier::salted("pencil", salt.try_into().expect("16 bytes"))
    }

    #[test]
    fn the_example_of_the_standard_is_accepted() {
        let verifier = verifier();
        let (exchange, answer) = verifier.answer(FIRST.as_bytes(), MORE).expect("it is well-formed");
        assert_eq!(answer, format!("r=rOprNGfwEbeRWgbNEkqO{MORE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"));
        let proof = exchange.end(LAST.as_bytes());
        assert_eq!(proof.as_deref(), Some("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="));
    }

    #[test]
    fn a_malformed_message_is_none() {
        let body = |length: u32| [NAME.as_bytes(), b"\0", &length.to_be_bytes(), b"n,,"].concat();
        assert_eq!(first(&body(3)), Some(&b"n,,"[..]));
        for length in [0, 2, 4, u32::MAX] {
            assert_eq!(first(&body(length)), None, "{length}");
        }
        for end in 0..body(3).len() {
            assert_eq!(first(&body(3)[..end]), None, "{end}");
        }
        assert_eq!(first(b"SCRAM-SHA-256-PLUS\0\0\0\0\x03n,,"), None);
    }

    #[test]
    fn what_differs_is_refused() {
        let verifier = verifier();
        let (exchange, _) = verifier.answer(FIRST.as_bytes(), MORE).expect("it is well-formed");
        for at in 0..LAST.len() {
            let mut other = LAST.as_bytes().to_vec();
            other[at] ^= 1;
            assert_eq!(exchange.end(&other), None, "byte {at}");
            assert_eq!(exchange.end(&LAST.as_bytes()[..at]), None, "{at} bytes");
        }
        let (later, _) = verifier.answer(FIRST.as_bytes(), "another").expect("it is well-formed");
        assert_eq!(later.end(LAST.as_bytes()), None, "what was heard is of no use");
        let other = Verifier::salted("pencils", verifier.salt);
        let (exchange, _) = other.answer(FIRST.as_bytes(), MORE).expect("it is well-formed");
        assert_eq!(exchange.end(LAST.as_bytes()), None);
        for first in
            ["", "n", "n,,", "n,,n=user,r=", "p=tls-unique,,n=,r=x", "n,b,n=,r=x", "n,,m=x,n=,r=x", "\u{e9},,r=x"]
        {
            assert!(verifier.answer(first.as_bytes(), MORE).is_none(), "{first}");
        }
        assert!(verifier.answer(format!("n,,n=,r={}", "x".repeat(MAX_BYTES)).as_bytes(), MORE).is_none());
    }
}
