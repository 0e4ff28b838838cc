//! (header to be written)
