//! A test is named `subject_behaviour_condition`, in few words.

use super::check;

#[test]
fn test_names_begin_with_their_subject_and_are_short() {
    check(|file, report| {
        let mut is_test = false;
        for (number, line) in file.lines() {
            let code = line.trim();
            is_test |= code.starts_with("#[test]") || code.starts_with("#[tokio::test");
            let Some(name) = function_name(code) else { continue };
            let has_no_subject = NO_SUBJECTS.iter().any(|start| name.starts_with(start));
            if is_test && (has_no_subject || name.len() > LEN_MAX) {
                report.at(number, &format!("name the subject first, in {LEN_MAX} characters"));
            }
            is_test = false;
        }
    });
}

/// Returns the name of the function that the line declares.
fn function_name(code: &str) -> Option<&str> {
    let code = code.strip_prefix("pub ").unwrap_or(code);
    let code = code.strip_prefix("async ").unwrap_or(code);
    let rest = code.strip_prefix("fn ")?;
    rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next()
}

const LEN_MAX: usize = 60;

/// Words that stand for a subject which the name does not say.
const NO_SUBJECTS: [&str; 12] = [
    "who_",
    "what_",
    "those_",
    "whose_",
    "whoever_",
    "nobody_",
    "nothing_",
    "everybody_",
    "one_",
    "a_",
    "an_",
    "the_",
];
