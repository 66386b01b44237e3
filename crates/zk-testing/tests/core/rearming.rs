//! Re-registration of watches on a new connection.

use proto::EventType;
use zk_session_core::WatchKind;

use crate::harness::{Servers, ms};
use crate::server::served;

#[test]
fn change_during_a_disconnect_fires_the_watch() {
    let mut world = served(&["/a", "/b", "/b/1"]);
    let gone = world.watch(WatchKind::Data, "/a");
    let stays = world.watch(WatchKind::Children, "/b");
    let comes = world.watch(WatchKind::Exists, "/c");
    world.servers = Servers::Refuse;
    world.cut();
    world.others(|server, out| {
        server.remove("/a", out);
        server.make("/c", out);
    });
    world.servers = Servers::Serve;
    world.advance(ms(2000));
    let event = |n| world.fired(n).map(|event| event.as_ref().unwrap().event_type);
    assert_eq!(event(gone), Some(EventType::NODE_DELETED));
    assert_eq!(event(comes), Some(EventType::NODE_CREATED));
    assert_eq!(event(stays), None);
    assert_eq!(world.server.watches(), 1, "armed again at the server");
    world.delete("/b/1");
    assert!(world.fired(stays).is_some());
    world.finish();
}
