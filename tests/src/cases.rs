//! The files in `tests/cases`: malformed or odd-but-legal inputs with the right verdict for each.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::shared::repository;

/// One entry of the manifest.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name, which is also that of its folder.
    pub id: String,
    /// The files, the first is the one to open.
    pub files: Vec<PathBuf>,
    /// What it is a case for: `parser`, `convert`, `split`, …
    pub area: String,
    /// A finer group.
    pub kind: String,
    /// What to do with it: `inspect`, `convert`, …
    pub op: String,
    /// How to do it; `Null` if there is nothing to say.
    pub args: Value,
    /// The right verdict.
    pub expectation: Expectation,
    /// Whether every careful tool answers so.
    pub strictness: Strictness,
    /// For a reject: the kind of cause that the message must name.
    pub reason: Option<String>,
    /// Values to compare after an accept; `Null` if there are none.
    pub facts: Value,
}

/// What a careful tool does with a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// Take it.
    Accept,
    /// Refuse it.
    Reject,
}

/// How sure the verdict is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strictness {
    /// Every careful tool answers so.
    Firm,
    /// Tools differ, or two answers can be defended.
    Soft,
}

impl Case {
    /// The bytes of the file to open.
    ///
    /// # Panics
    /// It cannot be read.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        fs::read(self.file()).unwrap_or_else(|e| panic!("{}: {e}", self.id))
    }

    /// The file to open.
    ///
    /// # Panics
    /// The manifest names none.
    #[must_use]
    pub fn file(&self) -> &Path {
        let first = self.files.first();
        first.unwrap_or_else(|| panic!("{}: no file", self.id))
    }
}

/// All cases of the manifest, in its order.
///
/// # Panics
/// The manifest cannot be read, or says what this module does not know.
#[must_use]
pub fn all() -> Vec<Case> {
    let folder = repository().join("tests/cases");
    let manifest = folder.join("manifest.json");
    let text =
        fs::read(&manifest).unwrap_or_else(|e| panic!("cannot read {}: {e}", manifest.display()));
    let value: Value = serde_json::from_slice(&text).expect("the manifest is JSON");
    let entries = value.as_array().expect("the manifest is a list");
    entries.iter().map(|entry| read(entry, &folder)).collect()
}

/// The cases of `area` in which `op` is to be done.
///
/// # Panics
/// As [`all`]; and there is no such case.
#[must_use]
pub fn of(area: &str, op: &str) -> Vec<Case> {
    let mut cases = all();
    cases.retain(|case| case.area == area && case.op == op);
    assert!(!cases.is_empty(), "no case of {area} with {op}");
    cases
}

/// The case `id`.
///
/// # Panics
/// As [`all`]; and there is no such case.
#[must_use]
pub fn named(id: &str) -> Case {
    let found = all().into_iter().find(|case| case.id == id);
    found.unwrap_or_else(|| panic!("no case {id}"))
}

fn read(entry: &Value, folder: &Path) -> Case {
    let text = |key: &str| -> String {
        let value = entry[key].as_str();
        value
            .unwrap_or_else(|| panic!("no {key} in {entry}"))
            .to_owned()
    };
    let files = entry["files"].as_array().expect("files is a list");
    let files = files
        .iter()
        .map(|file| folder.join(file.as_str().expect("a path")));
    Case {
        id: text("id"),
        files: files.collect(),
        area: text("area"),
        kind: text("kind"),
        op: text("op"),
        args: entry["args"].clone(),
        expectation: match text("expectation").as_str() {
            "accept" => Expectation::Accept,
            "reject" => Expectation::Reject,
            other => panic!("expectation {other}"),
        },
        strictness: match text("strictness").as_str() {
            "firm" => Strictness::Firm,
            "soft" => Strictness::Soft,
            other => panic!("strictness {other}"),
        },
        reason: entry["reason"].as_str().map(str::to_owned),
        facts: entry["expected_facts"].clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_has_its_files_and_every_file_its_case() {
        let cases = all();
        assert_eq!(cases.len(), 282);
        let mut ids: Vec<_> = cases.iter().map(|case| case.id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), cases.len(), "an id appears twice");
        for case in &cases {
            assert!(case.files.iter().all(|file| file.is_file()), "{}", case.id);
            let rejected = case.expectation == Expectation::Reject;
            assert_eq!(case.reason.is_some(), rejected, "{}", case.id);
        }
        let folder = repository().join("tests/cases/files");
        let listed: usize = cases.iter().map(|case| case.files.len()).sum();
        let there: usize = fs::read_dir(folder)
            .unwrap()
            .map(|dir| fs::read_dir(dir.unwrap().path()).unwrap().count())
            .sum();
        assert!(there >= listed, "{there} files, {listed} listed");
    }

    #[test]
    fn cases_are_found_by_area_and_by_name() {
        assert_eq!(of("parser", "inspect").len(), 91);
        let case = named("hdr_empty_file");
        assert!(case.bytes().is_empty());
        assert_eq!(case.reason.as_deref(), Some("truncated"));
    }
}
