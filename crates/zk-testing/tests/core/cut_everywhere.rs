//! One dialogue, cut at every byte in either direction and resumed on a new connection. Every
//! caller gets the one true answer.

use std::collections::BTreeMap;
use std::time::Duration;

use zk_session_core::WatchKind;
use zk_session_core::{ErrorKind, Outcome, SessionEnd};

use crate::harness::{Servers, T, ms};
use crate::server::{Server, World};

/// Place at which the connection is cut.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// After so many bytes to the server, when the socket has accepted no more.
    ToServer(usize),
    /// After so many bytes to the server, when the socket has accepted all bytes. The rest is lost.
    OnTheWay(usize),
    /// After so many bytes to the client.
    ToClient(usize),
}

/// State of the session after the cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    Resumed,
    Expired,
}

fn start(cut: Option<Cut>, time_limit: Option<Duration>) -> World {
    let server = Server::new(&["/n", "/n/old"]);
    let mut world = World::of(server, |settings| settings.request_timeout = time_limit);
    world.servers = Servers::Serve;
    match cut {
        None => {}
        // The harness breaks the connection with the byte that uses up the budget.
        Some(Cut::ToServer(at)) => (world.to_server, world.room) = (at, at),
        Some(Cut::OnTheWay(at)) => world.to_server = at,
        Some(Cut::ToClient(at)) => world.to_client = at,
    }
    world
}

/// Runs the dialogue. Each step begins when all earlier steps are answered.
fn talk(world: &mut World, after: After) -> BTreeMap<&'static str, u32> {
    let mut asked = BTreeMap::new();
    type Step = &'static [(&'static str, fn(&mut World) -> u32)];
    let steps: [Step; 4] = [
        &[("create", |w| w.create("/n/new")), ("list", |w| w.watch(WatchKind::Children, "/n"))],
        &[("watch", |w| w.watch(WatchKind::Data, "/n/old"))],
        &[("set", |w| w.set("/n/old"))],
        &[("delete", |w| w.delete("/n/new"))],
    ];
    world.tick();
    for step in steps {
        for (name, ask) in step {
            if world.session.end_reason().is_none() {
                asked.insert(*name, ask(world));
            }
        }
        if is_cut(world) && after == After::Expired {
            world.server.expire();
        }
        let answered = |world: &World, n| world.reply(n).is_some();
        for _ in 0..200 {
            if asked.values().all(|n| answered(world, *n)) {
                break;
            }
            world.advance(ms(10));
            if is_cut(world) {
                (world.room, world.servers) = (usize::MAX, Servers::Serve);
            }
        }
        assert!(asked.values().all(|n| answered(world, *n)), "{asked:?}");
    }
    world.close();
    (world.room, world.servers) = (usize::MAX, Servers::Serve);
    world.advance(T);
    asked
}

fn is_cut(world: &World) -> bool {
    world.to_server == usize::MAX && world.to_client == usize::MAX
}

fn check(world: World, asked: &BTreeMap<&'static str, u32>, cut: Cut) {
    let end = world.session.end_reason().unwrap();
    assert!(matches!(end, SessionEnd::Closed | SessionEnd::Expired), "{cut:?}");
    let created = world.server.has_applied("create /n/new");
    let deleted = world.server.has_applied("delete /n/new");
    let set = world.server.has_applied("set /n/old");
    for (name, applied) in [("create", created), ("delete", deleted), ("set", set)] {
        let Some(n) = asked.get(name) else {
            assert!(!applied);
            continue;
        };
        match world.reply(*n).unwrap() {
            Ok(_) => assert!(applied, "{name} {cut:?}"),
            Err((ErrorKind::Server(_), _)) => {
                assert!(name == "delete" && !created && !applied, "{name} {cut:?}");
            }
            Err((_, Outcome::NotApplied)) => assert!(!applied, "{name} {cut:?}"),
            Err((_, outcome)) => assert_eq!(*outcome, Outcome::Unknown),
        }
    }
    for name in ["list", "watch"] {
        let Some(n) = asked.get(name) else { continue };
        let fired = world.fired(*n).is_some();
        assert_eq!(fired, world.is_ok(*n), "{name} {cut:?}: a watch that was set is heard of");
        if let Err((_, outcome)) = world.reply(*n).unwrap() {
            assert_eq!(*outcome, Outcome::NotApplied);
        }
    }
    world.finish();
}

/// Returns the numbers of bytes to the server and to the client without a cut.
fn lengths() -> (usize, usize) {
    let mut world = start(None, None);
    world.to_client = usize::MAX / 2;
    world.to_server = usize::MAX / 2;
    let before = (world.to_server, world.to_client);
    let mut asked = Vec::new();
    world.tick();
    asked.push(world.create("/n/new"));
    asked.push(world.watch(WatchKind::Children, "/n"));
    asked.push(world.watch(WatchKind::Data, "/n/old"));
    asked.push(world.set("/n/old"));
    asked.push(world.delete("/n/new"));
    assert!(asked.iter().all(|n| world.is_ok(*n)));
    assert!(world.fired(asked[1]).is_some() && world.fired(asked[2]).is_some());
    let lengths = (before.0 - world.to_server, before.1 - world.to_client);
    world.close();
    assert_eq!(world.session.end_reason(), Some(SessionEnd::Closed));
    world.finish();
    (lengths.0 + 12, lengths.1 + 20)
}

/// Runs the dialogue with each cut. Returns how many answers are as `counted`.
fn cut_at_any_byte(
    time_limit: Option<Duration>,
    counted: fn(&(ErrorKind, Outcome)) -> bool,
) -> usize {
    let (to_server, to_client) = lengths();
    assert!(to_server > 200 && to_client > 500, "{to_server} {to_client}");
    let cuts = (1..=to_server)
        .flat_map(|at| [Cut::ToServer(at), Cut::OnTheWay(at)])
        .chain((1..=to_client).map(Cut::ToClient));
    let mut count = 0;
    for cut in cuts {
        for after in [After::Resumed, After::Expired] {
            let mut world = start(Some(cut), time_limit);
            let asked = talk(&mut world, after);
            let failures = asked.values().filter_map(|n| world.reply(*n)?.as_ref().err());
            count += failures.filter(|failure| counted(failure)).count();
            check(world, &asked, cut);
        }
    }
    count
}

#[test]
fn answers_are_true_when_the_connection_is_cut_at_any_byte() {
    let unknown = cut_at_any_byte(None, |(_, outcome)| *outcome == Outcome::Unknown);
    assert!(unknown > 100, "{unknown}: the cuts fall where it matters");
}

/// Callers time out while the connection is lost. A cancelled request is never applied.
#[test]
fn cancelled_requests_are_not_applied_after_a_cut_at_any_byte() {
    let late = cut_at_any_byte(Some(ms(5)), |failure| {
        *failure == (ErrorKind::TimedOut, Outcome::NotApplied)
    });
    assert!(late > 1000, "{late}: they do give up");
}
