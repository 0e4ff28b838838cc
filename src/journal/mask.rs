//! Secrets are masked where text is written, whatever way they took to get there.

use std::borrow::Cow;
use std::sync::{Arc, PoisonError, RwLock};

use bstr::ByteSlice;
use secrecy::{ExposeSecret, SecretString};

use super::{escaped, names};

/// The text that stands for a masked secret.
pub const MASK: &str = "[masked]";

/// Shorter values are not masked: they would hit ordinary words.
const MIN_SECRET_BYTES: usize = 8;

/// What an operator typed that is shorter than this is hidden in the output of the command that asked for it, and
/// nowhere else: it would hit ordinary words and numbers.
pub const MIN_LEARNT_BYTES: usize = 4;

/// So many values are hidden at most: each of them is looked for in all that is written.
const MOST_LEARNT: usize = 64;

/// So many bytes are looked at to find what was masked: some seconds.
const MOST_TRIED: usize = 1 << 30;

/// Those shorter than this are not masked in files: they would hit paths there, and the words by which a journal is read
/// again (`pass`, `gate`, `told`).
const MIN_LEARNT_IN_FILES: usize = 6;

/// Replaces known secret values in everything that is written.
#[derive(Clone, Default)]
pub struct Masker {
    secrets: Vec<String>,
    /// Text that is no secret, and no part of it.
    spared: Arc<str>,
    learnt: Learnt,
}

/// Secrets that an operator typed while the engine runs. Clones share them; they are wiped from memory when
/// the last one goes.
#[derive(Clone, Default)]
pub struct Learnt {
    all: Secrets,
    /// Those too short to be hidden everywhere, for one command alone.
    own: Option<Secrets>,
}

/// Values, the longest first.
type Secrets = Arc<RwLock<Vec<SecretString>>>;

impl Learnt {
    /// The same for one command and its output: what is learnt here is hidden here however short it is, and everywhere
    /// else from 4 bytes on.
    #[must_use]
    pub fn of_one_command(&self) -> Self {
        Self { all: self.all.clone(), own: Some(Secrets::default()) }
    }

    /// Hides a value from now on, with and without the blanks at its ends. One shorter than 4 bytes is none but for
    /// [one command](Self::of_one_command), and blanks alone are none. Whether it could be taken: of values that are
    /// hidden there are 64 at most.
    #[must_use]
    pub fn add(&self, secret: &str) -> bool {
        let forms = [secret, secret.trim()].into_iter().filter(|form| !form.trim().is_empty());
        forms.fold(true, |taken, form| {
            let (long, own) = (form.len() >= MIN_LEARNT_BYTES, self.own.as_ref());
            taken && if long { Some(&self.all) } else { own }.is_none_or(|among| keep(among, form))
        })
    }

    /// Wipes them all.
    pub fn clear(&self) {
        for among in self.parts() {
            among.write().unwrap_or_else(PoisonError::into_inner).clear();
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.parts().all(|among| among.read().unwrap_or_else(PoisonError::into_inner).is_empty())
    }

    fn parts(&self) -> impl Iterator<Item = &Secrets> {
        std::iter::once(&self.all).chain(&self.own)
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
        let mut found: Vec<(usize, usize)> = Vec::new();
        // What is hidden for one command alone is shorter than everything else.
        for among in self.parts() {
            let among = among.read().unwrap_or_else(PoisonError::into_inner);
            for secret in among.iter().map(ExposeSecret::expose_secret) {
                let places = escaped::find(bytes, secret).into_iter();
                // The longest are looked for first: what lies in one of them is hidden already.
                let free = |&(start, end): &(usize, usize)| {
                    found.iter().all(|&(from, to)| end <= from || to <= start)
                };
                let places: Vec<_> = places.filter(free).collect();
                found.extend(places);
            }
        }
        found.sort_unstable();
        found
    }

    /// How many of `bytes`, which end as a secret may begin, can be told before that is known: of each secret that
    /// stands there or may begin there at most a quarter of its characters.
    pub fn ahead(&self, bytes: &[u8]) -> usize {
        let mut most = bytes.len();
        for among in self.parts() {
            let among = among.read().unwrap_or_else(PoisonError::into_inner);
            for text in among.iter().map(ExposeSecret::expose_secret) {
                let secret = text.as_bytes();
                let begins = |at: &usize| {
                    let rest = &bytes[*at..];
                    rest.starts_with(secret) || secret.starts_with(rest)
                };
                if let Some(at) = (0..most).find(begins) {
                    most = most.min(at + few(text, bytes.len() - at));
                }
                // Of one that is written with escapes nothing: its characters take other bytes.
                let other = |&(start, end): &(usize, usize)| &bytes[start..end] != secret;
                let escaped = escaped::find(bytes, text).into_iter().find(other);
                most = most.min(escaped.map_or(most, |(start, _)| start));
            }
        }
        most
    }

    /// How many bytes at the end of `bytes` may be the beginning of a secret.
    pub fn begun(&self, bytes: &[u8]) -> usize {
        let begun = |secret: &SecretString| {
            let secret = secret.expose_secret().as_bytes();
            let part = secret.len().saturating_sub(1);
            (1..=part.min(bytes.len())).rev().find(|&length| bytes.ends_with(&secret[..length]))
        };
        let most = |among: &Secrets| {
            let among = among.read().unwrap_or_else(PoisonError::into_inner);
            among.iter().filter_map(begun).max()
        };
        self.parts().filter_map(most).max().unwrap_or(0)
    }
}

/// How many bytes the first quarter of a text's characters takes, of those that are whole in its first `there` bytes.
fn few(text: &str, there: usize) -> usize {
    let quarter = text.chars().count() / 4;
    let ends = text.char_indices().take(quarter).map(|(at, one)| at + one.len_utf8());
    ends.take_while(|end| *end <= there).last().unwrap_or(0)
}

/// Adds a value, if it is not there; whether there was room for it.
fn keep(among: &Secrets, form: &str) -> bool {
    let mut among = among.write().unwrap_or_else(PoisonError::into_inner);
    if among.iter().any(|known| known.expose_secret() == form) {
        return true;
    }
    if among.len() >= MOST_LEARNT {
        return false;
    }
    among.push(form.into());
    among.sort_by_key(|known| std::cmp::Reverse(known.expose_secret().len()));
    true
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
        Self { secrets, ..Self::default() }
    }

    /// The same without what stands in this text: words that anybody can read.
    #[must_use]
    pub fn sparing(mut self, text: &str) -> Self {
        self.secrets.retain(|secret| !text.contains(secret));
        self.spared = text.into();
        self
    }

    /// The secrets that were learnt since: what is added there is masked here, too.
    pub fn learnt(&self) -> &Learnt {
        &self.learnt
    }

    /// All that is to be masked, the longest first.
    fn all(&self) -> Vec<SecretString> {
        let learnt = self.learnt.all.read().unwrap_or_else(PoisonError::into_inner);
        let long = learnt.iter().filter(|one| {
            let one = one.expose_secret();
            one.len() >= MIN_LEARNT_IN_FILES && !self.spared.contains(one)
        });
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

    /// A masked JSON document as it was, by trying what may stand in the masks' places: one of the secrets in all of them,
    /// or a few secrets in a few of them.
    pub fn unmasked(&self, document: &[u8], is_it: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
        let quoted = |text: &str| {
            let quoted = serde_json::Value::from(text).to_string();
            quoted[1..quoted.len() - 1].to_owned()
        };
        // A secret may stand there escaped, and a mask may have been no mask.
        let mut known = vec![MASK.to_owned()];
        for secret in self.all() {
            let (plain, once) = (secret.expose_secret().to_owned(), quoted(secret.expose_secret()));
            for form in [once.replace('/', "\\/"), once, plain] {
                let form = quoted(&form);
                if !known.contains(&form) {
                    known.push(form);
                }
            }
        }
        let parts: Vec<&[u8]> = document.split_str(MASK).collect();
        let with = |choice: &[usize]| {
            let mut out = parts[0].to_vec();
            for (part, secret) in parts[1..].iter().zip(choice) {
                out.extend_from_slice(known[*secret].as_bytes());
                out.extend_from_slice(part);
            }
            Some(out).filter(|bytes| is_it(bytes))
        };
        let places = parts.len() - 1;
        let same = (0..known.len()).find_map(|secret| with(&vec![secret; places]));
        let few = u32::try_from(places).ok().and_then(|places| known.len().checked_pow(places));
        let most = MOST_TRIED / document.len().max(1);
        let few = few.filter(|count| *count <= most).unwrap_or(0);
        same.or_else(|| {
            (0..few).find_map(|number| {
                let digit = |place: usize| number / known.len().pow(place as u32) % known.len();
                with(&(0..places).map(digit).collect::<Vec<_>>())
            })
        })
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
    fn what_was_masked_is_found_again_by_who_knows_it() {
        let masker = Masker::new(["first\"secret".to_owned(), "second-secret".to_owned()]);
        for text in [
            "first\"secret",
            "a second-secret b",
            "second-secret, first\"secret, second-secret",
            "[masked] second-secret",
            r#"{"p": "first\"secret"}"#,
        ] {
            let document = serde_json::to_vec(&serde_json::json!({ "text": text })).unwrap();
            let masked = masker.mask_json(&document).into_owned();
            assert_ne!(masked, document);
            let is_it = |bytes: &[u8]| bytes == document;
            assert_eq!(masker.unmasked(&masked, is_it), Some(document.clone()), "{text}");
            assert_eq!(Masker::new(["another-one".to_owned()]).unmasked(&masked, is_it), None);
            assert_eq!(Masker::default().unmasked(&masked, is_it), None);
        }
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
    fn what_is_short_is_hidden_for_its_own_command_alone() {
        let masker = Masker::default();
        let (one, other) = (masker.learnt().of_one_command(), masker.learnt().of_one_command());
        for secret in ["7", "12 ", "open-sesame", " "] {
            assert!(one.add(secret));
        }
        let text = "7 of 12 : open-sesame";
        assert_eq!(one.hide(text), "[masked] of [masked]: [masked]");
        assert_eq!(one.begun(b"x open"), 4);
        for elsewhere in [&other, masker.learnt()] {
            assert_eq!(elsewhere.hide(text), "7 of 12 : [masked]");
        }
        assert_eq!(&*masker.mask(text.as_bytes()), b"7 of 12 : [masked]");
        masker.learnt().clear();
        assert_eq!(one.hide("12 open-sesame"), "[masked]open-sesame", "its own goes with it");
        assert!(!one.is_empty() && other.is_empty());
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
