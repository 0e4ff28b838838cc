//! How the engine speaks inside a worker's conversation: templates, with everything foreign fenced.

use super::steering::label;
use crate::fence::Fencer;
use crate::jobs::{JobState, Matched, Notice};
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
        Notice::Matched { id, matched: Matched { line, of } } => {
            let part = of.map(|of| format!(" (its first {} bytes of {of})", line.len()));
            let part = part.unwrap_or_default();
            let said = format!("job {id} wrote a line that matches what you watch for{part}:");
            (said, Some(line.clone()))
        }
        Notice::Unwatched { id, state } => {
            let why = state.words().unwrap_or_default();
            (format!("job {id}: {why}; you are told of no further line of it"), None)
        }
        Notice::Ended { id, state, written, .. } => {
            // A start that failed says why in words that may hold a path of the job's.
            let how = match state {
                JobState::Ended(end) if end.status.is_err() => "it could not be run".to_owned(),
                state => state.words(),
            };
            let how = how.strip_prefix("ended: ").unwrap_or(&how);
            (format!("job {id} ended: {how}; it wrote {written} bytes"), None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::{JobEnd, WatchState};
    use crate::model::JobId;
    use crate::sandbox::JobStatus;

    #[test]
    fn what_became_of_a_job_is_told_in_plain_words() {
        let id = JobId::new("one/1#2");
        let told = |notice: Notice| words(&notice).0;
        let ended = |status| {
            let (elapsed, why) = (std::time::Duration::from_secs(6), None);
            let state = JobState::Ended(JobEnd { status: Ok(status), elapsed, why });
            told(Notice::Ended { id: id.clone(), label: "x".to_owned(), state, written: 3 })
        };
        let over = "job one/1#2 ended: its time was over after 6 s; it wrote 3 bytes";
        assert_eq!(ended(JobStatus::TimedOut), over);
        assert_eq!(ended(JobStatus::Exited(1)), "job one/1#2 ended: exit 1; it wrote 3 bytes");
        let off = told(Notice::Unwatched { id: id.clone(), state: WatchState::Flooded });
        assert!(off.starts_with("job one/1#2: its watch pattern matched too often"), "{off}");
        let matched = Matched { line: "x".repeat(4096), of: Some(5079) };
        let cut = told(Notice::Matched { id: id.clone(), matched });
        assert!(cut.ends_with("(its first 4096 bytes of 5079):"), "{cut}");
    }

    #[test]
    fn lines_that_are_equal_have_numbered_labels() {
        let voice = Voice::new(Templates::embedded(), Fencer::new([3; 32]));
        let matched = Matched { line: "ready".to_owned(), of: None };
        let notice = Notice::Matched { id: JobId::new("one/1#1"), matched };
        let text = voice.news(&vec![notice; 3], false);
        let labels: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("<<<UNTRUSTED ")).collect();
        let labels: Vec<&str> =
            labels.iter().map(|line| line.split(" id=").next().unwrap()).collect();
        assert_eq!(labels, ["job line", "job line 2", "job line 3"]);
    }

    // contract R6 in part: of very many
    #[test]
    fn of_very_many_notices_the_newest_are_told_and_the_others_counted() {
        let voice = Voice::new(Templates::embedded(), Fencer::new([3; 32]));
        let notice = |number: u32| Notice::Matched {
            id: JobId::new(format!("one/1#{number}")),
            matched: Matched { line: "ready".to_owned(), of: None },
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
