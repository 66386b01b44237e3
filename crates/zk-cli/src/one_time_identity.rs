//! The identity that `zk import` presents if it has no other one.
//!
//! The list of a parent is open to the importer until its children exist. An entry for the address of
//! this machine would open it to everybody behind the same address.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use zk_recipes::session::Client;

use crate::failure::Failure;
use crate::output::Output;

/// A digest of a random user with a random password, in a file that only this user reads.
#[derive(Clone, Debug)]
pub(crate) struct OneTimeIdentity {
    user: String,
    password: String,
    /// `None` if no file could be written.
    file: Option<PathBuf>,
    /// Nodes that were opened to it, by this import or earlier ones, and not closed. The file has a line
    /// for each, written before the node is opened.
    open: BTreeSet<String>,
}

impl OneTimeIdentity {
    /// Makes a new identity, and stores it before anything is created with it: in this file, or in one of
    /// the current folder.
    pub(crate) fn new(file: Option<&Path>, output: Output) -> Result<Self, Failure> {
        let random = |bytes: &mut [u8]| File::open("/dev/urandom")?.read_exact(bytes);
        let (mut user, mut password) = ([0; 4], [0; 16]);
        random(&mut user)
            .and_then(|()| random(&mut password))
            .map_err(|error| Failure::other(format!("no random numbers: {error}")))?;
        let user = format!("zk-import-{}", hex(&user));
        let mut identity =
            Self { user, password: hex(&password), file: None, open: BTreeSet::new() };
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
    pub(crate) fn read(file: &Path) -> Result<Option<Self>, Failure> {
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
        let open = lines.map(str::to_owned).collect();
        Ok(Some(Self { user, password, file: Some(file.to_owned()), open }))
    }

    /// Notes that a node is about to be opened to the identity. Returns true if it was not noted before.
    pub(crate) fn opens(&mut self, path: &str) -> Result<bool, Failure> {
        let is_new = self.open.insert(path.to_owned());
        if is_new {
            if let Some(file) = &self.file {
                let opened = OpenOptions::new().append(true).open(file);
                opened
                    .and_then(|mut opened| writeln!(opened, "{path}"))
                    .map_err(|error| Failure::other(format!("{}: {error}", file.display())))?;
            }
        }
        Ok(is_new)
    }

    pub(crate) fn closes(&mut self, path: &str) {
        self.open.remove(path);
    }

    /// Returns the nodes that are open to the identity, or may be.
    pub(crate) fn open(&self) -> &BTreeSet<String> {
        &self.open
    }

    pub(crate) async fn present(&self, client: &Client) -> Result<(), Failure> {
        let secret = format!("{}:{}", self.user, self.password);
        let why = "the servers accept no one-time identity; give this command one of its own with \
                   --auth, --sasl or --cert";
        let added = client.add_auth("digest", secret).await;
        added.map_err(|error| Failure::from(error).about(why))
    }

    pub(crate) fn user(&self) -> &str {
        &self.user
    }

    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Removes the file. Nothing is open to the identity any longer.
    pub(crate) fn forget(&self) {
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
