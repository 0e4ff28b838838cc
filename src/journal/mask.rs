//! Secrets are masked where text is written, whatever way they took to get there.

/// The text that stands for a masked secret.
const MASK: &str = "[masked]";

/// Shorter values are not masked: they would hit ordinary words.
const MIN_SECRET_BYTES: usize = 8;

/// Replaces known secret values in everything that is written.
#[derive(Clone, Default)]
pub struct Masker {
    secrets: Vec<String>,
}

impl Masker {
    /// Masks these values. Those shorter than 8 bytes are left out.
    pub fn new(secrets: impl IntoIterator<Item = String>) -> Self {
        let mut secrets: Vec<_> =
            secrets.into_iter().filter(|secret| secret.len() >= MIN_SECRET_BYTES).collect();
        // The longest first, so that a secret that holds another one is masked whole.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.dedup();
        Self { secrets }
    }

    /// Whether the name of an environment variable says that its value is a secret.
    pub fn names_secret(variable: &str) -> bool {
        let upper = variable.to_ascii_uppercase();
        ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL"]
            .iter()
            .any(|word| upper.split('_').any(|part| part == *word || part.ends_with(word)))
    }

    /// Masks the secrets in `bytes`; borrows when there is nothing to mask.
    pub fn mask<'a>(&self, bytes: &'a [u8]) -> std::borrow::Cow<'a, [u8]> {
        use bstr::ByteSlice;
        let mut out = std::borrow::Cow::Borrowed(bytes);
        for secret in &self.secrets {
            if out.find(secret).is_some() {
                out = std::borrow::Cow::Owned(out.replace(secret, MASK));
            }
        }
        out
    }

    /// Masks the secrets in the texts of a JSON document, whose form stays as it is even where a
    /// secret is also the name of a field, or is written with escapes; borrows when there is none.
    pub fn mask_json<'a>(&self, bytes: &'a [u8]) -> std::borrow::Cow<'a, [u8]> {
        use bstr::ByteSlice;
        let escaped = |secret: &str| serde_json::Value::from(secret).to_string();
        let holds = |secret: &String| {
            let escaped = escaped(secret);
            bytes.find(secret).is_some() || bytes.find(&escaped[1..escaped.len() - 1]).is_some()
        };
        if !self.secrets.iter().any(holds) {
            return std::borrow::Cow::Borrowed(bytes);
        }
        let masked = serde_json::from_slice(bytes).and_then(|mut value: serde_json::Value| {
            self.mask_texts(&mut value);
            serde_json::to_vec(&value)
        });
        masked.map_or_else(|_| self.mask(bytes), std::borrow::Cow::Owned)
    }

    fn mask_texts(&self, value: &mut serde_json::Value) {
        match value {
            serde_json::Value::String(text) => {
                for secret in &self.secrets {
                    if text.contains(secret) {
                        *text = text.replace(secret, MASK);
                    }
                }
            }
            serde_json::Value::Array(list) => list.iter_mut().for_each(|one| self.mask_texts(one)),
            serde_json::Value::Object(map) => {
                map.values_mut().for_each(|one| self.mask_texts(one));
            }
            _ => {}
        }
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
        assert!(matches!(masker.mask_json(plain), std::borrow::Cow::Borrowed(_)));
    }

    #[test]
    fn knows_secret_looking_names() {
        for name in ["OPENAI_API_KEY", "GITHUB_TOKEN", "DB_PASSWORD", "APIKEY"] {
            assert!(Masker::names_secret(name), "{name}");
        }
        for name in ["PATH", "HOME", "KEYBOARD_LAYOUT", "TOKENIZERS_PARALLELISM"] {
            assert!(!Masker::names_secret(name), "{name}");
        }
    }
}
