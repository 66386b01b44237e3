//! Tests of clients that send requests without reading the answers, and of the memory they cost.

use bytes::BytesMut;
use proto::{Create2, CreateMode, DataReply, Decode, GetData, Request, encode_request};
use zk_testing::limits::{OUTSTANDING_REQUESTS_MAX, RECEIVED_BYTES_MAX, UNREAD_BYTES_MAX};
use zk_testing::server::{Action, Rule, Target};
use zk_testing::{Cut, Op, Settings};

use crate::world::{Client, World, create, set};

const DATA_LEN: usize = 1_000_000;
/// Length of an answer with the data, its header and its Stat.
const ANSWER_LEN: usize = 4 + 16 + 4 + DATA_LEN + 68;
const REQUESTS: usize = 2_000;

/// Creates a big node and a client that has sent many reads of it and does not read the answers.
fn with_unread_answers() -> (World, Client) {
    let mut world = World::new();
    let client = world.connect();
    create_big(&mut world, &client);
    world.not_reading.insert(client.id);
    world.write(client.id, &reads(REQUESTS));
    (world, client)
}

fn create_big(world: &mut World, client: &Client) {
    let data = Some(vec![7; DATA_LEN].into());
    world.call(client, &Create2 { data, ..create("/big", CreateMode::Persistent) }).unwrap();
}

fn reads(count: usize) -> BytesMut {
    pipelined(count, &GetData { path: "/big".into(), watch: false })
}

fn pipelined<R: Request>(count: usize, request: &R) -> BytesMut {
    let mut bytes = BytesMut::new();
    for xid in 1..=count {
        encode_request(i32::try_from(xid).unwrap(), request, &mut bytes);
    }
    bytes
}

/// Receives the answers that have arrived and returns their xids.
fn answers(world: &mut World, client: &Client) -> Vec<i32> {
    let mut xids = Vec::new();
    while let Some((header, body)) = world.reply(client) {
        assert_eq!(DataReply::from_frame(&body).unwrap().data.unwrap().len(), DATA_LEN);
        xids.push(header.xid);
    }
    world.pieces.clear();
    xids
}

#[test]
fn client_that_does_not_read_is_throttled() {
    let (mut world, client) = with_unread_answers();
    let unread = world.zk.unread_bytes(client.id);
    assert!((UNREAD_BYTES_MAX..UNREAD_BYTES_MAX + ANSWER_LEN).contains(&unread), "{unread}");
    assert_eq!(answers(&mut world, &client), [1, 2, 3, 4, 5], "as few as exceed the limit");
    // Neither time nor further requests make the server send more.
    world.pass_ms(2_000);
    world.write(client.id, &reads(1));
    assert_eq!(world.zk.unread_bytes(client.id), unread);
}

#[test]
fn throttled_client_gets_all_answers_once_it_reads() {
    let (mut world, client) = with_unread_answers();
    let mut seen = answers(&mut world, &client);
    while seen.len() < REQUESTS {
        // Reading one answer makes room for one more.
        world.zk.have_read(world.now, client.id, ANSWER_LEN);
        world.drain();
        let more = answers(&mut world, &client);
        assert_eq!(more.len(), 1, "after {} answers", seen.len());
        seen.extend(more);
        assert!(world.zk.unread_bytes(client.id) < UNREAD_BYTES_MAX + ANSWER_LEN);
    }
    assert_eq!(seen, (1..=i32::try_from(REQUESTS).unwrap()).collect::<Vec<_>>());
}

/// The server has accepted the reads; they wait behind a write that is at the leader.
#[test]
fn follower_sends_throttled_client_at_most_the_limit() {
    let mut world = World::with(Settings::new().servers(3));
    let client = world.connect_to(1);
    create_big(&mut world, &client);
    world.not_reading.insert(client.id);
    world.zk.cut_from_leader(world.now, 1);
    world.write(client.id, &pipelined(1, &create("/a", CreateMode::PersistentSequential)));
    let reads_made = 100;
    world.write(client.id, &reads(reads_made));
    world.zk.heal(world.now, 1);
    world.drain();
    let mut answered = 0;
    loop {
        let unread = world.zk.unread_bytes(client.id);
        assert!(unread < UNREAD_BYTES_MAX + ANSWER_LEN, "{unread} after {answered}");
        let new = std::iter::from_fn(|| world.reply(&client)).count();
        if new == 0 {
            break;
        }
        answered += new;
        world.zk.have_read(world.now, client.id, unread);
        world.drain();
    }
    assert_eq!(answered, 1 + reads_made);
}

#[test]
fn throttled_client_does_not_block_other_clients() {
    let (mut world, client) = with_unread_answers();
    let other = world.connect();
    world.create(&other, "/a").unwrap();
    world.call(&other, &set("/big", "small", -1)).unwrap();
    assert!(world.zk.unread_bytes(client.id) < UNREAD_BYTES_MAX + ANSWER_LEN);
}

#[test]
fn throttled_requests_do_not_keep_session_alive() {
    let (mut world, client) = with_unread_answers();
    // A real server does not read the pings of a throttled connection either.
    world.send(&client, &proto::Ping);
    world.pass_ms(14_000);
    assert_eq!(world.zk.sessions().count(), 0);
    assert_eq!(world.closed(client.id), Some(Cut::Fin));
}

#[test]
fn connection_has_no_room_beyond_received_limit() {
    let (mut world, client) = with_unread_answers();
    assert!(world.zk.has_room(client.id), "40 kB wait");
    world.write(client.id, &vec![0; RECEIVED_BYTES_MAX]);
    assert!(!world.zk.has_room(client.id));
    world.zk.cut_connection(world.now, client.id, Cut::Silence);
    assert!(world.zk.has_room(client.id), "what nobody hears takes no room");
}

#[test]
fn coalesced_answer_is_sent_beyond_unread_limit() {
    let mut world = World::new();
    let client = world.connect();
    create_big(&mut world, &client);
    world.not_reading.insert(client.id);
    world.write(client.id, &reads(4));
    assert_eq!(answers(&mut world, &client).len(), 4);
    let fifth = Rule::new(Target::Op(Op::GetData), Action::Coalesce);
    world.zk.add_rule(fifth);
    world.write(client.id, &reads(1));
    assert!(world.zk.unread_bytes(client.id) > UNREAD_BYTES_MAX);
    assert_eq!(answers(&mut world, &client).len(), 0, "held for the next");
    world.write(client.id, &reads(1));
    assert_eq!(answers(&mut world, &client).len(), 2);
}

#[test]
fn follower_without_leader_limits_waiting_requests() {
    let mut world = World::with(Settings::new().servers(3));
    let client = world.connect_to(1);
    world.zk.cut_from_leader(world.now, 1);
    let all = 3 * OUTSTANDING_REQUESTS_MAX;
    let sequential = CreateMode::PersistentSequential;
    world.write(client.id, &pipelined(all, &create("/a", sequential)));
    let asker = world.open(1);
    world.write(asker, b"cons");
    let said = String::from_utf8(world.rest(asker).to_vec()).unwrap();
    let outstanding = format!("queued={OUTSTANDING_REQUESTS_MAX},");
    assert!(said.contains(&outstanding), "{said}");

    world.zk.heal(world.now, 1);
    world.drain();
    let mut answered = 0;
    while world.reply(&client).is_some() {
        answered += 1;
    }
    assert_eq!(answered, all);
}
