//! How the engine speaks inside a worker's conversation: templates, with everything foreign fenced.

use super::steering::label;
use crate::fence::Fencer;
use crate::jobs::{JobState, Notice, WatchState};
use crate::model::Steer;
use crate::prompt::{JobNotices, OperatorSteering, PromptContext, Templates};

/// So many notices of jobs are told at once.
const MOST_TOLD: usize = 32;

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
        // The newest: of thousands of short jobs one snippet would fill a context.
        let more = notices.len().saturating_sub(MOST_TOLD);
        let mut told: Vec<_> = notices.iter().skip(more).map(words).collect();
        if more > 0 {
            let earlier = format!("before these, {more} more such notices came that are left out");
            told.insert(0, (earlier, None));
        }
        self.say(&JobNotices { notices: told, waited })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::JobId;

    // contract R6 in part: of very many
    #[test]
    fn of_very_many_notices_the_newest_are_told_and_the_others_counted() {
        let voice = Voice::new(Templates::embedded(), Fencer::new([3; 32]));
        let notice = |number: u32| Notice::Matched {
            id: JobId::new(format!("one/1#{number}")),
            line: "ready".to_owned(),
        };
        let notices: Vec<Notice> = (1..=6000).map(notice).collect();
        let text = voice.news(&notices[..MOST_TOLD], false);
        assert!(text.contains("one/1#1 ") && !text.contains("left out"), "{text}");
        let text = voice.news(&notices, false);
        assert!(text.contains("before these, 5968 more such notices came"), "{text}");
        assert!(text.contains("one/1#6000 ") && !text.contains("one/1#5968 "), "{text}");
        assert!(text.len() < 16_000, "{}", text.len());
    }
}
