//! Tables: named sets of addresses, of any size.

use core::fmt;

use super::address::{Address, Family, Prefix};
use super::spans::{Index, Number, Spans};

/// A named set of prefixes, some of them excepted. The longest prefix that contains an address decides
/// whether the address is in the table, as in pf.
///
/// A look-up searches only the places with the first bits of the address, among those where the table's
/// addresses begin or end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// The name, as in `<name>`.
    pub name: String,
    /// The prefixes of each family and length, the longest first.
    lengths: Vec<OfLength>,
    /// The addresses of each family in the table.
    pub(super) v4: Spans<u32>,
    pub(super) v6: Spans<u128>,
    /// The index of the addresses of each family.
    indices: (Index<u32>, Index<u128>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct OfLength {
    family: Family,
    length: u8,
    /// The prefixes, sorted; each with whether it is excepted.
    prefixes: Vec<(u128, bool)>,
}

impl Table {
    /// Creates a table of prefixes, each with whether it is excepted (`!`).
    ///
    /// # Errors
    /// The place of an entry that contradicts an earlier one.
    pub(super) fn new(name: &str, entries: &[(Prefix, bool)]) -> Result<Self, usize> {
        let mut order: Vec<usize> = (0..entries.len()).collect();
        // The sort is stable, so the later one of two equal entries stays later.
        order.sort_by_key(|&index| entries.get(index).map(|(p, _)| (p.family, u8::MAX - p.length, p.bits)));
        let mut lengths: Vec<OfLength> = Vec::new();
        for index in order {
            let Some(&(Prefix { family, length, bits }, not)) = entries.get(index) else { continue };
            match lengths.last_mut() {
                Some(last) if last.family == family && last.length == length => match last.prefixes.last() {
                    Some(&(before, was_not)) if before == bits && was_not != not => return Err(index),
                    Some(&(before, _)) if before == bits => {}
                    _ => last.prefixes.push((bits, not)),
                },
                _ => lengths.push(OfLength { family, length, prefixes: vec![(bits, not)] }),
            }
        }
        let (v4, v6) = (spans(&lengths, Family::V4), spans(&lengths, Family::V6));
        let indices = (v4.index(), v6.index());
        Ok(Self { name: name.to_owned(), lengths, v4, v6, indices })
    }

    pub(super) fn contains(&self, address: Address) -> bool {
        let (v4, v6) = &self.indices;
        match address.family {
            Family::V4 => self.v4.contains(Number::narrow(address.bits), v4),
            Family::V6 => self.v6.contains(address.bits, v6),
        }
    }

    /// Returns how many of the first bits of an address say whether it is in the table.
    pub(super) fn bits(&self, family: Family) -> u8 {
        self.lengths.iter().filter(|of| of.family == family).map(|of| of.length).max().unwrap_or(0)
    }

    /// Returns the number of prefixes in the table.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lengths.iter().map(|of| of.prefixes.len()).sum()
    }

    /// Returns whether the table has no prefix.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }
}

/// Returns the addresses of a family of which the longest prefix they are in is not excepted.
fn spans<K: Number>(lengths: &[OfLength], family: Family) -> Spans<K> {
    let mut all: Vec<(u128, u8, bool)> = Vec::new();
    for OfLength { length, prefixes, .. } in lengths.iter().filter(|of| of.family == family) {
        all.extend(prefixes.iter().map(|&(bits, not)| (bits, *length, not)));
    }
    // Each prefix comes before those inside it.
    all.sort_unstable();
    let mut sweep = Sweep { open: Vec::new(), done: Vec::new(), next: Some(0) };
    for (bits, length, not) in all {
        sweep.close_before(Some(bits));
        if let (Some(&(_, outer_not)), Some(before)) = (sweep.open.last(), bits.checked_sub(1)) {
            sweep.put(before, outer_not);
        }
        sweep.next = Some(bits);
        sweep.open.push((Prefix { family, length, bits }.last(), not));
    }
    sweep.close_before(None);
    Spans::of(sweep.done)
}

/// A sweep over prefixes that begin and end, from the lowest address to the highest.
struct Sweep<K> {
    /// The prefixes that contain the next address: their ends, the innermost last.
    open: Vec<(u128, bool)>,
    done: Vec<(K, K)>,
    /// The next address; `None` after the last one.
    next: Option<u128>,
}

impl<K: Number> Sweep<K> {
    fn put(&mut self, last: u128, not: bool) {
        if let Some(first) = self.next
            && first <= last
            && !not
        {
            self.done.push((K::narrow(first), K::narrow(last)));
        }
    }

    fn close_before(&mut self, limit: Option<u128>) {
        while let Some(&(end, not)) = self.open.last()
            && limit.is_none_or(|limit| end < limit)
        {
            self.put(end, not);
            self.next = end.checked_add(1);
            self.open.pop();
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table <{}> {{", self.name)?;
        let mut separator = " ";
        for OfLength { family, length, prefixes } in &self.lengths {
            for &(bits, not) in prefixes {
                let prefix = Prefix { family: *family, length: *length, bits };
                write!(f, "{separator}{}{prefix}", if not { "!" } else { "" })?;
                separator = ", ";
            }
        }
        f.write_str(" }")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(entries: &[&str]) -> Table {
        let entry = |text: &&str| {
            let plain = text.trim_start_matches('!');
            (Prefix::parse(plain).unwrap(), plain != *text)
        };
        Table::new("t", &entries.iter().map(entry).collect::<Vec<_>>()).unwrap()
    }

    fn has(table: &Table, address: &str) -> bool {
        table.contains(address.parse::<core::net::IpAddr>().unwrap().into())
    }

    #[test]
    fn the_longest_prefix_decides() {
        let t = table(&["10.0.0.0/8", "!10.1.0.0/16", "10.1.2.0/24", "fd00::/8", "!::/0"]);
        assert_eq!(
            ["10.9.9.9", "10.1.9.9", "10.1.2.9", "11.0.0.1", "fd12::1", "2001::1"].map(|a| has(&t, a)),
            [true, false, true, false, true, false]
        );
        assert!(has(&table(&["0.0.0.0/0"]), "255.255.255.255") && !has(&table(&["0.0.0.0/0"]), "::1"));
        assert!(!has(&table(&[]), "10.0.0.1"));
    }

    /// The prefixes are nested, also at both ends of the address space.
    #[test]
    fn look_ups_are_those_of_the_longest_prefix() {
        let texts = [
            "::/0",
            "!8000::/1",
            "ffff::/16",
            "!ffff:ffff::/32",
            "!::/64",
            "::/128",
            "10.0.0.0/8",
            "!10.0.0.0/9",
            "10.64.0.0/10",
            "!255.0.0.0/8",
            "255.255.255.255",
            "0.0.0.0/2",
        ];
        let t = table(&texts);
        let entries: Vec<_> = texts
            .iter()
            .map(|text| {
                let plain = text.trim_start_matches('!');
                (Prefix::parse(plain).unwrap(), plain == *text)
            })
            .collect();
        let ends = entries.iter().flat_map(|(p, _)| {
            [p.bits.wrapping_sub(1), p.bits, p.last(), p.last().wrapping_add(1)].map(|bits| (p.family, bits))
        });
        for (family, bits) in ends.filter(|(family, bits)| *family == Family::V6 || *bits <= u32::MAX.into())
        {
            let address = Address { family, bits };
            let longest = entries.iter().filter(|(p, _)| p.contains(address)).max_by_key(|(p, _)| p.length);
            assert_eq!(t.contains(address), longest.is_some_and(|(_, is)| *is), "{address:?}");
        }
    }

    #[test]
    fn the_same_twice_is_once_and_a_contradiction_is_found() {
        assert_eq!(table(&["10.0.0.1", "10.0.0.1/32"]).len(), 1);
        let one = Prefix::parse("10.0.0.1").unwrap();
        assert_eq!(Table::new("t", &[(one, false), (one, true)]), Err(1));
    }
}
