//! The calls of a journal that have begun and not ended, as it is read from its beginning.
//!
//! Never here: what their answers are worth (`memory`).

use super::memory::Asked;
use crate::model::ArtifactId;
use crate::model::chat::Purpose;

/// Calls without their ends, in the order of their beginnings.
#[derive(Debug, Default)]
pub(super) struct Open(Vec<(Purpose, Asked)>);

impl Open {
    /// A call began.
    pub(super) fn begin(&mut self, purpose: &Purpose, asked: Asked) {
        self.0.push((purpose.clone(), asked));
    }

    /// The call that ended, if it had begun. Several calls of one purpose may be open, at two models; which of them
    /// it is, provider and request say. Journals of earlier engines have the purpose alone.
    pub(super) fn end(
        &mut self,
        purpose: &Purpose,
        named: Option<(&String, &ArtifactId)>,
    ) -> Option<Asked> {
        let is_it = |(of, (provider, request)): &(Purpose, Asked)| {
            of == purpose && named.is_none_or(|named| named == (provider, request))
        };
        let at = self.0.iter().position(is_it)?;
        Some(self.0.remove(at).1)
    }

    /// Those in flight: the engine ended, and nobody will hear of them.
    pub(super) fn lose(&mut self) -> Vec<(Purpose, Asked)> {
        std::mem::take(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_that_of_its_own_call_whatever_ends_first() {
        let purpose = Purpose::Design;
        let asked = |provider: &str, request: &str| {
            (provider.to_owned(), ArtifactId::new(request.repeat(64)))
        };
        let all = [asked("a", "1"), asked("a", "2"), asked("b", "1")];
        let mut open = Open::default();
        all.iter().for_each(|one| open.begin(&purpose, one.clone()));
        for (provider, request) in all.iter().rev() {
            let ended = open.end(&purpose, Some((provider, request)));
            assert_eq!(ended, Some((provider.clone(), request.clone())));
            assert_eq!(open.end(&purpose, Some((provider, request))), None, "it ends once");
        }
        // An engine that did not name it.
        all.iter().for_each(|one| open.begin(&purpose, one.clone()));
        assert_eq!(open.end(&Purpose::Duel { number: 1 }, None), None);
        assert_eq!(open.end(&purpose, None), Some(all[0].clone()));
        assert_eq!((open.lose().len(), open.lose().len()), (2, 0));
    }
}
