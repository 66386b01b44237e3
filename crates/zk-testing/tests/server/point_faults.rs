//! Tests of every fault that affects one request, reply, notification or connect.

use std::time::Duration;

use proto::{ConnectReply, CreateMode, ErrorCode, Exists, OpCode, Ping};
use zk_testing::server::{Action, Rule, Target};
use zk_testing::{ConnectionId, Cut, Settings};

use crate::world::{Client, World, create, new_session};

const CREATE: Target = Target::Op(OpCode::Create2);

fn creating_with(action: Action) -> (World, Client) {
    let mut world = World::new();
    let client = world.connect();
    world.zk.add_rule(Rule::new(CREATE, action));
    world.pieces.clear();
    world.send(&client, &create("/a", CreateMode::Persistent));
    (world, client)
}

fn has_node(world: &World) -> bool {
    world.zk.tree().contains("/a")
}

#[test]
fn dropped_request_has_no_reply_whether_it_is_applied() {
    for how in [Cut::Fin, Cut::Rst] {
        for (action, applied) in
            [(Action::ApplyThenDrop(how), true), (Action::DropBefore(how), false)]
        {
            let (mut world, client) = creating_with(action);
            assert_eq!((has_node(&world), world.rest(client.id)), (applied, &[][..]));
            assert_eq!(world.closed(client.id), Some(how));
        }
    }
}

#[test]
fn silent_cut_transfers_nothing_and_stays_open() {
    for (action, applied) in [
        (Action::ApplyThenDrop(Cut::Silence), true),
        (Action::DropBefore(Cut::Silence), false),
        (Action::CutReply { after: 3, how: Cut::Silence }, true),
    ] {
        let (mut world, client) = creating_with(action);
        world.send(&client, &create("/b", CreateMode::Persistent));
        world.send(&client, &Ping);
        assert_eq!(has_node(&world), applied);
        assert!(!world.zk.tree().contains("/b"), "nothing gets in");
        let expected = if matches!(action, Action::CutReply { .. }) { 3 } else { 0 };
        assert_eq!(world.rest(client.id).len(), expected, "nothing gets out");
        world.pass_ms(60_000);
        assert_eq!(world.closed(client.id), None, "not even the end");
        assert!(!world.zk.is_alive(client.session.session_id));
    }
}

#[test]
fn cut_reply_breaks_connection_after_any_byte() {
    let whole = {
        let (mut world, client) = creating_with(Action::CutReply { after: 999, how: Cut::Fin });
        assert!(world.closed(client.id).is_some());
        world.rest(client.id).to_vec()
    };
    assert_eq!(whole.len(), 4 + 16 + 4 + 2 + 68);
    for after in 0..whole.len() {
        let (mut world, client) = creating_with(Action::CutReply { after, how: Cut::Rst });
        assert_eq!(world.rest(client.id), &whole[..after]);
        assert_eq!((has_node(&world), world.closed(client.id)), (true, Some(Cut::Rst)));
    }
}

#[test]
fn cut_request_is_applied_only_if_complete() {
    let len = proto::request_frame_len(&create("/a", CreateMode::Persistent)) + 4;
    for after in 0..=len {
        let (mut world, client) = creating_with(Action::CutRequest { after, how: Cut::Fin });
        assert_eq!(has_node(&world), after == len, "{after} of {len}");
        assert!(world.rest(client.id).is_empty() && world.closed(client.id).is_some());
    }
}

/// Makes a request that a rule affects: a create or a connect. Returns its connection.
fn affected(target: Target, action: Action) -> (World, ConnectionId) {
    if target == CREATE {
        let (world, client) = creating_with(action);
        return (world, client.id);
    }
    let mut world = World::new();
    world.zk.add_rule(Rule::new(target, action));
    let (id, _) = world.try_connect(0, &new_session());
    (world, id)
}

fn ping(world: &mut World, id: ConnectionId) {
    let mut ping = bytes::BytesMut::new();
    proto::encode_request(-2, &Ping, &mut ping);
    world.write(id, &ping);
}

#[test]
fn delay_also_delays_later_replies() {
    for target in [CREATE, Target::Connect] {
        let (mut world, id) = affected(target, Action::Delay(Duration::from_millis(100)));
        ping(&mut world, id);
        assert_eq!(world.zk.poll_timeout(), Some(world.now + Duration::from_millis(100)));
        world.pass_ms(99);
        assert!(world.frame(id).is_none());
        world.pass_ms(1);
        assert!(world.frame(id).is_some() && world.frame(id).is_some());
    }
}

#[test]
fn split_sends_reply_in_pieces() {
    for (target, pieces, rest) in [(CREATE, 9, 4), (Target::Connect, 4, 1)] {
        let (world, _) = affected(target, Action::Split { len: 10 });
        let lens: Vec<usize> = world.pieces.iter().map(|(_, piece)| piece.len()).collect();
        assert_eq!(lens, [vec![10; pieces], vec![rest]].concat());
    }
}

#[test]
fn coalesce_sends_reply_together_with_next() {
    for target in [CREATE, Target::Connect] {
        let (mut world, id) = affected(target, Action::Coalesce);
        assert!(world.pieces.is_empty());
        ping(&mut world, id);
        assert_eq!(world.pieces.len(), 1);
        assert!(world.frame(id).is_some() && world.frame(id).is_some());
    }
}

#[test]
fn answer_and_never_answer_keep_connection_open() {
    let (mut world, client) = creating_with(Action::Answer(ErrorCode::THROTTLED_OP));
    assert_eq!(world.reply(&client).unwrap().0.err, ErrorCode::THROTTLED_OP);
    let (mut other, hanging) = creating_with(Action::NeverAnswer);
    assert!(other.reply(&hanging).is_none());
    assert!(!has_node(&world) && !has_node(&other));
    assert!(world.create(&client, "/a").is_ok() && other.create(&hanging, "/a").is_ok());
}

#[test]
fn apply_then_expire_ends_session_after_reply() {
    let mut world = World::new();
    let client = world.connect();
    world.zk.add_rule(Rule::new(CREATE, Action::ApplyThenExpire));
    assert!(world.create_as(&client, "/e", CreateMode::Ephemeral).is_ok());
    assert!(!world.zk.tree().contains("/e"));
    assert!(world.closed(client.id).is_some());
}

#[test]
fn rule_selects_by_count_session_and_probability() {
    let mut world = World::new();
    let (first, second) = (world.connect(), world.connect());
    let rule = world.zk.add_rule(Rule {
        session: Some(first.session.session_id),
        skip: 1,
        ..Rule::new(CREATE, Action::Answer(ErrorCode::THROTTLED_OP))
    });
    assert!(world.create(&second, "/1").is_ok());
    assert!(world.create(&first, "/2").is_ok());
    assert!(world.create(&second, "/3").is_ok());
    assert_eq!(world.create(&first, "/4").unwrap_err(), ErrorCode::THROTTLED_OP);
    assert!(world.create(&first, "/4").is_ok());
    assert_eq!(world.zk.rule_count(rule), 1);

    let throttled = |seed: u64| -> Vec<bool> {
        let mut world = World::with(Settings::new().seed(seed));
        let client = world.connect();
        let target = Target::Op(OpCode::Exists);
        let action = Action::Answer(ErrorCode::THROTTLED_OP);
        world.zk.add_rule(Rule { times: None, probability: 0.5, ..Rule::new(target, action) });
        (0..200).map(|_| world.stat(&client, "/").is_err()).collect()
    };
    assert_eq!(throttled(7), throttled(7), "the seed decides");
    assert_ne!(throttled(7), throttled(8));
    let count = throttled(7).iter().filter(|is| **is).count();
    assert!((60..140).contains(&count), "{count}");
}

#[test]
fn lost_notification_closes_connection_only_if_dropped() {
    for (action, closes) in [(Action::DropBefore(Cut::Fin), true), (Action::NeverAnswer, false)] {
        let mut world = World::new();
        let (writer, watcher) = (world.connect(), world.connect());
        world.zk.add_rule(Rule::new(Target::Notification, action));
        let exists = Exists { path: "/a".into(), watch: true };
        world.call(&watcher, &exists).unwrap_err();
        world.create(&writer, "/a").unwrap();
        assert_eq!(world.events(&watcher), []);
        assert_eq!(world.closed(watcher.id).is_some(), closes);
    }
}

#[test]
fn lost_connect_reply_leaves_new_session() {
    let mut world = World::new();
    world.zk.add_rule(Rule::new(Target::Connect, Action::ApplyThenDrop(Cut::Fin)));
    let (id, reply) = world.try_connect(0, &new_session());
    assert_eq!((reply, world.zk.sessions().count()), (None, 1));
    assert!(world.closed(id).is_some());

    world.zk.add_rule(Rule::new(Target::Connect, Action::DropBefore(Cut::Fin)));
    assert_eq!(world.try_connect(0, &new_session()).1, None);
    assert_eq!(world.zk.sessions().count(), 1);

    world.zk.refuse_as_ahead(0, 1);
    assert_eq!(world.try_connect(0, &new_session()).1, None);
    assert!(matches!(world.try_connect(0, &new_session()).1, Some(ConnectReply::Accepted(_))));
}

#[test]
fn add_rule_panics_if_action_has_no_effect_on_target() {
    let cut = Action::CutRequest { after: 1, how: Cut::Fin };
    for (target, action) in [
        (Target::Connect, Action::Answer(ErrorCode::THROTTLED_OP)),
        (Target::Connect, Action::ApplyThenExpire),
        (Target::Notification, Action::Answer(ErrorCode::THROTTLED_OP)),
        (Target::Notification, Action::ApplyThenExpire),
        (Target::Notification, cut),
    ] {
        let add = || World::new().zk.add_rule(Rule::new(target, action));
        assert!(std::panic::catch_unwind(add).is_err(), "{target:?} {action:?}");
    }
}

#[test]
fn answer_waits_for_earlier_writes_at_a_lagging_follower() {
    let mut world = World::with(Settings::new().servers(3));
    let client = world.connect_to(1);
    world.zk.lag(world.now, 1, Some(Duration::from_millis(50)));
    let action = Action::Answer(ErrorCode::THROTTLED_OP);
    world.zk.add_rule(Rule::new(Target::Op(OpCode::Exists), action));
    let sent = [
        world.send(&client, &create("/a", CreateMode::Persistent)),
        world.send(&client, &Exists { path: "/".into(), watch: false }),
        world.send(&client, &create("/b", CreateMode::Persistent)),
    ];
    assert!(world.reply(&client).is_none(), "nothing overtakes the first write");
    world.pass_ms(200);
    let mut next = || world.reply(&client).map(|(header, _)| (header.xid, header.err));
    assert_eq!(next(), Some((sent[0], ErrorCode::OK)));
    assert_eq!(next(), Some((sent[1], ErrorCode::THROTTLED_OP)));
    assert_eq!(next(), Some((sent[2], ErrorCode::OK)));
}

#[test]
fn stopped_connection_delivers_all_bytes_when_resumed() {
    let mut world = World::new();
    let (client, other) = (world.connect(), world.connect());
    world.call(&client, &Exists { path: "/b".into(), watch: true }).unwrap_err();
    world.zk.stall_connection(client.id);
    world.send(&client, &create("/a", CreateMode::Persistent));
    world.create(&other, "/b").unwrap();
    assert!(!has_node(&world) && world.events(&client).is_empty());
    world.zk.resume_connection(world.now, client.id);
    assert!(has_node(&world) && world.reply(&client).is_some());
    assert_eq!(world.events(&client).len(), 1);
}
