//! The last test program of a run: prints which tests did not run and what would let them.
#![allow(clippy::print_stdout, reason = "that is its task")]

fn main() {
    match evenkeel_skip::take_list() {
        Ok(None) => {}
        Ok(Some(list)) => println!("\n{list}"),
        Err(error) => println!("\nSKIPPED tests are on record, but the record cannot be read: {error}"),
    }
}
