//! Tables: named sets of addresses, of any size.

use core::fmt;

use super::rule::{Address, Family, Prefix};

/// A named set of prefixes, some of them excepted. The longest prefix that an address is in says whether the
/// address is in the table, as in pf.
///
/// A look-up is one binary search for each length of prefix there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// As in `<name>`.
    pub name: String,
    /// Of each family and length one, the longest first.
    lengths: Vec<OfLength>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct OfLength {
    family: Family,
    length: u8,
    /// Sorted; each with whether it is excepted.
    prefixes: Vec<(u128, bool)>,
}

impl Table {
    /// A table of prefixes, each with whether it is excepted (`!`).
    ///
    /// # Errors
    /// The place of an entry that contradicts an earlier one.
    pub(super) fn new(name: &str, entries: &[(Prefix, bool)]) -> Result<Self, usize> {
        let mut order: Vec<usize> = (0..entries.len()).collect();
        // Stable, so that of two alike the later one comes later.
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
        Ok(Self { name: name.to_owned(), lengths })
    }

    pub(super) fn contains(&self, address: Address) -> bool {
        let of_family = self.lengths.iter().filter(|of| of.family == address.family);
        for OfLength { family, length, prefixes } in of_family {
            let bits = address.bits & family.mask(*length);
            if let Ok(place) = prefixes.binary_search_by_key(&bits, |&(prefix, _)| prefix) {
                return prefixes.get(place).is_some_and(|&(_, not)| !not);
            }
        }
        false
    }

    /// Prefixes in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lengths.iter().map(|of| of.prefixes.len()).sum()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
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

    #[test]
    fn the_same_twice_is_once_and_a_contradiction_is_found() {
        assert_eq!(table(&["10.0.0.1", "10.0.0.1/32"]).len(), 1);
        let one = Prefix::parse("10.0.0.1").unwrap();
        assert_eq!(Table::new("t", &[(one, false), (one, true)]), Err(1));
    }
}
