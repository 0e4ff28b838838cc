//! How the engine speaks inside a worker's conversation: templates, with everything foreign fenced.

use super::steering::label;
use crate::fence::Fencer;
use crate::jobs::{JobState, Notice, WatchState};
use crate::model::Steer;
use crate::prompt::{JobNotices, OperatorSteering, PromptContext, Templates};

/// The templates and fences of a run.
#[derive(Clone)]
pub struct Voice {
    templates: Templates,
    fencer: Fencer,
}

impl Voice {
    /// With the run's own.
    pub fn new(templates: Templates, fencer: Fencer) -> Self {
        Self { templates, fencer }
    }

    /// A prompt's text. A template of the user's that can't be rendered gives way to the built-in one:
    /// a worker on its way is not ended for it.
    pub fn say(&self, context: &dyn PromptContext) -> String {
        let own = self.templates.render(context, &self.fencer);
        let rendered = own.or_else(|_| Templates::embedded().render(context, &self.fencer));
        rendered.map(|prompt| prompt.text).unwrap_or_default()
    }

    /// The operator's word.
    pub(super) fn steering(&self, steer: &Steer) -> String {
        self.say(&OperatorSteering { label: label(steer), text: steer.text.clone() })
    }

    /// News of jobs.
    pub(super) fn news(&self, notices: &[Notice], waited: bool) -> String {
        let notices = notices.iter().map(words).collect();
        self.say(&JobNotices { notices, waited })
    }
}

/// A notice in the engine's words, with the line that it is about.
fn words(notice: &Notice) -> (String, Option<String>) {
    match notice {
        Notice::Matched { id, line } => {
            (format!("job {id} wrote a line that matches what you watch for:"), Some(line.clone()))
        }
        Notice::Ended { id, state, written, watch, .. } => {
            let watch = match watch {
                Some(WatchState::Flooded) => {
                    "; its watch pattern matched too often and was switched off"
                }
                Some(WatchState::Spent) => "; its watch pattern gave as many notices as it may",
                _ => "",
            };
            // A start that failed says why in words that may hold a path of the job's.
            let how = match state {
                JobState::Ended(end) if end.status.is_err() => "it could not be run".to_owned(),
                state => state.words(),
            };
            (format!("job {id} ended: {how}; it wrote {written} bytes{watch}"), None)
        }
    }
}
