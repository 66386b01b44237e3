//! Identities of a connection, and access control lists.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use proto::{Acl, ClientInfo, DecodeError, ErrorCode, Perms, credential_id};
use proto::{Reader, decode_text};

use super::settings::Settings;

/// One identity of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) scheme: &'static str,
    pub(crate) id: String,
}

/// ACL entry of a request; any field may be null.
#[derive(Debug)]
pub(crate) struct AskedAcl<'a> {
    perms: Perms,
    scheme: Option<Cow<'a, str>>,
    id: Option<Cow<'a, str>>,
}

impl<'a> AskedAcl<'a> {
    /// Reads a list. Returns `None` if it is null.
    pub(crate) fn opt_list(r: &mut Reader<'a>) -> Result<Option<Vec<Self>>, DecodeError> {
        r.opt_vector("acl", Acl::LEN_MIN, |r| {
            Ok(Self {
                perms: Perms(r.i32("acl.perms")?),
                scheme: r.opt_text("acl.scheme")?,
                id: r.opt_text("acl.id")?,
            })
        })
    }

    /// Converts the id as a multi does. The server serializes the operations of a multi and parses
    /// them again with another encoding. A character outside the first Unicode plane then becomes
    /// two replacement characters.
    pub(crate) fn reread(&mut self) {
        if let Some(id) = &mut self.id {
            if id.chars().any(|c| c > '\u{ffff}') {
                *id = id.replace(|c| c > '\u{ffff}', "\u{fffd}\u{fffd}").into();
            }
        }
    }

    fn has(&self, scheme: &str, id: &str) -> bool {
        self.scheme.as_deref() == Some(scheme) && self.id.as_deref() == Some(id)
    }

    /// Returns whether the entry equals an earlier one. The server compares permissions, scheme and
    /// id in this order, each only if the previous ones are equal. It fails when it compares a
    /// null.
    fn is_among(&self, before: &[&Self]) -> Result<bool, ErrorCode> {
        for other in before.iter().filter(|other| other.perms == self.perms) {
            let scheme = self.scheme.as_ref().ok_or(ErrorCode::MARSHALLING_ERROR)?;
            if other.scheme.as_ref() == Some(scheme) {
                let id = self.id.as_ref().ok_or(ErrorCode::MARSHALLING_ERROR)?;
                if other.id.as_ref() == Some(id) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn store(&self) -> Acl {
        let text = |text: &Option<Cow<'a, str>>| text.as_deref().unwrap_or_default().to_owned();
        Acl { perms: self.perms, scheme: text(&self.scheme).into(), id: text(&self.id).into() }
    }
}

/// Result of an auth packet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Authenticated {
    /// Accepted: the connection also gets these identities.
    As(Vec<Identity>),
    /// Refused: the connection must be closed.
    Refused,
}

/// Returns the identity that every connection has.
pub(crate) fn of_address(address: IpAddr) -> Identity {
    Identity { scheme: "ip", id: address.to_string() }
}

/// Returns the identities that an auth packet proves.
pub(crate) fn authenticate(
    settings: &Settings,
    scheme: &str,
    credential: Option<&[u8]>,
) -> Authenticated {
    if settings.version.is_keeper_like() {
        return authenticate_at_keeper(settings, scheme, credential.unwrap_or_default());
    }
    match (scheme, credential) {
        ("ip", _) => Authenticated::As(Vec::new()),
        ("digest", Some(credential)) => {
            let id = credential_id(&decode_text(credential));
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

/// Returns the identity that Keeper and RaftKeeper find in an auth packet.
fn authenticate_at_keeper(settings: &Settings, scheme: &str, credential: &[u8]) -> Authenticated {
    let credential = decode_text(credential);
    if scheme != "digest" || credential.matches(':').count() != 1 {
        return Authenticated::Refused;
    }
    let id = credential_id(&credential);
    Authenticated::As(vec![if settings.super_digest.as_ref() == Some(&id) {
        Identity { scheme: "super", id: String::new() }
    } else {
        Identity { scheme: "digest", id }
    }])
}

/// Returns whether the list grants any of `perms` to a connection with these identities.
pub(crate) fn permits(acl: &[Acl], perms: Perms, identities: &[Identity]) -> bool {
    if acl.is_empty() || identities.iter().any(|identity| identity.scheme == "super") {
        return true;
    }
    acl.iter().filter(|entry| entry.perms.0 & perms.0 != 0).any(|entry| {
        let is_world = entry.scheme == "world" && entry.id == "anyone";
        is_world || identities.iter().any(|identity| matches(identity, entry))
    })
}

/// Returns the list as it is stored: without duplicates, and with `auth` replaced by the
/// proven identities of the connection.
///
/// `open` is the open ACL, which almost every node has.
pub(crate) fn resolve(
    settings: &Settings,
    acl: &[AskedAcl<'_>],
    identities: &[Identity],
    open: &Arc<[Acl]>,
) -> Result<Arc<[Acl]>, ErrorCode> {
    if matches!(acl, [entry] if entry.perms == Perms::ALL && entry.has("world", "anyone")) {
        return Ok(Arc::clone(open));
    }
    let mut asked: Vec<&AskedAcl<'_>> = Vec::with_capacity(acl.len());
    for entry in acl {
        if !entry.is_among(&asked)? {
            asked.push(entry);
        }
    }
    let (mut resolved, mut proved) = (Vec::with_capacity(asked.len()), Vec::new());
    for entry in asked {
        let scheme = match &entry.scheme {
            None if settings.version.fails_on_null_acl() => {
                return Err(ErrorCode::MARSHALLING_ERROR);
            }
            scheme => scheme.as_deref().ok_or(ErrorCode::INVALID_ACL)?,
        };
        // A server reads a null id and fails on it.
        let id = entry.id.as_deref().ok_or(ErrorCode::MARSHALLING_ERROR);
        match scheme {
            "world" if id? == "anyone" => resolved.push(entry.store()),
            "auth" => {
                let proved_len = proved.len();
                // The providers of these schemes answer `isAuthenticated` with true.
                let all = identities
                    .iter()
                    .filter(|identity| ["digest", "sasl", "x509"].contains(&identity.scheme));
                proved.extend(all.map(|identity| Acl {
                    perms: entry.perms,
                    scheme: Cow::Borrowed(identity.scheme),
                    id: Cow::Owned(identity.id.clone()),
                }));
                if proved.len() == proved_len {
                    return Err(ErrorCode::INVALID_ACL);
                }
                if !settings.version.appends_auth_entries() {
                    resolved.append(&mut proved);
                }
            }
            // KerberosName takes any text without control characters that starts with a name.
            "sasl" if !settings.sasl_users.is_empty() && !id?.is_empty() => {
                resolved.push(entry.store());
            }
            // Java's X500Principal takes a list of names and values.
            "x509" if settings.has_x509 && id?.contains('=') => resolved.push(entry.store()),
            "digest" if is_digest(id?) => resolved.push(entry.store()),
            "ip" if is_known_network(id?, settings) => resolved.push(entry.store()),
            _ => return Err(ErrorCode::INVALID_ACL),
        }
    }
    resolved.append(&mut proved);
    if resolved.is_empty() { Err(ErrorCode::INVALID_ACL) } else { Ok(resolved.into()) }
}

/// Returns the list as Keeper and RaftKeeper store it (`fixupACL`). They drop entries with other
/// schemes than `world`, `auth` and `digest`. Keeper also drops `world`, and an empty list grants
/// everything: one entry for `world` opens the node to all.
pub(crate) fn fixed_up(
    settings: &Settings,
    acl: &[AskedAcl<'_>],
    identities: &[Identity],
) -> Result<Arc<[Acl]>, ErrorCode> {
    let mut stored = Vec::with_capacity(acl.len());
    let mut is_valid = acl.is_empty();
    for entry in acl {
        let before = stored.len();
        match entry.scheme.as_deref().unwrap_or_default() {
            "auth" => stored.extend(identities.iter().map(|identity| Acl {
                perms: entry.perms,
                scheme: Cow::Borrowed(identity.scheme),
                id: Cow::Owned(identity.id.clone()),
            })),
            "world" if entry.has("world", "anyone") => {
                is_valid = true;
                if !settings.version.is_keeper() {
                    stored.push(entry.store());
                }
            }
            "digest" => {
                let id = entry.id.as_deref().unwrap_or_default();
                if id.matches(':').count() != 1 {
                    return Err(ErrorCode::INVALID_ACL);
                }
                stored.push(entry.store());
            }
            _ => {}
        }
        is_valid |= stored.len() > before;
    }
    if is_valid { Ok(stored.into()) } else { Err(ErrorCode::INVALID_ACL) }
}

/// Returns the list as shown to clients without ADMIN: password hashes are masked.
pub(crate) fn masked(acl: &[Acl]) -> Vec<Acl> {
    let mask = |entry: &Acl| match entry.id.split_once(':') {
        Some((user, _)) if entry.scheme == "digest" => {
            Acl { id: format!("{user}:x").into(), ..entry.clone() }
        }
        _ => entry.clone(),
    };
    acl.iter().map(mask).collect()
}

/// Returns an identity for whoAmI. Of a digest it contains only the user's name.
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
    let Some((address, bits)) = network(&entry.id) else { return false };
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

fn is_known_network(id: &str, settings: &Settings) -> bool {
    if id.contains('/') && !settings.version.knows_network_acls() {
        return false;
    }
    network(id).is_some_and(|(address, _)| address.is_ipv4() || settings.knows_ipv6_acls())
}

/// Returns the address and the number of network bits of an `ip` id.
fn network(id: &str) -> Option<(IpAddr, u32)> {
    let (address, bits) = match id.split_once('/') {
        Some((address, bits)) => (address, Some(bits.parse::<u32>().ok()?)),
        None => (id, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let all = match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    };
    let bits = bits.unwrap_or(all);
    (bits <= all).then_some((address, bits))
}

/// Returns whether an id is valid for the scheme `digest`: two parts, as Java's `split` counts
/// them.
fn is_digest(id: &str) -> bool {
    id.trim_end_matches(':').split(':').count() == 2
}
