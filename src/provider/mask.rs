//! Takes secrets out of text that a person or a record may see.
//!
//! Lives here: the mask of one endpoint. Never here: where secrets come from.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::{ExposeSecret, SecretString};

/// What stands where a secret stood.
const MASK: &str = "[secret]";

/// The shortest secret that is masked, in bytes: a placeholder such as `x` protects nothing, and taking it
/// out would make every error unreadable.
const SHORTEST: usize = 4;

/// All bytes but the unreserved ones of RFC 3986.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The secrets of one endpoint: its key, its extra headers' values, its URL's credentials.
#[derive(Clone, Debug, Default)]
pub(super) struct Mask(Vec<SecretString>);

impl Mask {
    /// A mask of these secrets; very short ones are left out.
    pub(super) fn new(secrets: impl IntoIterator<Item = SecretString>) -> Self {
        let long = |secret: &SecretString| secret.expose_secret().len() >= SHORTEST;
        let mut all: Vec<_> = secrets.into_iter().filter(long).collect();
        // The longest first, so that a secret inside another one leaves nothing of it.
        all.sort_by_key(|secret| std::cmp::Reverse(secret.expose_secret().len()));
        Self(all)
    }

    /// `text` without any of the secrets, as they are or as a URL or a JSON string would escape them.
    pub(super) fn apply(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in &self.0 {
            for form in forms(secret.expose_secret()) {
                if text.contains(&form) {
                    text = text.replace(&form, MASK);
                }
            }
        }
        text
    }
}

fn forms(secret: &str) -> Vec<String> {
    let mut forms = vec![secret.to_owned()];
    let json = serde_json::Value::from(secret).to_string();
    let percent = utf8_percent_encode(secret, ESCAPED).to_string();
    for form in [json[1..json.len() - 1].to_owned(), percent] {
        if !forms.contains(&form) {
            forms.push(form);
        }
    }
    forms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_every_form_and_the_longest_first() {
        let mask = Mask::new(["sk-a/b\"c".into(), "sk-a".into(), "x".into()]);
        let text = r#"sk-a/b"c, {"k":"sk-a/b\"c"}, ?key=sk-a%2Fb%22c, sk-a!"#;
        assert_eq!(mask.apply(text), r#"[secret], {"k":"[secret]"}, ?key=[secret], [secret]!"#);
        assert!(!format!("{mask:?}").contains("sk-a"));
    }
}
