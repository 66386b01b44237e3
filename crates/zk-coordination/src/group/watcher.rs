//! The background task of a group: reads the members, and reads again what has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::pin::{Pin, pin};

use futures::future::{Either, FutureExt, select};
use futures::stream::{FuturesUnordered, StreamExt, iter};
use tokio::sync::watch;
use zk_recipes::session::path::child;
use zk_recipes::session::{Attempts, Client, Error, NodeData, SessionManager, Watch};

use super::members::{Member, Members};
use crate::background::{TASK_POLICY, open_client};
use crate::limits::{BACKOFF_MAX, READS_IN_FLIGHT};
use crate::requests::{is_passing, is_session_end};

/// Follows the members of one group, over any number of sessions.
pub(super) struct Watcher {
    path: String,
    published: watch::Sender<Members>,
}

impl Watcher {
    pub(super) fn new(path: &str, published: watch::Sender<Members>) -> Self {
        Self { path: path.to_owned(), published }
    }

    pub(super) async fn run(self, sessions: SessionManager) {
        loop {
            match open_client(&sessions).await {
                Ok(client) => self.follow_session(&client).await,
                Err(error) => return self.fail(error),
            }
        }
    }

    /// Follows the members until the session has ended.
    async fn follow_session(&self, client: &Client) {
        let mut attempts = TASK_POLICY.begin();
        loop {
            let error = self.follow(client, &mut attempts).await;
            if is_session_end(&error) {
                return;
            }
            if !is_passing(&error) {
                self.fail(error);
            }
            attempts.pause(client).await;
        }
    }

    /// Follows the members until a request fails, and returns its error.
    async fn follow(&self, client: &Client, attempts: &mut Attempts<'_>) -> Error {
        let mut view = View::new(client, &self.path);
        loop {
            if let Err(error) = view.update().await {
                return error;
            }
            attempts.reset();
            let View { members, unreadable, .. } = &view;
            self.published.send_if_modified(|it| it.replace(members, unreadable));
            if let Err(error) = view.changed().await {
                return error;
            }
        }
    }

    fn fail(&self, error: Error) {
        self.published.send_if_modified(|members| members.fail(error));
    }
}

/// Watch of a child, with its name.
type ChildWatch = Pin<Box<dyn Future<Output = Result<String, Error>> + Send>>;

/// The members as one session sees them.
///
/// Each update lists the children first and reads new ones afterwards. A child that is deleted and
/// created again in between fires the watch of the list, so the next update finds it.
struct View<'a> {
    client: &'a Client,
    path: &'a str,
    members: BTreeMap<String, Member>,
    /// Children that were read and are watched, members or not.
    watched: BTreeSet<String>,
    /// Fires when a child is created or deleted, or when a missing group is created. `None` if the
    /// children have to be listed.
    list_watch: Option<Watch>,
    /// Each returns the name of a child that was changed or deleted.
    child_watches: FuturesUnordered<ChildWatch>,
    /// Children that have to be read.
    unread: BTreeSet<String>,
    /// Children that this client may not read.
    unreadable: BTreeSet<String>,
    /// When they are read again.
    reread: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl<'a> View<'a> {
    fn new(client: &'a Client, path: &'a str) -> Self {
        Self {
            client,
            path,
            members: BTreeMap::new(),
            watched: BTreeSet::new(),
            list_watch: None,
            child_watches: FuturesUnordered::new(),
            unread: BTreeSet::new(),
            unreadable: BTreeSet::new(),
            reread: Box::pin(pending()),
        }
    }

    /// Reads everything that has changed.
    async fn update(&mut self) -> Result<(), Error> {
        if self.list_watch.is_none() {
            let (names, watch) = list(self.client, self.path).await?;
            self.unreadable.clear(); // they are read again, because they are not watched
            self.members.retain(|name, _| names.contains(name));
            self.watched.retain(|name| names.contains(name));
            self.unread.retain(|name| names.contains(name));
            self.unread.extend(names.difference(&self.watched).cloned());
            self.list_watch = Some(watch);
        }
        let (client, path) = (self.client, self.path);
        let unread = std::mem::take(&mut self.unread);
        let reads = iter(unread).map(|name| {
            let read = client.get_data_and_watch(&child(path, &name));
            async move { (name, read.await) }
        });
        let mut reads = pin!(reads.buffer_unordered(READS_IN_FLIGHT));
        while let Some((name, read)) = reads.next().await {
            self.unreadable.remove(&name);
            match read {
                Ok((node, watch)) => {
                    update_member(&mut self.members, &name, node);
                    self.watched.insert(name.clone());
                    self.child_watches.push(Box::pin(async move { watch.await.map(|_| name) }));
                }
                Err(error) if error.is_no_node() => {
                    self.members.remove(&name);
                    self.watched.remove(&name);
                }
                Err(error) if error.is_no_auth() => {
                    self.members.remove(&name);
                    self.watched.remove(&name);
                    self.unreadable.insert(name);
                    // Other changes do not move this time.
                    self.reread = Box::pin(client.sleep(BACKOFF_MAX));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits until something has changed, and notes what. Unreadable children count as changed after a
    /// time, because the server reports no change of an access control list.
    async fn changed(&mut self) -> Result<(), Error> {
        let Some(list_watch) = &mut self.list_watch else { return Ok(()) };
        {
            let changed_child = pin!(next_child(&mut self.child_watches));
            match select(list_watch, select(changed_child, &mut self.reread)).await {
                Either::Left((event, _)) => {
                    event?;
                    self.list_watch = None;
                }
                Either::Right((Either::Left((name, _)), _)) => drop(self.unread.insert(name?)),
                Either::Right((Either::Right(_), _)) => {
                    self.unread.extend(self.unreadable.iter().cloned());
                    self.reread = Box::pin(pending());
                }
            }
        }
        // Changes that have arrived together are read together.
        while let Some(Some(name)) = self.child_watches.next().now_or_never() {
            self.unread.insert(name?);
        }
        Ok(())
    }
}

/// Waits for an event of a child, and returns its name.
async fn next_child(watches: &mut FuturesUnordered<ChildWatch>) -> Result<String, Error> {
    match watches.next().await {
        Some(name) => name,
        None => pending().await,
    }
}

/// Lists the children of the group, with a watch. A missing group has none.
async fn list(client: &Client, path: &str) -> Result<(BTreeSet<String>, Watch), Error> {
    loop {
        match client.get_children_and_watch(path).await {
            Ok((children, watch)) => {
                let names = children.names.names().map(|name| name.to_string());
                return Ok((names.collect(), watch));
            }
            Err(error) if error.is_no_node() => {}
            Err(error) => return Err(error),
        }
        let (stat, watch) = client.exists_and_watch(path).await?;
        if stat.is_none() {
            return Ok((BTreeSet::new(), watch));
        }
        // The group was created in between.
    }
}

fn update_member(members: &mut BTreeMap<String, Member>, name: &str, node: NodeData) {
    match Member::of(node) {
        Some(member) => drop(members.insert(name.to_owned(), member)),
        None => drop(members.remove(name)),
    }
}
