//! Patterns for keys and tensor names: globs, where `*` stands for any text and `?` for any
//! character, and regular expressions.

use regex_lite::Regex;

use crate::EditError;

/// A pattern that a whole name fits or does not.
#[derive(Clone, Debug)]
pub struct Glob {
    pattern: String,
    regex: Regex,
}

impl std::fmt::Display for Glob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.pattern)
    }
}

impl std::str::FromStr for Glob {
    type Err = EditError;

    fn from_str(pattern: &str) -> Result<Self, EditError> {
        Self::new(pattern)
    }
}

impl Glob {
    /// Understands a glob. All text is one.
    ///
    /// # Errors
    /// It is too long.
    pub fn new(pattern: &str) -> Result<Self, EditError> {
        let mut regex = String::from("^(?s:");
        for c in pattern.chars() {
            match c {
                '*' => regex.push_str("(.*)"),
                '?' => regex.push_str("(.)"),
                c => regex.push_str(&regex_lite::escape(c.encode_utf8(&mut [0; 4]))),
            }
        }
        regex.push_str(")$");
        Ok(Self {
            pattern: pattern.to_owned(),
            regex: compile(&regex)?,
        })
    }

    /// Whether the name fits.
    #[must_use]
    pub fn fits(&self, name: &str) -> bool {
        self.regex.is_match(name)
    }
}

/// A rule by which names are changed: `PATTERN=REPLACEMENT`.
#[derive(Debug)]
pub struct Rename {
    pattern: Regex,
    replacement: Vec<Piece>,
}

#[derive(Debug)]
enum Piece {
    Text(String),
    /// What the group with this number matched.
    Group(usize),
    /// A replacement in the form of the regular expressions' own.
    Regex(String),
}

impl Rename {
    /// A rule of globs: the whole name must fit, and each `*` and `?` in the replacement stands for
    /// what the one at its place in the pattern has matched.
    ///
    /// # Errors
    /// There is no `=`, or the replacement has more wildcards than the pattern.
    pub fn glob(rule: &str) -> Result<Self, EditError> {
        let (pattern, replacement) = split(rule)?;
        let wildcards = |text: &str| text.chars().filter(|c| matches!(c, '*' | '?')).count();
        if wildcards(replacement) > wildcards(pattern) {
            let message = format!("`{replacement}` has more wildcards than `{pattern}`");
            return Err(EditError::Syntax { message });
        }
        let mut pieces = Vec::new();
        let mut group = 0;
        for c in replacement.chars() {
            match (c, pieces.last_mut()) {
                ('*' | '?', _) => {
                    group += 1;
                    pieces.push(Piece::Group(group));
                }
                (c, Some(Piece::Text(text))) => text.push(c),
                (c, _) => pieces.push(Piece::Text(c.into())),
            }
        }
        Ok(Self {
            pattern: Glob::new(pattern)?.regex,
            replacement: pieces,
        })
    }

    /// A rule of regular expressions: whatever fits in a name is replaced, `$1` is the first group.
    ///
    /// # Errors
    /// There is no `=`, or the pattern is no regular expression.
    pub fn regex(rule: &str) -> Result<Self, EditError> {
        let (pattern, replacement) = split(rule)?;
        Ok(Self {
            pattern: compile(pattern)?,
            replacement: vec![Piece::Regex(replacement.to_owned())],
        })
    }

    /// The new name; `None` when the rule does not fit.
    #[must_use]
    pub fn apply(&self, name: &str) -> Option<String> {
        let groups = self.pattern.captures(name)?;
        let mut text = String::new();
        for piece in &self.replacement {
            match piece {
                Piece::Text(piece) => text.push_str(piece),
                Piece::Group(at) => {
                    text.push_str(groups.get(*at).map_or("", |group| group.as_str()));
                }
                Piece::Regex(replacement) => {
                    text.push_str(&self.pattern.replace_all(name, replacement.as_str()));
                }
            }
        }
        Some(text)
    }
}

fn split(rule: &str) -> Result<(&str, &str), EditError> {
    rule.split_once('=').ok_or_else(|| EditError::Syntax {
        message: format!("`{rule}` is no PATTERN=REPLACEMENT"),
    })
}

fn compile(regex: &str) -> Result<Regex, EditError> {
    Regex::new(regex).map_err(|error| EditError::Syntax {
        message: format!("`{regex}`: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_fit_whole_names() {
        for (pattern, name, fits) in [
            ("llama.*", "llama.block_count", true),
            ("llama.*", "xllama.block_count", false),
            ("llama.*", "llamaXblock", false),
            ("*", "", true),
            ("", "a", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("[a]", "[a]", true),
            ("[a]", "a", false),
            ("*\n*", "a\nb", true),
        ] {
            assert_eq!(
                Glob::new(pattern).unwrap().fits(name),
                fits,
                "{pattern} {name}"
            );
        }
    }

    #[test]
    fn wildcards_are_carried_over() {
        let rule = |rule: &str, name: &str| Rename::glob(rule).unwrap().apply(name);
        assert_eq!(
            rule("blk.*.ffn_*=layers.*.mlp_*", "blk.3.ffn_up").unwrap(),
            "layers.3.mlp_up"
        );
        assert_eq!(rule("a=b", "a").unwrap(), "b");
        assert_eq!(rule("a=b", "aa"), None);
        assert_eq!(rule("*=$1*", "x").unwrap(), "$1x");
        assert_eq!(rule("a=", "a").unwrap(), "");
        assert!(Rename::glob("a*=b**").is_err());
        assert!(Rename::glob("a").is_err());
    }

    #[test]
    fn regular_expressions_replace_what_fits() {
        let rule = |rule: &str, name: &str| Rename::regex(rule).unwrap().apply(name);
        assert_eq!(rule(r"^blk\.(\d+)=l$1", "blk.12.x").unwrap(), "l12.x");
        assert_eq!(rule("o=0", "foo.o").unwrap(), "f00.0");
        assert_eq!(rule("z=0", "foo"), None);
        assert!(Rename::regex("(=x").is_err());
    }
}
