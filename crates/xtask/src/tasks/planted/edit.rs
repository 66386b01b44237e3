//! Edit of a file, found by its context and not by line numbers.

/// Lines to replace in one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Edit {
    /// The path relative to the root of the workspace.
    pub(super) path: String,
    /// The lines before the edit: context, and lines that the edit removes.
    before: Vec<String>,
    /// The lines after the edit: context, and lines that the edit adds.
    after: Vec<String>,
}

impl Edit {
    /// Creates an edit of `path` from the lines of a hunk, which start with a space, `-` or `+`. An empty
    /// line is an empty line of context.
    ///
    /// # Errors
    /// If the hunk changes nothing or has no line to find it by.
    pub(super) fn parse(path: &str, hunk: &[&str]) -> Result<Self, String> {
        let mut edit = Self { path: path.to_owned(), before: Vec::new(), after: Vec::new() };
        for line in hunk {
            let (mark, text) = line.split_at_checked(1).unwrap_or((" ", ""));
            match mark {
                "-" => edit.before.push(text.to_owned()),
                "+" => edit.after.push(text.to_owned()),
                " " => {
                    edit.before.push(text.to_owned());
                    edit.after.push(text.to_owned());
                }
                _ => return Err(format!("a line starts with no space, `-` or `+`: {line}")),
            }
        }
        let is_blank = edit.before.iter().all(|line| line.trim().is_empty());
        if is_blank || edit.before == edit.after {
            return Err(format!("a hunk of {path} changes nothing, or has no context"));
        }
        Ok(edit)
    }

    /// Applies the edit to the text of its file. Indentation does not count when the lines are compared.
    ///
    /// # Errors
    /// If the lines before the edit occur not exactly once. Returns the number of occurrences.
    pub(super) fn apply(&self, text: &str) -> Result<String, usize> {
        let lines: Vec<&str> = text.lines().collect();
        let is_here = |window: &[&str]| {
            window.iter().zip(&self.before).all(|(line, before)| line.trim() == before.trim())
        };
        let windows = lines.windows(self.before.len()).enumerate();
        let places: Vec<usize> =
            windows.filter(|(_, window)| is_here(window)).map(|(at, _)| at).collect();
        let [at] = places[..] else { return Err(places.len()) };
        let rest = &lines[at + self.before.len()..];
        let after = self.after.iter().map(String::as_str);
        let edited: Vec<&str> =
            lines[..at].iter().copied().chain(after).chain(rest.iter().copied()).collect();
        Ok(edited.join("\n") + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "fn a() {\n    one();\n    two();\n}\n\nfn b() {\n    one();\n}\n";

    fn edit(hunk: &[&str]) -> Edit {
        Edit::parse("file", hunk).unwrap()
    }

    #[test]
    fn edit_replaces_the_lines_between_its_context() {
        let edited = edit(&[" one();", "-two();", "+    three();"]).apply(TEXT).unwrap();
        assert_eq!(edited, TEXT.replace("two", "three").replacen("    one", "one", 1));
        let inserted = edit(&[" }", "", "+fn c() {}", " fn b() {"]).apply(TEXT).unwrap();
        assert_eq!(inserted, TEXT.replace("fn b", "fn c() {}\nfn b"));
    }

    #[test]
    fn edit_fails_unless_its_context_occurs_once() {
        assert_eq!(edit(&["-one();"]).apply(TEXT), Err(2));
        assert_eq!(edit(&["-three();"]).apply(TEXT), Err(0));
    }

    #[test]
    fn hunk_without_context_or_change_is_rejected() {
        for hunk in [&["+one();"][..], &[" one();"], &["one();"], &[]] {
            assert!(Edit::parse("file", hunk).is_err(), "{hunk:?}");
        }
    }
}
