//! The fence compiled on its own: it is pure, and the whole program takes minutes to optimize.
#![allow(dead_code, reason = "some of what the module offers is for the rest of the program")]

#[path = "../../../src/fence/mod.rs"]
pub mod fence;
