//! The sandbox, attacked for real: as the user that runs the tests, as an ordinary user, and on
//! systems that refuse namespaces, and Landlock too.

mod broken;
mod confine;
mod escape;
mod fetching;
pub mod stage;
mod start;
mod stress;
mod survive;
mod tools;
