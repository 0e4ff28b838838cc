//! Secrets are masked where text is written, whatever way they took to get there.

use std::borrow::Cow;
use std::sync::{Arc, PoisonError, RwLock};

use secrecy::{ExposeSecret, SecretString};

use super::{escaped, names};

/// The text that stands for a masked secret.
pub const MASK: &str = "[masked]";

/// Shorter values are not masked: they would hit ordinary words.
const MIN_SECRET_BYTES: usize = 8;

/// What an operator typed that is shorter than this is not hidden: it would hit ordinary words and numbers.
const MIN_LEARNT_BYTES: usize = 4;

/// So many values are hidden at most: each of them is looked for in all that is written.
const MOST_LEARNT: usize = 64;

/// Those shorter than this are not masked in files, whose paths and words they would hit.
const MIN_LEARNT_IN_FILES: usize = 6;

/// Replaces known secret values in everything that is written.
#[derive(Clone, Default)]
pub struct Masker {
    secrets: Vec<String>,
    learnt: Learnt,
}

/// Secrets that an operator typed while the engine runs. Clones share them; they are wiped from memory when
/// the last one goes.
#[derive(Clone, Default)]
pub struct Learnt(Arc<RwLock<Vec<SecretString>>>);

impl Learnt {
    /// Hides a value from now on, with and without the blanks at its ends. One shorter than 4 bytes is none. Whether
    /// it could be taken: of values that are hidden there are 64 at most.
    #[must_use]
    pub fn add(&self, secret: &str) -> bool {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let forms = [secret, secret.trim()];
        for form in forms.into_iter().filter(|form| form.len() >= MIN_LEARNT_BYTES) {
            if all.iter().any(|known| known.expose_secret() == form) {
                continue;
            }
            if all.len() >= MOST_LEARNT {
                return false;
            }
            all.push(form.into());
        }
        all.sort_by_key(|known| std::cmp::Reverse(known.expose_secret().len()));
        true
    }

    /// Wipes them all.
    pub fn clear(&self) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// A text without them; borrows when there is none in it.
    pub fn hide<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut out = Cow::Borrowed(text);
        for (start, end) in self.within(text.as_bytes()).into_iter().rev() {
            out.to_mut().replace_range(start..end, MASK);
        }
        out
    }

    /// Where secrets stand in `bytes`: ranges that don't overlap, in order.
    pub fn within(&self, bytes: &[u8]) -> Vec<(usize, usize)> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut found: Vec<(usize, usize)> = Vec::new();
        for secret in all.iter().map(ExposeSecret::expose_secret) {
            let places = escaped::find(bytes, secret).into_iter();
            // The longest are looked for first: what lies in one of them is hidden already.
            let free = |&(start, end): &(usize, usize)| {
                found.iter().all(|&(from, to)| end <= from || to <= start)
            };
            let places: Vec<_> = places.filter(free).collect();
            found.extend(places);
        }
        found.sort_unstable();
        found
    }

    /// How many bytes at the end of `bytes` may be the beginning of a secret.
    pub fn begun(&self, bytes: &[u8]) -> usize {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let begun = |secret: &SecretString| {
            let secret = secret.expose_secret().as_bytes();
            let part = secret.len().saturating_sub(1);
            (1..=part.min(bytes.len())).rev().find(|&length| bytes.ends_with(&secret[..length]))
        };
        all.iter().filter_map(begun).max().unwrap_or(0)
    }
}

impl std::fmt::Debug for Learnt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Learnt")
    }
}

impl Masker {
    /// Masks these values. Those shorter than 8 bytes are left out.
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let mut secrets: Vec<_> =
            secrets.into_iter().filter(|secret| secret.len() >= MIN_SECRET_BYTES).collect();
        // The longest first, so that a secret that holds another one is masked whole.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        Self { secrets, learnt: Learnt::default() }
    }

    /// The secrets that were learnt since: what is added there is masked here, too.
    pub fn learnt(&self) -> &Learnt {
        &self.learnt
    }

    /// All that is to be masked, the longest first.
    fn all(&self) -> Vec<SecretString> {
        let learnt = self.learnt.0.read().unwrap_or_else(PoisonError::into_inner);
        let long = learnt.iter().filter(|one| one.expose_secret().len() >= MIN_LEARNT_IN_FILES);
        let known = self.secrets.iter().map(|secret| SecretString::from(secret.as_str()));
        let mut all: Vec<SecretString> = known.chain(long.cloned()).collect();
        all.sort_by_key(|secret| std::cmp::Reverse(secret.expose_secret().len()));
        all
    }

    /// Whether the name of an environment variable says that its value is a secret.
    pub fn names_secret(variable: &str) -> bool {
        names::names_secret(variable)
    }

    /// What of an environment variable is a secret: its value where the name says so, and the passwords of
    /// addresses in any value. The path of something that is there is none.
    pub fn secrets_of(variable: &str, value: &str) -> Vec<String> {
        names::secrets_of(variable, value)
    }

    /// Masks the secrets in `bytes`, escaped ones, too, as in JSON; borrows when there is nothing to mask.
    pub fn mask<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let mut out = Cow::Borrowed(bytes);
        for secret in &self.all() {
            if let Some(masked) = escaped::replaced(&out, secret.expose_secret(), MASK) {
                out = Cow::Owned(masked);
            }
        }
        out
    }

    /// `bytes` with the secrets masked; nothing when there is none in them.
    pub fn masked(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        match self.mask(bytes) {
            Cow::Borrowed(_) => None,
            Cow::Owned(masked) => Some(masked),
        }
    }

    /// Masks the secrets in the texts of a JSON document, whose form stays as it is even where a
    /// secret is also the name of a field, or is written with escapes; borrows when there is none.
    pub fn mask_json<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let all = self.all();
        let holds = |secret: &SecretString| escaped::holds(bytes, secret.expose_secret());
        if !all.iter().any(holds) {
            return Cow::Borrowed(bytes);
        }
        let masked = serde_json::from_slice(bytes).and_then(|mut value: serde_json::Value| {
            mask_texts(&all, &mut value);
            serde_json::to_vec(&value)
        });
        masked.map_or_else(|_| self.mask(bytes), Cow::Owned)
    }
}

fn mask_texts(secrets: &[SecretString], value: &mut serde_json::Value) {
    match value {
        serde_json::Value::String(text) => {
            for secret in secrets.iter().map(ExposeSecret::expose_secret) {
                let masked = escaped::replaced(text.as_bytes(), secret, MASK);
                if let Some(Ok(masked)) = masked.map(String::from_utf8) {
                    *text = masked;
                }
            }
        }
        serde_json::Value::Array(list) => list.iter_mut().for_each(|one| mask_texts(secrets, one)),
        serde_json::Value::Object(map) => {
            map.values_mut().for_each(|one| mask_texts(secrets, one));
        }
        _ => {}
    }
}

impl std::fmt::Debug for Masker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Masker({} secrets)", self.secrets.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_the_longest_first_and_leaves_the_rest() {
        let masker = Masker::new(["sk-12345678".into(), "sk-12345678-long".into(), "ab".into()]);
        assert_eq!(&*masker.mask(b"x sk-12345678-long ab sk-12345678"), b"x [masked] ab [masked]");
        assert!(!format!("{masker:?}").contains("sk-"));
    }

    #[test]
    fn a_document_keeps_its_form() {
        let masker = Masker::new(["candidate".into(), "a\"quote\\d secret".into()]);
        let text = br#"{"candidate":"my candidate is a\"quote\\d secret"}"#;
        let masked = masker.mask_json(text);
        assert_eq!(&*masked, br#"{"candidate":"my [masked] is [masked]"}"#);
        assert_eq!(&*masker.mask_json(b"{\"candidate\": tor"), b"{\"[masked]\": tor");
        let plain = br#"{"b":1,"a":2}"#;
        assert!(matches!(masker.mask_json(plain), Cow::Borrowed(_)));
    }

    #[test]
    fn what_is_learnt_later_is_masked_by_every_clone() {
        let masker = Masker::new(["sk-12345678".into()]);
        let clone = masker.clone();
        for secret in ["hunter2", "hunter2-long", " pad 4 ", "a12", "", "   a  "] {
            assert!(masker.learnt().add(secret));
        }
        assert_eq!(&*clone.mask(b"hunter2-long a12 hunter2"), b"[masked] a12 [masked]");
        assert_eq!(
            &*clone.mask_json(br#"{"hunter2":"my hunter2"}"#),
            br#"{"hunter2":"my [masked]"}"#
        );
        let learnt = clone.learnt();
        assert_eq!(
            learnt.hide("hunter2-long, a12; pad 4, hunter22"),
            "[masked], a12; [masked], [masked]2"
        );
        assert_eq!(learnt.begun(b"x hunt"), 4);
        assert_eq!(learnt.begun(b"x hunter2"), 7, "the longer one may follow");
        assert_eq!((learnt.begun(b"x a1"), learnt.begun(b"x")), (0, 0));
        assert!(!format!("{masker:?} {learnt:?}").contains("hunter"));
        learnt.clear();
        assert_eq!(&*masker.mask(b"hunter2"), b"hunter2");
    }

    #[test]
    fn what_is_learnt_has_an_end() {
        let learnt = Learnt::default();
        for number in 0..MOST_LEARNT {
            assert!(learnt.add(&format!("secret-{number}")));
        }
        assert!(!learnt.add("one-more"));
        assert!(learnt.add("secret-0") && learnt.add("ab"), "nothing more is kept for these");
        assert_eq!(learnt.hide("one-more secret-63"), "one-more [masked]");
    }
}
