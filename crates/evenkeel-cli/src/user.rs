//! Users by their names, as `--user` takes them.
//!
//! Only the files of the machine are read, so that a statically linked program finds the same users.

use std::fs;

use evenkeel::raw::privilege::Identity;

const USERS: &str = "/etc/passwd";
const GROUPS: &str = "/etc/group";

/// A user of the machine, and the name that was given for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) identity: Identity,
}

/// Reads `NAME[:GROUP]`, where each may be a number.
pub(crate) fn user(text: &str) -> Result<User, String> {
    let read = |file: &str| fs::read_to_string(file).map_err(|error| format!("cannot read {file}: {error}"));
    let identity = find(text, &read(USERS)?, &read(GROUPS)?)?;
    Ok(User { name: text.to_owned(), identity })
}

/// Finds a user and its groups in the text of the two files.
fn find(text: &str, users: &str, groups: &str) -> Result<Identity, String> {
    let (name, group) = text.split_once(':').map_or((text, None), |(name, group)| (name, Some(group)));
    let fields = line_of(users, name);
    let number = |fields: &Option<Vec<&str>>, at: usize| fields.as_ref()?.get(at)?.parse().ok();
    let user = number(&fields, 2).or_else(|| name.parse().ok());
    let user = user.ok_or_else(|| format!("there is no user `{name}` in {USERS}"))?;
    let group = match group {
        Some(group) => number(&line_of(groups, group), 2)
            .or_else(|| group.parse().ok())
            .ok_or_else(|| format!("there is no group `{group}` in {GROUPS}"))?,
        None => number(&fields, 3)
            .ok_or_else(|| format!("the user {user} is not in {USERS}: give its group, {user}:GROUP"))?,
    };
    if user == 0 {
        return Err("root has all privileges: give another user, such as nobody".to_owned());
    }
    let name = fields.as_ref().and_then(|fields| fields.first().copied()).unwrap_or(name);
    Ok(Identity { user, group, others: groups_of(groups, name) })
}

/// Returns the fields of the line that a name, or a number in the third field, belongs to.
fn line_of<'a>(file: &'a str, name: &str) -> Option<Vec<&'a str>> {
    let lines = || file.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let has = |at: usize| lines().find(|fields| !name.is_empty() && fields.get(at) == Some(&name));
    has(0).or_else(|| has(2))
}

/// Returns the numbers of the groups that list a user.
fn groups_of(groups: &str, name: &str) -> Vec<u32> {
    let lists =
        |fields: &Vec<&str>| fields.get(3).is_some_and(|users| users.split(',').any(|user| user == name));
    let lines = groups.lines().map(|line| line.split(':').collect::<Vec<_>>());
    lines.filter(lists).filter_map(|fields| fields.get(2)?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: &str = "root:x:0:0:root:/root:/bin/sh\nkeel:x:101:102::/:/bin/false\n\
                         7:x:900:900::/:/bin/false\n";
    const GROUPS: &str =
        "root:x:0:\nkeel:x:102:\nadm:x:4:syslog,keel\nwww:x:33:keel\nkeelers:x:103:keelhaul\n";

    fn found(text: &str) -> Result<(u32, u32, Vec<u32>), String> {
        find(text, USERS, GROUPS).map(|Identity { user, group, others }| (user, group, others))
    }

    #[test]
    fn a_user_has_its_groups_or_the_given_one() {
        assert_eq!(found("keel"), Ok((101, 102, vec![4, 33])));
        assert_eq!(found("101"), Ok((101, 102, vec![4, 33])));
        assert_eq!(found("keel:www"), Ok((101, 33, vec![4, 33])));
        assert_eq!(found("keel:5000"), Ok((101, 5_000, vec![4, 33])));
        assert_eq!(found("5000:5001"), Ok((5_000, 5_001, vec![])));
        assert_eq!(found("7"), Ok((900, 900, vec![])), "a name goes before a number");
    }

    #[test]
    fn what_is_missing_is_named() {
        for (text, expected) in [
            ("keeel", "no user `keeel`"),
            ("", "no user ``"),
            ("keel:wwww", "no group `wwww`"),
            ("5000", "5000:GROUP"),
            ("root", "another user"),
            ("-1:1", "no user `-1`"),
        ] {
            let said = found(text).unwrap_err();
            assert!(said.contains(expected), "{text}: {said}");
        }
    }
}
