//! The choice of our hardware address on a device of the kernel.

use core::fmt;
use core::str::FromStr;
use std::io;

use evenkeel_core::wire::EthernetAddress;

use crate::random::random_bits;

/// The choice of our hardware address on a device: `own`, `device`, `random`, or an address such as
/// `02:00:00:00:00:09`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Address {
    /// A locally administered address, derived from the machine and the device's name, equal every time.
    #[default]
    Own,
    /// The address of the device. Networks that accept no other need it: wireless, and adaptors of most
    /// clouds. The kernel also receives frames to it, and must not forward them. A program keeps its stack
    /// off those to addresses of the host, if the process may load one.
    Device,
    /// A locally administered address, a new one every time.
    Random,
    /// The given address.
    Fixed(EthernetAddress),
}

impl Address {
    /// Returns the address for the device called `name`. The device's own address is `kernel`.
    ///
    /// # Errors
    /// If a random address is needed, and there are no random bits.
    pub(crate) fn on(self, name: &str, kernel: EthernetAddress) -> io::Result<EthernetAddress> {
        Ok(match self {
            Self::Own => own_address(name, kernel),
            Self::Device => kernel,
            Self::Random => random_address(random_bits()?),
            Self::Fixed(address) => address,
        })
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "own" => Ok(Self::Own),
            "device" => Ok(Self::Device),
            "random" => Ok(Self::Random),
            _ => hardware_address(text).filter(is_of_one).map(Self::Fixed).ok_or_else(|| {
                let what = "or the address of one adaptor, such as 02:00:00:00:00:09";
                format!("`{text}`: expected own, device, random, {what}")
            }),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own => f.write_str("own"),
            Self::Device => f.write_str("device"),
            Self::Random => f.write_str("random"),
            Self::Fixed(EthernetAddress([a, b, c, d, e, g])) => {
                write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
            }
        }
    }
}

/// Reads a hardware address: six bytes of two hexadecimal digits with colons between them.
#[must_use]
pub fn hardware_address(text: &str) -> Option<EthernetAddress> {
    let mut bytes = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut bytes {
        let digits = parts.next().filter(|p| p.len() == 2 && p.bytes().all(|b| b.is_ascii_hexdigit()))?;
        *byte = u8::from_str_radix(digits, 16).ok()?;
    }
    parts.next().is_none().then_some(EthernetAddress(bytes))
}

/// Returns whether an adaptor can have this address: it is not a group address and not all zeros.
fn is_of_one(address: &EthernetAddress) -> bool {
    address.is_unicast() && *address != EthernetAddress::default()
}

/// Makes a locally administered unicast address of random bytes; byte 0 has the bits for that.
fn random_address([a, b, c, d, e, f, ..]: [u8; 16]) -> EthernetAddress {
    EthernetAddress([a & 0xfc | 2, b, c, d, e, f])
}

/// Returns a locally administered address of our own for the device called `name`. It is always the same on
/// one machine and differs between machines.
///
/// The kernel has its own address on the same device; ours differs, so that each side knows which frames are
/// meant for it.
pub(crate) fn own_address(name: &str, kernel: EthernetAddress) -> EthernetAddress {
    let machine = std::fs::read("/etc/machine-id").unwrap_or_default();
    let hash = fnv1a(machine.iter().chain(name.as_bytes()));
    let [_, _, _, b, c, d, e, f] = hash.to_be_bytes();
    // Byte 0: locally administered, unicast.
    let own = EthernetAddress([0x02, b, c, d, e, f]);
    if own == kernel { EthernetAddress([0x06, b, c, d, e, f]) } else { own }
}

/// Returns the 64-bit FNV-1a hash. It is the same in every build, which the standard library's hasher does
/// not promise.
fn fnv1a<'a>(bytes: impl Iterator<Item = &'a u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_address_is_stable_local_and_not_the_kernels() {
        let kernel = EthernetAddress([2, 0, 0, 0, 0, 1]);
        let own = own_address("ek0", kernel);
        assert_eq!(own, own_address("ek0", kernel));
        assert_ne!(own, own_address("ek1", kernel));
        assert!(own.is_unicast());
        assert_eq!(own.0[0] & 2, 2);
        assert_ne!(own_address("ek0", own), own);
    }

    #[test]
    fn a_random_address_is_unicast_and_local_whatever_is_drawn() {
        for bits in [[0; 16], [0xff; 16], [0x55; 16]] {
            let address = random_address(bits);
            assert!(address.is_unicast() && address.0[0] & 2 == 2, "{address}");
        }
        let drawn = || Address::Random.on("ek0", EthernetAddress::default()).unwrap();
        assert_ne!(drawn(), drawn());
    }

    #[test]
    fn addresses_are_read_and_shown_alike() {
        for text in ["own", "device", "random", "02:00:5e:00:00:0a"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in ["", "eth0", "02:00:00:00:00", "02:00:00:00:00:00:00", "+2:00:00:00:00:09"] {
            assert!(text.parse::<Address>().unwrap_err().contains("expected own, device, random"), "{text}");
        }
        for not_one in ["ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:01", "00:00:00:00:00:00"] {
            assert!(not_one.parse::<Address>().is_err(), "{not_one}");
        }
    }
}
