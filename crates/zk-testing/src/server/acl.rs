//! Who a connection is, and what it may do.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use proto::wire::decode_text;
use proto::{Acl, ClientInfo, ErrorCode, OPEN_ACL, Perms, digest_id};

use super::settings::Settings;
use super::version::Version;

/// Who a connection is: one of its identities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) scheme: &'static str,
    pub(crate) id: String,
}

/// What came of an auth packet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Authenticated {
    /// The connection has these identities now, too.
    As(Vec<Identity>),
    /// Refused: the connection has to be closed.
    Refused,
}

/// The identity every connection has.
pub(crate) fn of_address(address: IpAddr) -> Identity {
    Identity { scheme: "ip", id: address.to_string() }
}

/// What an auth packet proves.
pub(crate) fn authenticate(
    settings: &Settings,
    scheme: &str,
    credential: Option<&[u8]>,
) -> Authenticated {
    match (scheme, credential) {
        ("ip", _) => Authenticated::As(Vec::new()),
        ("digest", Some(credential)) => {
            let text = decode_text(credential);
            let (user, password) = text.split_once(':').unwrap_or((&text, ""));
            let id = digest_id(user, password);
            let mut identities = Vec::new();
            if settings.super_digest.as_ref() == Some(&id) {
                identities.push(Identity { scheme: "super", id: String::new() });
            }
            identities.push(Identity { scheme: "digest", id });
            Authenticated::As(identities)
        }
        _ => Authenticated::Refused,
    }
}

/// Whether the list permits any of `perms` to a connection with these identities.
pub(crate) fn permits(acl: &[Acl], perms: Perms, identities: &[Identity]) -> bool {
    if acl.is_empty() || identities.iter().any(|identity| identity.scheme == "super") {
        return true;
    }
    acl.iter().filter(|entry| entry.perms.0 & perms.0 != 0).any(|entry| {
        let is_world = entry.scheme == "world" && entry.id == "anyone";
        is_world || identities.iter().any(|identity| matches(identity, entry))
    })
}

/// The list as it is stored: without duplicates, `auth` replaced by who that is.
///
/// `open` is the list that permits everything, which almost every node has.
pub(crate) fn resolve(
    version: Version,
    acl: &[Acl],
    identities: &[Identity],
    open: &Arc<[Acl]>,
) -> Result<Arc<[Acl]>, ErrorCode> {
    if acl == OPEN_ACL {
        return Ok(Arc::clone(open));
    }
    let mut resolved = Vec::with_capacity(acl.len());
    for (at, entry) in acl.iter().enumerate() {
        if acl[..at].contains(entry) {
            continue;
        }
        match &*entry.scheme {
            "world" if entry.id == "anyone" => resolved.push(entry.clone()),
            "auth" => {
                let before = resolved.len();
                let proved = identities.iter().filter(|identity| identity.scheme == "digest");
                resolved.extend(proved.map(|identity| Acl {
                    perms: entry.perms,
                    scheme: Cow::Borrowed(identity.scheme),
                    id: Cow::Owned(identity.id.clone()),
                }));
                if resolved.len() == before {
                    return Err(ErrorCode::INVALID_ACL);
                }
            }
            "digest" if is_digest(&entry.id) => resolved.push(entry.clone()),
            "ip" if network(&entry.id, version).is_some() => resolved.push(entry.clone()),
            _ => return Err(ErrorCode::INVALID_ACL),
        }
    }
    if resolved.is_empty() { Err(ErrorCode::INVALID_ACL) } else { Ok(resolved.into()) }
}

/// The list as somebody sees it who may not administrate: without the hashes of passwords.
pub(crate) fn masked(acl: &[Acl]) -> Vec<Acl> {
    let mask = |entry: &Acl| match entry.id.split_once(':') {
        Some((user, _)) if entry.scheme == "digest" => {
            Acl { id: format!("{user}:x").into(), ..entry.clone() }
        }
        _ => entry.clone(),
    };
    acl.iter().map(mask).collect()
}

/// An identity as whoAmI tells it: of a digest the user's name alone.
pub(crate) fn client_info(identity: &Identity) -> ClientInfo {
    let user = match identity.scheme {
        "digest" => identity.id.split(':').next().unwrap_or_default(),
        _ => &identity.id,
    };
    ClientInfo { scheme: identity.scheme.to_owned(), user: user.to_owned() }
}

fn matches(identity: &Identity, entry: &Acl) -> bool {
    if identity.scheme != entry.scheme {
        return false;
    }
    if identity.scheme != "ip" {
        return identity.id == entry.id;
    }
    // Whether the version knows IPv6 was asked when the entry was stored.
    let Some((address, bits)) = network(&entry.id, Version::V3_9) else { return false };
    match (identity.id.parse(), address) {
        (Ok(IpAddr::V4(have)), IpAddr::V4(want)) => {
            let shift = 32 - bits;
            (have.to_bits() ^ want.to_bits()).checked_shr(shift).unwrap_or(0) == 0
        }
        (Ok(IpAddr::V6(have)), IpAddr::V6(want)) => {
            let shift = 128 - bits;
            (have.to_bits() ^ want.to_bits()).checked_shr(shift).unwrap_or(0) == 0
        }
        _ => false,
    }
}

/// The address and the number of bits of an id of the scheme `ip`.
fn network(id: &str, version: Version) -> Option<(IpAddr, u32)> {
    let (address, bits) = match id.split_once('/') {
        Some((address, bits)) => (address, Some(bits.parse::<u32>().ok()?)),
        None => (id, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let all = match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) if version.knows_ipv6_acls() => 128,
        IpAddr::V6(_) => return None,
    };
    let bits = bits.unwrap_or(all);
    (bits <= all).then_some((address, bits))
}

/// Whether an id is one of the scheme `digest`: exactly two parts, as Java's `split` counts them.
fn is_digest(id: &str) -> bool {
    id.trim_end_matches(':').split(':').count() == 2
}
