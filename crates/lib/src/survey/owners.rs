//! The names of users, from `/etc/passwd`. Users of a name service have none.

use std::collections::HashMap;

use bstr::ByteSlice;

/// Returns the users of `name:password:uid:…` lines, by their number. The first name of a user counts.
pub(super) fn parse(text: &[u8]) -> HashMap<u32, String> {
    let mut names = HashMap::new();
    for line in text.lines() {
        let fields: Vec<&[u8]> = line.splitn_str(4, ":").collect();
        if let [name, _, uid, _] = fields.as_slice()
            && let Some(uid) = uid.to_str().ok().and_then(|uid| uid.parse().ok())
        {
            names.entry(uid).or_insert_with(|| name.to_str_lossy().into_owned());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_name_of_a_user_counts_and_odd_lines_do_not() {
        let owners = parse(b"root:x:0:0::/:/bin/sh\ntoor:x:0:0:::\n+::::\nbad:x:y:z\n");
        assert_eq!(owners[&0], "root");
        assert_eq!(owners.get(&1), None);
    }
}
