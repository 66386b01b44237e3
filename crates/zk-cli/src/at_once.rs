//! Requests about many nodes: sent together, and answered in order.
//!
//! A server handles the requests of a session in the order in which it receives them. A command that waits
//! for each answer takes a round trip a node.

use zk_recipes::session::limits::NODES_AT_ONCE;
use zk_recipes::session::{
    Children, Client, Error, ErrorCode, NodeAcl, NodeData, Outcome, Pending, RetryOn, Stat,
};

use crate::failure::is_end;
use crate::prelude::{Session, clock};
use crate::sessions::idle_limit;

/// Reads all of `paths`, many at once, in order. Nodes that vanish meanwhile, or that this client may not
/// read, are left out.
pub(crate) async fn read_each<T: Answer>(
    session: &Session,
    paths: &[String],
    request: fn(&Client, &str) -> Pending<T>,
    seen: &mut dyn FnMut(&str, T),
) -> Result<(), Error> {
    let mut keep = |path: &String, answer| {
        if let Some(answer) = visible(answer)? {
            seen(path, answer);
        }
        Ok(())
    };
    let at_once = &mut AtOnce::default();
    ask_each(paths, at_once, |path| ask(session, move |client| request(client, path)), &mut keep)
        .await
}

/// Returns `None` for a node that has vanished, or that this client may not read.
pub(crate) fn visible<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Err(error) if matches!(error.code(), Some(ErrorCode::NO_NODE | ErrorCode::NO_AUTH)) => {
            Ok(None)
        }
        answer => answer.map(Some),
    }
}

/// Asks about all items, about many at once, and uses the answers in order. `ask` sends its requests
/// when it is called.
pub(crate) async fn ask_each<'i, I, F: Future<Output: Answer>, E>(
    mut items: &'i [I],
    at_once: &mut AtOnce,
    ask: impl Fn(&'i I) -> F,
    seen: &mut dyn FnMut(&'i I, F::Output) -> Result<(), E>,
) -> Result<(), E> {
    while !items.is_empty() {
        let room = READS_BYTES_MAX / at_once.largest.max(1);
        let next = (at_once.before * 4).max(READS_AT_FIRST).min(room).clamp(1, NODES_AT_ONCE);
        at_once.before = next;
        let (chunk, behind) = items.split_at(next.min(items.len()));
        items = behind;
        let asked: Vec<F> = chunk.iter().map(&ask).collect();
        for (item, asked) in chunk.iter().zip(asked) {
            let answer = asked.await;
            at_once.largest = at_once.largest.max(answer.memory());
            seen(item, answer)?;
        }
    }
    Ok(())
}

/// The data of a node, and its access control list if the command needs it.
pub(crate) type ReadNode = (NodeData, Option<NodeAcl>);

/// Asks for the data of a node and, if wanted, for its access control list.
pub(crate) fn ask_node<'a>(
    session: &'a Session,
    path: &'a str,
    wants_acl: bool,
) -> impl Future<Output = Result<ReadNode, Error>> + use<'a> {
    let data = ask(session, move |client| client.get_data(path));
    let acl = wants_acl.then(|| ask(session, move |client| client.get_acl(path)));
    async move {
        let data = data.await?;
        let acl = match acl {
            Some(acl) => Some(acl.await?),
            None => None,
        };
        Ok((data, acl))
    }
}

/// Sends a request now, and returns its answer later. If the connection is lost and the session goes on, the
/// request is sent again.
pub(crate) fn ask<'a, T, R: Fn(&Client) -> Pending<T> + 'a>(
    Session { client, retry, .. }: &'a Session,
    request: R,
) -> impl Future<Output = Result<T, Error>> + use<'a, T, R> {
    let asked = request(client);
    async move {
        match asked.await {
            Err(error) if error.retry_on() == RetryOn::SameSession => retry.run(request).await,
            answer => answer,
        }
    }
}

/// Answer that is kept until the answers before it have been used.
pub(crate) trait Answer {
    /// Returns the bytes that it takes, if they may be many.
    fn memory(&self) -> usize {
        0
    }
}

impl Answer for NodeData {
    fn memory(&self) -> usize {
        self.data.len()
    }
}

impl Answer for NodeAcl {
    fn memory(&self) -> usize {
        self.acl.iter().map(|entry| size_of_val(entry) + entry.id.len()).sum()
    }
}

impl Answer for Children {
    fn memory(&self) -> usize {
        self.names.names().map(|name| name.len()).sum()
    }
}

impl Answer for Option<Stat> {}

impl Answer for ReadNode {
    fn memory(&self) -> usize {
        self.0.memory() + self.1.as_ref().map_or(0, Answer::memory)
    }
}

impl<T: Answer> Answer for Result<T, Error> {
    fn memory(&self) -> usize {
        self.as_ref().map_or(0, Answer::memory)
    }
}

/// How many nodes are read at once: as many as [`READS_BYTES_MAX`] has room for, if the answers are as
/// large as the largest so far.
#[derive(Default)]
pub(crate) struct AtOnce {
    largest: usize,
    /// The number of the last time. It grows step by step, because the first answers may be small.
    before: usize,
}

/// Nodes that are read at once at first.
const READS_AT_FIRST: usize = 4;

/// Bytes of the answers that are kept at once.
const READS_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Sends a request, and repeats it if its answer is lost: it does no harm to apply it twice. Returns
/// also whether an answer was lost.
pub(crate) async fn repeat<T, F: Future<Output = Result<T, Error>>>(
    Session { client, retry, .. }: &Session,
    request: impl Fn(&Client) -> F,
) -> (Result<T, Error>, bool) {
    let begun = clock();
    let mut was_lost = false;
    loop {
        let done = retry.run(&request).await;
        let is_lost = |error: &Error| error.outcome() == Outcome::Unknown && !is_end(error);
        if !done.as_ref().is_err_and(is_lost) || clock() - begun > idle_limit(client) {
            return (after_loss(done, was_lost), was_lost);
        }
        was_lost = true;
    }
}

/// Sends a write for each item, and gives the answers to `settle` in order, each with whether an earlier
/// answer was lost. A write is repeated like [`repeat`] if its answer is lost or the server could not handle
/// it yet.
///
/// Returns the first error of `settle`, with its item. The writes after it are under way, and not repeated.
pub(crate) async fn write_each<I: Copy, T>(
    session: &Session,
    items: impl Iterator<Item = I> + Clone,
    request: impl Fn(&Client, I) -> Pending<T>,
    mut settle: impl FnMut(I, Result<T, Error>, bool) -> Result<(), Error>,
) -> Result<(), (I, Error)> {
    let sent: Vec<_> = items.clone().map(|item| request(&session.client, item)).collect();
    let mut failed: Option<(I, Error)> = None;
    for (item, sent) in items.zip(sent) {
        let (done, was_lost) = match (sent.await, &failed) {
            (Err(error), None) if error.outcome() == Outcome::Unknown && !is_end(&error) => {
                let (done, _) = repeat(session, |client| request(client, item)).await;
                (after_loss(done, true), true)
            }
            (Err(error), None) if error.retry_on() == RetryOn::SameSession => {
                repeat(session, |client| request(client, item)).await
            }
            (done, _) => (done, false),
        };
        if let Err(error) = settle(item, done, was_lost) {
            failed = Some(match failed {
                None => (item, error),
                Some((first, why)) if error.outcome() == Outcome::Unknown => {
                    (first, why.with_outcome(Outcome::Unknown))
                }
                Some(first) => first,
            });
        }
    }
    failed.map_or(Ok(()), Err)
}

/// Returns the result of the last attempt. If the answer to an earlier one was lost, no error proves that
/// nothing was applied.
pub(crate) fn after_loss<T>(done: Result<T, Error>, was_lost: bool) -> Result<T, Error> {
    if was_lost { done.map_err(|error| error.with_outcome(Outcome::Unknown)) } else { done }
}
