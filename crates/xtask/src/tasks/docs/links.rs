//! Links between the pages of the repository, to sections of pages, and to pictures.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Returns the broken links of the guide and of the pages at the root, and files that no page links to.
///
/// Each problem is one line: the file, the number of the line, the problem and its remedy.
pub(crate) fn problems(root: &Path) -> Vec<String> {
    let docs = root.join("docs");
    let (mut problems, mut linked) = (Vec::new(), BTreeSet::new());
    let mut report = |page: &Path, line: usize, what: String| {
        let page = page.strip_prefix(root).unwrap_or(page);
        problems.push(format!("{}:{line}: {what}", page.display()));
    };
    for page in pages(&docs).into_iter().chain(pages(root)) {
        let is_chapter = page.starts_with(&docs);
        let is_summary = page.file_name().is_some_and(|name| name == SUMMARY);
        let text = fs::read_to_string(&page).unwrap_or_default();
        for Link { target, line, is_picture, .. } in links(&text) {
            let (path, section) = target.split_once('#').unwrap_or((target, ""));
            let file = match path {
                "" => page.clone(),
                path => page.parent().unwrap_or(root).join(path),
            };
            // A book has no folders to show.
            let exists = if is_chapter { file.is_file() } else { file.exists() };
            if !exists {
                let kind = if is_picture { "picture" } else { "file" };
                report(&page, line, format!("there is no {kind} {path}: correct the link"));
            } else if !section.is_empty() && !sections(&file).contains(section) {
                report(&page, line, format!("{path} has no section #{section}: correct the link"));
            }
            if is_chapter && (is_summary || is_picture) {
                linked.insert(file);
            }
        }
    }
    for page in pages(&docs).into_iter().filter(|page| !page.ends_with(SUMMARY)) {
        if !linked.contains(&page) {
            report(&page, 1, format!("add the page to docs/{SUMMARY}"));
        }
    }
    for picture in files(&docs.join("pictures")) {
        if !linked.contains(&picture) {
            report(&picture, 1, "show the picture on a page, or remove it".to_owned());
        }
    }
    problems
}

/// The list of the guide's chapters.
pub(super) const SUMMARY: &str = "SUMMARY.md";

/// Returns the pages in a folder, sorted.
pub(super) fn pages(folder: &Path) -> Vec<PathBuf> {
    files(folder)
        .into_iter()
        .filter(|file| file.extension().is_some_and(|kind| kind == "md"))
        .collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> =
        entries.map(|path| path.path()).filter(|path| path.is_file()).collect();
    files.sort();
    files
}

/// Link of a page to a file or a section of the repository.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Link<'a> {
    /// The text between the parentheses.
    pub(super) target: &'a str,
    /// Offset of the target in the page.
    pub(super) at: usize,
    /// Number of the line, from 1.
    line: usize,
    is_picture: bool,
}

/// Returns the links `[…](target)` and `![…](target)` of a page, in order. Code, and links to other sites,
/// are left out.
pub(super) fn links(text: &str) -> Vec<Link<'_>> {
    let mut links = Vec::new();
    for (line, start, prose) in prose_lines(text) {
        let mut from = 0;
        while let Some(found) = prose[from..].find("](") {
            let begin = from + found + 2;
            let Some(len) = prose[begin..].find(')') else { break };
            let target = &prose[begin..begin + len];
            let is_picture =
                prose[..begin - 2].rfind('[').is_some_and(|at| prose[..at].ends_with('!'));
            if !is_code(prose, begin) && !target.contains(':') {
                links.push(Link { target, at: start + begin, line, is_picture });
            }
            from = begin + len;
        }
    }
    links
}

/// Returns the names of a page's sections as forges and mdBook derive them from the headings.
fn sections(page: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(page).unwrap_or_default();
    let mut sections = BTreeSet::new();
    for (_, _, line) in prose_lines(&text).filter(|(_, _, line)| line.starts_with('#')) {
        let name = section(line.trim_start_matches('#').trim());
        let numbered = (1..).map(|number| format!("{name}-{number}"));
        let free = [name.clone()].into_iter().chain(numbered).find(|free| !sections.contains(free));
        sections.extend(free);
    }
    sections
}

fn section(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// Returns the lines outside of code blocks, each with its number and its offset.
fn prose_lines(text: &str) -> impl Iterator<Item = (usize, usize, &str)> {
    let (mut at, mut is_block) = (0, false);
    (1..).zip(text.split_inclusive('\n')).filter_map(move |(number, line)| {
        let start = at;
        at += line.len();
        let is_fence = line.trim_start().starts_with("```");
        is_block ^= is_fence;
        (!is_block && !is_fence).then_some((number, start, line))
    })
}

/// Returns whether the offset is between backquotes.
fn is_code(line: &str, at: usize) -> bool {
    line[..at].matches('`').count() % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_outside_of_code_are_found() {
        let page = "# A\n[a](a.md) `[b](b.md)` ![c](c.svg)\n```\n[d](d.md)\n```\n[e](https://e)\n[f](#f)\n";
        let found: Vec<(&str, usize, bool)> =
            links(page).iter().map(|link| (link.target, link.line, link.is_picture)).collect();
        assert_eq!(found, [("a.md", 2, false), ("c.svg", 2, true), ("#f", 7, false)]);
        assert!(links(page).iter().all(|link| page[link.at..].starts_with(link.target)));
    }

    #[test]
    fn sections_are_named_like_on_a_forge() {
        assert_eq!(section("Pods: names, and `SIGTERM`"), "pods-names-and-sigterm");
        assert_eq!(section("Load on the ensemble"), "load-on-the-ensemble");
    }

    #[test]
    fn guide_has_no_broken_links() {
        let problems = problems(&crate::tasks::workspace_root());
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    #[test]
    fn broken_links_and_unlisted_pages_are_reported() {
        let root = std::env::temp_dir().join(format!("guide-links-{}", std::process::id()));
        fs::create_dir_all(root.join("docs/pictures")).unwrap();
        for (file, text) in [
            ("docs/SUMMARY.md", "* [a](a.md)\n* [gone](gone.md)\n"),
            (
                "docs/a.md",
                "# A\n\n[b](b.md#there) [b](b.md#not)\n![p](pictures/p.svg) ![q](pictures/q.svg)\n",
            ),
            ("docs/b.md", "## There\n"),
            ("docs/pictures/p.svg", ""),
            ("docs/pictures/unused.svg", ""),
            ("README.md", "[docs](docs) [c](docs/c.md)\n"),
        ] {
            fs::write(root.join(file), text).unwrap();
        }
        let found = problems(&root);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(
            found,
            [
                "docs/SUMMARY.md:2: there is no file gone.md: correct the link",
                "docs/a.md:3: b.md has no section #not: correct the link",
                "docs/a.md:4: there is no picture pictures/q.svg: correct the link",
                "README.md:1: there is no file docs/c.md: correct the link",
                "docs/b.md:1: add the page to docs/SUMMARY.md",
                "docs/pictures/unused.svg:1: show the picture on a page, or remove it",
            ]
        );
    }
}
