//! Nothing; cargo wants a target.
