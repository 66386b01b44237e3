//! Waiting for one's turn: look who is ahead, wait for the nearest of them to go,
//! look again.

use zk_session::{Belief, Children, ErrorCode, ErrorKind, EventType};

use super::contender::Contender;
use super::{name, parents, passes, pause};
use crate::error::LockError;
use crate::limits::RESTARTS_MAX;
use crate::planted::{self, Planted};

/// Queues and waits until the contender is first and may believe in its node.
pub(crate) async fn wait(contender: &mut Contender) -> Result<Belief, LockError> {
    for _ in 0..RESTARTS_MAX {
        let mut listed = contender.enter().await?;
        loop {
            match look(contender, listed.take()).await? {
                Look::First => return believe(contender).await,
                Look::Behind(predecessor) => {
                    wait_until_gone(contender, &predecessor).await?;
                    if Planted::CancelIsRelease.is_on() {
                        return believe(contender).await;
                    }
                }
                Look::Absent if Planted::AbsentIsFirst.is_on() => return believe(contender).await,
                Look::Absent => break,
            }
        }
        contender.restart();
    }
    Err(LockError::Vanished { path: contender.kind().path.clone() })
}

/// Queues, looks once, and gives up if somebody is ahead.
pub(crate) async fn look_once(contender: &mut Contender) -> Result<Option<Belief>, LockError> {
    let listed = contender.enter().await?;
    match look(contender, listed).await? {
        Look::First => believe(contender).await.map(Some),
        Look::Behind(_) | Look::Absent => Ok(None),
    }
}

enum Look {
    First,
    /// The path of the node to wait for.
    Behind(String),
    Absent,
}

async fn look(contender: &Contender, listed: Option<Children>) -> Result<Look, LockError> {
    let Some(node) = contender.node() else {
        return Ok(Look::Absent);
    };
    let kind = contender.kind();
    let children = match listed {
        Some(children) => children,
        None => match list(contender).await? {
            Some(children) => children,
            None => return Ok(Look::Absent),
        },
    };
    if Planted::SortByName.is_on() {
        let ahead = planted::name_before(&children.names, name::of(&node.path));
        return Ok(ahead.map_or(Look::First, |it| Look::Behind(parents::child(&kind.path, &it))));
    }
    let own = name::of(&node.path).as_bytes();
    Ok(match kind.admission.in_the_way(&children.names, own, kind.rule) {
        None => Look::Absent,
        Some(None) => Look::First,
        Some(Some(predecessor)) => {
            let name = String::from_utf8_lossy(predecessor);
            Look::Behind(parents::child(&kind.path, &name))
        }
    })
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

/// Waits until a node is gone. The watch is set by getData and not by exists: on
/// a node that is gone already exists would leave a watch behind for nothing.
/// It survives reconnects, and only the deletion counts: not the reconnect
/// itself, and not a change of the data, by which holders are asked to let go.
async fn wait_until_gone(contender: &Contender, path: &str) -> Result<(), LockError> {
    loop {
        match contender.client().get_data_and_watch(path).await {
            Ok((_, watch)) => {
                if watch.await?.event_type == EventType::NODE_DELETED {
                    return Ok(());
                }
            }
            Err(error) if error.code() == Some(ErrorCode::NO_NODE) => {
                if Planted::LostWakeUpOnNoNode.is_on() {
                    contender.client().exists_and_watch(path).await?.1.await?;
                }
                return Ok(());
            }
            Err(error) if passes(&error) => pause(&error).await,
            Err(error) => return Err(error.into()),
        }
    }
}

/// Binds the guard-to-be to the lease. A contender that comes first has kept the
/// lease fed while it waited, so this costs nothing, unless the ensemble could not
/// be reached of late: then it is asked whether the session lives.
async fn believe(contender: &Contender) -> Result<Belief, LockError> {
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
