//! Bits that nobody can guess.

use std::io;

use rustix::io::retry_on_intr;
use rustix::rand::{GetRandomFlags, getrandom};

/// Draws 128 bits from the operating system's generator (getrandom(2)). Waits for that to be ready, which it
/// is once the machine has been up for some seconds.
///
/// By rustix, which is here anyway: the `getrandom` crate would be one more, for systems that have no such
/// call.
///
/// # Errors
/// If the kernel has none, or may not be asked.
pub fn random_bits() -> io::Result<[u8; 16]> {
    let mut bits = [0; 16];
    let mut drawn = 0;
    // So few come at once (getrandom(2)), but nothing is lost by asking.
    while let Some(rest) = bits.get_mut(drawn..).filter(|rest| !rest.is_empty()) {
        drawn += retry_on_intr(|| getrandom(&mut *rest, GetRandomFlags::empty()))?;
    }
    Ok(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_the_same_twice() {
        assert_ne!(random_bits().unwrap(), random_bits().unwrap());
    }
}
