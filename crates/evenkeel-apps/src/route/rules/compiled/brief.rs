//! The conditions of a rule in half a cache line, and the fields of a packet to compare with them.

use super::side::{FamilyAddress, Wanted};
use crate::route::rules::evaluate::Upper;
use crate::route::rules::headers::Headers;
use crate::route::rules::rule::{Ports, Rule};
use crate::route::rules::spans::{Number, Spans};

/// Places of fields in [`Brief::bits`]: the protocol comes first.
const INTERFACE: u32 = 8;
const FLAGS: u32 = 16;
const FRAGMENT: u32 = 1 << 24;
/// A bit of packets without ports. No rule with ports accepts it.
const NO_PORTS: u32 = 1 << 25;
/// A bit of packets without TCP flags. No rule with flags accepts it.
const NO_FLAGS: u32 = 1 << 26;
/// A bit of rules with conditions beyond their brief. No mask has it.
const MORE: u32 = 1 << 31;

/// The fields of a packet that most rules compare.
#[derive(Debug, Clone, Copy)]
pub(super) struct Probe<K> {
    pub(super) from: K,
    pub(super) to: K,
    /// Zero if there are no ports.
    source: u16,
    destination: u16,
    bits: u32,
}

impl<K: FamilyAddress> Probe<K> {
    #[inline]
    pub(super) fn new(headers: &Headers, interface: u8) -> Self {
        let Upper { source, destination, flags, .. } = headers.upper();
        let bits = u32::from(headers.protocol)
            | u32::from(interface) << INTERFACE
            | flags.map_or(NO_FLAGS, |flags| u32::from(flags) << FLAGS)
            | if headers.fragment { FRAGMENT } else { 0 }
            | if source.is_none() { NO_PORTS } else { 0 };
        Self {
            from: K::narrow(headers.source.bits),
            to: K::narrow(headers.destination.bits),
            source: source.unwrap_or(0),
            destination: destination.unwrap_or(0),
            bits,
        }
    }

    const fn has_ports(&self) -> bool {
        self.bits & NO_PORTS == 0
    }

    /// Returns the protocol above IP.
    #[inline]
    pub(super) const fn protocol(&self) -> u16 {
        (self.bits & 0xff) as u16
    }

    /// Returns the source port.
    #[inline]
    pub(super) fn source(&self) -> Option<u16> {
        self.has_ports().then_some(self.source)
    }

    /// Returns the destination port.
    #[inline]
    pub(super) fn destination(&self) -> Option<u16> {
        self.has_ports().then_some(self.destination)
    }
}

/// Conditions that hold for each packet that a rule matches: spans of numbers, and some bits.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
pub(super) struct Brief<K> {
    from: (K, K),
    to: (K, K),
    source: (u16, u16),
    destination: (u16, u16),
    bits: u32,
    /// The bits that count.
    mask: u32,
}

impl<K: FamilyAddress> Brief<K> {
    pub(super) fn of(rule: &Rule, from: &Wanted<K>, to: &Wanted<K>) -> Self {
        let mut brief = Self {
            from: (K::narrow(0), K::MAX),
            to: (K::narrow(0), K::MAX),
            source: (0, u16::MAX),
            destination: (0, u16::MAX),
            bits: 0,
            mask: 0,
        };
        let mut is_whole = rule.tos.is_none()
            && rule.less.is_none()
            && rule.greater.is_none()
            && rule.icmp.is_empty()
            && rule.protocols.len() < 2;
        is_whole &= take(&mut brief.from, from.is_any(), from.spans());
        is_whole &= take(&mut brief.to, to.is_any(), to.spans());
        for (span, all) in [(&mut brief.source, &rule.from.ports), (&mut brief.destination, &rule.to.ports)] {
            let spans = ports(all);
            is_whole &= take(span, spans.is_none(), spans.as_ref());
            brief.mask |= if spans.is_some() { NO_PORTS } else { 0 };
        }
        if let [protocol] = rule.protocols[..] {
            brief.want(protocol.into(), u8::MAX.into());
        }
        match (&rule.on[..], &rule.received) {
            ([], None) => {}
            ([on], None) | ([], Some(on)) if !on.not && !on.name.is_empty() && on.interface.is_some() => {
                brief
                    .want(u32::from(on.interface.unwrap_or(0)) << INTERFACE, u32::from(u8::MAX) << INTERFACE);
            }
            _ => is_whole = false,
        }
        if let Some(flags) = rule.flags {
            brief.want(u32::from(flags.set & flags.mask) << FLAGS, u32::from(flags.mask) << FLAGS | NO_FLAGS);
            is_whole &= flags.set & !flags.mask == 0;
        }
        if rule.fragment {
            brief.want(FRAGMENT, FRAGMENT);
        }
        brief.bits |= if is_whole { 0 } else { MORE };
        brief
    }

    const fn want(&mut self, bits: u32, mask: u32) {
        self.bits |= bits;
        self.mask |= mask;
    }

    /// Returns conditions that packets meet that meet these or those.
    pub(super) fn join(&self, other: &Self) -> Self {
        fn join<N: Number>(one: (N, N), other: (N, N)) -> (N, N) {
            (one.0.min(other.0), one.1.max(other.1))
        }
        let mask = self.mask & other.mask & !(self.bits ^ other.bits);
        Self {
            from: join(self.from, other.from),
            to: join(self.to, other.to),
            source: join(self.source, other.source),
            destination: join(self.destination, other.destination),
            bits: self.bits & mask,
            mask,
        }
    }

    /// Returns whether a packet meets these conditions.
    #[inline]
    pub(super) fn fits(&self, packet: &Probe<K>) -> bool {
        // There are no branches, which would be mispredicted.
        is_in(self.to, packet.to)
            & is_in(self.from, packet.from)
            & is_in(self.destination, packet.destination)
            & is_in(self.source, packet.source)
            & ((self.bits ^ packet.bits) & self.mask == 0)
    }

    /// Returns whether the rule has more conditions.
    #[inline]
    pub(super) const fn has_more(&self) -> bool {
        self.bits & MORE != 0
    }
}

#[inline]
fn is_in<N: Number>((first, last): (N, N), number: N) -> bool {
    (first <= number) & (number <= last)
}

/// Narrows `span` to numbers that a rule accepts. Returns whether the span has no other numbers.
fn take<N: Number>(span: &mut (N, N), is_any: bool, spans: Option<&Spans<N>>) -> bool {
    let Some(spans) = spans else { return is_any };
    let (first, last) = (spans.iter().next(), spans.iter().last());
    *span = first.zip(last).map_or((N::MAX, N::narrow(0)), |((first, _), (_, last))| (first, last));
    spans.len() < 2
}

/// Returns the ports that a rule asks for; `None` if it asks for none.
pub(super) fn ports(all: &[Ports]) -> Option<Spans<u16>> {
    (!all.is_empty()).then(|| Spans::of(all.iter().flat_map(|ports| ports.spans()).collect()))
}

/// Returns the protocols that a rule asks for; `None` if it asks for none.
pub(super) fn protocols(rule: &Rule) -> Option<Spans<u16>> {
    let span = |protocol: &u8| (u16::from(*protocol), u16::from(*protocol));
    (!rule.protocols.is_empty()).then(|| Spans::of(rule.protocols.iter().map(span).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_briefs_are_in_a_cache_line() {
        assert_eq!(size_of::<Brief<u32>>(), 32);
    }
}
