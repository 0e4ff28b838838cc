//! A server's address as a person or a record may see it, and the passwords in it. Pure text: what is no
//! address stays as it is.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// What stands for what may be a secret.
const HIDDEN: &str = "[hidden]";

/// Names of a query's fields that are known to hold no secret. Servers name their keys as they like (`code`,
/// `auth`, `sas`), so that every other one is taken for a secret.
const HARMLESS: &[&str] = &[
    "alt",
    "api-version",
    "api_version",
    "apiversion",
    "beta",
    "deployment",
    "engine",
    "format",
    "lang",
    "location",
    "model",
    "provider",
    "region",
    "stream",
    "timeout",
    "v",
    "version",
    "zone",
];

/// The address without user and password, and without the values of a query's fields that may be secrets.
pub fn shown(address: &str) -> String {
    let (scheme, _, rest) = parts(address);
    let (rest, fragment) = match rest.split_once('#') {
        Some((rest, _)) => (rest, format!("#{HIDDEN}")),
        None => (rest, String::new()),
    };
    let rest = match rest.split_once('?') {
        None => rest.to_owned(),
        Some((path, query)) => {
            let fields: Vec<String> = query.split('&').map(shown_field).collect();
            format!("{path}?{}", fields.join("&"))
        }
    };
    format!("{scheme}{rest}{fragment}")
}

/// The password, and the values of a query's fields that may be secrets: as they are written, and as they are read.
pub fn secrets(address: &str) -> Vec<String> {
    let (_, login, rest) = parts(address);
    let password = login.and_then(|login| login.split_once(':')).map(|(_, password)| password);
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let query = rest.split_once('?').map_or("", |(_, query)| query);
    let hidden = query.split('&').filter(|field| !is_harmless(field));
    let values = hidden.map(|field| field.split_once('=').map_or(field, |(_, value)| value));
    let all = password.into_iter().chain(values).chain([fragment]);
    all.filter(|secret| !secret.is_empty()).flat_map(forms).collect()
}

/// The passwords of all addresses that stand in a text, as they are written and as they are read. One that is
/// the user's name, as databases for trials have it, is none.
pub fn passwords(text: &str) -> Vec<String> {
    let ends = |one: char| one.is_whitespace() || "\"'`<>".contains(one);
    let addresses = text.match_indices("://").map(|(at, _)| {
        let rest = &text[at..];
        &rest[..rest.find(ends).unwrap_or(rest.len())]
    });
    let login = addresses.filter_map(|address| parts(address).1?.split_once(':'));
    login
        .filter(|(user, password)| user != password)
        .flat_map(|(_, password)| forms(password))
        .collect()
}

/// Scheme with its slashes, user and password, and everything behind them.
fn parts(address: &str) -> (&str, Option<&str>, &str) {
    let (scheme, rest) = match address.find("://") {
        Some(at) => address.split_at(at + 3),
        None => ("", address),
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => (scheme, Some(&rest[..at]), &rest[at + 1..]),
        None => (scheme, None, rest),
    }
}

fn shown_field(field: &str) -> String {
    match field.split_once('=') {
        _ if is_harmless(field) => field.to_owned(),
        Some((name, _)) => format!("{name}={HIDDEN}"),
        None => HIDDEN.to_owned(),
    }
}

/// Whether a field has a harmless name, and a value that holds nothing but itself (`1;code=…` does not).
fn is_harmless(field: &str) -> bool {
    let Some((name, value)) = field.split_once('=') else { return field.is_empty() };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:/+".contains(&byte);
    HARMLESS.contains(&name.to_ascii_lowercase().as_str()) && value.bytes().all(plain)
}

/// A text as it is written in an address, and as it is read there.
fn forms(text: &str) -> Vec<String> {
    let read = percent_decode_str(text).decode_utf8().ok().filter(|read| read != text);
    [Some(text.into()), read].into_iter().flatten().map(Cow::into_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_a_secret_is_not_shown() {
        for (address, want, hidden) in [
            ("http://127.0.0.1:8080/v1", "http://127.0.0.1:8080/v1", &[][..]),
            ("https://me:p@ss@h:1/v1", "https://h:1/v1", &["p@ss"]),
            ("https://me:p%40ss@h/v1", "https://h/v1", &["p%40ss", "p@ss"]),
            ("https://me@h/v1?a=b@c", "https://h/v1?a=[hidden]", &["b@c"]),
            (
                "https://h/d?api-version=2024-10-21&subscription-key=abc&x",
                "https://h/d?api-version=2024-10-21&subscription-key=[hidden]&[hidden]",
                &["abc", "x"],
            ),
            ("h/v1?version=1;code=abc", "h/v1?version=[hidden]", &["1;code=abc"]),
            ("h/v1?Model=a/b:c&model=x#abc", "h/v1?Model=a/b:c&model=x#[hidden]", &["abc"]),
            ("h/v1?model=%61&", "h/v1?model=[hidden]&", &["%61", "a"]),
            ("", "", &[]),
        ] {
            assert_eq!(shown(address), want);
            assert_eq!(secrets(address), hidden, "{address}");
        }
        for name in ["code", "auth", "pwd", "password", "sas", "sig", "api_key", "new"] {
            let address = format!("https://h/v1?{name}=S");
            assert_eq!(shown(&address), format!("https://h/v1?{name}=[hidden]"));
            assert_eq!(secrets(&address), ["S"], "{name}");
        }
    }

    #[test]
    fn passwords_are_found_wherever_an_address_stands() {
        for (text, want) in [
            ("postgres://me:hunter22@db:5432/x", &["hunter22"][..]),
            (
                "url=\"redis://:hun%2Fter@h/0\" and mongodb://a:b1@h1,h2/x",
                &["hun%2Fter", "hun/ter", "b1"],
            ),
            ("postgres://postgres:postgres@localhost/x", &[]),
            ("https://me@h/v1 http://h:80/a@b mailto:a@b C:\\x 12:30@x", &[]),
        ] {
            assert_eq!(passwords(text), want, "{text}");
        }
    }
}
