//! Plain language: counts sentences in comments and documents that a stranger may stumble over, and
//! checks the names of tests. CONTRIBUTING.md has the rules; this finds the common violations.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{collect, root};

/// Share of the sentences that may be flagged, in thousandths. Lower it when the count allows it.
const FLAGGED_PER_THOUSAND_MAX: usize = 8;

const WORDS_MAX: usize = 34;
const TEST_NAME_LEN_MAX: usize = 60;

/// A test is named `subject_behaviour_condition`, so its first word is the subject.
const TEST_NAME_STARTS: [&str; 12] = [
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

/// Pronouns that stand for a subject which the sentence does not name.
const HEADLESS: [&str; 5] = ["who", "whoever", "whose", "what", "whatever"];

/// Words before such a pronoun that make the clause headless.
const BEFORE_HEADLESS: [&str; 11] =
    ["of", "for", "by", "to", "from", "than", "with", "if", "when", "and", "or"];

const PHRASES: [&str; 12] = [
    "as good as",
    "none of its own",
    "not any more",
    "of its own accord",
    "for certain",
    "for good",
    "at that moment",
    "those who",
    "those that",
    "one who",
    "one that",
    "so does",
];

/// Participles that hide the subject and the field's verb behind a form of `to be`.
const VAGUE: [&str; 12] = [
    "had",
    "told",
    "let in",
    "asked for",
    "given up",
    "heard",
    "said",
    "gone back to",
    "looked at",
    "looked for",
    "taken back",
    "handed on",
];

const TO_BE: [&str; 6] = ["is", "are", "was", "were", "be", "been"];

#[test]
fn few_sentences_are_hard_to_understand() {
    let mut flagged = Vec::new();
    let mut total = 0;
    for (path, text) in files(&["rs", "md"]) {
        for (line, sentence) in sentences(&path, &text) {
            total += 1;
            if let Some(why) = why_hard(&sentence) {
                flagged.push(format!("{}:{line}: {why}: {sentence}", path.display()));
            }
        }
    }
    let max = total * FLAGGED_PER_THOUSAND_MAX / 1_000;
    assert!(
        flagged.len() <= max,
        "{} of {total} sentences, {max} at most:\n{}",
        flagged.len(),
        flagged.join("\n")
    );
}

#[test]
fn test_names_begin_with_their_subject_and_are_short() {
    let mut bad = Vec::new();
    for (path, text) in files(&["rs"]) {
        let mut is_test = false;
        for (line, code) in (1..).zip(text.lines().map(str::trim)) {
            is_test |= code.starts_with("#[test]") || code.starts_with("#[tokio::test");
            let Some(name) = function_name(code).filter(|_| std::mem::take(&mut is_test)) else {
                continue;
            };
            let has_bad_start = TEST_NAME_STARTS.iter().any(|start| name.starts_with(start));
            if has_bad_start || name.len() > TEST_NAME_LEN_MAX {
                bad.push(format!("{}:{line}: {name}", path.display()));
            }
        }
    }
    assert!(bad.is_empty(), "name the subject first, in 60 characters:\n{}", bad.join("\n"));
}

/// Returns the name of the function that the line declares.
fn function_name(code: &str) -> Option<&str> {
    let code = code.strip_prefix("pub ").unwrap_or(code);
    let code = code.strip_prefix("async ").unwrap_or(code);
    let rest = code.strip_prefix("fn ")?;
    rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next()
}

/// Returns the first reason why a sentence is hard to understand.
fn why_hard(sentence: &str) -> Option<&'static str> {
    let words: Vec<String> = sentence.split_whitespace().map(str::to_lowercase).collect();
    let plain: Vec<&str> = words.iter().map(|word| word.trim_matches(punctuation)).collect();
    let joined = format!(" {} ", plain.join(" "));
    if words.len() > WORDS_MAX {
        return Some("too long");
    }
    if PHRASES.iter().any(|phrase| joined.contains(&format!(" {phrase} "))) {
        return Some("vague phrase");
    }
    let is_vague =
        |be: &&str| VAGUE.iter().any(|participle| joined.contains(&format!(" {be} {participle} ")));
    if TO_BE.iter().any(is_vague) {
        return Some("vague verb");
    }
    let is_headless = |at: usize| {
        let ends_clause = |word: &String| word.ends_with(['.', ';', ':', ',']);
        at == 0 || BEFORE_HEADLESS.contains(&plain[at - 1]) || ends_clause(&words[at - 1])
    };
    let pronouns = plain.iter().enumerate().filter(|(_, word)| HEADLESS.contains(word));
    pronouns.map(|(at, _)| at).any(is_headless).then_some("clause without a subject")
}

fn punctuation(c: char) -> bool {
    !c.is_alphanumeric() && c != '_' && c != '`'
}

/// Returns the sentences of comments, or of a Markdown document, each with the line of its
/// paragraph. Code blocks, headings and tables are left out.
fn sentences(path: &Path, text: &str) -> Vec<(usize, String)> {
    let is_markdown = path.extension().is_some_and(|kind| kind == "md");
    let (mut found, mut paragraph, mut first_line, mut is_code) =
        (Vec::new(), String::new(), 0, false);
    for (line, raw) in (1..).zip(text.lines().chain([""])) {
        let prose = if is_markdown { Some(raw.trim()) } else { comment(raw) };
        let is_fence = prose.is_some_and(|prose| prose.starts_with("```"));
        is_code ^= is_fence;
        let prose = prose.filter(|prose| {
            !is_code && !is_fence && !prose.is_empty() && !prose.starts_with(['|', '#'])
        });
        let starts_item = prose.is_some_and(|prose| prose.starts_with("* "));
        if prose.is_none() || starts_item {
            found.extend(split(&paragraph).map(|sentence| (first_line, sentence)));
            paragraph.clear();
        }
        if let Some(prose) = prose {
            if paragraph.is_empty() {
                first_line = line;
            }
            paragraph += prose;
            paragraph.push(' ');
        }
    }
    found
}

/// Returns the text of a line that is a comment and nothing else.
fn comment(line: &str) -> Option<&str> {
    let text = line.trim().strip_prefix("//")?;
    Some(text.trim_start_matches(['/', '!']).trim())
}

fn split(paragraph: &str) -> impl Iterator<Item = String> {
    let mut sentences = vec![String::new()];
    for word in paragraph.split_whitespace() {
        let sentence = sentences.last_mut().unwrap();
        let has_ended = sentence.trim_end().ends_with(['.', '!', '?', ':', ';']);
        if has_ended && word.starts_with(|c: char| c.is_uppercase() || c == '`' || c == '*') {
            sentences.push(String::new());
        }
        let sentence = sentences.last_mut().unwrap();
        *sentence += word;
        sentence.push(' ');
    }
    sentences.into_iter().filter(|sentence| !sentence.is_empty())
}

/// Returns the files of these kinds, except recordings, with their texts.
fn files(kinds: &[&str]) -> impl Iterator<Item = (PathBuf, String)> {
    let root = root();
    let mut found = Vec::new();
    collect(&root, kinds, &mut found);
    assert!(found.len() > 100, "files under {}", root.display());
    found.into_iter().filter(|path| path.iter().all(|part| part != "golden")).map(move |path| {
        let text = fs::read_to_string(&path).unwrap();
        (path.strip_prefix(&root).unwrap().to_owned(), text)
    })
}

#[test]
fn checker_flags_hard_sentences_and_passes_plain_ones() {
    for (sentence, why) in [
        ("Whoever waits is told.", Some("vague verb")),
        ("Whoever waits gets an error.", Some("clause without a subject")),
        ("Returns what was requested, and who asks.", Some("clause without a subject")),
        ("A lock that is free is had at once.", Some("vague verb")),
        ("This is as good as done.", Some("vague phrase")),
        ("Returns the client of the current session.", None),
        ("The session that expired has no nodes, such as locks.", None),
    ] {
        assert_eq!(why_hard(sentence), why, "{sentence}");
    }
    let long = "word ".repeat(WORDS_MAX + 1);
    assert_eq!(why_hard(&long), Some("too long"));
    let text =
        "/// One fact. Another one; `code` follows.\n/// ```\n/// code\n/// ```\n\n// * Item.\n";
    let found: Vec<String> = sentences(Path::new("a.rs"), text)
        .into_iter()
        .map(|(_, it)| it.trim().to_owned())
        .collect();
    assert_eq!(found, ["One fact.", "Another one;", "`code` follows.", "* Item."]);
}
