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
//! predecessor goes, and there is nothing to hear of the own node, it was there. Not so the
//! events of what was missed over a cut: whoever has been cut off looks once more.
//!
//! A step may be dropped where it waits, and taken again: what is known is kept only once it
//! is known for good.

use zk_session::{Belief, ChildList, Children, ErrorCode};

use super::attempts::Attempts;
use super::contender::{Contender, Presence};
use super::foreign::{self, Leases};
use super::kind::Kind;
use super::vigil::Vigil;
use super::{name, parents};
use crate::error::LockError;
use crate::limits::RESTARTS_MAX;
use crate::planted::{self, Planted};
use crate::waiting::Place;

/// A contender on its way to the front of the queue.
///
/// Thousands may be waiting: what is kept over an await is kept by each of them.
#[derive(Debug)]
pub(crate) struct Turn {
    contender: Contender,
    vigil: Vigil,
    stage: Stage,
    /// How many connections had been lost before the last look at the queue.
    cuts: u64,
    restarts: usize,
    /// The queue was looked through for nodes of other recipes.
    is_company_checked: bool,
    /// For those who want to see it, at the price of a sorted list at each look.
    place: Option<Place>,
}

#[derive(Debug)]
enum Stage {
    /// Not in the queue, as far as it is known.
    Out,
    /// In the queue, with the list that came along, if it is as good as a new one.
    In(Option<Box<Children>>),
    Behind(Ahead),
    First,
}

impl Turn {
    pub(crate) fn new(contender: Contender) -> Self {
        let vigil = Vigil::new(contender.client());
        let cuts = contender.client().connections_lost();
        let (stage, restarts, is_company_checked) = (Stage::Out, 0, false);
        Self { contender, vigil, stage, cuts, restarts, is_company_checked, place: None }
    }

    /// As [`new`](Self::new), and keeps track of the place in the queue.
    pub(crate) fn with_place(contender: Contender) -> Self {
        Self { place: Some(Place::default()), ..Self::new(contender) }
    }

    /// Goes all the way: queues, and waits until the contender is first and may believe in
    /// its node.
    pub(crate) async fn come(&mut self) -> Result<Belief, LockError> {
        loop {
            self.doubt();
            while !self.is_first() {
                self.step().await?;
            }
            if let Some(belief) = self.contender.claim().bind() {
                return Ok(belief);
            }
            renewed(&mut self.contender).await?;
        }
    }

    /// Queues and looks once; `None` if somebody is in the way.
    pub(crate) async fn look_once(&mut self) -> Result<Option<Belief>, LockError> {
        self.enter().await?;
        self.step().await?;
        if self.is_first() && had_to_renew(&mut self.contender).await? {
            self.doubt();
            self.step().await?;
        }
        match self.is_first() {
            true => renewed(&mut self.contender).await.map(Some),
            false => Ok(None),
        }
    }

    /// Goes on until it is in the queue, and has looked who is ahead.
    pub(crate) async fn settle(&mut self) -> Result<(), LockError> {
        while matches!(self.stage, Stage::Out | Stage::In(_)) {
            self.step().await?;
        }
        Ok(())
    }

    /// Looks again, unless it is first, which it stays.
    pub(crate) async fn look_again(&mut self) -> Result<(), LockError> {
        if let Stage::Behind(_) = self.stage {
            self.stage = Stage::In(None);
        }
        self.doubt();
        self.settle().await
    }

    /// It may be long ago that it came first: its node must not have been deleted since, nor
    /// anything have been missed over a cut. The watch tells, if there is one.
    fn doubt(&mut self) {
        let is_cut = self.cuts != self.contender.client().connections_lost();
        if self.is_first() && (is_cut || self.contender.has_news()) {
            self.stage = Stage::In(None);
        }
    }

    /// Gets to know something new.
    pub(crate) async fn step(&mut self) -> Result<(), LockError> {
        match &mut self.stage {
            Stage::Out => self.enter().await,
            Stage::In(listed) => {
                let listed = listed.take();
                self.look(listed).await
            }
            Stage::Behind(_) => self.watch().await,
            Stage::First => Ok(()),
        }
    }

    async fn enter(&mut self) -> Result<(), LockError> {
        self.cuts = self.contender.client().connections_lost();
        let listed = match self.contender.presence() {
            Presence::In => None,
            Presence::Out => self.contender.enter().await?,
            // An attempt was dropped half-way.
            Presence::Unknown => {
                self.contender.restart();
                self.contender.enter().await?
            }
        };
        self.stage = Stage::In(listed.map(Box::new));
        Ok(())
    }

    async fn look(&mut self, listed: Option<Box<Children>>) -> Result<(), LockError> {
        let listed = match listed {
            Some(children) => Some(*children),
            None => {
                self.cuts = self.contender.client().connections_lost();
                list(&self.contender).await?
            }
        };
        let own = self.contender.node().map(|node| name::of(&node.path));
        let (Some(children), Some(own)) = (listed, own) else { return self.start_over() };
        let kind = self.contender.kind();
        let Some(ahead) = Ahead::of(kind, &children.names, own) else { return self.start_over() };
        if !self.is_company_checked
            && ahead.may_have_others
            && let Some(recipe) = kind.exclusive
            && foreign::refuse_in_queue(kind, recipe, &children.names)? == Leases::MayBe
        {
            // On the heap, as it is rare, to keep the futures of waiters small.
            Box::pin(foreign::refuse_leases(self.contender.client(), &kind.path)).await?;
        }
        self.is_company_checked = true;
        if let Some(place) = &mut self.place {
            *place = place_of(kind, &children.names, own);
        }
        match ahead.named.is_empty() {
            true => self.come_first(),
            false => {
                if ahead.is_next {
                    self.contender.claim();
                }
                self.stage = Stage::Behind(ahead);
            }
        }
        Ok(())
    }

    /// Watches those in the way until one of them is gone.
    async fn watch(&mut self) -> Result<(), LockError> {
        let Stage::Behind(ahead) = &mut self.stage else { return Ok(()) };
        let looks_ahead = self.contender.kind().admission.looks_ahead();
        let own = self.contender.node().filter(|_| looks_ahead).map(|node| node.path.as_str());
        self.vigil.keep(ahead.named.iter().map(String::as_str), own).await?;
        loop {
            if own.is_some_and(|own| !self.vigil.watches(own)) {
                return self.start_over();
            }
            if ahead.named.iter().any(|node| !self.vigil.watches(node)) {
                break;
            }
            self.vigil.next_gone().await?;
        }
        let blind = Planted::CancelIsRelease.is_on() && !self.vigil.watches(&ahead.named[0]);
        if !ahead.all_named && !blind {
            self.stage = Stage::In(None);
            return Ok(());
        }
        ahead.named.retain(|node| self.vigil.watches(node));
        // The events are heard one by one, and the own node's may be there as well, since one
        // transaction may end several nodes; or still to come, if these are the events that
        // were missed over a cut, which have no order.
        let is_stale = own.is_some_and(|own| self.vigil.has_news(own))
            || self.cuts != self.contender.client().connections_lost();
        if ahead.named.is_empty() && is_stale {
            self.stage = Stage::In(None);
            return Ok(());
        }
        if let Some(place) = &mut self.place {
            *place = Place { ahead: ahead.named.len(), holder: ahead.named.last().cloned() };
        }
        if ahead.named.is_empty() || blind {
            self.come_first();
        } else {
            // All are named, and the predecessor is the only one left.
            self.contender.claim();
        }
        Ok(())
    }

    fn come_first(&mut self) {
        // Its last word comes with the node's end: it need not be taken back.
        let own = self.contender.node().and_then(|own| self.vigil.take(&own.path));
        self.contender.keep_watch(own);
        self.stage = Stage::First;
    }

    /// The own node is gone.
    fn start_over(&mut self) -> Result<(), LockError> {
        if Planted::AbsentIsFirst.is_on() {
            self.stage = Stage::First;
            return Ok(());
        }
        self.restarts += 1;
        self.is_company_checked = false;
        self.stage = Stage::Out;
        self.vigil = Vigil::new(self.contender.client());
        self.contender.restart();
        match self.restarts < RESTARTS_MAX {
            true => Ok(()),
            false => Err(LockError::Vanished { path: self.contender.kind().path.clone() }),
        }
    }

    pub(crate) fn is_first(&self) -> bool {
        matches!(self.stage, Stage::First)
    }

    pub(crate) fn place(&self) -> Option<&Place> {
        self.place.as_ref()
    }

    pub(crate) fn contender(&self) -> &Contender {
        &self.contender
    }

    pub(crate) fn into_contender(self) -> Contender {
        self.contender
    }
}

/// Who is in the way.
#[derive(Debug)]
struct Ahead {
    /// The paths of the nearest, the very nearest first.
    named: Vec<String>,
    /// These are all there are, and nobody can come in ahead of them.
    all_named: bool,
    /// When the nearest goes, the contender is first.
    is_next: bool,
    /// There may be names in the list that are not of this recipe.
    may_have_others: bool,
}

impl Ahead {
    /// Nobody, if the contender is first; `None` if it is not in the list.
    fn of(kind: &Kind, names: &ChildList, own: &str) -> Option<Self> {
        if Planted::SortByName.is_on() {
            let named = planted::name_before(names, own).into_iter();
            let named = named.map(|name| parents::child(&kind.path, &name)).collect();
            return Some(Self { named, all_named: false, is_next: false, may_have_others: false });
        }
        let in_the_way = kind.admission.in_the_way(names, own.as_bytes(), kind.rule())?;
        Some(Self {
            named: in_the_way.nearest.into_iter().flatten().map(|name| path(kind, name)).collect(),
            all_named: in_the_way.all_named || Planted::LooksAheadBlindly.is_on(),
            is_next: in_the_way.is_next,
            may_have_others: in_the_way.may_have_others,
        })
    }
}

/// Where in the queue a contender is that is in the list.
fn place_of(kind: &Kind, names: &ChildList, own: &str) -> Place {
    let rule = kind.rule();
    let sorted = names.sorted(rule);
    let before = || sorted.iter().take_while(|name| *name != own.as_bytes());
    match before().filter(|name| kind.admission.counts(name, rule)).count() {
        0 => Place::default(),
        ahead => {
            let holder = before().find(|name| rule.is_contender(name));
            Place { ahead, holder: holder.map(|name| path(kind, name)) }
        }
    }
}

fn path(kind: &Kind, name: &[u8]) -> String {
    parents::child(&kind.path, &String::from_utf8_lossy(name))
}

async fn list(contender: &Contender) -> Result<Option<Children>, LockError> {
    let client = contender.client();
    let mut attempts = Attempts::default();
    loop {
        match client.get_children(&contender.kind().path).await {
            Ok(children) => return Ok(Some(children)),
            Err(error) if error.code() == Some(ErrorCode::NO_NODE) => return Ok(None),
            Err(error) => attempts.again(client, error).await?,
        }
    }
}

/// Sees to it that the lease is valid. True if it was not: nodes may have been deleted since the
/// queue was listed, so it has to be listed again.
pub(crate) async fn had_to_renew(contender: &mut Contender) -> Result<bool, LockError> {
    match contender.claim().bind() {
        Some(_) => Ok(false),
        None => renewed(contender).await.map(|_| true),
    }
}

/// Binds the guard-to-be to the lease. This costs nothing for a contender that has just made its
/// node, or that was next in line for a while. One that waited long and was granted the lock
/// right after its predecessor renews the lease first.
pub(crate) async fn renewed(contender: &mut Contender) -> Result<Belief, LockError> {
    let mut attempts = Attempts::default();
    loop {
        match contender.claim().renew().await {
            Ok(belief) => return Ok(belief),
            // It changes nothing, so it may be repeated whatever became of it.
            Err(error) => attempts.again_if_unknown(contender.client(), error).await?,
        }
    }
}
