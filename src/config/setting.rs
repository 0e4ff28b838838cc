//! A value together with who set it.

use crate::model::Origin;

/// A setting and its origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting<T> {
    /// The value.
    pub value: T,
    /// Who set it.
    pub origin: Origin,
}

impl<T> Setting<T> {
    /// A built-in value.
    pub fn default_of(value: T) -> Self {
        Self { value, origin: Origin::Default }
    }

    /// Takes a flag's value, which outranks everything, when the flag was given.
    pub fn flag(&mut self, value: Option<T>) {
        if let Some(value) = value {
            *self = Self { value, origin: Origin::Flag };
        }
    }

    /// Whether anybody set it.
    pub fn is_set(&self) -> bool {
        self.origin != Origin::Default
    }
}

impl<T: Default> Default for Setting<T> {
    fn default() -> Self {
        Self::default_of(T::default())
    }
}
