//! The identity with which `zk import` opens the lists of parents to itself.
//!
//! The list of a parent is open to the importer until its children exist. An entry for the address of
//! this machine would open it to everybody behind the same address, so an importer without another
//! identity presents a one-time one.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::prelude::{Failure, Output, Result, Session};
use zk_recipes::session::{Acl, Client, Error, ErrorCode, Perms};

/// A digest of a random user with a random password, in a file that only this user reads.
#[derive(Clone, Debug)]
pub(super) struct OneTimeIdentity {
    user: String,
    password: String,
    /// `None` if no file could be written.
    pub(super) file: Option<PathBuf>,
    /// Nodes that earlier imports opened to it, and that were not closed.
    earlier: BTreeSet<String>,
    /// Those of this import. The file has a line for each, written before the node is opened.
    open: BTreeSet<String>,
}

impl OneTimeIdentity {
    /// Makes a new identity, and stores it before anything is created with it: in this file, or in one of
    /// the current folder.
    pub(super) fn new(file: Option<&Path>, output: Output) -> Result<Self> {
        let random = |bytes: &mut [u8]| File::open("/dev/urandom")?.read_exact(bytes);
        let (mut user, mut password) = ([0; 4], [0; 16]);
        random(&mut user)
            .and_then(|()| random(&mut password))
            .map_err(|error| Failure::other(format!("no random numbers: {error}")))?;
        let user = format!("zk-import-{}", hex(&user));
        let (earlier, open) = (BTreeSet::new(), BTreeSet::new());
        let mut identity = Self { user, password: hex(&password), file: None, earlier, open };
        let own_name = || PathBuf::from(format!("{}.auth", identity.user));
        let file = file.map_or_else(own_name, Path::to_owned);
        let what = "lists that deny this client the creation of children are open to a one-time \
                    identity until the import is complete";
        match identity.write(&file) {
            Ok(()) => {
                let shown = file.display();
                output.note(&format!("{what}: {shown}, which --resume takes after a failure"));
                identity.file = Some(file);
            }
            Err(error) => output.note(&format!(
                "{what}: {}; after a failure, give it to --auth ({}: {error})",
                identity.credential(),
                file.display()
            )),
        }
        Ok(identity)
    }

    /// Reads the identity of an import that has failed. There is none yet if the file does not exist.
    pub(super) fn read(file: &Path) -> Result<Option<Self>> {
        let about = |why: &str| Failure::other(format!("{}: {why}", file.display()));
        let mut text = String::new();
        let opened = match File::open(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened
                .and_then(|mut file| file.read_to_string(&mut text).and_then(|_| file.metadata())),
        };
        let metadata = opened.map_err(|error| about(&error.to_string()))?;
        // The identity may change the nodes that are opened to it.
        if metadata.uid() != nix::unistd::geteuid().as_raw() || metadata.mode() & 0o077 != 0 {
            return Err(about("others may have written it: it must be yours alone (chmod 600)"));
        }
        let mut lines = text.lines();
        let first = lines.next().and_then(|line| line.strip_prefix("digest:"));
        let parts = first.and_then(|rest| rest.split_once(':'));
        let (user, password) = parts.ok_or_else(|| about("not an identity of zk import"))?;
        let (user, password) = (user.to_owned(), password.to_owned());
        let (earlier, open) = (lines.map(str::to_owned).collect(), BTreeSet::new());
        Ok(Some(Self { user, password, file: Some(file.to_owned()), earlier, open }))
    }

    /// Notes that a node is about to be opened to the identity.
    pub(super) fn opens(&mut self, path: &str) -> Result<()> {
        if self.earlier.contains(path) || !self.open.insert(path.to_owned()) {
            return Ok(());
        }
        let Some(file) = &self.file else { return Ok(()) };
        let opened = OpenOptions::new().append(true).open(file);
        opened
            .and_then(|mut opened| writeln!(opened, "{path}"))
            .map_err(|error| Failure::other(format!("{}: {error}", file.display())))
    }

    /// Notes that a node was not opened by this import.
    pub(super) fn has_not_opened(&mut self, path: &str) {
        self.open.remove(path);
    }

    pub(super) fn closes(&mut self, path: &str) {
        self.earlier.remove(path);
        self.open.remove(path);
    }

    /// Returns the nodes that are open to the identity, or may be.
    pub(super) fn open(&self) -> impl Iterator<Item = &String> {
        self.earlier.iter().chain(&self.open)
    }

    pub(super) async fn present(&self, client: &Client) -> Result<()> {
        let secret = format!("{}:{}", self.user, self.password);
        let why = "the servers accept no one-time identity; give this command one of its own with \
                   --auth, --sasl or --cert";
        let added = client.add_auth("digest", secret).await;
        added.map_err(|error| Failure::from(error).about(why))
    }

    /// Removes the file. Nothing is open to the identity any longer.
    pub(super) fn forget(&self) {
        if let Some(file) = &self.file {
            // The identity is worth nothing.
            let _ = fs::remove_file(file);
        }
    }

    fn credential(&self) -> String {
        format!("digest:{}:{}", self.user, self.password)
    }

    fn write(&self, file: &Path) -> io::Result<()> {
        // A link that another user has put there is not followed.
        let mut new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
        let written = writeln!(new, "{}", self.credential());
        if written.is_err() {
            // It would be in the way of the next import.
            let _ = fs::remove_file(file);
        }
        written
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Scheme and user of the entries that the server stores for [`own_entry`].
pub(super) struct Stored(Vec<(String, String)>);

impl Stored {
    /// Returns the identities that the client has presented, but for that of its address. `None` if there
    /// are none.
    pub(super) async fn of(
        Session { client, retry, context, .. }: &Session,
        one_time: Option<&OneTimeIdentity>,
    ) -> Result<Option<Self>, Error> {
        let lost = client.connections_lost();
        let identities = match retry.run(|client| client.who_am_i()).await {
            // A server before 3.7.
            Err(error) if error.code() == Some(ErrorCode::UNIMPLEMENTED) => {
                // It closes the connection soon after this answer. The outcome of a write on that
                // connection would be unknown, so reads are sent until the next one is open.
                for _ in 0..READS_MAX {
                    retry.run(|client| client.exists("/")).await?;
                    if client.connections_lost() > lost {
                        break;
                    }
                }
                let of_user = context.identity.is_any.then(|| Self(Vec::new()));
                return Ok(one_time.map(Self::of_one_time).or(of_user));
            }
            identities => identities?.into_iter().map(|identity| (identity.scheme, identity.user)),
        };
        let users: Vec<_> = identities.filter(|(scheme, _)| scheme != "ip").collect();
        Ok((!users.is_empty()).then_some(Self(users)))
    }

    /// Returns a one-time identity that the client has presented.
    pub(super) fn of_one_time(identity: &OneTimeIdentity) -> Self {
        Self(vec![("digest".to_owned(), identity.user.clone())])
    }

    /// Returns true if the server may have stored `present` for the entry of this client.
    pub(super) fn has_left(&self, present: &Acl) -> bool {
        let is_own = |(scheme, user): &(String, String)| {
            // The id of a digest is the user and a hash, which servers do not tell.
            let id = if scheme == "digest" {
                present.id.split(':').next().unwrap_or_default()
            } else {
                &present.id
            };
            present.scheme == scheme.as_str() && id == user
        };
        present.perms == OWN_PERMS && self.0.iter().any(is_own)
    }
}

/// Returns the entry that lets this client create the children of a node, and set its list.
pub(super) fn own_entry() -> Acl {
    Acl::auth(OWN_PERMS)
}

/// A repeated import also reads the node, and with `--overwrite` it writes the data.
const OWN_PERMS: Perms = Perms(Perms::CREATE.0 | Perms::READ.0 | Perms::WRITE.0 | Perms::ADMIN.0);

/// Limit of the reads before a server closes the connection. It closes it after one or two of them; one that
/// never does costs this many round trips, once.
const READS_MAX: u32 = 50;
