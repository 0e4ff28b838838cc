//! The fences of one prompt.
//!
//! Lives here: turning fields into template values, foreign ones fenced. Never here: templates.

use std::collections::{BTreeMap, HashSet};

use minijinja::Value;

use super::Field;
use crate::fence::{BLOCKS, FenceOptions, Fencer, Untrusted};

/// The ids of a fence's closing lines.
pub(super) fn ids(fence: &str) -> impl Iterator<Item = &str> {
    fence.lines().filter_map(|line| line.strip_prefix("<<<END UNTRUSTED id=")?.strip_suffix(">>>"))
}

/// Makes the fences of one prompt.
pub(super) struct Fences<'a> {
    fencer: &'a Fencer,
    /// What this prompt fenced so far: a text that comes twice gets another label, and so another
    /// id, so that the end of the first is not an end of the second.
    seen: HashSet<Untrusted>,
    made: Vec<String>,
}

impl<'a> Fences<'a> {
    pub(super) fn new(fencer: &'a Fencer) -> Self {
        Self { fencer, seen: HashSet::new(), made: Vec::new() }
    }

    /// Every fence that was made.
    pub(super) fn made(&self) -> &[String] {
        &self.made
    }

    /// The fields as template values.
    pub(super) fn object(
        &mut self,
        fields: &[(&'static str, Field)],
    ) -> BTreeMap<&'static str, Value> {
        fields.iter().map(|(name, field)| (*name, self.value(field))).collect()
    }

    fn value(&mut self, field: &Field) -> Value {
        match field {
            Field::Trusted(text) => Value::from(text.as_str()),
            Field::Untrusted(text) => self.fence(text, &FenceOptions::default()),
            Field::Cut(text, options) => self.fence(text, options),
            Field::Number(number) => Value::from(*number),
            Field::Flag(flag) => Value::from(*flag),
            Field::Absent => Value::from(()),
            Field::List(items) => {
                let items = items.iter().map(|item| Value::from_pairs(self.object(item)));
                Value::from(items.collect::<Vec<_>>())
            }
        }
    }

    fn fence(&mut self, text: &Untrusted, options: &FenceOptions) -> Value {
        let (first, mut text) = (text, text.clone());
        let mut copy = 1;
        while !self.seen.insert(text.clone()) {
            copy += 1;
            text = first.relabelled(&copy.to_string());
        }
        let mut options = options.clone();
        options.delimiters.extend(BLOCKS.map(String::from));
        let fenced = self.fencer.fence_with(&text, &options).text;
        self.made.push(fenced.clone());
        Value::from(fenced)
    }
}
