//! Access control lists on the command line, and `zk getacl`, `zk setacl` and `zk whoami`.

use zk_recipes::session::limits::NODES_AT_ONCE;
use zk_recipes::session::{Acl, Client, ClientInfo, OPEN_ACL_UNSAFE, Perms};

use crate::at_once::write_each;
use crate::node_arg::{Node, Nothing};
use crate::prelude::{ClapArgs, Failure, Result, Session, Value, data_text, json};
use crate::progress::Progress;
use crate::subtree::{ensembles_own, sorted_paths};

/// The access control list of nodes that a command creates.
#[derive(Clone, Debug, Default, ClapArgs)]
pub(crate) struct NewNodeAcl {
    /// Permissions of one user on the nodes that the command creates, and on their missing parents;
    /// may be repeated.
    ///
    /// The letters of PERMS: c create children, d delete children, r read, w write, a set the
    /// list. Examples: auth::cdrwa (the identities of this command), world:anyone:r,
    /// sasl:alice:cdrwa, ip:10.0.0.0/8:r, and for a user with a password digest:USER:HASH:r. zk digest
    /// USER prints digest:USER:HASH. Each entry has an option of its own. Without this option,
    /// everybody has all permissions.
    #[arg(long, value_name = "SCHEME:ID:PERMS", value_parser = entry)]
    acl: Vec<Acl>,
}

impl NewNodeAcl {
    pub(crate) fn entries(&self) -> &[Acl] {
        if self.acl.is_empty() { OPEN_ACL_UNSAFE } else { &self.acl }
    }
}

/// Parses an entry as ZooKeeper's shell does. The id may contain colons.
pub(crate) fn entry(text: &str) -> Result<Acl, String> {
    let entry = split(text, perms)
        .ok_or("write SCHEME:ID:PERMS with letters of cdrwa, such as auth::cdrwa")?;
    check(&entry.scheme, &entry.id)?;
    Ok(entry)
}

/// Parses an entry as `zk export` prints it. No option takes some of these entries, such as one without
/// permissions.
pub(crate) fn printed(text: &str) -> Result<Acl, String> {
    let entry = split(text, printed_perms);
    entry.ok_or_else(|| format!("`{text}` is no entry of an access control list"))
}

fn split(text: &str, perms: impl FnOnce(&str) -> Option<Perms>) -> Option<Acl> {
    let (scheme, rest) = text.split_once(':')?;
    let (id, letters) = rest.rsplit_once(':')?;
    let perms = perms(letters)?;
    if scheme.is_empty() {
        return None;
    }
    Some(Acl { perms, scheme: scheme.to_owned().into(), id: id.to_owned().into() })
}

/// Refuses what servers accept and nobody means, because it locks everybody out of the node.
fn check(scheme: &str, id: &str) -> Result<(), String> {
    let begins_entry = |text: &str| SCHEMES.iter().any(|scheme| text.trim().starts_with(scheme));
    if id.split(',').skip(1).any(begins_entry) {
        return Err("give each entry as an argument of its own, without commas between".to_owned());
    }
    match scheme {
        "auth" if !id.is_empty() => {
            Err("auth has no id: it stands for the identities of this command, as in auth::r"
                .into())
        }
        "digest" if !is_digest(id) => Err(
            "a digest entry is digest:USER:HASH:PERMS, and the hash is the SHA-1 of USER:PASSWORD \
             in base64: zk digest USER prints digest:USER:HASH; for your own, use auth::PERMS"
                .into(),
        ),
        _ => Ok(()),
    }
}

/// Beginnings of entries, in the syntax of ZooKeeper's shell, which separates them by commas.
const SCHEMES: [&str; 6] = ["world:", "auth:", "digest:", "ip:", "sasl:", "x509:"];

/// Returns true for a digest whose hash the server hides from clients without the permission to set
/// the list.
pub(crate) fn hides_hash(entry: &Acl) -> bool {
    entry.scheme == "digest" && entry.id.ends_with(":x")
}

/// Returns true for a user and the SHA-1 of its credential in base64. Servers may have settings for
/// SHA-256, SHA-384 or SHA-512.
fn is_digest(id: &str) -> bool {
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    id.split_once(':').is_some_and(|(user, hash)| {
        !user.is_empty() && matches!(hash.len(), 28 | 44 | 64 | 88) && hash.bytes().all(is_base64)
    })
}

fn perms(letters: &str) -> Option<Perms> {
    let perm = |letter| match letter {
        'c' => Some(Perms::CREATE),
        'd' => Some(Perms::DELETE),
        'r' => Some(Perms::READ),
        'w' => Some(Perms::WRITE),
        'a' => Some(Perms::ADMIN),
        _ => None,
    };
    letters.chars().map(perm).reduce(|all, one| Some(all? | one?)).flatten()
}

/// Parses what [`Perms`] prints: letters, `-` for none, and unknown bits.
fn printed_perms(text: &str) -> Option<Perms> {
    let (letters, bits) = text.split_once("+0x").unwrap_or((text, "0"));
    let named = match letters {
        "-" => Perms(0),
        "" if text.starts_with('+') => Perms(0),
        letters => perms(letters)?,
    };
    let bits = u32::from_str_radix(bits, 16).ok()?;
    Some(named | Perms(i32::from_be_bytes(bits.to_be_bytes())))
}

pub(crate) async fn get(session: &Session, Node { path }: &Node) -> Result<()> {
    let node = session.retry.run(|client| client.get_acl(path)).await?;
    let entry_json = |entry: &Acl| {
        let perms = entry.perms.to_string();
        json!({ "scheme": entry.scheme, "id": entry.id, "perms": perms })
    };
    session.output.print(node.acl.iter().map(|entry| data_text(text(entry).as_bytes())), || {
        let acl: Value = node.acl.iter().map(entry_json).collect();
        json!({ "acl": acl, "aversion": node.stat.aversion })
    })
}

/// The `setacl` command.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  zk setacl /app/config world:anyone:r ip:127.0.0.1:cdrwa
  zk setacl /app world:anyone:cdrwa --recursive")]
pub(crate) struct SetAcl {
    /// The node.
    path: String,
    /// Permissions of one user, such as sasl:alice:cdrwa; see zk create --help. For a user with a
    /// password, zk digest prints the entry without the permissions.
    #[arg(required = true, value_name = "SCHEME:ID:PERMS", value_parser = entry)]
    acl: Vec<Acl>,
    /// Only if the list's version (aversion) is this one.
    #[arg(long, value_name = "N", conflicts_with = "recursive")]
    version: Option<i32>,
    /// Also for all nodes below it, from the leaves up.
    ///
    /// /zookeeper is left out, if the node is / without a chroot.
    #[arg(long, short = 'R')]
    recursive: bool,
}

pub(crate) async fn set(session: &Session, wanted: &SetAcl) -> Result<()> {
    if wanted.recursive {
        return set_recursive(session, &wanted.path, &wanted.acl).await;
    }
    let set = |client: &Client| client.set_acl(&wanted.path, &wanted.acl, wanted.version);
    let stat = session.retry.run(set).await?;
    session.output.print([], || json!({ "aversion": stat.aversion }))
}

/// Replaces the lists of a node and of all nodes below it, from the leaves up: the new list may keep
/// this client from listing them again, if the command has to be repeated.
async fn set_recursive(session: &Session, root: &str, acl: &[Acl]) -> Result<()> {
    let leaves_out = ensembles_own(root, &session.context.servers)?;
    let (paths, hidden) = sorted_paths(session, root, &leaves_out).await?;
    if !hidden.is_empty() {
        return Err(Failure::other(format!("{root}: {hidden}: no list was changed")));
    }
    let mut progress = Progress::new("changed", Some(paths.len()));
    let set = |client: &Client, path: &String| client.set_acl(path, acl, None);
    for chunk in paths.rchunks(NODES_AT_ONCE) {
        let done = write_each(session, chunk.iter().rev(), set, |_, done, _| match done {
            Ok(_) => {
                progress.one_more();
                Ok(())
            }
            // It was deleted meanwhile.
            Err(error) if error.is_no_node() => Ok(()),
            Err(error) => Err(error),
        });
        if let Err((_, error)) = done.await {
            progress.hide();
            return Err(Failure::from(error).with_done(progress.done, paths.len()));
        }
    }
    progress.hide();
    let nodes = progress.done;
    session.output.print([], || json!({ "path": root, "nodes": nodes }))
}

pub(crate) async fn who_am_i(session: &Session, _: &Nothing) -> Result<()> {
    let identities = session.retry.run(|client| client.who_am_i()).await?;
    let line = |identity: &ClientInfo| {
        data_text(format!("{}:{}", identity.scheme, identity.user).as_bytes())
    };
    session.output.print_each(&identities, line, identity_json)
}

pub(crate) fn identity_json(identity: &ClientInfo) -> Value {
    json!({ "scheme": identity.scheme, "id": identity.user })
}

/// Returns an entry as the options take it, with the hash of a digest.
pub(crate) fn text(entry: &Acl) -> String {
    format!("{}:{}:{}", entry.scheme, entry.id, entry.perms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_parsed_as_they_are_printed() {
        for line in [
            "world:anyone:cdrwa",
            "auth::r",
            "digest:alice:D/InIHSb7yEEbrWz8b9l71RjZJU=:cd",
            "x509:CN=app,O=example:rw",
            "ip:fe80::1:r",
        ] {
            assert_eq!(text(&entry(line).unwrap()), line);
        }
    }

    #[test]
    fn entries_that_no_option_takes_are_read_as_printed() {
        for line in [
            "world:anyone:-",
            "world:anyone:+0x20",
            "ip:::1:rw+0x80000000",
            "digest:bob:plain:cdrwa",
            "auth:alice:r",
        ] {
            assert_eq!(text(&printed(line).unwrap()), line);
        }
        for text in ["", "world:anyone", "world:anyone:", ":x:r", "world:anyone:+0x", "a:b:r+0xg"] {
            assert!(printed(text).is_err(), "{text}");
        }
        let sha256 = "digest:alice:jTVxlBhUiBQbEDFsbF1Q+1p9Wl5dWTNJAJMmDGpAdVY=:r";
        assert_eq!(text(&entry(sha256).unwrap()), sha256);
    }

    #[test]
    fn malformed_entries_are_refused() {
        for text in [
            "",
            "r",
            "world:anyone",
            "world:anyone:",
            "world:anyone:x",
            "::r",
            "auth:alice:r",
            "auth::cdrwa,world:anyone:r",
            "sasl:alice:r, world:anyone:r",
            "digest:alice:sesame:cdrwa",
            "digest:alice:cdrwa",
            "digest:alice:x:cdrwa",
        ] {
            assert!(entry(text).is_err(), "{text}");
        }
    }
}
