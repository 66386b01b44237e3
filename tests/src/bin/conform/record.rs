//! Renews the files of recorded answers.

use std::{fs, io};

use zk_testing::Version;

use crate::player::recorded::{Entry, RELEASES, Recorded, index, is_request};

/// Replaces the answers of the servers of one release, and writes the file.
pub(crate) fn renew(
    file: &mut Recorded,
    version: Version,
    server: &str,
    heard: &[Vec<String>],
) -> io::Result<()> {
    let entries = file.entries.iter_mut().filter(|entry| is_request(&entry.line));
    for (entry, heard) in entries.zip(heard) {
        entry.answers[index(version)].clone_from(heard);
    }
    let own = format!("# ZooKeeper {}", RELEASES[index(version)]);
    for entry in file.entries.iter_mut().filter(|entry| entry.line.starts_with(&own)) {
        entry.line = format!("# ZooKeeper {server}");
    }
    fs::write(&file.path, text(file))
}

fn text(file: &Recorded) -> String {
    let mut text = String::new();
    for Entry { line, answers: [old, new] } in &file.entries {
        text.push_str(&format!("{line}\n"));
        let mut write = |release: &str, answer: &str| {
            text.push_str(&format!(
                "  {release}{}{answer}\n",
                if release.is_empty() { "" } else { " " }
            ));
        };
        let [of_old, of_new] = RELEASES;
        for at in 0..old.len().max(new.len()) {
            match (old.get(at), new.get(at)) {
                (Some(old), Some(new)) if old == new => write("", old),
                (old, new) => {
                    old.into_iter().for_each(|old| write(of_old, old));
                    new.into_iter().for_each(|new| write(of_new, new));
                }
            }
        }
    }
    text
}
