//! Waiting for one's turn.
//!
//! A contender of a mutex watches the two nearest ahead of it, and itself. Nobody can
//! come in ahead of it any more, so once all who are ahead are known by name no
//! further list is needed: when they have gone the contender is first, by the event
//! alone. Whoever has more than two ahead looks again when one of its two goes, which
//! in a queue that moves is while its predecessor holds the lock.
//!
//! Its own node is watched because nothing else would tell, without a list, that
//! somebody deleted it. Events come in the order of the transactions: when the last
//! predecessor goes, and the own node was not heard of, it was there.

use zk_session::{Belief, Children, ErrorCode, ErrorKind};

use super::contender::Contender;
use super::vigil::Vigil;
use super::{name, parents, passes, pause};
use crate::error::LockError;
use crate::limits::RESTARTS_MAX;
use crate::planted::{self, Planted};

/// Queues and waits until the contender is first and may believe in its node.
pub(crate) async fn wait(contender: &mut Contender) -> Result<Belief, LockError> {
    for _ in 0..RESTARTS_MAX {
        let listed = contender.enter().await?;
        let ahead = look(contender, listed).await?;
        if come_first(contender, ahead).await? {
            return believe(contender).await;
        }
        contender.restart();
    }
    Err(LockError::Vanished { path: contender.kind().path.clone() })
}

/// Queues, looks once, and gives up if somebody is in the way.
pub(crate) async fn look_once(contender: &mut Contender) -> Result<Option<Belief>, LockError> {
    let listed = contender.enter().await?;
    match look(contender, listed).await? {
        Some(ahead) if ahead.named.is_empty() => believe(contender).await.map(Some),
        _ => Ok(None),
    }
}

/// Waits until nobody is in the way; false if the contender's own node is gone.
///
/// Thousands may be waiting here: what is kept over an await is kept by each of them.
async fn come_first(
    contender: &mut Contender,
    mut in_the_way: Option<Ahead>,
) -> Result<bool, LockError> {
    let looks_ahead = contender.kind().admission.looks_ahead();
    let own = contender.node().filter(|_| looks_ahead).map(|node| node.path.as_str());
    let mut vigil = Vigil::new(contender.client());
    loop {
        let Some(ahead) = in_the_way.take() else {
            return Ok(Planted::AbsentIsFirst.is_on());
        };
        if !ahead.named.is_empty() {
            vigil.keep(ahead.named.iter().map(String::as_str).chain(own)).await?;
        }
        let next = loop {
            match next(&vigil, &ahead, own) {
                Next::Wait => vigil.next_gone().await?,
                next => break next,
            }
        };
        match next {
            Next::Enter => break,
            Next::Restart => return Ok(false),
            Next::Look | Next::Wait => in_the_way = look(contender, None).await?,
        }
    }
    // Its last word comes with the node's end: it need not be taken back.
    let watch = own.and_then(|own| vigil.take(own));
    contender.keep_watch(watch);
    Ok(true)
}

/// What to do when some of those who were watched may be gone.
enum Next {
    Wait,
    Look,
    Enter,
    Restart,
}

fn next(vigil: &Vigil, ahead: &Ahead, own: Option<&str>) -> Next {
    if ahead.named.is_empty() {
        return Next::Enter;
    }
    if own.is_some_and(|own| !vigil.watches(own)) {
        return Next::Restart;
    }
    let left = ahead.named.iter().filter(|node| vigil.watches(node)).count();
    if ahead.all_named && left == 0 {
        return Next::Enter;
    }
    if Planted::CancelIsRelease.is_on() && !vigil.watches(&ahead.named[0]) {
        return Next::Enter;
    }
    match !ahead.all_named && left < ahead.named.len() {
        true => Next::Look,
        false => Next::Wait,
    }
}

/// Who is in the way.
struct Ahead {
    /// The paths of the nearest, the very nearest first; none if the contender is first.
    named: Vec<String>,
    /// These are all there are, and nobody can come in ahead of them.
    all_named: bool,
}

/// Looks at a list, a new one if need be; `None` if the contender's node is not in it.
async fn look(contender: &Contender, listed: Option<Children>) -> Result<Option<Ahead>, LockError> {
    let Some(node) = contender.node() else {
        return Ok(None);
    };
    let kind = contender.kind();
    let children = match listed {
        Some(children) => children,
        None => match list(contender).await? {
            Some(children) => children,
            None => return Ok(None),
        },
    };
    let own = name::of(&node.path);
    if Planted::SortByName.is_on() {
        let named = planted::name_before(&children.names, own).into_iter();
        let named = named.map(|name| parents::child(&kind.path, &name)).collect();
        return Ok(Some(Ahead { named, all_named: false }));
    }
    let in_the_way = kind.admission.in_the_way(&children.names, own.as_bytes(), kind.rule());
    Ok(in_the_way.map(|in_the_way| Ahead {
        named: in_the_way
            .nearest
            .into_iter()
            .flatten()
            .map(|name| parents::child(&kind.path, &String::from_utf8_lossy(name)))
            .collect(),
        all_named: in_the_way.all_named || Planted::LooksAheadBlindly.is_on(),
    }))
}

async fn list(contender: &Contender) -> Result<Option<Children>, LockError> {
    loop {
        match contender.client().get_children(&contender.kind().path).await {
            Ok(children) => return Ok(Some(children)),
            Err(error) if error.code() == Some(ErrorCode::NO_NODE) => return Ok(None),
            Err(error) if passes(&error) => pause(&error).await,
            Err(error) => return Err(error.into()),
        }
    }
}

/// Binds the guard-to-be to the lease. A contender that comes first has kept the
/// lease fed while it waited, so this costs nothing, unless the ensemble could not
/// be reached of late: then it is asked whether the session lives.
pub(crate) async fn believe(contender: &Contender) -> Result<Belief, LockError> {
    loop {
        if let Some(belief) = contender.claim().bind() {
            return Ok(belief);
        }
        match contender.claim().renew().await {
            Ok(()) => {}
            // It changes nothing, so it may be repeated whatever became of it.
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionLost(_)) => {}
            Err(error) if passes(&error) => pause(&error).await,
            Err(error) => return Err(error.into()),
        }
    }
}
