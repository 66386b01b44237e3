//! Checks of replies against the history.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use zk_session::{Error, Outcome, SessionId, Watch, Zxid};

use super::ask::{Answer, Asked, Kind};
use super::watched::{OneShot, Streaming};
use super::{Worker, is_fair};
use crate::history::Seen;
use crate::watch_progress::WatchProgress;

impl Worker {
    pub(super) fn judge(
        &mut self,
        asked: &Asked,
        result: Result<Answer, Error>,
        cx: &mut Context<'_>,
    ) {
        match result {
            Ok(answer) => self.answered(asked, answer, cx),
            Err(error) => self.failed(asked, &error),
        }
    }

    fn answered(&mut self, asked: &Asked, answer: Answer, cx: &mut Context<'_>) {
        self.log(asked, format_args!("done"));
        self.account(asked, Outcome::Applied);
        for one in &mut self.streams {
            one.progress.answered(&self.seat.world.oracle().history, asked.request);
        }
        match answer {
            Answer::Written(nodes) => {
                for ((path, stat), number) in nodes.into_iter().zip(&asked.numbers) {
                    self.sees(&path, Some((stat.mzxid, Some(*number))));
                    if path.contains("/n-") {
                        self.own.push(path);
                    }
                }
            }
            Answer::Done => {
                if let Kind::Sync(Some(newest)) = asked.kind {
                    self.view = self.view.max(newest);
                }
            }
            Answer::Read(node, watch) => {
                let node = node.map(|(stat, number)| (stat.mzxid, number));
                self.sees(&asked.path, node);
                let newest = self.seat.world.oracle().history.newest();
                let seen = node.map_or(Seen::Nothing(newest), |(zxid, _)| Seen::Node(zxid));
                self.watches(asked, watch, seen, cx);
            }
            Answer::Listed(stat, watch) => {
                let listed =
                    self.seat.world.oracle().history.listed(&asked.path, self.view, stat.pzxid);
                self.looked(listed);
                self.watches(asked, watch, Seen::Children(stat.pzxid), cx);
            }
            Answer::Streaming(stream) => {
                let is_recursive = matches!(asked.kind, Kind::Stream { is_recursive: true });
                let newest = self.seat.world.oracle().history.newest();
                let progress = WatchProgress::new(&asked.path, is_recursive, self.view, newest);
                self.streams.push(Streaming { stream, progress, has_ended: false });
                // Events that followed the reply immediately are ready now.
                self.hear(cx);
            }
        }
    }

    fn failed(&mut self, asked: &Asked, error: &Error) {
        self.log(asked, format_args!("{error}"));
        self.account(asked, error.outcome());
        let is_write = !asked.numbers.is_empty() || asked.kind == Kind::Delete;
        if !is_fair(error.kind()) {
            return self.violated("I7", &format!("{}: {error}", asked.what()));
        }
        if !is_write && asked.kind != Kind::Auth && error.outcome() != Outcome::NotApplied {
            self.violated("I7", &format!("{} changes nothing: {error}", asked.what()));
        }
        let is_read = matches!(asked.kind, Kind::Read | Kind::List);
        if is_read && error.is_no_node() {
            self.sees(&asked.path, None);
        }
    }

    /// Reports the outcome of a request to the history.
    fn account(&self, asked: &Asked, outcome: Outcome) {
        let mut oracle = self.seat.world.oracle();
        let history = &mut oracle.history;
        let mut result = Ok(());
        for number in &asked.numbers {
            let written = history.written(*number, outcome);
            result = result.and(written);
        }
        if asked.kind == Kind::Delete {
            let deleted = history.delete_ends(asked.session, &asked.path, outcome);
            result = result.and(deleted);
        }
        drop(oracle);
        if let Err(text) = result {
            self.violated("I7", &format!("{}: {text}", asked.what()));
        }
    }

    fn sees(&mut self, path: &str, node: Option<(Zxid, Option<u64>)>) {
        let read = self.seat.world.oracle().history.read(path, self.view, node);
        self.looked(read);
    }

    fn looked(&mut self, view: Result<Zxid, String>) {
        match view {
            Ok(view) => self.view = view,
            Err(text) => self.violated("I9", &text),
        }
    }

    fn watches(&mut self, asked: &Asked, watch: Option<Watch>, seen: Seen, cx: &mut Context<'_>) {
        let Some(watch) = watch else { return };
        let is_read_only = self.seat.client.session_id() == SessionId::NONE;
        let connections_lost = asked.connections_lost;
        let path = asked.path.clone();
        let mut one = OneShot { watch, path, seen, is_read_only, connections_lost };
        match Pin::new(&mut one.watch).poll(cx) {
            Poll::Pending => self.one_shots.push(one),
            Poll::Ready(result) => self.fired(&one, result),
        }
    }

    fn log(&self, asked: &Asked, what: std::fmt::Arguments<'_>) {
        let Asked { request, .. } = asked;
        let view = self.view;
        let name = &self.seat.name;
        self.seat.world.oracle().log(format_args!("{name} request {request}, {view}: {what}"));
    }
}
