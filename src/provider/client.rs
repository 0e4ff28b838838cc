//! Making the HTTP client of an endpoint: TLS, proxies, headers, and the secrets that must not show.
//!
//! Lives here: everything about a request that does not change from call to call. Never here: the call.

use percent_encoding::percent_decode_str;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Url};
use secrecy::{ExposeSecret, SecretString};

use super::anthropic::VERSION_HEADER;
use super::endpoint::{is_loopback, shown_host};
use super::http::{Http, cause};
use super::mask::Mask;
use super::{Endpoint, ErrorClass, ProviderError};
use crate::model::address;

impl Http {
    /// A client of `resource`. `auth` turns the key into a header.
    pub(super) fn new(
        endpoint: &Endpoint,
        resource: &str,
        auth: impl FnOnce(&Url, &str) -> (HeaderName, String),
    ) -> Result<Self, ProviderError> {
        let mut url = endpoint.url(resource)?;
        let mask = mask(endpoint, &url);
        let login = take_login(&mut url);
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        let key = endpoint.key.as_ref().map(|key| key.expose_secret().trim());
        let key = key.filter(|key| !key.is_empty());
        if let Some(key) = key {
            let (name, value) = auth(&url, key);
            headers.insert(name, secret_value(&value, || key_error(&endpoint.name))?);
        }
        for (name, value) in &endpoint.headers {
            let (name, value) = extra_header(&endpoint.name, name, value)?;
            headers.insert(name, value);
        }
        Ok(Self {
            client: client(endpoint, &url)?,
            host: shown_host(&url),
            name: endpoint.name.clone(),
            has_key: key.is_some(),
            headers,
            deadlines: endpoint.deadlines,
            mask,
            url,
            login,
        })
    }
}

fn client(endpoint: &Endpoint, url: &Url) -> Result<Client, ProviderError> {
    // The first one counts; a second call changes nothing and is no error here.
    rustls::crypto::ring::default_provider().install_default().ok();
    let mut builder = Client::builder()
        .connect_timeout(endpoint.deadlines.connect)
        // A redirect would carry the key to wherever it points.
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("bakeoff/", env!("CARGO_PKG_VERSION")));
    if is_loopback(url) {
        builder = builder.no_proxy();
    }
    if url.scheme() == "http" {
        // No TLS can happen, so that a machine without trusted certificates will do.
        builder = builder.tls_certs_only([]);
    }
    builder.build().map_err(|error| {
        let message = format!(
            "provider {}: the TLS client could not be made: {}; install the system's trusted \
             certificates (package ca-certificates)",
            endpoint.name,
            cause(error.without_url())
        );
        ProviderError::new(ErrorClass::Unreachable, message)
    })
}

/// Takes user and password out of the URL, to be sent as a header that is marked as sensitive.
fn take_login(url: &mut Url) -> Option<(String, SecretString)> {
    let plain = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let login = url.password().map(|password| (plain(url.username()), plain(password).into()));
    // Both are only refused for URLs without a host, which `Endpoint::url` does not let through.
    url.set_username("").ok();
    url.set_password(None).ok();
    login
}

fn mask(endpoint: &Endpoint, url: &Url) -> Mask {
    let told = |name: &str| name.eq_ignore_ascii_case(VERSION_HEADER);
    let headers = endpoint.headers.iter().filter(|(name, _)| !told(name));
    let headers = headers.map(|(_, value)| value.clone());
    let key = endpoint.key.as_ref().map(|key| SecretString::from(key.expose_secret().trim()));
    let address = address::secrets(url.as_str()).into_iter().map(SecretString::from);
    Mask::new(headers.chain(key).chain(address))
}

fn extra_header(
    provider: &str,
    name: &str,
    value: &SecretString,
) -> Result<(HeaderName, HeaderValue), ProviderError> {
    let fail = || {
        let message = format!(
            "`providers.{provider}.headers` has a header {name:?} that can't be sent; use letters, \
             digits and dashes for its name and one line of text for its value"
        );
        ProviderError::new(ErrorClass::BadRequest, message)
    };
    let header = HeaderName::from_bytes(name.as_bytes()).map_err(|_| fail())?;
    Ok((header, secret_value(value.expose_secret(), fail)?))
}

fn secret_value(
    value: &str,
    fail: impl FnOnce() -> ProviderError,
) -> Result<HeaderValue, ProviderError> {
    let mut value = HeaderValue::from_str(value).map_err(|_| fail())?;
    value.set_sensitive(true);
    Ok(value)
}

fn key_error(provider: &str) -> ProviderError {
    let message = format!(
        "the key of provider {provider} has characters that no header can carry; set the variable \
         that `providers.{provider}.key_env` names again, as one line"
    );
    ProviderError::new(ErrorClass::Auth, message)
}
