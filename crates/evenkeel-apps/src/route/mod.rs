//! A router: forwards between links, with packets screened by rules or by a function of the user's.

pub mod mistake;
pub mod rules;
