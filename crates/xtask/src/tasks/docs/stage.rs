//! The copy of the guide that mdBook builds.
//!
//! The pages link to files outside of `docs/`, as forges show them. A book has only the files of its own
//! folder, so the copy has these files too: pages as chapters of their own, all others as they are.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::links::{self, Link, SUMMARY};

/// Replaces the folder `to` by a copy of the guide of the repository `root`.
pub(super) fn copy(root: &Path, to: &Path) -> io::Result<()> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    copy_folder(&root.join("docs"), to)?;
    let mut chapters = Vec::new();
    for page in links::pages(to) {
        chapters.push((format!("docs/{}", page.strip_prefix(to).unwrap_or(&page).display()), page));
    }
    let mut outside = BTreeSet::new();
    for (name, page) in &chapters {
        let text = fs::read_to_string(page)?;
        let files = links::links(&text).into_iter().filter_map(|link| resolve(name, link.target));
        outside.extend(files.filter(|file| !file.starts_with("docs/")));
    }
    let mut summary = fs::OpenOptions::new().append(true).open(to.join(SUMMARY))?;
    writeln!(summary, "\n# Repository\n")?;
    for name in &outside {
        let copy = to.join(copy_of(name));
        fs::create_dir_all(copy.parent().unwrap_or(to))?;
        fs::copy(root.join(name), &copy)?;
        if name.ends_with(".md") {
            writeln!(summary, "* [{name}]({})", copy_of(name))?;
            chapters.push((name.clone(), copy));
        }
    }
    for (name, page) in &chapters {
        let text = fs::read_to_string(page)?;
        if !page.ends_with(SUMMARY) {
            fs::write(page, with_links_to_copies(name, &text, &outside))?;
        }
    }
    Ok(())
}

fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let copy = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &copy)?
        } else {
            fs::copy(entry.path(), copy).map(drop)?
        }
    }
    Ok(())
}

/// Returns the text of the page `name` with links to the copies. Links to files without a copy become text.
fn with_links_to_copies(name: &str, text: &str, outside: &BTreeSet<String>) -> String {
    let up = "../".repeat(copy_of(name).matches('/').count());
    let (mut changed, mut copied) = (String::new(), 0);
    for Link { target, at, .. } in links::links(text) {
        let Some(file) = resolve(name, target) else { continue };
        let (end, start) = (at + target.len(), text[..at].rfind('[').unwrap_or(at));
        let is_chapter = file.starts_with("docs/") && !file.ends_with(SUMMARY);
        if is_chapter || outside.contains(&file) {
            let section = match target.find('#') {
                Some(section) if file.ends_with(".md") => &target[section..],
                _ => "",
            };
            changed += &format!("{}{up}{}{section}", &text[copied..at], copy_of(&file));
            copied = end;
        } else if start >= copied {
            changed += &format!("{}{}", &text[copied..start], &text[start + 1..at - 2]);
            copied = end + 1;
        }
    }
    changed + &text[copied..]
}

/// Returns the file that the page `page` links to, by its path in the repository; `None` for a section of the
/// same page.
fn resolve(page: &str, target: &str) -> Option<String> {
    let path = target.split('#').next().filter(|path| !path.is_empty())?;
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Returns the path of a file's copy.
fn copy_of(file: &str) -> String {
    if let Some(page) = file.strip_prefix("docs/") {
        return page.to_owned();
    }
    let mut copy = PathBuf::from("repository").join(file);
    match Path::new(file).extension().and_then(|kind| kind.to_str()) {
        // mdBook renames README.md, and not all links to it.
        Some("md") if file.ends_with("README.md") => copy.set_file_name("about.md"),
        Some("md" | "svg" | "json") => {}
        // Browsers show plain text, and would save other files.
        _ => copy.as_mut_os_string().push(".txt"),
    }
    copy.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_copies_or_become_text() {
        let outside = ["README.md", "x/b.svg", "x/c.rs"].map(str::to_owned).into();
        let page =
            "[a](../README.md#the-lease), ![b](../x/b.svg), [c](c.md#c) [d](#d) [e](../x/c.rs)\n";
        assert_eq!(
            with_links_to_copies("docs/page.md", page, &outside),
            "[a](repository/about.md#the-lease), ![b](repository/x/b.svg), [c](c.md#c) [d](#d) \
             [e](repository/x/c.rs.txt)\n"
        );
        let page = "[a](docs/a.md), [`b`](crates/b), ![c](x/b.svg), [d](docs/SUMMARY.md)\n";
        assert_eq!(
            with_links_to_copies("README.md", page, &outside),
            "[a](../a.md), `b`, ![c](../repository/x/b.svg), d\n"
        );
    }
}
