//! Token ids on the command line.

use std::str::FromStr;

use anyhow::Context;

/// Ids with commas between them.
#[derive(Clone, Debug)]
pub(crate) struct Ids(pub(crate) Vec<u32>);

impl FromStr for Ids {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.trim().is_empty() {
            return Ok(Self(Vec::new()));
        }
        let id = |id: &str| {
            let id = id.trim();
            id.parse().with_context(|| format!("{id:?} is no token id"))
        };
        text.split(',').map(id).collect::<Result<_, _>>().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read() {
        let ids = |text: &str| text.parse::<Ids>().map(|ids| ids.0);
        assert_eq!(ids("1,403, 407").unwrap(), [1, 403, 407]);
        assert_eq!(ids("").unwrap(), [0_u32; 0]);
        assert!(ids("1,,2").is_err());
        assert!(ids("-1").is_err());
        assert!(ids("4294967296").is_err());
    }
}
