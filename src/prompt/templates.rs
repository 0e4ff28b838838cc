//! The renderer.
//!
//! Lives here: the embedded templates, the layers over them, and rendering with strict undefined
//! values. After rendering it checks that no template took a fence apart and that a system prompt
//! states the rule about untrusted text exactly once. Never here: what a prompt says.

use std::collections::BTreeMap;

use include_dir::{Dir, include_dir};
use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value};
use sha2::{Digest, Sha256};

use super::fences::{Fences, ids};
use super::{PromptContext, PromptError};
use crate::fence::{Fencer, UNTRUSTED_RULE};

static EMBEDDED: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/prompts");

/// The ending of a template's file.
const ENDING: &str = ".md.j2";

/// The ending of the names of system prompts, which state the rule about untrusted text.
const SYSTEM: &str = "_system";

/// A finished prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// Its text.
    pub text: String,
    /// The template's name.
    pub template: String,
    /// The layer that the template came from: `builtin`, `user` or `repository`.
    pub layer: String,
    /// SHA-256 of the template's bytes, in lower-case hexadecimal.
    pub sha256: String,
}

#[derive(Clone, Debug)]
struct Template {
    text: String,
    layer: String,
    sha256: String,
}

/// All templates of a run, layers applied.
#[derive(Clone, Debug)]
pub struct Templates {
    by_name: BTreeMap<String, Template>,
}

impl Templates {
    /// The texts of all templates.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.by_name.values().map(|template| template.text.as_str())
    }

    /// The built-in templates.
    pub fn embedded() -> Self {
        let named = EMBEDDED.files().filter_map(|file| {
            let name = file.path().file_name()?.to_str()?.strip_suffix(ENDING)?;
            Some((name.to_owned(), Template::new("builtin", file.contents_utf8()?)))
        });
        Self { by_name: named.collect() }
    }

    /// The same with `text` of `layer` (`user`, `repository`) in place of the template `name`.
    ///
    /// # Errors
    /// When there is no template of that name, or `text` does not parse.
    pub fn overridden(mut self, layer: &str, name: &str, text: &str) -> Result<Self, PromptError> {
        let template = Template::new(layer, text);
        let mut environment = environment();
        environment.add_template(name, text).map_err(|error| template.error(name, &error))?;
        match self.by_name.get_mut(name) {
            Some(place) => *place = template,
            None => return Err(self.unknown(name)),
        }
        Ok(self)
    }

    /// The same with a further template, for judges that bring their own.
    ///
    /// # Errors
    /// When `text` does not parse.
    pub fn with(mut self, layer: &str, name: &str, text: &str) -> Result<Self, PromptError> {
        let template = Template::new(layer, text);
        environment().add_template(name, text).map_err(|error| template.error(name, &error))?;
        self.by_name.insert(name.to_owned(), template);
        Ok(self)
    }

    /// The names of all templates.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(String::as_str)
    }

    /// A template's text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.by_name.get(name).map(|template| template.text.as_str())
    }

    /// Every template as name to `layer:sha256`, for the record.
    pub fn origins(&self) -> BTreeMap<String, String> {
        let origin = |template: &Template| format!("{}:{}", template.layer, template.sha256);
        self.by_name.iter().map(|(name, template)| (name.clone(), origin(template))).collect()
    }

    /// Renders a context; every untrusted field is fenced here.
    ///
    /// # Errors
    /// See [`PromptError`]. With the built-in templates and contexts there is none.
    pub fn render(
        &self,
        context: &dyn PromptContext,
        fencer: &Fencer,
    ) -> Result<Rendered, PromptError> {
        let name = context.template();
        let template = self.by_name.get(name).ok_or_else(|| self.unknown(name))?;
        let mut fences = Fences::new(fencer);
        let mut fields = fences.object(&context.fields());
        fields.insert("untrusted_rule", Value::from(UNTRUSTED_RULE));
        let mut environment = environment();
        let text = environment
            .add_template(name, &template.text)
            .and_then(|()| environment.get_template(name)?.render(Value::from_pairs(fields)))
            .map_err(|error| template.error(name, &error))?;
        template.check(name, &text, fences.made())?;
        Ok(Rendered {
            text,
            template: name.to_owned(),
            layer: template.layer.clone(),
            sha256: template.sha256.clone(),
        })
    }

    fn unknown(&self, name: &str) -> PromptError {
        let known = self.names().collect::<Vec<_>>().join(", ");
        PromptError::Unknown { name: name.to_owned(), known }
    }
}

impl Template {
    fn new(layer: &str, text: &str) -> Self {
        let sha256 = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
        Self { text: text.to_owned(), layer: layer.to_owned(), sha256 }
    }

    fn error(&self, name: &str, error: &minijinja::Error) -> PromptError {
        let line = error.line().map(|line| format!(" in line {line}")).unwrap_or_default();
        PromptError::Template {
            name: name.to_owned(),
            layer: self.layer.clone(),
            message: format!("{error}{line}"),
        }
    }

    fn check(&self, name: &str, text: &str, fences: &[String]) -> Result<(), PromptError> {
        let layer = self.layer.clone();
        let folded = text.to_lowercase();
        let is_whole = |fence: &String| {
            let count = text.matches(fence.as_str()).count();
            ids(fence).all(|id| folded.matches(id).count() == count * fence.matches(id).count())
        };
        if !fences.iter().all(is_whole) {
            return Err(PromptError::FenceBroken { name: name.to_owned(), layer });
        }
        let count = text.matches(UNTRUSTED_RULE).count();
        if name.ends_with(SYSTEM) && count != 1 {
            return Err(PromptError::Rule { name: name.to_owned(), layer, count });
        }
        Ok(())
    }
}

fn environment<'a>() -> Environment<'a> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    // The default delimiters can't conflict; without them a block's line would leave an empty one.
    environment.set_syntax(syntax.unwrap_or_default());
    environment
}
