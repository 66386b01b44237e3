//! Tests of permissions and identities.

use proto::{
    Acl, AuthPacket, ClientInfo, ErrorCode, GetAcl, GetChildren2, GetData, Perms, SetAcl, WhoAmI,
    digest_id,
};
use zk_testing::{Settings, Version};

use crate::world::{Client, World};

fn authenticate(
    world: &mut World,
    client: &Client,
    scheme: &str,
    auth: Option<&str>,
) -> Result<(), ErrorCode> {
    let auth = auth.map(|auth| auth.as_bytes().into());
    world.call(client, &AuthPacket { auth_type: 0, scheme: scheme.into(), auth })
}

#[test]
fn operation_requires_its_own_permission() {
    let all = [Perms::READ, Perms::WRITE, Perms::CREATE, Perms::DELETE, Perms::ADMIN];
    for granted in all {
        let mut world = World::new();
        let client = world.connect();
        world.create(&client, "/p").unwrap();
        world.create(&client, "/p/child").unwrap();
        let acl = [Acl::world(granted)];
        let set = SetAcl { path: "/p".into(), acl: acl[..].into(), aversion: -1 };
        world.call(&client, &set).unwrap();

        let can_create = world.create(&client, "/p/other").is_ok();
        let can_write = world.set(&client, "/p", -1).is_ok();
        let can_read = world.call(&client, &GetData { path: "/p".into(), watch: false }).is_ok();
        let lists = GetChildren2 { path: "/p".into(), watch: false };
        assert_eq!(world.call(&client, &lists).is_ok(), can_read);
        let can_see_acl = world.call(&client, &GetAcl { path: "/p".into() }).is_ok();
        let can_delete = world.delete(&client, "/p/child").is_ok();
        let can_admin = world.call(&client, &set).is_ok();
        let may = [can_read, can_write, can_create, can_delete, can_admin];
        assert_eq!(may, all.map(|perms| perms == granted), "{granted:?}");
        assert_eq!(can_see_acl, can_read || can_admin);
    }
}

#[test]
fn digests_accumulate_until_the_connection_ends() {
    let mut world = World::new();
    let client = world.connect();
    authenticate(&mut world, &client, "digest", Some("a:1")).unwrap();
    authenticate(&mut world, &client, "digest", Some("b:2")).unwrap();
    for user in [("a", "1"), ("b", "2")] {
        let path = format!("/{}", user.0);
        world.create_with(&client, &path, &[Acl::digest(Perms::ALL, user.0, user.1)]).unwrap();
        assert!(world.set(&client, &path, -1).is_ok());
    }
    let again = world.reconnect(0, &client);
    assert_eq!(world.set(&again, "/a", -1), Err(ErrorCode::NO_AUTH));
}

#[test]
fn auth_scheme_is_stored_as_digest_of_the_connection() {
    let mut world = World::new();
    let client = world.connect();
    let auth = [Acl::auth(Perms::READ)];
    assert_eq!(world.create_with(&client, "/a", &auth).unwrap_err(), ErrorCode::INVALID_ACL);
    authenticate(&mut world, &client, "digest", Some("u:p")).unwrap();
    world.create_with(&client, "/a", &auth).unwrap();
    let stored = world.zk.tree().node("/a").unwrap().acl();
    assert_eq!(stored, [Acl::digest(Perms::READ, "u", "p")]);
}

#[test]
fn get_acl_masks_hashes_without_admin_permission() {
    let mut world = World::new();
    let client = world.connect();
    let acl = [Acl::world(Perms::READ), Acl::digest(Perms::ADMIN, "u", "p")];
    world.create_with(&client, "/a", &acl).unwrap();
    let shown = world.call(&client, &GetAcl { path: "/a".into() }).unwrap().acl;
    assert_eq!((&*shown[0].id, &*shown[1].id), ("anyone", "u:x"));
    authenticate(&mut world, &client, "digest", Some("u:p")).unwrap();
    let shown = world.call(&client, &GetAcl { path: "/a".into() }).unwrap().acl;
    assert_eq!(shown, acl);
}

#[test]
fn acl_with_invalid_entry_is_rejected() {
    let entry = |scheme: &'static str, id: &'static str| Acl {
        perms: Perms::ALL,
        scheme: scheme.into(),
        id: id.into(),
    };
    let mut world = World::new();
    let client = world.connect();
    for (scheme, id) in [
        ("world", "somebody"),
        ("super", ""),
        ("x509", "CN=a"),
        ("digest", "u:"),
        ("digest", "u:p:q"),
        ("digest", "u"),
        ("ip", "10.0.0.0/33"),
        ("ip", "localhost"),
        ("", "anyone"),
    ] {
        let code = world.create_with(&client, "/a", &[Acl::open(), entry(scheme, id)]);
        assert_eq!(code.unwrap_err(), ErrorCode::INVALID_ACL, "{scheme}:{id}");
    }
    let twice = [entry("ip", "10.0.0.0/8"), entry("ip", "10.0.0.0/8")];
    world.create_with(&client, "/a", &twice).unwrap();
    assert_eq!(world.zk.tree().node("/a").unwrap().acl(), &twice[..1]);

    let of = |version| Settings::new().version(version);
    for (settings, path) in [
        (of(Version::V3_8), None),
        (of(Version::V3_9).without_ipv6_acls(), None),
        (of(Version::V3_9), Some("/v6")),
    ] {
        let mut world = World::with(settings);
        let client = world.connect();
        let made = world.create_with(&client, "/v6", &[entry("ip", "::1/64")]);
        assert_eq!(made.ok().map(|node| node.path).as_deref(), path);
    }
}

#[test]
fn ip_acl_matches_addresses_of_its_network() {
    let mut world = World::new();
    let client = world.connect();
    for (at, (network, may)) in
        [("127.0.0.1", true), ("127.0.0.0/8", true), ("0.0.0.0/0", true), ("127.0.0.2/31", false)]
            .into_iter()
            .enumerate()
    {
        let path = format!("/{at}");
        world.create_with(&client, &path, &[Acl::ip(Perms::ALL, network)]).unwrap();
        assert_eq!(world.set(&client, &path, -1).is_ok(), may, "{network}");
    }
}

#[test]
fn refused_credential_closes_connection() {
    for (scheme, auth) in [("none", Some("x")), ("world", Some("anyone")), ("digest", None)] {
        let mut world = World::new();
        let client = world.connect();
        let code = authenticate(&mut world, &client, scheme, auth);
        assert_eq!(code, Err(ErrorCode::AUTH_FAILED));
        assert!(world.closed(client.id).is_some());
    }
}

#[test]
fn super_user_passes_every_acl() {
    let settings = Settings::new().super_digest(digest_id("super", "secret"));
    let mut world = World::with(settings);
    let client = world.connect();
    world.create_with(&client, "/a", &[Acl::world(Perms(0))]).unwrap();
    assert_eq!(world.set(&client, "/a", -1), Err(ErrorCode::NO_AUTH));
    authenticate(&mut world, &client, "digest", Some("super:secret")).unwrap();
    assert!(world.set(&client, "/a", -1).is_ok());
}

#[test]
fn identities_of_whoami_contain_no_hashes() {
    let mut world = World::new();
    let client = world.connect();
    authenticate(&mut world, &client, "digest", Some("u:p")).unwrap();
    authenticate(&mut world, &client, "digest", Some("u:p")).unwrap();
    authenticate(&mut world, &client, "ip", None).unwrap();
    let identity =
        |scheme: &str, user: &str| ClientInfo { scheme: scheme.into(), user: user.into() };
    let all = world.call(&client, &WhoAmI).unwrap().identities;
    assert_eq!(all, [identity("ip", "127.0.0.1"), identity("digest", "u")]);
}
