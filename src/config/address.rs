//! A server's address as a person or a record may see it. Pure text: what is no address stays as it is.

/// What stands for a secret in a query.
const HIDDEN: &str = "[hidden]";

/// Words in the names of a query's fields that say that the value is a secret.
const SECRET: [&str; 4] = ["key", "token", "secret", "sig"];

/// The address without user and password, and without the values of a query's secret fields.
pub fn shown(address: &str) -> String {
    let (scheme, _, rest) = parts(address);
    let rest = match rest.split_once('?') {
        None => rest.to_owned(),
        Some((path, query)) => {
            let field = |field: &str| match secret_field(field) {
                Some((name, _)) => format!("{name}={HIDDEN}"),
                None => field.to_owned(),
            };
            let fields: Vec<String> = query.split('&').map(field).collect();
            format!("{path}?{}", fields.join("&"))
        }
    };
    format!("{scheme}{rest}")
}

/// The password and the values of a query's secret fields, as they are written.
pub fn secrets(address: &str) -> Vec<String> {
    let (_, login, rest) = parts(address);
    let password = login.and_then(|login| login.split_once(':')).map(|(_, password)| password);
    let query = rest.split_once('?').map_or("", |(_, query)| query);
    let values = query.split('&').filter_map(secret_field).map(|(_, value)| value);
    password.into_iter().chain(values).map(str::to_owned).collect()
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

fn secret_field(field: &str) -> Option<(&str, &str)> {
    let (name, value) = field.split_once('=')?;
    let lower = name.to_ascii_lowercase();
    SECRET.iter().any(|word| lower.contains(word)).then_some((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_a_secret_is_not_shown() {
        for (address, want, hidden) in [
            ("http://127.0.0.1:8080/v1", "http://127.0.0.1:8080/v1", &[][..]),
            ("https://me:p@ss@h:1/v1", "https://h:1/v1", &["p@ss"]),
            ("https://me@h/v1?a=b@c", "https://h/v1?a=b@c", &[]),
            (
                "https://h/d?api-version=2024-10-21&subscription-key=abc&x",
                "https://h/d?api-version=2024-10-21&subscription-key=[hidden]&x",
                &["abc"],
            ),
            ("", "", &[]),
        ] {
            assert_eq!(shown(address), want);
            assert_eq!(secrets(address), hidden, "{address}");
        }
    }
}
