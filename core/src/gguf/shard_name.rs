//! Names of the files of a split model: `PREFIX-00001-of-00012.gguf`.

/// The parts of a shard's file name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ShardName<'a> {
    /// What all shards of the set begin with.
    pub prefix: &'a str,
    /// Which shard this is, from 1.
    pub number: u32,
    /// How many shards there are.
    pub count: u32,
}

impl<'a> ShardName<'a> {
    /// Takes a file name apart (the last part of a path); `None` unless it is a shard's name:
    /// five digits each, a number from 1 to the count.
    ///
    /// ```
    /// use smidgen_core::gguf::ShardName;
    /// let name = ShardName::parse("tiny-00002-of-00012.gguf").unwrap();
    /// assert_eq!((name.prefix, name.number, name.count), ("tiny", 2, 12));
    /// assert_eq!(name.to_string(), "tiny-00002-of-00012.gguf");
    /// assert_eq!(ShardName::parse("tiny-00013-of-00012.gguf"), None);
    /// ```
    #[must_use]
    pub fn parse(file_name: &'a str) -> Option<Self> {
        let stem = file_name.strip_suffix(".gguf")?;
        let (rest, count) = stem.rsplit_once("-of-")?;
        let (prefix, number) = rest.rsplit_once('-')?;
        let (number, count) = (digits(number)?, digits(count)?);
        (!prefix.is_empty() && (1..=count).contains(&number)).then_some(Self {
            prefix,
            number,
            count,
        })
    }
}

/// A number of exactly five decimal digits.
fn digits(text: &str) -> Option<u32> {
    let five = text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    five.then(|| text.parse().ok()).flatten()
}

impl core::fmt::Display for ShardName<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self {
            prefix,
            number,
            count,
        } = self;
        write!(f, "{prefix}-{number:05}-of-{count:05}.gguf")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn other_names_are_none() {
        for name in [
            "m-1-of-2.gguf",
            "m-00001-of-2.gguf",
            "m-00000-of-00002.gguf",
            "m-00003-of-00002.gguf",
            "m-+0001-of-00002.gguf",
            "-00001-of-00002.gguf",
            "m-00001-of-00002.bin",
            "m-000001-of-000002.gguf",
            "m.gguf",
            "",
        ] {
            assert_eq!(ShardName::parse(name), None, "{name}");
        }
    }

    #[test]
    fn a_prefix_may_look_like_a_shard() {
        let name = "a-00001-of-00002-00003-of-00004.gguf";
        let shard = ShardName::parse(name).unwrap();
        assert_eq!(shard.prefix, "a-00001-of-00002");
        assert_eq!(shard.to_string(), name);
    }
}
