//! The background task of a group: reads the members, and reads again what has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::ops::Bound;
use std::pin::{Pin, pin};

use futures::future::{Either, FutureExt, join_all, select};
use futures::stream::{FuturesUnordered, StreamExt, iter};
use tokio::sync::watch;
use zk_recipes::session::path::child;
use zk_recipes::session::{Attempts, Client, Error, NodeData, SessionManager, Stat, Watch, Zxid};

use super::members::{Member, Members};
use crate::background::{TASK_POLICY, open_client};
use crate::limits::{CHECK_PAUSE, CHECKED_ALONE, READS_IN_FLIGHT};
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
            self.published.send_if_modified(|published| published.replace(members, unreadable));
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
    /// The group's node at the time of the list; `None` if it was missing.
    group: Option<Stat>,
    /// Each returns the name of a child that was changed or deleted.
    child_watches: FuturesUnordered<ChildWatch>,
    /// Children that have to be read.
    unread: BTreeSet<String>,
    /// Children that this client may not read.
    unreadable: BTreeSet<String>,
    /// When the group is checked for changes that the server does not report.
    check: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// The child that was checked last; empty at the beginning of a round.
    last_checked: String,
}

impl<'a> View<'a> {
    fn new(client: &'a Client, path: &'a str) -> Self {
        Self {
            client,
            path,
            members: BTreeMap::new(),
            watched: BTreeSet::new(),
            list_watch: None,
            group: None,
            child_watches: FuturesUnordered::new(),
            unread: BTreeSet::new(),
            unreadable: BTreeSet::new(),
            check: Box::pin(client.runtime().sleep(CHECK_PAUSE)),
            last_checked: String::new(),
        }
    }

    /// Reads everything that has changed.
    async fn update(&mut self) -> Result<(), Error> {
        if self.list_watch.is_none() {
            let (names, group, watch) = list(self.client, self.path).await?;
            self.group = group;
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
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits until something may have changed, and notes what.
    async fn changed(&mut self) -> Result<(), Error> {
        let Some(list_watch) = &mut self.list_watch else { return Ok(()) };
        let is_check_due = {
            let changed_child = pin!(next_child(&mut self.child_watches));
            // Other changes do not move the time of the check.
            match select(list_watch, select(changed_child, &mut self.check)).await {
                Either::Left((event, _)) => {
                    event?;
                    self.list_watch = None;
                    false
                }
                Either::Right((Either::Left((name, _)), _)) => {
                    self.unread.insert(name?);
                    false
                }
                Either::Right((Either::Right(_), _)) => true,
            }
        };
        if is_check_due {
            self.check = Box::pin(self.client.runtime().sleep(CHECK_PAUSE));
            self.check().await;
        }
        // Changes that have arrived together are read together.
        while let Some(Some(name)) = self.child_watches.next().now_or_never() {
            self.unread.insert(name?);
        }
        Ok(())
    }

    /// Finds what the server does not report: changed access control lists, and changes of nodes that
    /// this client may not read. A [`Cache`](crate::Cache) has the reasons.
    async fn check(&mut self) {
        self.unread.extend(self.unreadable.iter().cloned());
        let group = self.client.exists(self.path).await;
        // A list tells the reason if the group is not readable.
        if group.is_err() || group.ok().flatten().map(identity) != self.group.map(identity) {
            self.list_watch = None;
        }
        let names = self.next_checked();
        let reads = names.into_iter().map(|name| {
            let read = self.client.get_data(&child(self.path, &name));
            async move { (name, read.await) }
        });
        for (name, read) in join_all(reads).await {
            let member = read.ok().and_then(Member::of);
            if member.as_ref() != self.members.get(&name) {
                self.unread.insert(name);
            }
        }
    }

    /// Returns the next readable children to check.
    fn next_checked(&mut self) -> Vec<String> {
        let behind = (Bound::Excluded(&*self.last_checked), Bound::Unbounded);
        let names = self.watched.range::<str, _>(behind).take(CHECKED_ALONE).cloned();
        let names: Vec<String> = names.collect();
        self.last_checked = match names.last() {
            Some(last) if names.len() == CHECKED_ALONE => last.clone(),
            _ => String::new(),
        };
        names
    }
}

async fn next_child(watches: &mut FuturesUnordered<ChildWatch>) -> Result<String, Error> {
    match watches.next().await {
        Some(name) => name,
        None => pending().await,
    }
}

/// The fields of a Stat that change with the children of a node, or with their permissions. A Keeper does not
/// change `pzxid` when a child is deleted.
fn identity(stat: Stat) -> (Zxid, i32, i32) {
    (stat.czxid, stat.cversion, stat.aversion)
}

/// Lists the children of the group, with a watch. A missing group has none.
async fn list(
    client: &Client,
    path: &str,
) -> Result<(BTreeSet<String>, Option<Stat>, Watch), Error> {
    loop {
        match client.get_children_and_watch(path).await {
            Ok((children, watch)) => {
                let names = children.names.names().map(|name| name.to_string());
                return Ok((names.collect(), Some(children.stat), watch));
            }
            Err(error) if error.is_no_node() => {}
            Err(error) => return Err(error),
        }
        let (stat, watch) = client.exists_and_watch(path).await?;
        if stat.is_none() {
            return Ok((BTreeSet::new(), None, watch));
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
