//! Fault to plant: its description, its finders and its edits.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use super::edit::Edit;
use super::finder::Finder;
use super::{FOLDER, unreadable};
use crate::tasks::Failure;

/// Content of one file `NAME.patch`.
#[derive(Debug, Clone)]
pub(super) struct Fault {
    pub(super) name: String,
    /// The effect that a user would notice.
    description: String,
    /// Runs that must fail with the fault.
    pub(super) finders: Vec<Finder>,
    edits: Vec<Edit>,
}

impl Fault {
    /// Parses the text of a patch.
    ///
    /// # Errors
    /// If the patch has no description, no finder or no edit, or if one of them is invalid.
    pub(super) fn parse(name: &str, text: &str) -> Result<Self, String> {
        let file = file(name);
        let (header, hunks) = text.split_once("\n--- ").unwrap_or((text, ""));
        let is_finder = |line: &&str| line.starts_with(FOUND_BY);
        let description: Vec<&str> = header.lines().take_while(|line| !is_finder(line)).collect();
        let description = description.join("\n").trim().to_owned();
        let finders = header.lines().filter(is_finder).map(|line| &line[FOUND_BY.len()..]);
        let finders = finders.map(Finder::parse).collect::<Result<Vec<_>, _>>();
        let finders = finders.map_err(|problem| format!("{file}: {problem}"))?;
        let mut edits = Vec::new();
        for section in hunks.split("\n--- ") {
            edits.extend(edits_of(section).map_err(|problem| format!("{file}: {problem}"))?);
        }
        if description.is_empty() || finders.is_empty() || edits.is_empty() {
            return Err(format!("{file}: it needs a description, `{FOUND_BY}` and an edit"));
        }
        Ok(Self { name: name.to_owned(), description, finders, edits })
    }

    /// Returns the path of the patch.
    pub(super) fn file(&self) -> String {
        file(&self.name)
    }

    /// Returns the paths of the files that the fault changes.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.edits.iter().map(|edit| edit.path.as_str())
    }

    /// Returns the changed files of the workspace at `root`, with their text after the edits.
    ///
    /// # Errors
    /// If an edit does not fit the code.
    pub(super) fn planted(&self, root: &Path) -> Result<BTreeMap<&str, String>, Failure> {
        let mut files = BTreeMap::new();
        for edit in &self.edits {
            let text = match files.remove(edit.path.as_str()) {
                Some(text) => text,
                None => fs::read_to_string(root.join(&edit.path))
                    .map_err(|error| unreadable(Path::new(&edit.path), &error))?,
            };
            let text = edit.apply(&text).map_err(|count| {
                let (path, file) = (&edit.path, self.file());
                let lines = format!("its lines occur {count} times in {path}, not once");
                Failure::task(format!("the code has changed: update {file}: {lines}"))
            })?;
            files.insert(edit.path.as_str(), text);
        }
        Ok(files)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n    {}", self.name, self.description.replace('\n', "\n    "))?;
        self.finders.iter().try_for_each(|finder| write!(f, "\n    {FOUND_BY}{finder}"))
    }
}

fn file(name: &str) -> String {
    format!("{FOLDER}/{name}.patch")
}

/// Parses a section of a patch, which starts after the `--- ` of its path.
fn edits_of(section: &str) -> Result<Vec<Edit>, String> {
    let (path, body) = section.split_once('\n').unwrap_or((section, ""));
    let path = path.trim().trim_start_matches("a/");
    // `git diff` writes these lines, too.
    let is_noise = |line: &&str| ["+++ ", "diff ", "index "].iter().any(|it| line.starts_with(it));
    let lines: Vec<&str> = body.lines().filter(|line| !is_noise(line)).collect();
    let hunks = lines.split(|line| line.starts_with("@@"));
    hunks.filter(|hunk| !hunk.is_empty()).map(|hunk| Edit::parse(path, hunk)).collect()
}

const FOUND_BY: &str = "Found-by: ";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patch_has_a_description_finders_and_edits() {
        let text = "Two\nlines.\n\nFound-by: sim --seeds 9\nFound-by: test -p zk-proto --lib x\n\n\
                    --- a/one.rs\n+++ b/one.rs\n@@ -1,2 +1,2 @@\n-a\n+b\n@@\n-c\n--- two.rs\n-d\n";
        let fault = Fault::parse("Name", text).unwrap();
        assert_eq!(fault.paths().collect::<Vec<_>>(), ["one.rs", "one.rs", "two.rs"]);
        let expected = "Name\n    Two\n    lines.\n    Found-by: sim --seeds 9\n    \
                        Found-by: test -p zk-proto --lib x";
        assert_eq!(fault.to_string(), expected);
    }

    #[test]
    fn incomplete_patch_is_rejected_with_its_path() {
        for text in [
            "",
            "No finder.\n\n--- a\n-x\n",
            "Found-by: sim\n\n--- a\n-x\n",
            "No edit.\n\nFound-by: sim\n",
            "No such finder.\n\nFound-by: luck\n\n--- a\n-x\n",
        ] {
            let problem = Fault::parse("Name", text).unwrap_err();
            assert!(problem.starts_with("tests/planted/Name.patch: "), "{problem}");
        }
    }
}
