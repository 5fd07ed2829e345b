//! Changes to a packet's headers on behalf of rules (`scrub`, `set tos`).

use super::headers::{Headers, Transport};
use super::rule::Changes;

const SYN: u8 = 2;
/// The option of the maximum segment size (RFC 9293 3.2), and its length.
const MSS: (u8, u8) = (2, 4);

impl Changes {
    /// Returns whether there is anything to change.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Changes a packet, from its IP header on. Correct checksums stay correct, and wrong ones stay wrong
    /// (RFC 1624).
    pub fn apply(&self, packet: &mut [u8]) {
        if self.is_none() {
            return;
        }
        let Ok(headers) = Headers::read(packet) else { return };
        if let Some(mss) = self.max_mss {
            clamp(packet, &headers, mss);
        }
        match packet.first().map(|first| first >> 4) {
            Some(4) => self.apply_v4(packet),
            Some(6) => self.apply_v6(packet),
            _ => {}
        }
    }

    fn apply_v4(&self, packet: &mut [u8]) {
        const SUM: usize = 10;
        let mut change = |at: usize, to: &dyn Fn(u16) -> u16| {
            let Some(before) = half(packet, at) else { return };
            put(packet, at, to(before), SUM);
        };
        if let Some(tos) = self.tos {
            change(0, &|word| word & 0xff00 | u16::from(tos));
        }
        if self.no_df {
            change(6, &|word| word & !0x4000);
        }
        if let Some(ttl) = self.min_ttl {
            change(8, &|word| word.max(u16::from(ttl) << 8 | word & 0xff));
        }
    }

    /// Changes an IPv6 header, which has no checksum. The changed fields are not part of TCP's checksum
    /// either.
    fn apply_v6(&self, packet: &mut [u8]) {
        if let (Some(tos), [first, second, ..]) = (self.tos, &mut *packet) {
            *first = *first & 0xf0 | tos >> 4;
            *second = *second & 0x0f | tos << 4;
        }
        if let (Some(ttl), Some(hops)) = (self.min_ttl, packet.get_mut(7)) {
            *hops = ttl.max(*hops);
        }
    }
}

/// Lowers the maximum segment size in a SYN.
fn clamp(packet: &mut [u8], headers: &Headers, mss: u16) {
    let Some(Transport::Ports { flags, .. }) = headers.transport else { return };
    let is_syn = headers.protocol == super::names::TCP && flags & SYN != 0;
    let Some(tcp) = is_syn.then(|| packet.get_mut(headers.transport_at..)).flatten() else { return };
    let end = usize::from(tcp.get(12).copied().unwrap_or(0) >> 4) * 4;
    let mut at = 20;
    while at < end {
        match tcp.get(at..end) {
            Some([1, ..]) => at += 1,
            Some([kind, len, _, _, ..]) if (*kind, *len) == MSS => {
                let Some(offered) = half(tcp, at + 2) else { return };
                if offered > mss {
                    put_anywhere(tcp, at + 2, mss);
                }
                return;
            }
            Some([kind, len, ..]) if *kind > 1 && *len > 1 => at += usize::from(*len),
            // The options end, or none could be read.
            _ => return,
        }
    }
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Writes a word at an even offset, and updates the checksum at `sum`.
fn put(bytes: &mut [u8], at: usize, word: u16, sum: usize) {
    let (Some(before), Some(checksum)) = (half(bytes, at), half(bytes, sum)) else { return };
    write(bytes, at, word);
    write(bytes, sum, mended(checksum, before, word));
}

/// Writes a word into a TCP header, also at an odd offset. It is then part of two words of the checksum.
fn put_anywhere(tcp: &mut [u8], at: usize, word: u16) {
    const SUM: usize = 16;
    if at.is_multiple_of(2) {
        return put(tcp, at, word, SUM);
    }
    let [high, low] = word.to_be_bytes();
    let (Some(first), Some(second)) = (half(tcp, at - 1), half(tcp, at + 1)) else { return };
    put(tcp, at - 1, first & 0xff00 | u16::from(high), SUM);
    put(tcp, at + 1, u16::from(low) << 8 | second & 0xff, SUM);
}

fn write(bytes: &mut [u8], at: usize, word: u16) {
    bytes.iter_mut().skip(at).zip(word.to_be_bytes()).for_each(|(to, from)| *to = from);
}

/// Returns the checksum after a change of one word: `HC' = ~(~HC + ~m + m')` (RFC 1624 3).
fn mended(checksum: u16, before: u16, after: u16) -> u16 {
    let sum = u32::from(!checksum) + u32::from(!before) + u32::from(after);
    let sum = (sum & 0xffff) + (sum >> 16);
    !(((sum & 0xffff) + (sum >> 16)) as u16)
}

#[cfg(test)]
mod tests {
    use evenkeel::raw::tcp::Checksum;
    use evenkeel::raw::wire::IpAddress;

    use super::*;

    /// Returns a SYN with these options, over IPv4 or IPv6, with its checksums.
    fn syn(six: bool, options: &[u8], flags: u8) -> Vec<u8> {
        let words = (20 + options.len()) / 4;
        let mut tcp = vec![0, 7, 0, 80, 0, 0, 0, 9, 0, 0, 0, 0, (words as u8) << 4, flags, 16, 0, 0, 0, 0, 0];
        tcp.extend(options);
        let mut packet = if six {
            let mut header = vec![0x60, 0, 0, 0, 0, tcp.len() as u8, 6, 3];
            header.extend([[0xfd, 1], [0xfd, 2]].map(|[a, b]| [vec![a; 15], vec![b]].concat()).concat());
            header
        } else {
            let len = 20 + tcp.len() as u8;
            vec![0x45, 0x10, 0, len, 0, 7, 0x40, 0, 3, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]
        };
        let at = packet.len();
        packet.extend(tcp);
        let sum = sum(&packet, at);
        packet[at + 16..at + 18].copy_from_slice(&sum.to_be_bytes());
        if !six {
            let sum = Checksum::default().add(&packet[..20]).finish();
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        packet
    }

    fn sum(packet: &[u8], at: usize) -> u16 {
        let address = |from: usize, len: usize| -> IpAddress {
            let bytes = &packet[from..from + len];
            match len {
                4 => IpAddress::Ipv4(<[u8; 4]>::try_from(bytes).unwrap().into()),
                _ => IpAddress::Ipv6(<[u8; 16]>::try_from(bytes).unwrap().into()),
            }
        };
        let (source, destination) =
            if at == 20 { (address(12, 4), address(16, 4)) } else { (address(8, 16), address(24, 16)) };
        Checksum::pseudo(source, destination, 6, packet.len() - at).add(&packet[at..]).finish()
    }

    fn is_right(packet: &[u8], at: usize) -> bool {
        sum(packet, at) == 0 && (at != 20 || Checksum::default().add(&packet[..20]).finish() == 0)
    }

    #[test]
    fn a_syn_offers_smaller_segments_and_its_checksum_is_right() {
        let clamped = Changes { max_mss: Some(1400), ..Changes::default() };
        for (six, at) in [(false, 20), (true, 40)] {
            for (options, place, offered) in [
                (&[2, 4, 5, 0xb4][..], 22, 1400),
                (&[1, 2, 4, 5, 0xb4, 1, 1, 0], 23, 1400),
                (&[4, 2, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8, 2, 4, 0xff, 0xff], 34, 1400),
                (&[2, 4, 2, 0x18], 22, 536),
                (&[0, 0, 0, 0, 2, 4, 5, 0xb4], 26, 1460),
                (&[3, 0, 2, 4, 5, 0xb4, 0, 0], 24, 1460),
            ] {
                let mut packet = syn(six, options, SYN);
                assert!(is_right(&packet, at));
                clamped.apply(&mut packet);
                assert_eq!(half(&packet, at + place), Some(offered), "{options:?}");
                assert!(is_right(&packet, at), "{options:?}");
            }
            let mut packet = syn(six, &[2, 4, 5, 0xb4], 16);
            let before = packet.clone();
            clamped.apply(&mut packet);
            assert_eq!(packet, before, "no SYN");
        }
    }

    #[test]
    fn headers_are_changed_and_their_checksum_is_right() {
        let changes = Changes { max_mss: None, no_df: true, min_ttl: Some(64), tos: Some(0xb8) };
        let mut packet = syn(false, &[], SYN);
        changes.apply(&mut packet);
        assert_eq!((packet[1], packet[6], packet[8]), (0xb8, 0, 64));
        assert!(is_right(&packet, 20));
        let mut packet = syn(true, &[], SYN);
        changes.apply(&mut packet);
        assert_eq!((&packet[..2], packet[7]), (&[0x6b, 0x80][..], 64));
        assert!(is_right(&packet, 40));
        packet[7] = 200;
        changes.apply(&mut packet);
        assert_eq!(packet[7], 200);
    }
}
