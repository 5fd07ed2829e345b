//! The addresses of this host: those of its interfaces, what they mean, and which sources are credible.

pub(crate) mod interfaces;
pub(crate) mod kinds;
pub(crate) mod local;
pub(crate) mod source_check;
