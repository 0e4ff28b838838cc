//! A provider that knows what the journal holds, and keeps there what a caller was told in its own words.
//!
//! Never here: how a journal is read (`memory`), the calls that are made (`models`).

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::memory::{Asked, Memory};
use crate::journal::{Artifacts, Entry, JournalError, RunDir};
use crate::model::Usage;
use crate::model::chat::{Delta, ModelReply, ModelRequest};
use crate::provider::{Ask, ErrorClass, Provider, ProviderError};

/// Answers from the memory what it knows, and asks `inner` the rest. It stands above the retries: of
/// all tries of a call the journal's last word counts.
pub(super) struct Remembering {
    /// The provider's name.
    pub(super) provider: String,
    pub(super) inner: Arc<dyn Provider>,
    pub(super) memory: Arc<Memory>,
    pub(super) dir: RunDir,
}

impl Remembering {
    /// Keeps how a call ended that was refused without asking the server, cut off while it waited, or given up
    /// after its tries: a replay has to end the same way, in the same words.
    fn refused(&self, request: &ModelRequest, error: &ProviderError) -> Result<(), JournalError> {
        let bytes = serde_json::to_vec(request)
            .map_err(|error| JournalError::io("write", self.dir.path(), error.into()))?;
        let (purpose, provider) = (request.purpose.clone(), self.provider.clone());
        let (request, _) = self.dir.artifacts().put_json(&bytes)?;
        self.dir.append(&Entry::CallBegan {
            purpose: purpose.clone(),
            provider: provider.clone(),
            request: request.clone(),
        })?;
        self.dir.append(&Entry::CallEnded {
            purpose,
            provider,
            request: Some(request),
            reply: None,
            error: Some(format!("{}: {error}", error.class.name())),
            usage: Usage::default(),
            masked: false,
            maybe_charged: false,
        })
    }
}

impl Remembering {
    /// A request as it is named when it is journaled, or was by an engine that knew of other secrets.
    fn asked(&self, request: &ModelRequest) -> Option<Asked> {
        let bytes = serde_json::to_vec(request).ok()?;
        let named = |request| (self.provider.clone(), request);
        let asked = named(self.dir.artifacts().name_json(&bytes));
        if self.memory.is_new() || self.memory.knows(&asked) {
            return Some(asked);
        }
        // Another engine may have known of fewer secrets, or of others.
        let plain = named(Artifacts::plain_name(&bytes));
        if self.memory.knows(&plain) {
            return Some(plain);
        }
        Some(self.memory.alike(&self.provider, &request.purpose, &bytes).unwrap_or(asked))
    }

    /// What the journal says of a request: to a replay always something.
    fn known(
        &self,
        asked: Option<&Asked>,
        request: &ModelRequest,
    ) -> Option<Result<ModelReply, ProviderError>> {
        if let Some(known) = asked.and_then(|asked| self.memory.call(asked)) {
            return Some(known);
        }
        self.memory.is_replay().then(|| {
            let what = format!("a call of {} ({:?})", request.model, request.purpose);
            self.memory.miss(what.clone());
            let text = format!("{what} is not recorded");
            Err(ProviderError::new(ErrorClass::Cancelled, text))
        })
    }

    /// The error of a call that was not made, once it is kept.
    fn keep_refusal(&self, request: &ModelRequest, error: ProviderError) -> ProviderError {
        match self.refused(request, &error) {
            Ok(()) => error,
            Err(error) => {
                let message = format!("the run's journal can't be written: {error}");
                ProviderError::new(ErrorClass::Cancelled, message)
            }
        }
    }
}

impl Ask for Remembering {
    fn instead_of(
        &self,
        request: &ModelRequest,
        error: ProviderError,
    ) -> Result<ModelReply, ProviderError> {
        let asked = self.asked(request);
        self.known(asked.as_ref(), request)
            .unwrap_or_else(|| Err(self.keep_refusal(request, error)))
            .map_err(|error| self.memory.weighed_error(asked.as_ref(), error))
    }

    async fn ask(
        &self,
        request: &ModelRequest,
        sink: &mut (dyn FnMut(Delta) + Send),
        cancel: &CancellationToken,
    ) -> Result<ModelReply, ProviderError> {
        let asked = self.asked(request);
        if let Some(known) = self.known(asked.as_ref(), request) {
            return known;
        }
        let result = self.inner.call(request, sink, cancel).await;
        let result = result.map(|reply| match &asked {
            Some(asked) => self.memory.weighed(asked, reply),
            None => reply,
        });
        match result {
            Err(error) if !error.kept => Err(self.keep_refusal(request, error)),
            result => result,
        }
        .map_err(|error| self.memory.weighed_error(asked.as_ref(), error))
    }
}
