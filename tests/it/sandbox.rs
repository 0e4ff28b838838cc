//! The sandbox, attacked for real: as the user that runs the tests, as an ordinary user, and on
//! systems that refuse namespaces, and Landlock too.

mod broken;
mod confine;
mod covered;
mod escape;
mod facts;
mod fetching;
pub mod stage;
mod start;
mod stress;
pub mod survive;
mod terminal;
mod tools;
