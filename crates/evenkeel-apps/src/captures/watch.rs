//! Whether the output of a capture can be written.

use std::sync::Mutex;

use super::product::Product;
use super::program::{Counters, Sink as _, shared};

/// A change of whether the output of a capture can be written.
#[derive(Debug)]
pub enum Writable {
    /// The output cannot be written, for this reason. The capture retries.
    Failing(String),
    /// The output can be written again. This many frames have been discarded so far.
    Recovered(u64),
}

/// Reports when the output begins or ceases to fail.
pub(crate) fn watch(
    product: &Mutex<Product>,
    tally: &Counters,
    failing: &mut bool,
    notify: &mut impl FnMut(Writable),
) {
    let failure = match &*shared(product) {
        // A reader that has gone is not a failure.
        Product::File(file) if !file.is_over() => file.writing().failure(),
        _ => None,
    };
    match failure {
        Some(what) if !*failing => notify(Writable::Failing(what)),
        None if *failing => notify(Writable::Recovered(tally.discarded())),
        _ => return,
    }
    *failing = !*failing;
}
