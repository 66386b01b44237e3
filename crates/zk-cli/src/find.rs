//! `zk find` and `zk ephemerals`: nodes below a path that match.

use clap::Args as ClapArgs;
use serde_json::json;
use zk_recipes::session::{Client, SessionId, path::file_name};

use crate::at_once::read_each;
use crate::failure::Failure;
use crate::sessions::Session;
use crate::subtree::visible_paths;

/// The `find` command.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  zk find /app --name 'conf*'
  zk find /app --contains localhost
  zk find / --name '*lock-*'")]
pub(crate) struct Find {
    /// The node below which to search; it is searched, too.
    #[arg(default_value = "/")]
    path: String,

    /// Only nodes with this name; * stands for any characters, ? for one.
    #[arg(long, value_name = "PATTERN")]
    name: Option<String>,

    /// Only nodes whose data contains this text.
    #[arg(long, value_name = "TEXT")]
    contains: Option<String>,

    /// End each path with a byte 0 and not with a newline, for `xargs -0`.
    #[arg(long, short = '0', conflicts_with = "json")]
    nul: bool,
}

/// The `ephemerals` command.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  zk ephemerals
  zk ephemerals /app --session 0x10000a1b2c3d4e5")]
pub(crate) struct Ephemerals {
    /// The node below which to search.
    #[arg(default_value = "/")]
    path: String,

    /// Only the nodes of this session.
    #[arg(long, value_name = "ID", value_parser = session_id)]
    session: Option<SessionId>,
}

pub(crate) async fn find(session: &Session, find: &Find) -> Result<(), Failure> {
    let mut paths = visible_paths(session, &find.path).await?;
    if let Some(pattern) = &find.name {
        paths.retain(|path| matches(file_name(path), pattern));
    }
    if let Some(text) = &find.contains {
        let mut found = Vec::new();
        read_each(session, &paths, Client::get_data, &mut |path, node| {
            let contains = memmem(&node.data, text.as_bytes());
            found.extend(contains.then(|| path.to_owned()));
        })
        .await?;
        paths = found;
    }
    if find.nul {
        return session.output.print_nul(&paths);
    }
    session.output.print_each(&paths, String::clone, |path| json!(path))
}

/// Prints the ephemeral nodes of all sessions, with the session of each.
pub(crate) async fn ephemerals(session: &Session, wanted: &Ephemerals) -> Result<(), Failure> {
    let paths = visible_paths(session, &wanted.path).await?;
    let mut found = Vec::new();
    read_each(session, &paths, Client::exists, &mut |path, stat| {
        let owner = stat.map_or(SessionId::NONE, |stat| stat.ephemeral_owner);
        if owner != SessionId::NONE && wanted.session.is_none_or(|wanted| wanted == owner) {
            found.push((owner.to_string(), path.to_owned()));
        }
    })
    .await?;
    let line = |(owner, path): &(String, String)| format!("{owner}\t{path}");
    session.output.print_each(
        &found,
        line,
        |(owner, path)| json!({ "session": owner, "path": path }),
    )
}

/// Returns true if a name matches a pattern, in which * stands for any characters, and ? for one.
fn matches(name: &str, pattern: &str) -> bool {
    let (name, pattern): (Vec<char>, Vec<char>) =
        (name.chars().collect(), pattern.chars().collect());
    let (mut at, mut of) = (0, 0);
    // The last star, and where in the name the rest of the pattern was tried.
    let mut star: Option<(usize, usize)> = None;
    while at < name.len() {
        match (pattern.get(of), star) {
            (Some('*'), _) => {
                star = Some((of, at));
                of += 1;
            }
            (Some(wanted), _) if *wanted == '?' || *wanted == name[at] => {
                at += 1;
                of += 1;
            }
            (_, Some((star_of, tried))) => {
                star = Some((star_of, tried + 1));
                (at, of) = (tried + 1, star_of + 1);
            }
            _ => return false,
        }
    }
    pattern[of..].iter().all(|left| *left == '*')
}

fn memmem(data: &[u8], text: &[u8]) -> bool {
    text.is_empty() || data.windows(text.len()).any(|window| window == text)
}

/// Parses a session id in hexadecimal, as all commands print it.
fn session_id(text: &str) -> Result<SessionId, String> {
    text.parse()
        .map_err(|_| "write a session id in hexadecimal, such as 0x10000a1b2c3d4e5".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        for (name, pattern) in [
            ("config", "config"),
            ("config", "*"),
            ("config", "c*g"),
            ("config", "*on*"),
            ("config", "c?nfi?"),
            ("aab", "*ab"),
            ("ä", "?"),
            ("", "*"),
        ] {
            assert!(matches(name, pattern), "{name} {pattern}");
        }
        for (name, pattern) in
            [("config", "conf"), ("config", "onfig"), ("config", "c*x"), ("a", "??"), ("", "?")]
        {
            assert!(!matches(name, pattern), "{name} {pattern}");
        }
    }

    #[test]
    fn session_id_is_read_as_printed() {
        assert_eq!(session_id("0xff"), Ok(SessionId(255)));
        assert_eq!(session_id("ffffffffffffffff"), Ok(SessionId(-1)));
        assert!(session_id("soon").is_err());
    }
}
