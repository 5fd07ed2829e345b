//! Random bits that cannot be predicted.

use std::io;

use rustix::io::retry_on_intr;
use rustix::rand::{GetRandomFlags, getrandom};

/// Draws 128 bits from the operating system's generator (getrandom(2)). Waits until the generator is ready,
/// which takes some seconds after the machine's start.
///
/// Uses rustix, which is a dependency anyway. The `getrandom` crate would be another one, for systems without
/// such a call.
///
/// # Errors
/// If the kernel has no generator, or denies the call.
pub fn random_bits() -> io::Result<[u8; 16]> {
    let mut bits = [0; 16];
    let mut drawn = 0;
    // The kernel returns so few bits at once (getrandom(2)); the loop costs nothing.
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
